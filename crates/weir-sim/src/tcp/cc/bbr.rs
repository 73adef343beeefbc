//! `BBR` version 1: sends at the path's delivery rate and keeps as many bytes in flight as the path
//! holds without a queue.
//!
//! # Model
//! Two measurements describe the path: the largest delivery rate of the last rounds, and the
//! smallest round-trip time of the last seconds. Their product is the number of bytes that the path
//! holds without a queue. The two cannot be measured at the same time, so the sender probes for
//! them in turn. It sends at 5/4 of the rate for a round trip, and then at 3/4 of the rate to drain
//! the queue that this caused. If for ten seconds no sample is as small as the smallest round-trip
//! time, the sender keeps only four segments in flight for 200 ms. Losses do not count as
//! congestion.
//!
//! ```text
//! STARTUP ── rate grows no more for 3 rounds ──► DRAIN ── in flight ≤ BDP ──► PROBE_BW
//!    any ── no round-trip time as low for 10 s ──► PROBE_RTT ── 200 ms and a round ──► PROBE_BW, or STARTUP
//! ```
//!
//! # Equations
//! ```text
//! pacing    = pacing_gain · BtlBw
//! window    = cwnd_gain · BtlBw · RTprop + 3 send quanta,  at least 4 mss
//! gains     STARTUP 2.885, 2.885   DRAIN 1/2.885, 2.885   PROBE_BW (5/4, 3/4, 1, 1, 1, 1, 1, 1), 2   PROBE_RTT 1, window 4 mss
//! ```
//!
//! # Reference
//! draft-cardwell-iccrg-bbr-congestion-control-00; Cardwell et al., "BBR: Congestion-Based
//! Congestion Control", ACM Queue 14(5), 2016.
//!
//! # Parameters
//! `window` 1..60 s, default 10s: how long the smallest round-trip time is valid. `probe_rtt`
//! 10ms..1s, default 200ms: how long the sender probes for it. `rounds` 2..64, default 10: for how
//! many rounds a measured delivery rate is valid.
//!
//! # Complexity
//! O(1) for each acknowledgement, O(`rounds`) for each round.
//!
//! # Differences from Linux/FreeBSD
//! BBR here follows the draft, not Linux: the rate is not lowered by one per cent, the maximum over
//! rounds is exact where Linux keeps three samples, and there is no detection of policers and no
//! allowance for aggregated acknowledgements. Marks are ignored, as in Linux. The first pacing rate
//! follows from the first round-trip time, as in Linux.
//!
//! # Validation
//! In this file's tests: the sequence of states and the estimates on a path of fixed rate, the
//! cycle of gains, a change of rate, and recovery. In `tests/it/controls.rs`: a fully used link
//! with a queue below 1.5 BDP.

use weir_core::Nanos;
use weir_core::rng::Stream;
use weir_core::settings;
use weir_core::settings::{Count, Time};

use super::{Choice, Control, Feedback, Path, Row, Sample, Setup, Signal, Traits};

