//! Look-ups of instances, queues and buckets by the keys of packets.
//!
//! Senders of packets choose their keys. With a public hash, a sender could choose thousands of
//! keys with equal hashes, and a look-up for one of these keys would compare that key with all the
//! other keys. Therefore look-ups use SipHash-1-3 with a key of 128 bits that live drivers draw
//! anew for each process. The hash decides where an instance or flow is found, which worker owns an
//! instance, and which bucket of a scheduler or AQM a packet uses. Random draws are seeded from
//! [`stable_hash`](crate::key::stable_hash) and do not depend on this key.

use crate::key::{FlowKey, FlowMask, stable_hash};
use crate::siphash::SipHash;

/// The key of look-ups.
///
/// The default key is public and gives the same hashes on every machine. Simulations use it,
/// because their packets are trusted. With the default key, schedulers and AQMs that divide flows
/// among buckets use the stable hash.
#[derive(Clone, Copy)]
pub struct LookupKey {
    hash: SipHash,
    is_secret: bool,
}

impl Default for LookupKey {
    fn default() -> Self {
        Self { hash: SipHash::new([0; 2]), is_secret: false }
    }
}

impl core::fmt::Debug for LookupKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LookupKey").field("is_secret", &self.is_secret).finish_non_exhaustive()
    }
}

impl LookupKey {
    /// A key from 128 random bits, which senders of packets must not know.
    pub const fn secret(words: [u64; 2]) -> Self {
        Self { hash: SipHash::new(words), is_secret: true }
    }

    /// The short form of `key` reduced to the bits of `mask`: the same as [`Self::compact`] of the
    /// masked key. `short` is the short form of `mask`.
    #[inline]
    pub(crate) fn compact_masked(
        &self,
        mask: &FlowMask,
        short: &CompactMask,
        key: &FlowKey,
    ) -> CompactKey {
        short.apply(key).unwrap_or_else(|| self.compact_long(mask, key))
    }

    /// [`Self::compact_masked`] for masks with fields that a short form lacks. The function is not
    /// inlined, so that its masked key occupies no registers.
    #[inline(never)]
    fn compact_long(&self, mask: &FlowMask, key: &FlowKey) -> CompactKey {
        self.compact(&mask.apply(key))
    }

    /// The short form of a masked key.
    #[inline]
    pub(crate) fn compact(&self, key: &FlowKey) -> CompactKey {
        let others = key.src_mac
            | key.dst_mac
            | u64::from(key.flow_id)
            | u64::from(key.ethertype)
            | u64::from(key.vlan);
        if (key.src | key.dst) >> 32 != 0 || others != 0 || key.ipv6 {
            return self.wide(key);
        }
        CompactKey::narrow(addresses(key), transport(key))
    }

    /// The short form of a key that does not fit: bits of the hash of the whole key.
    #[inline(never)]
    fn wide(&self, key: &FlowKey) -> CompactKey {
        let small = u64::from(key.flow_id)
            | u64::from(key.proto) << 32
            | u64::from(key.dscp) << 40
            | u64::from(key.ipv6) << 48;
        let ports = ports(key) | u64::from(key.ethertype) << 32 | u64::from(key.vlan) << 48;
        let [src, dst] = [key.src, key.dst].map(halves);
        let hash = self.hash.words([
            src[0],
            src[1],
            dst[0],
            dst[1],
            key.src_mac,
            key.dst_mac,
            ports,
            small,
        ]);
        CompactKey(u128::from(hash) | u128::from(hash.rotate_left(32)) << 64 | WIDE)
    }

    /// The hash by which tables find a short form.
    #[inline]
    pub(crate) fn table(&self, key: CompactKey) -> u64 {
        self.hash.words(halves(key.0))
    }

    /// The hash of a short form that belongs to the object with number `owner`.
    #[inline]
    pub(crate) fn owned(&self, owner: u32, key: CompactKey) -> u64 {
        self.hash.words_and(halves(key.0), owner)
    }

    /// The hash by which schedulers and AQMs divide flows among buckets. The function is not
    /// inlined, so that it costs nothing if nothing classifies packets.
    #[inline(never)]
    pub(crate) fn bucket(&self, key: &FlowKey) -> u32 {
        let flow = key.transport();
        let hash =
            if self.is_secret { self.table(self.compact(&flow)) } else { stable_hash(&flow) };
        hash as u32
    }

    /// The hashes of the source and the destination address, by which schedulers distinguish hosts;
    /// 0 for no address.
    #[inline(never)]
    pub(crate) fn hosts(&self, key: &FlowKey) -> [u32; 2] {
        [key.src, key.dst].map(|address| match address {
            0 => 0,
            src => self.bucket(&FlowKey { src, ipv6: key.ipv6, ..FlowKey::default() }).max(1),
        })
    }
}

/// The two words of a number, the lower one first.
fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

