//! The average length of a queue as RED computes it: exponentially weighted, with one step per
//! arrival.
//!
//! ```text
//! value   u128   63 . 40 bits: whole packets or bytes, and the fraction in parts of 2^40
//! ```
//! While the queue is empty, the average decays by the number of packets that the link could have
//! sent in that time. The three published methods are variants of [`Decay`]. In Linux, an average
//! of bytes with a weight of `2^-n` has only `n` bits of fraction, and a step subtracts only the
//! whole bytes of the average from the length. The result is up to a byte above that of the
//! equation, enough to reach a threshold one packet earlier.

use alloc::boxed::Box;

use super::super::power::{Factor, PacketRate, Slope, times_exp2_neg};
use crate::units::Nanos;

/// An exponentially weighted average of the length of a queue.
#[derive(Debug)]
pub(in super::super) struct Average {
    value: u128,
    weight: Slope,
    decay: Decay,
    /// The time at which the queue became empty, or of the last arrival at the empty queue.
    empty_since: Nanos,
}

/// The decay of the average while the queue is empty.
#[derive(Debug)]
enum Decay {
    /// `(1-w)^(m+1)` after the time of `m` packets. `per_ns` is in packets, `logarithm` in halvings
    /// per packet.
    Packets { per_ns: Factor, logarithm: Factor },
    /// The same decay in 256 steps, after which the average is 0. `per_ns` is in steps, `each` in
    /// halvings per step; `first` is the number of halvings by the arrival itself.
    Steps { per_ns: Factor, first: u64, each: Factor },
    /// Linux's decay: a table gives the number of halvings for an idle time.
    Cells(Box<Cells>),
}

/// Linux's table of halvings by idle time.
#[derive(Debug)]
struct Cells {
    /// The average's fraction has this many bits; [`FRACTION`] if it is exact.
    fraction: u32,
    /// A cell of the table spans `2^bits` us.
    bits: u32,
    /// For each cell, the number of halvings after an idle time in that cell.
    shifts: [u8; CELLS],
}

impl Average {
    /// An average of 0 with weight `weight`, on a link that sends packets at `pace`, with the decay
    /// [`Decay::Packets`].
    pub(in super::super) fn new(weight: f64, pace: PacketRate) -> Self {
        let decay = Decay::Packets {
            per_ns: pace.per_ns(),
            logarithm: Factor::of(logarithm(weight) * PARTS),
        };
        Self { value: 0, weight: Slope::of(weight), decay, empty_since: Nanos::ZERO }
    }

    /// An average of 0 with the decay of dummynet, in 256 steps over the time of `3/weight`
    /// packets.
    pub(super) fn in_steps(weight: f64, pace: PacketRate) -> Self {
        let step = 3.0 / weight / STEPS as f64;
        let decay = Decay::Steps {
            per_ns: Factor::of(pace.per_second() / 1e9 / step),
            first: Factor::of(logarithm(weight) * PARTS).times(1),
            each: Factor::of(logarithm(weight) * step * PARTS),
        };
        Self { decay, ..Self::new(weight, pace) }
    }

    /// An average of 0 with a weight of `2^-bits` and the decay of Linux, by a table of shifts.
    /// Averages of `bytes` have Linux's coarse arithmetic too.
    pub(super) fn in_cells(bits: u32, pace: PacketRate, bytes: bool) -> Self {
        let weight = libm::exp2(-f64::from(bits));
        let fraction = if bytes { bits } else { FRACTION };
        let cells = Cells { fraction, ..Cells::new(weight, pace) };
        Self { decay: Decay::Cells(Box::new(cells)), ..Self::new(weight, pace) }
    }

    /// The average, in parts of 2^[`FRACTION`].
    #[inline]
    pub(in super::super) fn value(&self) -> u128 {
        self.value
    }

    /// Moves the average for an arrival at a queue of length `queued`, which may be 0.
    #[inline]
    pub(in super::super) fn arrive(&mut self, now: Nanos, queued: u64, empty: bool) {
        if empty {
            self.value = self.after_idling(now);
            self.empty_since = now;
        } else if let Decay::Cells(cells) = &self.decay
            && cells.fraction < FRACTION
        {
            let ahead = i128::from(queued) - (self.value >> FRACTION) as i128;
            self.value = (self.value as i128 + (ahead << (FRACTION - cells.fraction))) as u128;
        } else {
            let ahead = (u128::from(queued) << FRACTION) as i128 - self.value as i128;
            self.value = (self.value as i128 + self.weight.times(ahead)) as u128;
        }
    }

    /// Notes that the queue has become empty.
    #[inline]
    pub(in super::super) fn emptied(&mut self, now: Nanos) {
        self.empty_since = now;
    }

    /// The average for an arrival at `at`, if the queue stays empty until then.
    pub(super) fn after_idling(&self, at: Nanos) -> u128 {
        let idle = at.since(self.empty_since).0;
        match &self.decay {
            Decay::Packets { per_ns, logarithm } => {
                times_exp2_neg(self.value, logarithm.times(per_ns.times(idle).saturating_add(1)))
            }
            Decay::Steps { per_ns, first, each } => match per_ns.times(idle) {
                steps @ 0..STEPS => times_exp2_neg(self.value, first + each.times(steps)),
                _ => 0,
            },
            Decay::Cells(cells) => cells.after(self.value, idle),
        }
    }
}

