//! `LEDBAT`: uses the capacity that other flows leave, with a small standing queue.
//!
//! # Model
//! The queueing delay is the one-way delay of the data minus the smallest one-way delay of the last
//! minutes. The window grows while the queueing delay is below a target and shrinks while it is
//! above, in proportion to the difference. LEDBAT therefore yields to traffic that fills queues
//! beyond the target, such as a transfer with loss-based control.
//!
//! # Equations
//! With `d` the smallest of the last delays, `b` the smallest delay of the last minutes, `a`
//! acknowledged bytes, `w` the window:
//!
//! ```text
//! off   = (target - (d - b)) / target
//! w    += gain · off · a · mss / w,  within 2 mss .. data in flight + mss
//! loss: w = w / 2, once in a round trip;  timeout: w = mss
//! ```
//!
//! # Reference
//! RFC 6817.
//!
//! # Parameters
//! `target` 1..100 ms, default 100ms: the queueing delay to hold, at most 100 ms in the RFC. `gain`
//! 1/64..1, default 1: growth in segments per window at an empty queue. `history` 1..60, default
//! 10: minutes for which the smallest delay is remembered. `filter` 1..16, default 4: number of
//! latest delays of which the smallest is used.
//!
//! # Complexity
//! O(history) for each acknowledgement.
//!
//! # Differences from Linux/FreeBSD
//! Neither Linux nor FreeBSD has LEDBAT. There is no slow start, and the initial window is two
//! segments. A flow that begins while other flows have a standing queue takes their delay as its
//! base until the queue has been empty once. This is the latecomer's advantage of the RFC's design.
//!
//! # Validation
//! In this file's tests: growth and decline against the equations, the histories, and a flow that
//! keeps its queue at the target. In `tests/it/controls.rs`: LEDBAT yields to CUBIC.

use std::collections::VecDeque;

use weir_core::Nanos;
use weir_core::settings;
use weir_core::settings::{Count, Fraction, Part, Time, UNIT};

use super::{Choice, Control, Feedback, Path, Row, Sample, Setup, Signal, Traits};

/// `LEDBAT` for one connection.
#[derive(Debug)]
pub struct Ledbat {
    window: u64,
    /// The fraction of a byte by which the window has changed, in 2^-16.
    carry: i64,
    target: u64,
    gain: u64,
    /// The smallest delay of each of the last minutes, the latest minute last.
    base: VecDeque<u64>,
    history: usize,
    /// The number of the latest minute in `base`.
    minute: u64,
    /// The latest delays.
    current: VecDeque<u64>,
    filter: usize,
    /// The window before the last reduction.
    before: u64,
}

settings! {
    /// Settings of LEDBAT.
    struct Settings {
        target: Nanos =
            Time::new(1_000_000, 100_000_000, 100_000_000, "queueing delay to aim at"),
        gain: Fraction = Part::new(
            UNIT / 64,
            UNIT,
            UNIT,
            "segments that a window grows by at an empty queue",
        ),
        history: u32 =
            Count::new(1, 60, "minutes", 10, "for how long the smallest delay is remembered"),
        filter: u32 = Count::new(1, 16, "samples", 4, "latest delays of which the smallest is \
                                                       used"),
    }
}

impl Ledbat {
    /// A control at its initial window.
    pub fn new(choice: &Choice, setup: &Setup) -> Self {
        let settings = Settings::of(choice);
        let (history, filter) = (settings.history as usize, settings.filter as usize);
        let window = setup.initial_window.min(LEAST * u64::from(setup.mss));
        Self {
            window,
            carry: 0,
            target: settings.target.0,
            gain: settings.gain.0,
            base: VecDeque::with_capacity(history),
            history,
            minute: 0,
            current: VecDeque::with_capacity(filter),
            filter,
            before: window,
        }
    }

    /// Adds a delay to both histories.
    fn note(&mut self, now: Nanos, delay: u64) {
        let minute = now.0 / MINUTE;
        match self.base.back_mut() {
            Some(least) if minute == self.minute => *least = delay.min(*least),
            _ => {
                if self.base.len() == self.history {
                    self.base.pop_front();
                }
                self.base.push_back(delay);
                self.minute = minute;
            }
        }
        if self.current.len() == self.filter {
            self.current.pop_front();
        }
        self.current.push_back(delay);
    }

    /// Queueing delay, ns; `None` before the first sample.
    fn queueing(&self) -> Option<u64> {
        let current = self.current.iter().min()?;
        Some(current.saturating_sub(*self.base.iter().min()?))
    }
}

impl Control for Ledbat {
    fn acked(&mut self, path: &Path, sample: &Sample) {
        if let Some(delay) = sample.one_way {
            self.note(path.now, delay.0);
        }
        let Some(queueing) = self.queueing() else { return };
        if sample.reducing {
            return;
        }
        let mss = u64::from(path.mss);
        let off = i128::from(self.target) - i128::from(queueing);
        let above =
            (i128::from(self.gain) * off * i128::from(sample.acked) * i128::from(mss)) << 16;
        let below = i128::from(self.target) * i128::from(self.window) * i128::from(UNIT);
        let change = i128::from(self.carry) + above / below;
        self.carry = (change & 0xffff) as i64;
        let wanted = (i128::from(self.window) + (change >> 16)).max(0);
        let most = sample.prior_in_flight.saturating_add(mss).max(LEAST * mss);
        self.window = u64::try_from(wanted).unwrap_or(u64::MAX).clamp(LEAST * mss, most);
    }

