//! Common parts of the RED family: from the average length to the verdict.
//!
//! ```text
//! x   = (avg - min) / (max - min)                     0 at the lower threshold, 1 at the upper
//! p_b = max_p · x, or max_p · 1.5 x² where the curve is quadratic
//!       gentle, beyond max: p + (1 - p) (avg - max) / max, with p the value of p_b at max
//! ```
//! [`Spacing`] has the two methods to select packets by `p_b`. Probabilities are in parts of 2^32.

use alloc::vec;
use alloc::vec::Vec;

use super::super::power::{PacketRate, Slope};
use super::super::{QueueState, Seen, Verdict};
use super::adapt::Adapt;
pub(in super::super) use super::adapt::ONE;
use super::average::{Average, FRACTION};
use crate::choice;
use crate::rng::Stream;
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;

choice! {
    /// The implementation that this one follows.
    pub(in super::super) enum Variant {
        Ns3 = "ns3",
        Linux = "linux",
        Dummynet = "dummynet",
    }
}

choice! {
    /// The unit of lengths.
    pub(in super::super) enum Lengths {
        Packets = "packets",
        Bytes = "bytes",
    }
}

choice! {
    /// How the probability rises between the thresholds.
    pub(in super::super) enum Curve {
        Linear = "linear",
        Quadratic = "quadratic",
    }
}

/// The parameters of one queue's RED.
#[derive(Debug)]
pub(in super::super) struct Plan {
    pub(in super::super) variant: Variant,
    /// Whether lengths are in bytes rather than packets.
    pub(in super::super) bytes: bool,
    /// The thresholds, in parts of 2^[`FRACTION`].
    pub(in super::super) min: u128,
    pub(in super::super) max: u128,
    /// The weight of a packet in the average, from 0 to 1.
    pub(in super::super) weight: f64,
    /// The probability at the upper threshold.
    pub(in super::super) max_p: u64,
    pub(in super::super) gentle: bool,
    pub(in super::super) wait: bool,
    pub(in super::super) ecn: bool,
    pub(in super::super) harddrop: bool,
    pub(in super::super) quadratic: bool,
    /// The link's rate, and the mean length of a packet.
    pub(in super::super) pace: PacketRate,
    pub(in super::super) adapt: Adapt,
}

/// RED for one queue: its average, and the selection of packets.
#[derive(Debug)]
pub(in super::super) struct Core {
    average: Average,
    /// The thresholds, in parts of 2^[`FRACTION`].
    min: u128,
    max: u128,
    /// 1 / (max - min), and 1 / max.
    per_span: Slope,
    per_max: Slope,
    max_p: u64,
    spacing: Spacing,
    /// The number of packets since the last selection by a draw, or since draws began, and the
    /// number of their bytes.
    count: u32,
    count_bytes: u32,
    /// The mean length of a packet in bytes.
    mean: u32,
    /// Whether lengths are in bytes rather than packets.
    bytes: bool,
    gentle: bool,
    quadratic: bool,
    ecn: bool,
    harddrop: bool,
    adapt: Adapt,
}

/// How packets are selected with a probability `p_b`, so that selections are spaced evenly.
#[derive(Clone, Copy, Debug)]
enum Spacing {
    /// One draw per packet, with a probability that grows with the packets since the last
    /// selection.
    Growing {
        /// Whether no packet is selected while `count · p_b` is below 1.
        wait: bool,
        /// Whether draws have begun. The first packet in the range of random selections begins
        /// them; an average below `min`, or a queue length of at most 1, ends them.
        begun: bool,
    },
    /// One draw after each selection gives a goal. The packet at which `count · p_b` exceeds the
    /// goal is selected.
    Drawn {
        /// The goal in parts of 2^32; `None` while the average is outside the range in which
        /// packets are selected at random.
        goal: Option<u32>,
        /// The packet length in bytes to which `p_b` applies; 0: `p_b` applies to packets of any
        /// length.
        full_len: u32,
    },
}