impl Cells {
    /// The table that Linux's `tc` computes: cell `i` holds `-ln((1-w)^m)`, rounded down and at
    /// most 31, where `m` is the number of packets in the time of `i` cells.
    fn new(weight: f64, pace: PacketRate) -> Self {
        let per_us = -libm::log1p(-weight) * pace.per_second() / 1e6;
        let bits =
            (0..31).find(|&bits| 31.0 / per_us / f64::from(1u32 << bits) < 512.0).unwrap_or(31);
        let mut shifts = [0; CELLS];
        for (cell, shift) in shifts.iter_mut().enumerate() {
            *shift = (cell as f64 * f64::from(1u32 << bits) * per_us).min(31.0) as u8;
        }
        shifts[CELLS - 1] = 31;
        Self { fraction: FRACTION, bits, shifts }
    }

    /// The average `value` after an idle time.
    fn after(&self, value: u128, idle_ns: u64) -> u128 {
        let last = ((CELLS - 1) as u64) << self.bits;
        let idle_us = (idle_ns / 1000).min(last);
        let unit = FRACTION - self.fraction;
        let value = value >> unit;
        let after = match self.shifts[(idle_us >> self.bits) as usize] {
            0 => {
                let less = (value * u128::from(idle_us)) >> self.bits;
                if less < value / 2 { value - less } else { value / 2 }
            }
            shift => value >> shift,
        };
        after << unit
    }
}

/// `-log2(1 - weight)`: the number of halvings per packet.
fn logarithm(weight: f64) -> f64 {
    if weight >= 1.0 { 127.0 } else { -libm::log1p(-weight) * core::f64::consts::LOG2_E }
}

/// Fraction bits of an average.
pub(in super::super) const FRACTION: u32 = 40;
/// Exponents of powers are in parts of 2^32.
const PARTS: f64 = 4_294_967_296.0;
/// The number of steps of dummynet's decay.
const STEPS: u64 = 256;
/// The number of cells of Linux's table.
const CELLS: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACE: PacketRate = PacketRate { rate: 800_000_000, mean: 1000 };

    fn read(average: &Average) -> f64 {
        average.value() as f64 / libm::exp2(f64::from(FRACTION))
    }

    proptest! {
        #[test]
        fn the_average_follows_the_equation(
            weight in 1e-8f64..1.0,
            packets in proptest::collection::vec((0u64..10_000_000, 0u64..1_000_000_000), 1..200),
        ) {
            let pace = PacketRate { rate: 10_000_000, mean: 500 };
            let (mut average, mut exact, mut now) = (Average::new(weight, pace), 0.0, Nanos::ZERO);
            average.emptied(now);
            for (queued, gap) in packets {
                now += Nanos(gap);
                if queued % 3 == 0 {
                    let m = libm::floor(gap as f64 * pace.per_second() / 1e9);
                    average.emptied(Nanos(now.0 - gap));
                    average.arrive(now, 0, true);
                    exact *= libm::pow(1.0 - weight, m + 1.0);
                } else {
                    average.arrive(now, queued, false);
                    exact += weight * (queued as f64 - exact);
                }
                prop_assert!(
                    (read(&average) - exact).abs() < 1e-6 + exact * 1e-6,
                    "{} {exact}",
                    read(&average)
                );
            }
        }

        #[test]
        fn the_average_stays_within_the_observed_lengths(
            bits in 1u32..31,
            packets in proptest::collection::vec((0u64..1 << 46, any::<u32>()), 1..100),
        ) {
            let makers = [Average::new, Average::in_steps];
            let mut averages: alloc::vec::Vec<Average> =
                makers.iter().map(|make| make(libm::exp2(-f64::from(bits)), PACE)).collect();
            averages.push(Average::in_cells(bits, PACE, true));
            averages.push(Average::in_cells(bits, PACE, false));
            for mut average in averages {
                let (mut most, mut now) = (0, Nanos::ZERO);
                for &(queued, gap) in &packets {
                    now += Nanos(u64::from(gap));
                    average.arrive(now, queued, queued % 5 == 0);
                    average.emptied(now);
                    most = most.max(queued);
                    prop_assert!(average.value() <= u128::from(most) << FRACTION);
                }
            }
        }
    }

    /// The average of a rising queue in Linux's arithmetic, computed by hand. With a weight of
    /// 1/32, a step adds 1/32 of the difference between the length and the whole bytes of the
    /// average.
    #[test]
    fn linux_takes_whole_bytes_of_the_average_from_the_length() {
        let mut average = Average::in_cells(5, PACE, true);
        let mut parts = 0u64;
        for packet in 0..400u64 {
            let queued = 300 * packet;
            average.arrive(Nanos::from_millis(packet), queued, false);
            parts += queued - (parts >> 5);
            assert_eq!(average.value(), u128::from(parts) << (FRACTION - 5));
        }
        // The equation itself gives 110,400.03 bytes.
        assert!(parts as f64 / 32.0 > 110_400.9, "{parts}");
    }

    #[test]
    fn the_three_decays_differ_as_documented() {
        // Packets of 1000 bytes take 1 ms each, and w = 1/512: (1-w)^m is 1/e after 512 ms.
        let pace = PacketRate { rate: 8_000_000, mean: 1000 };
        let make = || {
            [
                Average::new(1.0 / 512.0, pace),
                Average::in_steps(1.0 / 512.0, pace),
                Average::in_cells(9, pace, true),
            ]
        };
        let after = |ms: u64| {
            make().map(|mut average| {
                average.value = 1000 << FRACTION;
                average.arrive(Nanos::from_millis(ms), 0, true);
                read(&average).round() as u64
            })
        };
        assert_eq!(after(0), [998, 998, 1000]);
        assert_eq!(after(512), [367, 368, 500]);
        assert_eq!(after(1536), [50, 50, 250]);
        assert_eq!(after(1541), [49, 0, 125]);
        assert_eq!(after(3_600_000), [0, 0, 0]);
    }
}
