//! Virtual times of the schedulers that give every packet a start and a finish.
//!
//! # Layout
//! ```text
//! S, F, V   63 ........................ 40 | 39 .......... 20 | 19 ........... 0
//!           bytes for each unit of weight  | fraction
//!                                            that is compared   and that is not
//! ```
//! `S` is a start, `F` a finish, and `V` the virtual time. A packet of `L` bytes takes `L / w` of
//! virtual time if its flow has the weight `w`. `1 / w` has 40 bits of fraction and a relative
//! error below `w / 2^40`, which is 6 parts in 10^8 for the largest weight. Comparisons ignore the
//! last 20 bits ([`super::tournament`]), at most 1/16 byte of a packet.
//!
//! # Range
//! In WF2Q+, SCFQ and STFQ, the times of active flows are set back by [`BACK`] before `V` nears the
//! end of its range. This happens at most once for every `7 MB · W` of traffic, where `W` is the
//! sum of the weights of these flows. Its cost is therefore negligible. Inactive flows are not
//! visited. In SCFQ and STFQ, each flow stores the *era* of its times, which is the number of
//! set-backs that they include. The times are corrected when they are next used.

use super::{FlowSpec, MAX_WEIGHT};

/// Fraction bits of a time.
pub(super) const FRACTION: u32 = 40;
/// A longer packet counts as this many bytes, so that no time leaves its range. This is four times
/// the largest IPv4 packet.
pub(super) const LARGEST: u32 = 1 << 18;
/// Times are set back when `V` reaches this value.
pub(super) const LIMIT: u64 = 1 << 63;
/// The amount by which times are set back. It leaves room below `V` for flows that are behind.
pub(super) const BACK: u64 = LIMIT - (1 << 60);

/// The flow's weight, within its range.
pub(super) fn weight(spec: &FlowSpec) -> u32 {
    spec.weight.clamp(1, MAX_WEIGHT)
}

/// The virtual time of one byte of a flow of this weight: `1 / w`.
pub(super) fn inverse(weight: u32) -> u64 {
    (1 << FRACTION) / u64::from(weight.max(1))
}

/// The virtual time of a packet: `L / w`.
#[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
pub(super) fn service(len: u32, inverse: u64) -> u64 {
    u64::from(len.min(LARGEST)) * inverse
}

/// Converts a time of era `then` to era `now`.
#[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
pub(super) fn in_era(time: u64, then: u64, now: u64) -> u64 {
    if then == now { time } else { time.saturating_sub((now - then).saturating_mul(BACK)) }
}
