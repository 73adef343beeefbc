//! Virtual times: how those disciplines count them that give every packet a start and a finish.
//!
//! # Layout
//! ```text
//! S, F, V   63 ........................ 40 | 39 .......... 20 | 19 ........... 0
//!           bytes for each unit of weight  | fraction
//!                                            that is compared   and that is not
//! ```
//! A packet of `L` bytes takes `L / w` of a flow's virtual time. `1 / w` is a fraction of 40 bits,
//! wrong by less than `w / 2^40`, which is 6 parts in 10^8 for the largest weight.
//! [`super::tournament`] compares times without their last 20 bits: 1/16 byte for the largest
//! weight, less for all others.
//!
//! # Range
//! Before `V` nears the end of its range, the times of flows with packets are set back by [`BACK`].
//! That is once in 7 MB times the sum of their weights at least, so it costs nothing. A flow at
//! rest is not looked at: it remembers in which *era* its time was written, which is how often
//! times have been set back, and is corrected when it is next needed.

use super::{FlowSpec, MAX_WEIGHT};

/// Bits of a time's fraction.
pub(super) const FRACTION: u32 = 40;
/// A longer packet counts as this much, so that no time leaves its range. Four times what IPv4
/// allows.
pub(super) const LARGEST: u32 = 1 << 18;
/// Times are set back when `V` has come this far.
pub(super) const LIMIT: u64 = 1 << 63;
/// By this much, which leaves room below `V` for flows that are behind.
pub(super) const BACK: u64 = LIMIT - (1 << 60);

/// The flow's weight, within its range.
pub(super) fn weight(spec: &FlowSpec) -> u32 {
    spec.weight.clamp(1, MAX_WEIGHT)
}

/// What a byte takes of the virtual time of a flow of this weight: `1 / w`.
pub(super) fn inverse(weight: u32) -> u64 {
    (1 << FRACTION) / u64::from(weight.max(1))
}

/// What a packet takes of its flow's virtual time: `L / w`.
#[inline(always)] // Measured: see the module of schedulers.
pub(super) fn service(len: u32, inverse: u64) -> u64 {
    u64::from(len.min(LARGEST)) * inverse
}

/// A time that was written in the era `then`, as it is in the era `now`.
#[inline(always)] // Measured: see the module of schedulers.
pub(super) fn in_era(time: u64, then: u64, now: u64) -> u64 {
    if then == now { time } else { time.saturating_sub((now - then).saturating_mul(BACK)) }
}