/// Both port numbers, the source port in the lower half.
fn ports(key: &FlowKey) -> u64 {
    u64::from(key.src_port) | u64::from(key.dst_port) << 16
}

/// The lower word of the short form of an IPv4 key.
#[inline]
fn addresses(key: &FlowKey) -> u64 {
    u64::from(key.src as u32) | (key.dst as u64) << 32
}

/// The upper word of the short form of an IPv4 key.
#[inline]
fn transport(key: &FlowKey) -> u64 {
    ports(key) | u64::from(key.proto) << 32 | u64::from(key.dscp) << 40
}

/// A masked key in 16 bytes, so that a search reads only 16 bytes of each candidate.
///
/// ```text
/// 127       126 .. 112   111 .. 104   103 .. 96   95 .. 80      79 .. 64      63 .. 32       31 .. 0
/// 0         0            DSCP         protocol    destination   source port   destination    source     IPv4, no other field
/// 1         bits of the hash                                                                           any other key
/// ```
/// Two keys of the first kind are equal if and only if their short forms are equal. Other keys may
/// differ although their short forms are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactKey(u128);

impl CompactKey {
    /// The short form that contains the whole key.
    #[inline]
    fn narrow(addresses: u64, transport: u64) -> Self {
        Self(u128::from(addresses) | u128::from(transport) << 64)
    }

    /// Whether the keys may differ although their short forms are equal.
    #[inline]
    pub(crate) fn is_wide(self) -> bool {
        self.0 & WIDE != 0
    }
}

/// The bit that is set in a [`CompactKey`] that does not contain the whole key.
const WIDE: u128 = 1 << 127;

/// A mask in the layout of a [`CompactKey`], so that only the fields that the mask uses are read
/// from a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactMask {
    addresses: u64,
    transport: u64,
    /// Whether every masked key of an IPv4 packet, and of an IPv6 packet, fits into a short form.
    fits: [bool; 2],
}

impl CompactMask {
    pub(crate) fn new(mask: &FlowMask) -> Self {
        let FlowMask {
            src_ip,
            dst_ip,
            src_ip6,
            dst_ip6,
            src_mac,
            dst_mac,
            flow_id,
            src_port,
            dst_port,
            vlan,
            proto,
            dscp,
        } = *mask;
        let [src, dst] = [src_ip, dst_ip].map(u128::from);
        let short = FlowKey { src, dst, src_port, dst_port, proto, dscp, ..FlowKey::default() };
        let has_others = src_mac | dst_mac | u64::from(flow_id) | u64::from(vlan) != 0;
        Self {
            addresses: addresses(&short),
            transport: transport(&short),
            fits: [!has_others, !has_others && src_ip6 | dst_ip6 == 0],
        }
    }