impl Core {
    /// The state for `plan`, before the first packet.
    pub(in super::super) fn new(plan: Plan) -> Self {
        let Plan { variant, min, weight, pace, bytes, .. } = plan;
        let max = plan.max.max(min);
        let slope = |length: u128| {
            Slope::of(1.0 / (length as f64 / libm::exp2(f64::from(FRACTION))).max(1.0))
        };
        let bits = libm::round(-libm::log2(weight)).clamp(1.0, 31.0) as u32;
        let drawn = |full_len| Spacing::Drawn { goal: None, full_len };
        let (average, spacing) = match variant {
            Variant::Ns3 => {
                (Average::new(weight, pace), Spacing::Growing { wait: plan.wait, begun: false })
            }
            Variant::Linux => (Average::in_cells(bits, pace, bytes), drawn(0)),
            Variant::Dummynet => {
                (Average::in_steps(weight, pace), drawn(if bytes { DUMMYNET_FULL } else { 0 }))
            }
        };
        Self {
            average,
            min,
            max,
            per_span: slope(max - min),
            per_max: slope(max),
            max_p: plan.max_p,
            spacing,
            count: 0,
            count_bytes: 0,
            mean: pace.mean,
            bytes,
            gentle: plan.gentle && variant != Variant::Linux,
            quadratic: plan.quadratic,
            ecn: plan.ecn,
            harddrop: plan.harddrop,
            adapt: plan.adapt,
        }
    }

    /// The queue's length in the unit of the thresholds.
    #[inline]
    pub(in super::super) fn length(&self, queue: &QueueState) -> u64 {
        if self.bytes { queue.bytes } else { u64::from(queue.packets) }
    }

    /// Decides about an arriving packet by the average of this queue.
    #[inline]
    pub(in super::super) fn arrive(
        &mut self,
        now: Nanos,
        packet: &Seen,
        queue: &QueueState,
        stream: &mut Stream,
    ) -> Verdict {
        let length = self.length(queue);
        self.observe(now, length, queue.packets == 0);
        self.judge(self.average.value(), length, packet, stream)
    }

    /// Notes a departure; `queue` does not count the packet that leaves.
    #[inline]
    pub(in super::super) fn leave(&mut self, now: Nanos, queue: &QueueState) {
        if queue.packets == 0 {
            self.emptied(now);
        }
    }

    /// Notes that the queue, or the virtual queue of this RED, has become empty.
    #[inline]
    pub(in super::super) fn emptied(&mut self, now: Nanos) {
        self.average.emptied(now);
    }

    /// Updates the average, and `max_p` if it adapts.
    #[inline]
    pub(in super::super) fn observe(&mut self, now: Nanos, length: u64, empty: bool) {
        self.adapt.catch_up(now, &self.average, empty, &mut self.max_p);
        self.average.arrive(now, length, empty);
        self.adapt.follow(now, self.average.value(), &mut self.max_p);
    }

    /// The average, in parts of 2^[`FRACTION`].
    #[inline]
    pub(in super::super) fn average(&self) -> u128 {
        self.average.value()
    }

    /// Decides about a packet by a given average, which may be that of another queue.
    #[inline]
    pub(in super::super) fn judge(
        &mut self,
        average: u128,
        length: u64,
        packet: &Seen,
        stream: &mut Stream,
    ) -> Verdict {
        match self.spacing {
            Spacing::Growing { wait, begun } => {
                self.judge_growing((wait, begun), average, length, packet, stream)
            }
            Spacing::Drawn { goal, full_len } => {
                self.judge_drawn((goal, full_len), average, packet, stream)
            }
        }
    }

    /// The verdict on an arrival with [`Spacing::Growing`].
    #[inline]
    fn judge_growing(
        &mut self,
        (wait, begun): (bool, bool),
        average: u128,
        length: u64,
        packet: &Seen,
        stream: &mut Stream,
    ) -> Verdict {
        self.count = self.count.saturating_add(1);
        self.count_bytes = self.count_bytes.saturating_add(packet.len);
        if average < self.min || length <= 1 {
            self.spacing = Spacing::Growing { wait, begun: false };
            return Verdict::Pass;
        }
        if average >= if self.gentle { 2 * self.max } else { self.max } {
            return self.forced(packet);
        }
        if !begun {
            (self.count, self.count_bytes) = (1, packet.len);
            self.spacing = Spacing::Growing { wait, begun: true };
            return Verdict::Pass;
        }
        if !self.is_chosen(self.probability(average), wait, packet.len, stream) {
            return Verdict::Pass;
        }
        (self.count, self.count_bytes) = (0, 0);
        self.early(packet)
    }