/// `BBR` for one connection.
#[derive(Debug)]
pub struct Bbr {
    mode: Mode,
    window: u64,
    initial: u64,
    /// The pacing rate in bits/s.
    rate: u64,
    /// Whether the rate is based on a measured round-trip time.
    has_rtt: bool,
    bandwidth: Highest,
    /// The smallest round-trip time, the time of its measurement, and whether it has expired.
    rt_prop: Nanos,
    rt_prop_stamp: Nanos,
    rt_prop_expired: bool,
    rt_window: Nanos,
    probe_rtt: Nanos,
    /// When the probe for the smallest round-trip time ends.
    probe_done: Option<Nanos>,
    /// Whether a round has ended during this probe.
    probe_round_done: bool,
    /// The round ends when a segment is acknowledged that was sent after the delivery of this many
    /// bytes.
    next_round: u64,
    /// Whether the present acknowledgement begins a round.
    round_start: bool,
    /// The delivery rate with which the next rounds of STARTUP are compared, and the number of
    /// rounds that did not exceed this rate by a quarter.
    full_bandwidth: u64,
    full_rounds: u8,
    /// Whether the path is full, so that STARTUP has ended.
    filled: bool,
    /// Index in [`CYCLE`], and the time at which this phase began.
    phase: usize,
    phase_stamp: Nanos,
    /// The window before a recovery or a probe, which is restored afterwards.
    prior_window: u64,
    recovering: bool,
    /// Whether this is the first round of a recovery, in which the sender sends one byte for each
    /// byte delivered.
    conserving: bool,
    /// Whether the sender has just resumed after a pause. A pause is no reason to probe for the
    /// smallest round-trip time.
    restarting: bool,
    stream: Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

settings! {
    /// Settings of BBR.
    struct Settings {
        window: Nanos = Time::new(
            1_000_000_000,
            60_000_000_000,
            10_000_000_000,
            "how long the smallest round-trip time is valid",
        ),
        probe_rtt: Nanos = Time::new(
            10_000_000,
            1_000_000_000,
            200_000_000,
            "how long the sender probes for the smallest round-trip time",
        ),
        rounds: u32 = Count::new(2, 64, "rounds", 10, "how long the delivery rate is valid"),
    }
}

impl Bbr {
    /// A control at its initial window.
    pub fn new(choice: &Choice, setup: &Setup) -> Self {
        let settings = Settings::of(choice);
        Self {
            mode: Mode::Startup,
            window: setup.initial_window,
            initial: setup.initial_window,
            rate: gained(rate_of(setup.initial_window, Nanos::from_millis(1)), HIGH_GAIN),
            has_rtt: false,
            bandwidth: Highest::new(settings.rounds as usize),
            rt_prop: Nanos::MAX,
            rt_prop_stamp: Nanos::ZERO,
            rt_prop_expired: false,
            rt_window: settings.window,
            probe_rtt: settings.probe_rtt,
            probe_done: None,
            probe_round_done: false,
            next_round: 0,
            round_start: false,
            full_bandwidth: 0,
            full_rounds: 0,
            filled: false,
            phase: 0,
            phase_stamp: Nanos::ZERO,
            prior_window: 0,
            recovering: false,
            conserving: false,
            restarting: false,
            stream: setup.stream.clone(),
        }
    }

