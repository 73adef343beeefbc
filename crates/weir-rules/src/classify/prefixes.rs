//! Longest-prefix match: the value of the longest prefix that contains an address.
//!
//! # Model
//! A trie of bytes. A region of the address space consists of all addresses with the same first
//! `depth` bytes. A node describes a region in one of these forms:
//! - `Leaf`: all addresses have one value;
//! - `Few`: the region contains at most [`FEW`] prefixes, stored as the sorted starts of the
//!   intervals into which they divide the region;
//! - `Wide`: one slot for each value of the next byte; `Last` is the compact form of `Wide` for the
//!   last byte of an address;
//! - `Skip`: all prefixes are in one smaller region.
//!
//! A look-up follows at most one slot per byte and ends with a binary search over a few words. With
//! 100,000 prefixes spread over the IPv4 space it takes two slots and one search.
//!
//! # Changes
//! Nodes are shared and immutable. [`Prefixes::update`] copies the nodes on the path to the region
//! of a changed prefix and rebuilds that region. This touches a few kilobytes, unless the prefix is
//! much shorter than the neighbouring prefixes.

use std::sync::Arc;

/// An address: 32 or 128 bits.
pub(super) trait Address: Copy + Ord {
    /// The size of an address in bytes.
    const BYTES: u8;
    /// Byte `depth`, counted from the left.
    fn byte(self, depth: u8) -> u8;
    /// The first address with the same first `len` bits.
    fn first(self, len: u8) -> Self;
    /// The last address with the same first `len` bits.
    fn last(self, len: u8) -> Self;
    /// The next address. It must not be called for the last address.
    fn next(self) -> Self;
    /// This address with byte `depth`, which must be 0, set to `byte`.
    fn with_byte(self, depth: u8, byte: u8) -> Self;
    /// The number of leading bits that two addresses share.
    fn common(self, other: Self) -> u8;
    /// The address 0.
    const ZERO: Self;
}

macro_rules! address {
    ($word:ty) => {
        impl Address for $word {
            const BYTES: u8 = (<$word>::BITS / 8) as u8;
            const ZERO: Self = 0;

            #[inline(always)]
            fn byte(self, depth: u8) -> u8 {
                (self >> (<$word>::BITS - 8 - 8 * u32::from(depth))) as u8
            }

            fn first(self, len: u8) -> Self {
                self & !<$word>::MAX.checked_shr(len.into()).unwrap_or(0)
            }

            fn last(self, len: u8) -> Self {
                self | <$word>::MAX.checked_shr(len.into()).unwrap_or(0)
            }

            fn next(self) -> Self {
                self.wrapping_add(1)
            }

            fn with_byte(self, depth: u8, byte: u8) -> Self {
                self | <$word>::from(byte) << (<$word>::BITS - 8 - 8 * u32::from(depth))
            }

            fn common(self, other: Self) -> u8 {
                (self ^ other).leading_zeros() as u8
            }
        }
    };
}

address!(u32);
address!(u128);

/// A prefix and its value. The bits after the first `len` are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix<A> {
    pub(super) address: A,
    pub(super) len: u8,
    pub(super) value: u32,
}

/// A set of prefixes.
#[derive(Clone, Debug)]
pub(super) struct Prefixes<A>(Node<A>);

#[derive(Clone, Debug)]
enum Node<A> {
    Leaf(Option<u32>),
    Few(Arc<[(A, Option<u32>)]>),
    Wide(Arc<[Node<A>; 256]>),
    Last(Arc<[Option<u32>; 256]>),
    Skip(Arc<Skip<A>>),
}

/// A region in which all prefixes are within one smaller region.
#[derive(Debug)]
struct Skip<A> {
    /// The first address of the smaller region.
    first: A,
    /// The last address of the smaller region.
    last: A,
    /// The number of leading bytes that all addresses of the smaller region share.
    depth: u8,
    /// The node of the smaller region.
    inside: Node<A>,
    /// The value of all addresses outside the smaller region.
    outside: Option<u32>,
}

