//! Serialisation: computes when a packet that starts now has left the interface.
//!
//! # Model
//! The link stores the time at which it becomes free. A packet starts at that time, but no earlier
//! than now less the transmission time of `burst` bytes, which is the credit of an idle link. The
//! packet takes `bits / rate`. The remainder of the division, a fraction of a nanosecond, is
//! carried over to the next packet of the same busy period, so that a busy period of any length has
//! no drift. A packet is released at the end of its transmission, or at once if that time has
//! passed.
//!
//! All times are computed from previous ideal times, so a late driver does not slow the link.
//!
//! The link has its own clock, which is ahead of the driver's by a constant, [`LEAD`], so that it
//! has times before the driver's time 0. A new link counts as if it had always been idle, and thus
//! has its full credit even at time 0.

use alloc::boxed::Box;

use super::{Capacity, TraceCursor};
use crate::units::{Bytes, NANOS_PER_SEC, Nanos, Rate};

/// The serialising part of a link. The fields that every packet uses come first and fill one cache
/// line.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Serializer {
    capacity: Capacity,
    /// [`LEAD`] less the time of `burst` bytes. By the link's clock, a packet on an idle link
    /// starts at the driver's time plus this value.
    after: Nanos,
    /// Time at which the link becomes free, by the link's clock.
    free_at: Nanos,
    /// The remainder of the last division, in ns × bit/s.
    remainder: u64,
    current: Current,
    /// The credit of an idle link.
    burst: Bytes,
    /// The position in the trace, if the capacity is a trace.
    cursor: Option<Box<TraceCursor>>,
}

/// The packet that was started last, for a change of the rate during its transmission.
#[derive(Clone, Copy, Debug, Default)]
struct Current {
    /// The start time, by the link's clock.
    start: Nanos,
    /// The length of the packet plus the carried remainder, in ns × bit/s. In this unit a change
    /// of the rate loses nothing, however often it happens.
    work: u64,
    extra: Nanos,
}

/// The serialisation time of packets of one length.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timed {
    bytes: Bytes,
    /// Whole nanoseconds.
    time: Nanos,
    /// The remainder of the division, in ns × bit/s.
    rest: u64,
}

impl Serializer {
    /// An idle serialiser with full credit. If the capacity is a trace, the trace begins at `now`.
    pub(crate) fn new(now: Nanos, capacity: Capacity, burst: Bytes) -> Self {
        let cursor = cursor(&capacity, now);
        let after = after(&capacity, burst);
        Self {
            capacity,
            after,
            free_at: Nanos::ZERO,
            remainder: 0,
            current: Current::default(),
            burst,
            cursor,
        }
    }

    /// Starts a packet of `bytes` on the wire at `now`, with `extra` air-time. Returns when the
    /// packet has left, at `now` or later.
    #[inline(always)] // Measured: see the emulator's module.
    pub(crate) fn start(&mut self, now: Nanos, bytes: Bytes, extra: Nanos) -> Nanos {
        let Capacity::Constant(rate) = self.capacity else {
            return self.start_uneven(now, bytes, extra);
        };
        let start = self.begin(now);
        let (time, remainder, work) = serialisation(bytes, rate, self.remainder);
        self.remainder = remainder;
        self.current = Current { start, work, extra };
        self.free_at = start.saturating_add(time).saturating_add(extra);
        self.free_at.saturating_sub(LEAD).max(now)
    }

    /// Like [`Self::start`], for a link with a capacity that never changes and without additional
    /// air-time. `last` caches the time for the previous packet's length, which saves the division
    /// for packets of equal length.
    #[inline(always)] // Measured: see the emulator's module.
    pub(crate) fn start_like(&mut self, now: Nanos, bytes: Bytes, last: &mut Timed) -> Nanos {
        let Capacity::Constant(rate) = self.capacity else {
            return self.start_uneven(now, bytes, Nanos::ZERO);
        };
        if last.bytes != bytes {
            let (time, rest, _) = serialisation(bytes, rate, 0);
            *last = Timed { bytes, time, rest };
        }
        let start = self.begin(now);
        // Both terms are less than the rate, and the rate is less than 2^63.
        let carried = self.remainder + last.rest;
        let full = carried >= rate.bps();
        self.remainder = if full { carried - rate.bps() } else { carried };
        self.free_at = start.saturating_add(last.time).saturating_add(Nanos(full.into()));
        self.free_at.saturating_sub(LEAD).max(now)
    }

