//! Units of virtual time, rounding, and the group for a weight and a largest packet.

/// `1 / w`, rounded up.
pub(in super::super) fn inverse(weight: u64) -> u64 {
    (1u64 << FRACTION).div_ceil(weight)
}

/// The group of members with a largest packet of `lmax` bytes and a weight of `1 / inverse`.
pub(in super::super) fn group_of(lmax: u32, inverse: u64) -> u8 {
    let most = u64::from(charged(lmax)) * inverse;
    (most.next_power_of_two().trailing_zeros().max(MIN_SHIFT) - MIN_SHIFT) as u8
}

/// `1 / W`, rounded down to [`RATE_BITS`] bits of fraction, as a factor for [`upper`].
#[inline]
pub(super) fn rate(weights: u64) -> u64 {
    ((1 << RATE_BITS) / weights.max(1)) << (64 + FRACTION - RATE_BITS - LEN_BITS)
}

/// The upper 64 bits of a product.
#[inline]
pub(super) fn upper(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// The bytes for which a packet counts.
#[inline]
pub(super) fn charged(len: u32) -> u32 {
    len.min(LARGEST)
}

/// Whether `a` is later than `b`.
#[inline]
pub(super) fn after(a: u64, b: u64) -> bool {
    a.wrapping_sub(b) as i64 > 0
}

/// The exponent of `σ_i`, a power of two.
#[inline]
pub(super) fn shift(i: u8) -> u32 {
    MIN_SHIFT + u32::from(i)
}

/// `σ_i`.
#[inline]
pub(super) fn width(i: u8) -> u64 {
    1 << shift(i)
}

/// The latest multiple of `σ_i` that is not after `time`.
#[inline]
pub(super) fn floor(time: u64, i: u8) -> u64 {
    time & !(width(i) - 1)
}

/// The index of the slot of a start among the slots of all groups.
#[inline]
pub(super) fn slot_of(start: u64, i: u32) -> usize {
    i as usize % GROUPS * SLOTS + (start >> (MIN_SHIFT + i)) as usize % SLOTS
}

/// The positions of the bits that are set, the highest first.
pub(super) fn bits(mut word: u32) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = word.checked_ilog2()?;
        word &= !(1 << bit);
        Some(bit)
    })
}

/// Fraction bits of virtual time.
pub(super) const FRACTION: u32 = 32;
/// Fraction bits of `1 / W`: enough for a million flows of the largest weight.
const RATE_BITS: u32 = 48;
/// Fraction bits of a length that is multiplied by `1 / W`, so that the upper half of the product
/// has [`FRACTION`] fraction bits.
pub(super) const LEN_BITS: u32 = 40;
/// `σ_0 = 2^22`: the time of the smallest `lmax` with the largest weight, 64 bytes / 65536.
pub(super) const MIN_SHIFT: u32 = 22;
/// The number of groups, up to `σ_31 = 2^53`, which is the time of [`LARGEST`] bytes with a weight
/// of 1.
pub(super) const GROUPS: usize = 32;
/// The number of slots of a group. Three are enough if all flows have the same largest packet.
pub(super) const SLOTS: usize = 32;
/// A longer packet counts as this many bytes, so that 32 groups are enough.
pub(in super::super) const LARGEST: u32 = 1 << 21;
/// An era is a quarter of the range of virtual time. Stamps of neighbouring eras can be compared.
pub(super) const ERA_SHIFT: u32 = 62;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// For every weight, and for lengths near every power of two: the group `i` is within range.
    /// `σ_i` is at least the time of the largest packet, and less than twice that time except in
    /// group 0. The rounding error of `1 / w` is less than one unit of its last bit.
    #[test]
    fn units_fit_the_largest_packet_of_every_weight() {
        let lengths: Vec<u32> = (6..23)
            .flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])
            .filter(|&len| len >= 64)
            .collect();
        for weight in 1..=65_536u64 {
            let inverse = inverse(weight);
            assert!((weight * inverse - (1 << FRACTION)) < weight);
            for &len in &lengths {
                let i = group_of(len, inverse);
                let takes = u64::from(charged(len)) * inverse;
                assert!(
                    usize::from(i) < GROUPS
                        && takes <= width(i)
                        && (width(i) < 2 * takes || i == 0),
                    "{weight} {len} {i}"
                );
            }
        }
    }
}