    /// The gains of pacing and window, in thousandths.
    fn gains(&self) -> (u64, u64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.phase], WINDOW_GAIN),
            Mode::ProbeRtt => (1000, 1000),
        }
    }

    /// The number of bytes that the path holds, times `gain`, plus an allowance for hosts that send
    /// and acknowledge in groups.
    fn in_path(&self, gain: u64, mss: u64) -> u64 {
        if self.rt_prop == Nanos::MAX {
            return self.initial;
        }
        let product =
            u128::from(self.bandwidth.value()) * u128::from(self.rt_prop.0) / 8_000_000_000;
        gained(u64::try_from(product).unwrap_or(u64::MAX), gain)
            .saturating_add(3 * self.quantum(mss))
    }

    /// The number of bytes that the sender sends in one group at its pacing rate.
    fn quantum(&self, mss: u64) -> u64 {
        match self.rate {
            ..1_200_000 => mss,
            1_200_000..24_000_000 => 2 * mss,
            rate => (rate / 8000).min(65_536),
        }
    }

    fn measure_rate(&mut self, path: &Path, sample: &Sample) {
        self.round_start = sample.prior_delivered >= self.next_round;
        if self.round_start {
            self.next_round = path.delivered;
            self.bandwidth.next_round();
        }
        if let Some(rate) = sample.rate()
            && (rate >= self.bandwidth.value() || !sample.app_limited)
        {
            self.bandwidth.note(rate);
        }
    }

    /// Begins the next phase of PROBE_BW if the present one is over.
    fn cycle(&mut self, path: &Path, sample: &Sample) {
        if self.mode != Mode::ProbeBandwidth {
            return;
        }
        let mss = path.mss.into();
        let lasted = path.now.since(self.phase_stamp) > self.rt_prop;
        let over = match CYCLE[self.phase] {
            gain @ 1001.. => {
                lasted && (sample.lost > 0 || sample.prior_in_flight >= self.in_path(gain, mss))
            }
            1000 => lasted,
            _ => lasted || sample.prior_in_flight <= self.in_path(1000, mss),
        };
        if over {
            self.next_phase(path.now);
        }
    }

    fn next_phase(&mut self, now: Nanos) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_stamp = now;
    }

    fn enter_probe_bandwidth(&mut self, now: Nanos) {
        self.mode = Mode::ProbeBandwidth;
        // Any phase except the one that sends below the measured rate.
        self.phase = CYCLE.len() - 1 - self.stream.below(CYCLE.len() as u32 - 1) as usize;
        self.next_phase(now);
    }

    /// Determines whether the path is full: for three rounds, the rate has not grown by a quarter.
    fn check_full(&mut self, sample: &Sample) {
        if self.filled || !self.round_start || sample.app_limited {
            return;
        }
        if self.bandwidth.value() >= self.full_bandwidth.saturating_mul(5) / 4 {
            self.full_bandwidth = self.bandwidth.value();
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.filled = self.full_rounds >= 3;
    }

    fn check_drain(&mut self, path: &Path) {
        if self.mode == Mode::Startup && self.filled {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && path.in_flight <= self.in_path(1000, path.mss.into()) {
            self.enter_probe_bandwidth(path.now);
        }
    }

    fn measure_rtt(&mut self, path: &Path, sample: &Sample) {
        self.rt_prop_expired = path.now > self.rt_prop_stamp.saturating_add(self.rt_window);
        if let Some(rtt) = sample.rtt
            && (rtt <= self.rt_prop || self.rt_prop_expired)
        {
            self.rt_prop = rtt;
            self.rt_prop_stamp = path.now;
        }
        if !self.has_rtt && path.srtt > Nanos::ZERO {
            self.has_rtt = true;
            self.rate = gained(rate_of(self.initial, path.srtt), HIGH_GAIN);
        }
    }

    fn check_probe_rtt(&mut self, path: &Path) {
        if self.mode != Mode::ProbeRtt && self.rt_prop_expired && !self.restarting {
            self.save_window();
            self.mode = Mode::ProbeRtt;
            self.probe_done = None;
        }
        if self.mode == Mode::ProbeRtt {
            match self.probe_done {
                None if path.in_flight <= LEAST * u64::from(path.mss) => {
                    self.probe_done = Some(path.now.saturating_add(self.probe_rtt));
                    self.probe_round_done = false;
                    self.next_round = path.delivered;
                }
                Some(done) => {
                    self.probe_round_done |= self.round_start;
                    if self.probe_round_done && path.now > done {
                        self.rt_prop_stamp = path.now;
                        self.restore_window();
                        if self.filled {
                            self.enter_probe_bandwidth(path.now);
                        } else {
                            self.mode = Mode::Startup;
                        }
                    }
                }
                None => {}
            }
        }
        self.restarting = false;
    }

    fn set_rate(&mut self) {
        let rate = gained(self.bandwidth.value(), self.gains().0);
        if rate > 0 && (self.filled || rate > self.rate) {
            self.rate = rate;
        }
    }

    fn set_window(&mut self, path: &Path, sample: &Sample) {
        let mss = u64::from(path.mss);
        if sample.lost > 0 && self.recovering {
            self.window = self.window.saturating_sub(sample.lost).max(mss);
        }
        if self.conserving {
            self.window = self.window.max(path.in_flight + sample.acked);
        } else {
            let target = self.in_path(self.gains().1, mss);
            if self.filled {
                self.window = (self.window + sample.acked).min(target);
            } else if self.window < target || path.delivered < self.initial {
                self.window += sample.acked;
            }
            self.window = self.window.max(LEAST * mss);
        }
        if self.mode == Mode::ProbeRtt {
            self.window = self.window.min(LEAST * mss);
        }
    }

    fn save_window(&mut self) {
        let is_reduced = self.recovering || self.mode == Mode::ProbeRtt;
        self.prior_window =
            if is_reduced { self.prior_window.max(self.window) } else { self.window };
    }

    fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }
}