    /// The start, by the link's clock, of a packet that starts at `now` by the driver's clock. A
    /// pause clears the remainder.
    #[inline(always)] // Measured: see the emulator's module.
    fn begin(&mut self, now: Nanos) -> Nanos {
        let start = self.free_at.max(now.saturating_add(self.after));
        if start > self.free_at {
            self.remainder = 0;
        }
        start
    }

    /// [`Self::start`] on a link without a constant rate.
    #[inline(never)]
    fn start_uneven(&mut self, now: Nanos, bytes: Bytes, extra: Nanos) -> Nanos {
        let start = self.free_at.saturating_sub(LEAD).max(now);
        let end = match &self.capacity {
            Capacity::Trace(trace) => {
                let cursor = self.cursor.get_or_insert_with(|| Box::new(TraceCursor::new(now)));
                cursor.take(trace, start, bytes.0).saturating_add(extra)
            }
            _ if extra == Nanos::ZERO => return start,
            _ => start.saturating_add(extra),
        };
        self.free_at = end.saturating_add(LEAD);
        let work = bytes.0.saturating_mul(BYTE);
        self.current = Current { start: start.saturating_add(LEAD), work, extra };
        end.max(now)
    }

    pub(crate) fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// Changes the burst from the next packet on.
    pub(crate) fn set_burst(&mut self, burst: Bytes) {
        self.burst = burst;
        self.after = after(&self.capacity, burst);
    }

    /// Changes the capacity at `now`. If a packet is on the wire (`busy`), its rest continues at
    /// the new capacity. Returns when that packet has left; `None` if the wire is idle.
    pub(crate) fn set_capacity(
        &mut self,
        now: Nanos,
        capacity: &Capacity,
        busy: bool,
    ) -> Option<Nanos> {
        if *capacity == self.capacity {
            return busy.then_some(self.free_at.saturating_sub(LEAD));
        }
        let left = self.work_left(now);
        self.cursor = cursor(capacity, now);
        self.capacity = capacity.clone();
        self.remainder = 0;
        self.after = after(capacity, self.burst);
        busy.then(|| {
            let extra = self.current.extra;
            // The rest of a packet receives no credit.
            let start = now.saturating_add(LEAD);
            let extra_left = if left == 0 { self.free_at.since(start).min(extra) } else { extra };
            self.free_at = start;
            let bytes = match capacity {
                Capacity::Constant(_) => {
                    self.remainder = left % BYTE;
                    left / BYTE
                }
                _ => left.div_ceil(BYTE),
            };
            self.start(now, Bytes(bytes), extra_left)
        })
    }

    /// The part of the current packet that is not yet on the wire, in ns × bit/s. On a trace,
    /// this is the whole packet.
    fn work_left(&self, now: Nanos) -> u64 {
        let Current { start, work, .. } = self.current;
        match &self.capacity {
            Capacity::Unlimited => 0,
            Capacity::Trace(_) => work,
            Capacity::Constant(rate) => {
                let now = now.saturating_add(LEAD);
                let sent = u128::from(now.since(start).0) * u128::from(rate.bps());
                work.saturating_sub(u64::try_from(sent).unwrap_or(u64::MAX))
            }
        }
    }
}

/// The initial position in a trace that begins at `now`.
fn cursor(capacity: &Capacity, now: Nanos) -> Option<Box<TraceCursor>> {
    matches!(capacity, Capacity::Trace(_)).then(|| Box::new(TraceCursor::new(now)))
}

const _: () = assert!(core::mem::offset_of!(Serializer, burst) == 64);

/// The time by which the link's clock is ahead of the driver's clock, 146 years. The credit of a
/// burst is at most this time.
const LEAD: Nanos = Nanos(1 << 62);

/// A byte in ns × bit/s.
const BYTE: u64 = 8 * NANOS_PER_SEC;

