//! Flow keys and masks: which packets belong together.

use core::hash::{Hash, Hasher};

/// The header fields by which packets are told apart. IPv4 addresses stand in the low 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Source MAC address in the low 48 bits.
    pub src_mac: u64,
    /// Destination MAC address in the low 48 bits.
    pub dst_mac: u64,
    /// IPv6 flow label, 20 bits.
    pub flow_id: u32,
    /// Source port, or 0.
    pub src_port: u16,
    /// Destination port, or 0.
    pub dst_port: u16,
    /// EtherType of the network layer.
    pub ethertype: u16,
    /// VLAN identifier, or 0.
    pub vlan: u16,
    /// IP protocol, or 0.
    pub proto: u8,
    /// DSCP, 6 bits.
    pub dscp: u8,
    /// Whether `src` and `dst` are IPv6 addresses.
    pub ipv6: bool,
}

/// Which bits of a [`FlowKey`] tell flows apart. The default has none: every packet is of one flow.
///
/// Address masks are kept apart for the two IP versions, because `dst-ip` and `dst-ip6` are different keywords and a packet
/// of one version is not split by the other's mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowMask {
    /// IPv4 source address bits.
    pub src_ip: u32,
    /// IPv4 destination address bits.
    pub dst_ip: u32,
    /// IPv6 source address bits.
    pub src_ip6: u128,
    /// IPv6 destination address bits.
    pub dst_ip6: u128,
    /// Source MAC bits.
    pub src_mac: u64,
    /// Destination MAC bits.
    pub dst_mac: u64,
    /// IPv6 flow label bits.
    pub flow_id: u32,
    /// Source port bits.
    pub src_port: u16,
    /// Destination port bits.
    pub dst_port: u16,
    /// VLAN identifier bits.
    pub vlan: u16,
    /// IP protocol bits.
    pub proto: u8,
    /// DSCP bits.
    pub dscp: u8,
}

impl FlowMask {
    /// Whether no bit is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The key with every bit cleared that the mask does not name.
    pub fn apply(&self, key: &FlowKey) -> FlowKey {
        let (src_mask, dst_mask) = if key.ipv6 { (self.src_ip6, self.dst_ip6) } else { (self.src_ip.into(), self.dst_ip.into()) };
        FlowKey {
            src: key.src & src_mask,
            dst: key.dst & dst_mask,
            src_mac: key.src_mac & self.src_mac,
            dst_mac: key.dst_mac & self.dst_mac,
            flow_id: key.flow_id & self.flow_id,
            src_port: key.src_port & self.src_port,
            dst_port: key.dst_port & self.dst_port,
            ethertype: 0,
            vlan: key.vlan & self.vlan,
            proto: key.proto & self.proto,
            dscp: key.dscp & self.dscp,
            // Addresses of the two versions share a field; keep an IPv4 flow apart from an IPv6 one with the same low bits.
            ipv6: key.ipv6 && (src_mask | dst_mask) != 0,
        }
    }
}

/// A hash of a masked key that is the same on every machine; it seeds the random streams of the instance made for the key.
pub fn stable_hash(key: &FlowKey) -> u64 {
    let mut hasher = KeyHasher(0);
    key.hash(&mut hasher);
    hasher.finish()
}

/// Multiply-rotate hasher with a final mix; deterministic, unlike the standard library's.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(26) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u128(&mut self, n: u128) {
        self.write_u64(n as u64);
        self.write_u64((n >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

/// Builds [`KeyHasher`]s, for hash tables.
pub type KeyHashBuilder = core::hash::BuildHasherDefault<KeyHasher>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_keeps_only_its_bits() {
        let mask = FlowMask { dst_ip: 0xff, ..FlowMask::default() };
        let key = FlowKey { src: 1, dst: 0x0a00_0005, dst_port: 80, proto: 6, ..FlowKey::default() };
        assert_eq!(mask.apply(&key), FlowKey { dst: 5, ..FlowKey::default() });
    }

    #[test]
    fn an_ipv4_mask_does_not_split_ipv6() {
        let mask = FlowMask { dst_ip: u32::MAX, ..FlowMask::default() };
        let key = FlowKey { dst: 7, ipv6: true, ..FlowKey::default() };
        assert_eq!(mask.apply(&key), FlowKey::default());
    }

    #[test]
    fn the_hash_is_pinned() {
        let key = FlowKey { src: 1, dst: 2, src_port: 3, dst_port: 4, proto: 6, ..FlowKey::default() };
        assert_eq!(stable_hash(&key), stable_hash(&key));
        assert_ne!(stable_hash(&key), stable_hash(&FlowKey { src_port: 5, ..key }));
    }
}