impl Control for Bbr {
    fn acked(&mut self, path: &Path, sample: &Sample) {
        self.measure_rate(path, sample);
        if self.round_start {
            self.conserving = false;
        }
        self.cycle(path, sample);
        self.check_full(sample);
        self.check_drain(path);
        self.measure_rtt(path, sample);
        self.check_probe_rtt(path);
        self.set_rate();
        self.set_window(path, sample);
    }

    fn reduce(&mut self, path: &Path, signal: Signal) {
        if signal == Signal::Marks {
            return;
        }
        self.save_window();
        self.recovering = true;
        self.conserving = true;
        self.window = path.in_flight + u64::from(path.mss);
        self.next_round = path.delivered;
    }

    fn recovered(&mut self, _path: &Path) {
        if std::mem::take(&mut self.recovering) {
            self.conserving = false;
            self.restore_window();
        }
    }

    fn timeout(&mut self, path: &Path, first: bool) {
        if first {
            self.save_window();
        }
        self.recovering = true;
        self.conserving = false;
        self.window = path.mss.into();
    }

    fn undo(&mut self, path: &Path) {
        self.recovered(path);
    }

    fn resume(&mut self, _path: &Path, _idle: Nanos, _timeout: Nanos) {
        self.restarting = true;
        if self.mode == Mode::ProbeBandwidth && self.bandwidth.value() > 0 {
            self.rate = self.bandwidth.value();
        }
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn threshold(&self) -> u64 {
        u64::MAX
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.rate)
    }

    fn owns_window(&self, _signal: Signal) -> bool {
        true
    }

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        let rt_prop = if self.rt_prop == Nanos::MAX { 0 } else { self.rt_prop.0 };
        vec![
            ("state", self.mode as u64),
            ("bandwidth_bps", self.bandwidth.value()),
            ("rt_prop_ns", rt_prop),
        ]
    }
}

/// The largest value of the last rounds.
#[derive(Clone, Debug)]
struct Highest {
    /// The largest value of each round. The current round is at `index`.
    rounds: Vec<u64>,
    index: usize,
    highest: u64,
}

impl Highest {
    fn new(rounds: usize) -> Self {
        Self { rounds: vec![0; rounds.max(1)], index: 0, highest: 0 }
    }

    fn next_round(&mut self) {
        self.index = (self.index + 1) % self.rounds.len();
        self.rounds[self.index] = 0;
        self.highest = self.rounds.iter().copied().max().unwrap_or(0);
    }

    fn note(&mut self, value: u64) {
        self.rounds[self.index] = self.rounds[self.index].max(value);
        self.highest = self.highest.max(value);
    }

    fn value(&self) -> u64 {
        self.highest
    }
}

/// The rate in bits/s at which `bytes` are delivered in `time`.
fn rate_of(bytes: u64, time: Nanos) -> u64 {
    u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(time.0.max(1))).unwrap_or(u64::MAX)
}

/// `value` times a gain in thousandths.
fn gained(value: u64, gain: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(gain) / 1000).unwrap_or(u64::MAX)
}

/// 2 / ln 2, in thousandths: the smallest gain that doubles the rate in each round.
const HIGH_GAIN: u64 = 2885;
/// The gain, in thousandths, that drains in one round the queue that STARTUP builds in one round.
const DRAIN_GAIN: u64 = 347;
/// The gain of the window in PROBE_BW, in thousandths.
const WINDOW_GAIN: u64 = 2000;
/// The gain of pacing in each phase of PROBE_BW, in thousandths.
const CYCLE: [u64; 8] = [1250, 750, 1000, 1000, 1000, 1000, 1000, 1000];
/// Segments in flight that suffice to keep acknowledgements arriving.
const LEAST: u64 = 4;

pub(super) const ROW: Row = Row {
    name: "bbr",
    aliases: &["bbr1"],
    summary: "sends at the measured delivery rate with one window of the path in flight",
    source: "draft-cardwell-iccrg-bbr-congestion-control-00",
    parameters: Settings::PARAMETERS,
    traits: Traits { feedback: Feedback::Classic, ecn: false, paces: true },
};

#[cfg(test)]
mod tests;