    /// The short form of the masked key; `None` if the mask has fields that a short form lacks.
    #[inline]
    fn apply(&self, key: &FlowKey) -> Option<CompactKey> {
        if !self.fits[usize::from(key.ipv6)] {
            return None;
        }
        let reads_addresses = self.addresses != 0 && !key.ipv6;
        let addresses = if reads_addresses { addresses(key) & self.addresses } else { 0 };
        let transport = if self.transport == 0 { 0 } else { transport(key) & self.transport };
        Some(CompactKey::narrow(addresses, transport))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    const LOOKUP: LookupKey = LookupKey::secret([1, 2]);

    prop_compose! {
        fn any_key()(
            (src, dst) in any::<(u128, u128)>(),
            (src_mac, dst_mac) in any::<(u64, u64)>(),
            (flow_id, ethertype, vlan) in any::<(u32, u16, u16)>(),
            (src_port, dst_port, proto, dscp) in any::<(u16, u16, u8, u8)>(),
            ipv6 in any::<bool>(),
        ) -> FlowKey {
            FlowKey {
                src,
                dst,
                src_mac,
                dst_mac,
                flow_id,
                src_port,
                dst_port,
                ethertype,
                vlan,
                proto,
                dscp,
                ipv6,
            }
        }
    }

    prop_compose! {
        fn any_mask()(
            which in any::<u16>(),
            (src_ip, dst_ip, src_ip6, dst_ip6) in any::<(u32, u32, u128, u128)>(),
            (src_mac, dst_mac, flow_id, vlan) in any::<(u64, u64, u32, u16)>(),
            (src_port, dst_port, proto, dscp) in any::<(u16, u16, u8, u8)>(),
        ) -> FlowMask {
            let used = |field: u32| which >> field & 1 != 0;
            // Half of the masks have no bits of MAC addresses, flow label and VLAN.
            let long = used(12);
            FlowMask {
                src_ip: if used(0) { src_ip } else { 0 },
                dst_ip: if used(1) { dst_ip } else { 0 },
                src_ip6: if used(2) { src_ip6 } else { 0 },
                dst_ip6: if used(2) { dst_ip6 } else { 0 },
                src_mac: if long && used(3) { src_mac } else { 0 },
                dst_mac: if long && used(4) { dst_mac } else { 0 },
                flow_id: if long && used(5) { flow_id } else { 0 },
                vlan: if long && used(6) { vlan } else { 0 },
                src_port: if used(7) { src_port } else { 0 },
                dst_port: if used(8) { dst_port } else { 0 },
                proto: if used(9) { proto } else { 0 },
                dscp: if used(10) { dscp } else { 0 },
            }
        }
    }

    proptest! {
        #[test]
        fn a_compact_mask_gives_the_short_form_of_the_masked_key(
            key in any_key(),
            mask in any_mask(),
        ) {
            let short = CompactMask::new(&mask);
            prop_assert_eq!(
                LOOKUP.compact_masked(&mask, &short, &key),
                LOOKUP.compact(&mask.apply(&key))
            );
        }
    }

    #[test]
    fn a_mask_with_only_short_fields_needs_no_masked_key() {
        let mask = FlowMask { dst_ip: 0xff, dst_port: u16::MAX, ..FlowMask::default() };
        let key = FlowKey { dst: 0x0a00_0005, dst_port: 80, ..FlowKey::default() };
        let fits = |mask: &FlowMask, key: &FlowKey| CompactMask::new(mask).apply(key).is_some();
        assert!(fits(&mask, &key));
        assert!(fits(&mask, &FlowKey { ipv6: true, ..key }));
        let both = FlowMask { dst_ip6: u128::MAX, ..mask };
        assert!(fits(&both, &key));
        assert!(!fits(&both, &FlowKey { ipv6: true, ..key }));
        assert!(!fits(&FlowMask { vlan: 1, ..mask }, &key));
    }

    #[test]
    fn compact_keys_are_distinct_unless_they_are_wide() {
        let key = FlowKey {
            src: 1,
            dst: 2,
            src_port: 3,
            dst_port: 4,
            proto: 6,
            dscp: 7,
            ..FlowKey::default()
        };
        let narrow = [
            key,
            FlowKey { src: 2, dst: 1, ..key },
            FlowKey { src: u128::from(u32::MAX), ..key },
            FlowKey { src_port: 4, dst_port: 3, ..key },
            FlowKey { proto: 7, dscp: 6, ..key },
        ];
        for (i, a) in narrow.iter().enumerate() {
            assert!(!LOOKUP.compact(a).is_wide());
            for b in &narrow[..i] {
                assert_ne!(LOOKUP.compact(a), LOOKUP.compact(b));
            }
        }
        let wide = [
            FlowKey { src: 1 << 32, ..key },
            FlowKey { src_mac: 1, ..key },
            FlowKey { vlan: 1, ..key },
            FlowKey { flow_id: 1, ..key },
            FlowKey { ipv6: true, ..key },
        ];
        assert!(wide.iter().all(|k| LOOKUP.compact(k).is_wide()));
    }

    #[test]
    fn neighbouring_addresses_spread_over_the_hash() {
        let mut buckets = [0u32; 256];
        for customer in 0..65_536u32 {
            let key = FlowKey { dst: (0x0a00_0000 + customer).into(), ..FlowKey::default() };
            buckets[(LOOKUP.table(LOOKUP.compact(&key)) >> 56) as usize] += 1;
        }
        assert!(buckets.iter().all(|&n| (150..400).contains(&n)), "{buckets:?}");
    }

    #[test]
    fn hashes_depend_on_every_field_and_on_the_secret() {
        let key = FlowKey { src: 1 << 40, dst_port: 80, ..FlowKey::default() };
        let keys = [
            key,
            FlowKey { src: 2 << 40, ..key },
            FlowKey { dst: 1, ..key },
            FlowKey { src_mac: 1, ..key },
            FlowKey { dst_mac: 1, ..key },
            FlowKey { flow_id: 1, ..key },
            FlowKey { src_port: 1, ..key },
            FlowKey { dst_port: 81, ..key },
            FlowKey { ethertype: 1, ..key },
            FlowKey { vlan: 1, ..key },
            FlowKey { proto: 1, ..key },
            FlowKey { dscp: 1, ..key },
            FlowKey { ipv6: true, ..key },
        ];
        let hashes = |lookup: LookupKey| {
            keys.iter().map(move |key| lookup.table(lookup.compact(key))).collect::<BTreeSet<_>>()
        };
        let (one, other) = (hashes(LOOKUP), hashes(LookupKey::secret([1, 3])));
        assert_eq!((one.len(), one.intersection(&other).count()), (keys.len(), 0));
    }

    #[test]
    fn a_public_key_gives_the_buckets_of_the_stable_hash() {
        let key = FlowKey { src: 7, src_port: 9, vlan: 3, ..FlowKey::default() };
        assert_eq!(LookupKey::default().bucket(&key), stable_hash(&key.transport()) as u32);
        assert_ne!(LOOKUP.bucket(&key), stable_hash(&key.transport()) as u32);
    }
}