/// All addresses that share the first `depth` bytes with `base`. The other bytes of `base` are 0.
#[derive(Clone, Copy)]
struct Region<A> {
    base: A,
    depth: u8,
    /// The value of the addresses that are in none of the region's prefixes.
    cover: Option<u32>,
}

impl<A: Address> Prefixes<A> {
    /// Builds the set of `prefixes`, which are in ascending order of address, then of length.
    pub(super) fn new(prefixes: &[Prefix<A>]) -> Self {
        let (cover, rest) = match prefixes {
            [Prefix { len: 0, value, .. }, rest @ ..] => (Some(*value), rest),
            all => (None, all),
        };
        Self(Node::build(rest, Region { base: A::ZERO, depth: 0, cover }))
    }

    /// The value of the longest prefix that contains `address`, if any.
    #[inline]
    pub(super) fn get(&self, address: A) -> Option<u32> {
        let mut node = &self.0;
        let mut depth = 0;
        loop {
            match node {
                Node::Leaf(value) => return *value,
                Node::Few(starts) => {
                    let at = starts.partition_point(|(start, _)| *start <= address);
                    return starts.get(at.wrapping_sub(1)).and_then(|(_, value)| *value);
                }
                Node::Wide(slots) => {
                    node = &slots[usize::from(address.byte(depth))];
                    depth += 1;
                }
                Node::Last(values) => return values[usize::from(address.byte(A::BYTES - 1))],
                Node::Skip(skip) => {
                    if address < skip.first || address > skip.last {
                        return skip.outside;
                    }
                    (node, depth) = (&skip.inside, skip.depth);
                }
            }
        }
    }

    /// This set after the prefix of `len` bits at `address` was added, removed or changed. `source`
    /// has the current prefixes.
    pub(super) fn update(&self, address: A, len: u8, source: &impl Source<A>) -> Self {
        Self(self.0.update(A::ZERO, 0, (address, len), source))
    }
}

/// The source from which [`Prefixes::update`] reads prefixes.
pub(super) trait Source<A> {
    /// The prefixes with a first address from `first` to `last`, in ascending order of address,
    /// then of length.
    fn within(&self, first: A, last: A) -> Vec<Prefix<A>>;
    /// The value of exactly this prefix, or `None`. Shorter prefixes that contain it do not count.
    fn exactly(&self, address: A, len: u8) -> Option<u32>;
}

impl<A: Address> Node<A> {
    /// Builds the node for a region that contains `prefixes`, all of them longer than the region's
    /// own prefix.
    fn build(prefixes: &[Prefix<A>], region: Region<A>) -> Self {
        let (Some(first), Some(last)) = (prefixes.first(), prefixes.last()) else {
            return Self::Leaf(region.cover);
        };
        if prefixes.len() <= FEW {
            return Self::few(prefixes, region);
        }
        if region.depth == A::BYTES - 1 {
            return Self::Last(Arc::new(covers(prefixes, region)));
        }
        let shortest = prefixes.iter().map(|prefix| prefix.len).min().unwrap_or(0);
        // A prefix that equals a region is not inside the region; it is the region's cover.
        let shared = first.address.common(last.address).min(shortest.saturating_sub(1)) / 8;
        if shared > region.depth {
            let base = first.address.first(shared * 8);
            let inside = Self::build(prefixes, Region { base, depth: shared, cover: region.cover });
            let skip = Skip {
                first: base,
                last: base.last(shared * 8),
                depth: shared,
                inside,
                outside: region.cover,
            };
            return Self::Skip(Arc::new(skip));
        }
        let covers = covers(prefixes, region);
        let slot_len = 8 * (region.depth + 1);
        let mut rest = prefixes;
        Self::Wide(Arc::new(std::array::from_fn(|byte| {
            let here = rest
                .partition_point(|prefix| usize::from(prefix.address.byte(region.depth)) <= byte);
            let (mine, others) = rest.split_at(here);
            rest = others;
            // Prefixes that cover the whole slot come first, because they start with the slot and
            // are the shortest.
            let longer = mine.partition_point(|prefix| prefix.len <= slot_len);
            let base = region.base.with_byte(region.depth, byte as u8);
            Self::build(
                &mine[longer..],
                Region { base, depth: region.depth + 1, cover: covers[byte] },
            )
        })))
    }

