//! Flow keys and masks, which determine the packets that form a flow.

/// The header fields by which packets are distinguished. IPv4 addresses are in the low 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

impl FlowKey {
    /// The key reduced to addresses, ports and protocol.
    #[must_use]
    pub fn transport(&self) -> Self {
        let Self { src, dst, src_port, dst_port, proto, ipv6, .. } = *self;
        Self { src, dst, src_port, dst_port, proto, ipv6, ..Self::default() }
    }
}

/// The bits of a [`FlowKey`] that distinguish flows. The default mask is empty: all packets belong
/// to one flow.
///
/// The address masks of the two IP versions are separate, because `dst-ip` and `dst-ip6` are
/// different keywords, and a mask for one version does not divide packets of the other.
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

    /// The union of both masks.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self {
            src_ip: self.src_ip | other.src_ip,
            dst_ip: self.dst_ip | other.dst_ip,
            src_ip6: self.src_ip6 | other.src_ip6,
            dst_ip6: self.dst_ip6 | other.dst_ip6,
            src_mac: self.src_mac | other.src_mac,
            dst_mac: self.dst_mac | other.dst_mac,
            flow_id: self.flow_id | other.flow_id,
            src_port: self.src_port | other.src_port,
            dst_port: self.dst_port | other.dst_port,
            vlan: self.vlan | other.vlan,
            proto: self.proto | other.proto,
            dscp: self.dscp | other.dscp,
        }
    }

    /// The key with all bits cleared that are not in the mask.
    pub fn apply(&self, key: &FlowKey) -> FlowKey {
        let (src_mask, dst_mask) = if key.ipv6 {
            (self.src_ip6, self.dst_ip6)
        } else {
            (self.src_ip.into(), self.dst_ip.into())
        };
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
            // Addresses of both versions share a field. The flag distinguishes an IPv4 flow from an
            // IPv6 flow with the same low bits.
            ipv6: key.ipv6 && (src_mask | dst_mask) != 0,
        }
    }
}

const _: () = assert!(size_of::<FlowKey>() == 64, "a key fills one cache line");

/// A hash of a key that is the same on every machine. The hash seeds the random streams of an
/// instance.
///
/// The hash is public, so a sender of packets can choose keys with equal hashes. Look-ups use
/// [`LookupKey`](crate::LookupKey).
///
/// The hash multiplies the key's eight 64-bit words in pairs and folds the products, so that these
/// multiplications do not depend on each other.
pub fn stable_hash(key: &FlowKey) -> u64 {
    let ports = u64::from(key.src_port)
        | u64::from(key.dst_port) << 16
        | u64::from(key.ethertype) << 32
        | u64::from(key.vlan) << 48;
    let small = u64::from(key.flow_id)
        | u64::from(key.proto) << 32
        | u64::from(key.dscp) << 40
        | u64::from(key.ipv6) << 48;
    let a = fold(key.src as u64 ^ HASH_KEYS[0], (key.src >> 64) as u64 ^ HASH_KEYS[1]);
    let b = fold(key.dst as u64 ^ HASH_KEYS[2], (key.dst >> 64) as u64 ^ HASH_KEYS[3]);
    let c = fold(key.src_mac ^ HASH_KEYS[4], key.dst_mac ^ HASH_KEYS[5]);
    let d = fold(ports ^ HASH_KEYS[6], small ^ HASH_KEYS[7]);
    fold(a ^ c.rotate_left(23) ^ HASH_KEYS[0], b ^ d.rotate_left(41) ^ HASH_KEYS[7])
}

/// The exclusive or of the two halves of a product.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Fractional digits of π. Any other numbers without a pattern would also work.
const HASH_KEYS: [u64; 8] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6c,
    0xc0ac_29b7_c97c_50dd,
    0x3f84_d5b5_b547_0917,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_keeps_only_its_bits() {
        let mask = FlowMask { dst_ip: 0xff, ..FlowMask::default() };
        let key =
            FlowKey { src: 1, dst: 0x0a00_0005, dst_port: 80, proto: 6, ..FlowKey::default() };
        assert_eq!(mask.apply(&key), FlowKey { dst: 5, ..FlowKey::default() });
    }

    #[test]
    fn an_ipv4_mask_does_not_split_ipv6() {
        let mask = FlowMask { dst_ip: u32::MAX, ..FlowMask::default() };
        let key = FlowKey { dst: 7, ipv6: true, ..FlowKey::default() };
        assert_eq!(mask.apply(&key), FlowKey::default());
    }

    #[test]
    fn the_hash_is_pinned_and_depends_on_every_field() {
        let key =
            FlowKey { src: 1, dst: 2, src_port: 3, dst_port: 4, proto: 6, ..FlowKey::default() };
        assert_eq!(stable_hash(&key), PINNED);
        let variants = [
            FlowKey { src: 2, dst: 1, ..key },
            FlowKey { src: 1 << 64, ..key },
            FlowKey { src_port: 4, dst_port: 3, ..key },
            FlowKey { src_mac: 1, ..key },
            FlowKey { dst_mac: 1, ..key },
            FlowKey { vlan: 1, ..key },
            FlowKey { dscp: 1, ..key },
            FlowKey { flow_id: 1, ..key },
            FlowKey { ipv6: true, ..key },
        ];
        for variant in variants {
            assert_ne!(stable_hash(&key), stable_hash(&variant), "{variant:?}");
        }
    }

    #[test]
    fn neighbouring_addresses_spread_over_the_hash() {
        let mut buckets = [0u32; 256];
        for customer in 0..65_536u32 {
            let key = FlowKey { dst: (0x0a00_0000 + customer).into(), ..FlowKey::default() };
            buckets[(stable_hash(&key) >> 56) as usize] += 1;
        }
        assert!(buckets.iter().all(|&n| (150..400).contains(&n)), "{buckets:?}");
    }

    const PINNED: u64 = 7_716_341_907_206_500_116;
}
