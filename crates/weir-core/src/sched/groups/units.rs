//! Rounding: units of virtual time, and to which a weight and a largest packet belong.

/// `1 / w`, rounded up.
pub(in super::super) fn inverse(weight: u64) -> u64 {
    (1u64 << FRACTION).div_ceil(weight)
}

/// The group of members whose largest packet is `lmax` at a weight of `1 / inverse`.
pub(in super::super) fn group_of(lmax: u32, inverse: u64) -> u8 {
    let most = u64::from(charged(lmax)) * inverse;
    (most.next_power_of_two().trailing_zeros().max(LEAST_SHIFT) - LEAST_SHIFT) as u8
}

/// `1 / W`, rounded down to [`RATE_BITS`], as [`upper`] wants it.
#[inline]
pub(super) fn rate(weights: u64) -> u64 {
    ((1 << RATE_BITS) / weights.max(1)) << (64 + FRACTION - RATE_BITS - LEN_BITS)
}

/// The upper half of a product.
#[inline]
pub(super) fn upper(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// Bytes that a packet is charged.
#[inline]
pub(super) fn charged(len: u32) -> u32 {
    len.min(LARGEST)
}

/// Whether `a` is later than `b`.
#[inline]
pub(in super::super) fn after(a: u64, b: u64) -> bool {
    a.wrapping_sub(b) as i64 > 0
}

#[inline]
pub(super) fn shift(i: u8) -> u32 {
    LEAST_SHIFT + u32::from(i)
}

/// `σ_i`.
#[inline]
pub(super) fn width(i: u8) -> u64 {
    1 << shift(i)
}

/// The multiple of `σ_i` at or before a time.
#[inline]
pub(super) fn floor(time: u64, i: u8) -> u64 {
    time & !(width(i) - 1)
}

/// The place of a start among the slots of all groups.
#[inline]
pub(super) fn slot_of(start: u64, i: u32) -> usize {
    i as usize % GROUPS * SLOTS + (start >> (LEAST_SHIFT + i)) as usize % SLOTS
}

/// Places of the bits that are set.
pub(super) fn bits(mut word: u32) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = word.checked_ilog2()?;
        word &= !(1 << bit);
        Some(bit)
    })
}

/// Bits of fraction of virtual time.
pub(super) const FRACTION: u32 = 32;
/// Bits of fraction of `1 / W`: enough for a million flows of the largest weight.
const RATE_BITS: u32 = 48;
/// Bits below the point of a length that is multiplied by `1 / W`, so that the product's upper half
/// has [`FRACTION`] of them.
pub(super) const LEN_BITS: u32 = 40;
/// `σ_0 = 2^22`: what the smallest `lmax` of the largest weight needs, 64 bytes / 65536.
pub(super) const LEAST_SHIFT: u32 = 22;
/// Up to `σ_31 = 2^53`, which is a packet of [`LARGEST`] at a weight of 1.
pub(super) const GROUPS: usize = 32;
/// Slots of a group. Three are enough where all flows have the same largest packet.
pub(super) const SLOTS: usize = 32;
/// A longer packet is charged as this, so that there are 32 groups.
pub(super) const LARGEST: u32 = 1 << 21;
/// Two stamps of neighbouring quarters of the range of virtual time can be compared.
pub(super) const ERA_SHIFT: u32 = 62;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// For every weight, and for lengths near every power of two: the group is within range, its
    /// unit is at least the time of the largest packet and less than twice that, or the smallest
    /// unit; a weight's inverse is too high by less than its own part.
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