    /// Builds the `Few` node of a region: its prefixes as intervals.
    fn few(prefixes: &[Prefix<A>], region: Region<A>) -> Self {
        let end = region.base.last(8 * region.depth);
        let mut starts: Vec<(A, Option<u32>)> = vec![(region.base, region.cover)];
        let mut open: Vec<(A, u32)> = Vec::new();
        let begin = |starts: &mut Vec<(A, Option<u32>)>, at: A, value: Option<u32>| {
            starts.pop_if(|(start, _)| *start == at);
            if starts.last().is_none_or(|(_, before)| *before != value) {
                starts.push((at, value));
            }
        };
        for prefix in prefixes {
            while let Some((last, _)) = open.pop_if(|(last, _)| *last < prefix.address) {
                begin(
                    &mut starts,
                    last.next(),
                    open.last().map_or(region.cover, |(_, value)| Some(*value)),
                );
            }
            begin(&mut starts, prefix.address, Some(prefix.value));
            open.push((prefix.address.last(prefix.len), prefix.value));
        }
        while let Some((last, _)) = open.pop() {
            if last < end {
                begin(
                    &mut starts,
                    last.next(),
                    open.last().map_or(region.cover, |(_, value)| Some(*value)),
                );
            }
        }
        match starts.as_slice() {
            [(_, value)] => Self::Leaf(*value),
            _ => Self::Few(starts.into()),
        }
    }

    fn update(&self, base: A, depth: u8, changed: (A, u8), source: &impl Source<A>) -> Self {
        let (address, len) = changed;
        match self {
            Self::Wide(slots) if len > 8 * (depth + 1) => {
                let byte = address.byte(depth);
                let slot = slots[usize::from(byte)].update(
                    base.with_byte(depth, byte),
                    depth + 1,
                    changed,
                    source,
                );
                let mut slots = (**slots).clone();
                slots[usize::from(byte)] = slot;
                Self::Wide(Arc::new(slots))
            }
            Self::Skip(skip)
                if len > 8 * skip.depth && (skip.first..=skip.last).contains(&address) =>
            {
                let inside = skip.inside.update(skip.first, skip.depth, changed, source);
                Self::Skip(Arc::new(Skip { inside, ..**skip }))
            }
            _ => {
                let own = 8 * depth;
                let mut prefixes = source.within(base, base.last(own));
                prefixes.retain(|prefix| prefix.len > own);
                let cover = (0..=own).rev().find_map(|len| source.exactly(base.first(len), len));
                Self::build(&prefixes, Region { base, depth, cover })
            }
        }
    }
}

/// The value of each slot of a region, determined only by the prefixes that cover whole slots.
fn covers<A: Address>(prefixes: &[Prefix<A>], region: Region<A>) -> [Option<u32>; 256] {
    let mut covers = [region.cover; 256];
    // A longer prefix follows the prefixes that contain it, so it overwrites their values.
    for prefix in prefixes.iter().filter(|prefix| prefix.len <= 8 * (region.depth + 1)) {
        let first = usize::from(prefix.address.byte(region.depth));
        let last = usize::from(prefix.address.last(prefix.len).byte(region.depth));
        covers[first..=last].fill(Some(prefix.value));
    }
    covers
}