    fn reduce(&mut self, path: &Path, _signal: Signal) {
        self.before = self.window;
        self.window = (self.window / 2).max(LEAST * u64::from(path.mss));
    }

    fn timeout(&mut self, path: &Path, first: bool) {
        if first {
            self.before = self.window;
        }
        self.window = path.mss.into();
    }

    fn undo(&mut self, _path: &Path) {
        self.window = self.window.max(self.before);
    }

    fn window(&self) -> u64 {
        self.window
    }

    /// LEDBAT has no slow start.
    fn threshold(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        vec![("queueing_ns", self.queueing().unwrap_or(0))]
    }
}

const MINUTE: u64 = 60_000_000_000;
/// Segments of the initial window, and of the smallest window except after a timeout.
const LEAST: u64 = 2;

pub(super) const ROW: Row = Row {
    name: "ledbat",
    aliases: &[],
    summary: "uses what others leave, with a small queue of its own",
    source: "RFC 6817",
    parameters: Settings::PARAMETERS,
    traits: Traits { feedback: Feedback::Classic, ecn: false, paces: false },
};

#[cfg(test)]
mod tests {
    use super::super::model::{Model, setup};
    use super::super::{AnyControl, Kind};
    use super::*;

    const MSS: u64 = 1000;

    fn fresh() -> Ledbat {
        Ledbat::new(&Choice::new(Kind::Ledbat), &setup(MSS))
    }

    /// Acknowledges a window of segments that had a delay of `delay` ms.
    fn window_of(control: &mut Ledbat, delay: u64) {
        let path = Path { mss: MSS as u32, ..Path::default() };
        for _ in 0..control.window() / MSS {
            let sample = Sample {
                acked: MSS,
                one_way: Some(Nanos::from_millis(delay)),
                prior_in_flight: 1_000_000,
                window_limited: true,
                ..Sample::default()
            };
            control.acked(&path, &sample);
        }
    }

    #[test]
    fn a_window_grows_and_declines_with_the_distance_from_the_target() {
        let mut control = fresh();
        assert_eq!(control.window(), 2 * MSS);
        window_of(&mut control, 30);
        control.window = 100 * MSS;
        // The base is 30 ms. Each window changes by a segment times the unused part of the target.
        for (delay, change) in [(30, 1000), (80, 500), (130, 0), (180, -500), (230, -1000)] {
            let before = control.window();
            for _ in 0..control.filter {
                control.note(Nanos::ZERO, delay * 1_000_000);
            }
            window_of(&mut control, delay);
            let moved = control.window() as i64 - before as i64;
            assert!((moved - change).abs() <= 12, "{delay} ms: {moved} bytes");
        }
    }

    #[test]
    fn an_unused_window_does_not_grow_and_a_loss_halves_it() {
        let mut control = fresh();
        control.window = 20 * MSS;
        let path = Path { mss: MSS as u32, ..Path::default() };
        let sample = Sample {
            acked: MSS,
            one_way: Some(Nanos(1)),
            prior_in_flight: 5 * MSS,
            ..Sample::default()
        };
        control.acked(&path, &sample);
        assert_eq!(control.window(), 6 * MSS);
        control.reduce(&path, Signal::Loss);
        assert_eq!(control.window(), 3 * MSS);
        control.undo(&path);
        assert_eq!(control.window(), 6 * MSS);
    }

    #[test]
    fn the_base_is_forgotten_after_ten_minutes_and_one_late_packet_is_no_queue() {
        let mut control = fresh();
        let at = |minute: u64| Nanos(minute * MINUTE);
        control.note(at(0), 10);
        for _ in 0..3 {
            control.note(at(0), 50);
        }
        assert_eq!(control.queueing(), Some(0), "the smallest of the last four delays is used");
        control.note(at(0), 50);
        assert_eq!(control.queueing(), Some(40));
        for minute in 1..10 {
            control.note(at(minute), 50);
            assert_eq!(control.queueing(), Some(40), "minute {minute}");
        }
        control.note(at(10), 50);
        assert_eq!(control.queueing(), Some(0));
    }

    #[test]
    fn the_queue_stays_at_the_target() {
        let mut model = Model::new(
            AnyControl::new(&Choice::new(Kind::Ledbat), &setup(MSS)),
            10_000_000,
            Nanos::from_millis(40),
        );
        // The distance from the target shrinks with a time constant of 125 round trips of about 100
        // ms.
        model.run(Nanos::from_secs(100));
        model.forget();
        let mut least = u64::MAX;
        model.run_with(Nanos::from_secs(130), |model| {
            least = least.min(model.control.metrics()[0].1);
        });
        assert!(model.utilisation() > 0.999, "{}", model.utilisation());
        // 100 ms at 10 Mbit/s are 125 segments.
        let longest = model.longest_queue();
        assert!((120_000..130_000).contains(&longest), "the queue reaches {longest} bytes");
        assert!(least > 95_000_000, "the queue falls to {least} ns");
    }
}