    /// The verdict on an arrival with [`Spacing::Drawn`].
    #[inline]
    fn judge_drawn(
        &mut self,
        (goal, full_len): (Option<u32>, u32),
        average: u128,
        packet: &Seen,
        stream: &mut Stream,
    ) -> Verdict {
        let forced = average >= self.max && !self.gentle;
        if average < self.min || forced {
            self.spacing = Spacing::Drawn { goal: None, full_len };
            return if forced { self.forced(packet) } else { Verdict::Pass };
        }
        if let Some(goal) = goal {
            self.count = self.count.saturating_add(1);
            let p = self.probability(average);
            let p = if full_len == 0 { p } else { p * u64::from(packet.len) / u64::from(full_len) };
            if u128::from(p) * u128::from(self.count) <= u128::from(goal) {
                return Verdict::Pass;
            }
        }
        self.count = 0;
        self.spacing = Spacing::Drawn { goal: Some(stream.bits32()), full_len };
        if goal.is_some() { self.early(packet) } else { Verdict::Pass }
    }

    /// Selects a packet with probability `p / (1 - count·p)`. With `wait`, the probability is 0
    /// while `count·p` is below 1, and `p / (2 - count·p)` from then on. With lengths in bytes,
    /// `count` is in mean packets, and the probability is proportional to the packet's length.
    #[inline]
    fn is_chosen(&self, p: u64, wait: bool, len: u32, stream: &mut Stream) -> bool {
        let count = if self.bytes { self.count_bytes / self.mean } else { self.count };
        let grown = p * u64::from(count);
        if wait && grown < ONE {
            return false;
        }
        let rest = if wait { 2 * ONE } else { ONE }.saturating_sub(grown);
        if p >= rest {
            return true;
        }
        let (draw, p) = (u128::from(stream.bits32()) * u128::from(rest), u128::from(p) << 32);
        if self.bytes { draw * u128::from(self.mean) < p * u128::from(len) } else { draw < p }
    }

    /// `p_b` for an average.
    #[inline]
    pub(in super::super) fn probability(&self, average: u128) -> u64 {
        // Converts parts of 2^40 to parts of 2^32.
        let part =
            |slope: Slope, length: u128| (slope.times(length as i128) >> (FRACTION - 32)) as u64;
        if average < self.min {
            0
        } else if average < self.max {
            let x = part(self.per_span, average - self.min).min(ONE);
            let p = share(self.max_p, x);
            if self.quadratic { times_three_halves(share(p, x)) } else { p }
        } else if self.gentle && average < 2 * self.max {
            let at_max = if self.quadratic { times_three_halves(self.max_p) } else { self.max_p };
            let y = part(self.per_max, average - self.max).min(ONE);
            at_max + share(ONE - at_max, y)
        } else {
            ONE
        }
    }

    /// The verdict on a packet that the draw selected.
    #[inline]
    fn early(&self, packet: &Seen) -> Verdict {
        if self.ecn && packet.header.ecn.is_capable() {
            Verdict::Mark(MarkReason::Early)
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }

    /// The verdict on a packet that is selected because of the average alone.
    #[inline]
    fn forced(&self, packet: &Seen) -> Verdict {
        if self.ecn && !self.harddrop && packet.header.ecn.is_capable() {
            Verdict::Mark(MarkReason::Forced)
        } else {
            Verdict::Drop(DropReason::Forced)
        }
    }

    pub(in super::super) fn variables(&self) -> Vec<(&'static str, u64)> {
        let average = self.average.value();
        let length = |value: u128| u64::try_from(value >> FRACTION).unwrap_or(u64::MAX);
        vec![
            ("average", length(average)),
            ("probability", self.probability(average)),
            ("max_p", self.max_p),
            ("min", length(self.min)),
            ("max", length(self.max)),
            ("count", u64::from(self.count)),
        ]
    }
}

/// The product of two probabilities.
fn share(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 32) as u64
}

/// One and a half times `p`, at most 1.
fn times_three_halves(p: u64) -> u64 {
    (p + p / 2).min(ONE)
}

/// The packet length in bytes for which dummynet uses the full `p_b`.
const DUMMYNET_FULL: u32 = 1500;