/// Maximum number of prefixes in a `Few` node. A region with more prefixes is `Wide`, `Last` or
/// `Skip`.
const FEW: usize = 16;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Map<A> = BTreeMap<(A, u8), u32>;

    impl<A: Address> Source<A> for Map<A> {
        fn within(&self, first: A, last: A) -> Vec<Prefix<A>> {
            self.range((first, 0)..=(last, u8::MAX))
                .map(|(&(address, len), &value)| Prefix { address, len, value })
                .collect()
        }

        fn exactly(&self, address: A, len: u8) -> Option<u32> {
            self.get(&(address, len)).copied()
        }
    }

    fn naive<A: Address>(map: &Map<A>, address: A) -> Option<u32> {
        (0..=A::BYTES * 8).rev().find_map(|len| map.exactly(address.first(len), len))
    }

    fn built<A: Address>(map: &Map<A>) -> Prefixes<A> {
        Prefixes::new(&map.within(A::ZERO, A::ZERO.last(0)))
    }

    /// Addresses close to one another, so that prefixes nest and regions become full.
    fn address() -> impl Strategy<Value = u32> {
        prop_oneof![
            any::<u32>(),
            (0u32..2048).prop_map(|n| 0x0a00_0000 + n),
            (0u32..64).prop_map(|n| 0xffff_ffc0 + n)
        ]
    }

    fn prefix() -> impl Strategy<Value = (u32, u8)> {
        (address(), prop_oneof![0u8..=32, 22u8..=32])
            .prop_map(|(address, len)| (address.first(len), len))
    }

    proptest! {
        #[test]
        fn every_address_gets_the_value_of_its_longest_prefix(
            entries in prop::collection::btree_map(prefix(), 0u32..5, 0..400),
            probes in prop::collection::vec(address(), 50),
        ) {
            let set = built(&entries);
            let edges = entries.keys().flat_map(|&(a, len)| {
                [a, a.last(len), a.wrapping_sub(1), a.last(len).wrapping_add(1)]
            });
            for address in edges.chain(probes.iter().copied()) {
                prop_assert_eq!(set.get(address), naive(&entries, address), "{:#x}", address);
            }
        }

        #[test]
        fn an_ipv6_address_gets_the_value_of_its_longest_prefix(
            entries in prop::collection::btree_map((prefix(), any::<bool>(), any::<bool>()), 0u32..5, 0..200),
            probes in prop::collection::vec(address(), 50),
        ) {
            // The 32 random bits are at one of two positions, after one of two long shared
            // prefixes.
            let widen = |address: u32, high: bool, low: bool| {
                (if high { 0x2001_0db8u128 } else { 0xfd00_0000 }) << 96
                    | u128::from(address) << if low { 0 } else { 56 }
            };
            let entries: Map<u128> = entries
                .into_iter()
                .map(|(((a, len), high, low), value)| {
                    let len = len + if low { 96 } else { 40 };
                    ((widen(a, high, low).first(len), len), value)
                })
                .collect();
            let set = built(&entries);
            for address in probes {
                for address in [
                    widen(address, true, true),
                    widen(address, false, true),
                    widen(address, true, false),
                    address.into(),
                ] {
                    prop_assert_eq!(set.get(address), naive(&entries, address), "{:#x}", address);
                }
            }
            for &(address, len) in entries.keys() {
                prop_assert_eq!(
                    set.get(address.last(len)),
                    naive(&entries, address.last(len)),
                    "{:#x}/{}",
                    address,
                    len
                );
            }
        }

        #[test]
        fn a_changed_set_equals_one_built_from_scratch(
            start in prop::collection::btree_map(prefix(), 0u32..5, 0..200),
            changes in prop::collection::vec((prefix(), prop::option::of(5u32..9)), 1..40),
            probes in prop::collection::vec(address(), 20),
        ) {
            let mut map = start;
            let mut set = built(&map);
            for ((address, len), value) in changes {
                // About half of the removals remove an existing entry.
                let (address, len) =
                    match (value, map.keys().nth(address as usize % (2 * map.len() + 1))) {
                        (None, Some(&key)) => key,
                        _ => (address, len),
                    };
                match value {
                    Some(value) => map.insert((address, len), value),
                    None => map.remove(&(address, len)),
                };
                set = set.update(address, len, &map);
                for probe in probes.iter().copied().chain([
                    address,
                    address.last(len),
                    address.wrapping_sub(1),
                ]) {
                    prop_assert_eq!(
                        set.get(probe),
                        naive(&map, probe),
                        "{:#x} after {:#x}/{}",
                        probe,
                        address,
                        len
                    );
                }
            }
        }
    }
}