/// Adds the carried `remainder` to `bytes`. Returns the time that the sum takes at `rate`, the new
/// remainder, and the sum itself. The remainders and the sum are in ns × bit/s.
#[inline(always)] // Measured: see the emulator's module.
fn serialisation(bytes: Bytes, rate: Rate, remainder: u64) -> (Nanos, u64, u64) {
    let rate = rate.bps();
    // Up to 2^31 bytes the product fits 64 bits.
    if bytes.0 < 1 << 31 {
        let total = bytes.0 * BYTE + remainder;
        return (Nanos(total / rate), total % rate, total);
    }
    let total = u128::from(bytes.0) * u128::from(BYTE) + u128::from(remainder);
    (
        Nanos(u64::try_from(total / u128::from(rate)).unwrap_or(u64::MAX)),
        (total % u128::from(rate)) as u64,
        u64::try_from(total).unwrap_or(u64::MAX),
    )
}

/// The value of [`Serializer::after`].
fn after(capacity: &Capacity, burst: Bytes) -> Nanos {
    match capacity {
        Capacity::Constant(rate) => LEAD.saturating_sub(serialisation(burst, *rate, 0).0),
        _ => LEAD,
    }
}

/// Bytes that a trace offers from its start until `until`.
#[cfg(test)]
fn trace_bytes(trace: &crate::link::Trace, until: Nanos) -> u64 {
    let rounds = until.0 / trace.period().0;
    let rest = trace.opportunities().partition_point(|t| t.0 <= until.0 % trace.period().0) as u64;
    (rounds * trace.opportunities().len() as u64 + rest) * super::OPPORTUNITY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Trace;
    use alloc::sync::Arc;
    use alloc::vec;
    use proptest::prelude::*;

    fn constant(bps: u64) -> Capacity {
        Capacity::Constant(Rate::new(bps).unwrap())
    }

    #[test]
    fn a_packet_takes_its_bits_divided_by_the_rate() {
        let mut s = Serializer::new(Nanos::ZERO, constant(10_000_000), Bytes(0));
        assert_eq!(s.start(Nanos(5), Bytes(1500), Nanos::ZERO), Nanos(5 + 1_200_000));
        assert_eq!(s.start(Nanos(5 + 1_200_000), Bytes(1500), Nanos(7)), Nanos(5 + 2_400_007));
    }

    #[test]
    fn an_idle_link_gives_exactly_its_burst_at_once() {
        let mut s = Serializer::new(Nanos::ZERO, constant(8_000_000), Bytes(3000));
        let now = Nanos::from_secs(10);
        assert_eq!(s.start(now, Bytes(1500), Nanos::ZERO), now);
        assert_eq!(s.start(now, Bytes(1500), Nanos::ZERO), now);
        assert_eq!(s.start(now, Bytes(1000), Nanos::ZERO), now + Nanos::from_millis(1));
    }

    #[test]
    fn a_new_link_has_its_full_burst_at_time_zero() {
        let mut s = Serializer::new(Nanos::ZERO, constant(8_000_000), Bytes(3000));
        for len in [1500, 1000, 500] {
            assert_eq!(s.start(Nanos::ZERO, Bytes(len), Nanos::ZERO), Nanos::ZERO);
        }
        assert_eq!(s.start(Nanos::ZERO, Bytes(1), Nanos::ZERO), Nanos::from_micros(1));
    }

    #[test]
    fn a_new_rate_takes_over_in_the_middle_of_a_packet() {
        let mut s = Serializer::new(Nanos::ZERO, constant(8_000_000), Bytes(0));
        assert_eq!(s.start(Nanos::ZERO, Bytes(1000), Nanos::ZERO), Nanos::from_millis(1));
        // Half of the packet is sent; the other 500 bytes take 4 ms at 1 Mbit/s.
        let done = s.set_capacity(Nanos::from_micros(500), &constant(1_000_000), true);
        assert_eq!(done, Some(Nanos::from_micros(4_500)));
    }

    #[test]
    fn a_rate_that_changes_every_microsecond_is_integrated_exactly() {
        let mut s = Serializer::new(Nanos::ZERO, constant(3_000_000), Bytes(0));
        let mut done = s.start(Nanos::ZERO, Bytes(1000), Nanos::ZERO);
        let mut now = Nanos::ZERO;
        while now + Nanos(1_000) < done {
            now += Nanos(1_000);
            let rate = if (now.0 / 1_000).is_multiple_of(2) { 3_000_000 } else { 7_000_000 };
            done = s.set_capacity(now, &constant(rate), true).unwrap();
        }
        // The link sends 3 and 7 bits per us in turn: 8000 bits take 1600 us.
        assert_eq!(done, Nanos::from_micros(1_600));
    }

    proptest! {
        /// A busy link sends rate × time, to within a nanosecond, for any packet lengths.
        #[test]
        fn no_drift(
            rate in 1u64..400_000_000_000,
            sizes in proptest::collection::vec(1u64..70_000, 1..200),
        ) {
            let mut s = Serializer::new(Nanos::ZERO, constant(rate), Bytes(0));
            let mut now = Nanos::ZERO;
            for &size in &sizes {
                now = s.start(now, Bytes(size), Nanos::ZERO);
            }
            let bits: u128 = sizes.iter().map(|&b| u128::from(b) * 8).sum();
            prop_assert_eq!(u128::from(now.0), bits * 1_000_000_000 / u128::from(rate));
        }

        #[test]
        fn a_cached_length_takes_as_long_as_an_uncached_length(
            rate in 1u64..400_000_000_000,
            burst in 0u64..5_000,
            packets in proptest::collection::vec(
                (0u64..3_000_000, proptest::sample::select(vec![0u64, 52, 1502, 70_000, 1 << 33])),
                1..200,
            ),
        ) {
            let mut plain = Serializer::new(Nanos::ZERO, constant(rate), Bytes(burst));
            let (mut like, mut last) = (plain.clone(), Timed::default());
            let mut now = Nanos::ZERO;
            for (gap, bytes) in packets {
                now += Nanos(gap);
                prop_assert_eq!(
                    like.start_like(now, Bytes(bytes), &mut last),
                    plain.start(now, Bytes(bytes), Nanos::ZERO)
                );
                prop_assert_eq!(like.remainder, plain.remainder);
            }
        }

        /// Times do not depend on the driver's time 0, for any packets, rates and bursts.
        #[test]
        fn a_link_behaves_at_time_zero_as_an_hour_later(
            rate in 1_000u64..1_000_000_000,
            burst in 0u64..5_000,
            steps in proptest::collection::vec((0u64..3_000_000, 0u8..8, 1u64..5_000), 1..60),
        ) {
            let later = Nanos::from_secs(3600);
            let mut links = [Nanos::ZERO, later]
                .map(|now| Serializer::new(now, constant(rate), Bytes(burst)));
            let mut now = Nanos::ZERO;
            let mut busy_until = Nanos::ZERO;
            for (gap, kind, value) in steps {
                now += Nanos(gap);
                let busy = now < busy_until;
                let mut ends = [Nanos::ZERO, later].into_iter().zip(&mut links).map(|(zero, link)| {
                    let end = match kind {
                        0 => link.set_capacity(now + zero, &constant(value * 1_000), busy),
                        1 => { link.set_burst(Bytes(value)); None }
                        _ if busy => None,
                        _ => Some(link.start(now + zero, Bytes(value), Nanos::ZERO)),
                    };
                    end.map(|end| end.since(zero))
                });
                let (early, late) = (ends.next().unwrap(), ends.next().unwrap());
                prop_assert_eq!(early, late);
                busy_until = early.unwrap_or(busy_until);
            }
        }

        #[test]
        fn a_trace_is_never_exceeded(
            gaps in proptest::collection::vec(0u64..20, 2..30),
            sizes in proptest::collection::vec(40u64..4000, 1..100),
        ) {
            let mut t = 1;
            let times: vec::Vec<Nanos> = gaps
                .iter()
                .map(|g| {
                    t += g;
                    Nanos::from_millis(t)
                })
                .collect();
            let trace = Arc::new(Trace::new(times).unwrap());
            let mut s = Serializer::new(Nanos::ZERO, Capacity::Trace(trace.clone()), Bytes(0));
            let (mut now, mut sent) = (Nanos::ZERO, 0);
            for &size in &sizes {
                let done = s.start(now, Bytes(size), Nanos::ZERO);
                prop_assert!(done >= now);
                now = done;
                sent += size;
                prop_assert!(sent <= trace_bytes(&trace, now), "{} at {:?}", sent, now);
            }
        }
    }
}
