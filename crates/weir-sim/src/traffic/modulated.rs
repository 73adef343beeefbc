//! Sources with a rate that depends on a state: on-off sources, Markov chains, talk spurts.
//!
//! # Model
//! The source is a chain of states, each with a rate, a random holding time, and the weights of the
//! states that may follow. A packet needs *credit* for its bits. Credit accumulates at the state's
//! rate and is kept when the state changes. The mean rate is therefore the mean of the states'
//! rates weighted by time, even if periods are shorter than the intervals between packets. For
//! exponential intervals, the credit of a packet is drawn, with the packet's bits as the mean.
//! Within a state this gives a Poisson process, over all states a Markov-modulated one.

use weir_core::Nanos;

use crate::random::{Draws, Variable, nanos};

use super::source::Process;

/// A state.
#[derive(Clone, Debug)]
pub struct State {
    /// Rate in network-layer bits per second; 0 for a silent state.
    pub bps: f64,
    /// Holding time, ns.
    pub hold: Variable,
    /// The weight of each state as the next one.
    pub next: Vec<f64>,
}

/// Packets of one size at the rate of the present state.
#[derive(Clone, Debug)]
pub struct Modulated {
    states: Vec<State>,
    len: u32,
    /// Whether the intervals within a state are exponentially distributed.
    exponential: bool,
    first: First,
    state: usize,
    /// Remaining time in the state, ns.
    remaining: f64,
    /// Fraction of a nanosecond carried from earlier packets.
    carry: f64,
}

/// The state in which the source starts.
#[derive(Clone, Debug)]
pub enum First {
    /// The first state.
    Zero,
    /// A random state, drawn with these weights.
    Drawn(Vec<f64>),
    /// No state: the source has already started.
    Begun,
}

impl Modulated {
    /// Packets of `len` network-layer bytes.
    pub fn new(states: Vec<State>, len: u32, exponential: bool, first: First) -> Self {
        Self { states, len, exponential, first, state: 0, remaining: 0.0, carry: 0.0 }
    }

    /// A source with a rate while on, and no packets while off. The first state is drawn with the
    /// shares of time as probabilities.
    pub fn on_off(len: u32, bps: f64, on: Variable, off: Variable) -> Self {
        let shares = [&on, &off].map(|period| period.mean().unwrap_or(1.0));
        let states = vec![
            State { bps, hold: on, next: vec![0.0, 1.0] },
            State { bps: 0.0, hold: off, next: vec![1.0, 0.0] },
        ];
        Self::new(states, len, false, First::Drawn(shares.to_vec()))
    }

    fn begin(&mut self, draws: &mut Draws) {
        match std::mem::replace(&mut self.first, First::Begun) {
            First::Begun => return,
            First::Zero => self.state = 0,
            First::Drawn(shares) => self.state = draws.weighted(&shares),
        }
        self.remaining = self.states[self.state].hold.draw(draws);
    }
}

impl Process for Modulated {
    fn next(&mut self, draws: &mut Draws) -> Option<(Nanos, u32)> {
        self.begin(draws);
        let bits = f64::from(self.len) * 8e9;
        let mut need = if self.exponential { draws.exponential(bits) } else { bits };
        let mut gap = self.carry;
        for changes in 0.. {
            let State { bps, next, .. } = &self.states[self.state];
            let credit = self.remaining * bps;
            if credit >= need && *bps > 0.0 {
                let span = need / bps;
                self.remaining -= span;
                gap += span;
                break;
            }
            need -= credit;
            gap += self.remaining;
            if gap > LONGEST || changes > MAX_CHANGES {
                return None;
            }
            self.state = draws.weighted(next);
            self.remaining = self.states[self.state].hold.draw(draws);
        }
        let whole = nanos(gap);
        self.carry = gap - whole.0 as f64;
        Some((whole, self.len))
    }
}

/// The length of the silence that ends the source, ns: the longest duration of a scenario.
const LONGEST: f64 = 366.0 * 86_400e9;
/// The source ends after this number of state changes without enough credit for a packet.
const MAX_CHANGES: u32 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures bits per second over `packets` packets, and the share of time in gaps longer than
    /// `long`.
    fn measure(mut process: Modulated, packets: u32, long: u64) -> (f64, f64) {
        let mut draws = Draws::new(4, 8, 1);
        let (mut time, mut silent) = (0u64, 0u64);
        for _ in 0..packets {
            let (gap, _) = process.next(&mut draws).unwrap();
            time += gap.0;
            silent += if gap.0 > long { gap.0 } else { 0 };
        }
        (
            f64::from(packets) * f64::from(process.len) * 8e9 / time as f64,
            silent as f64 / time as f64,
        )
    }

    #[test]
    fn on_and_off_share_the_time_by_their_means() {
        let on = Variable::Exponential { mean: 500e6 };
        let off = Variable::Exponential { mean: 1500e6 };
        // While on, packets are 8 ms apart. A cycle of 2 s has 62.5 packets, and there are 16,000
        // cycles.
        let (bits, silent) = measure(Modulated::on_off(1000, 1e6, on, off), 1_000_000, 8_000_001);
        assert!((bits / 250e3 - 1.0).abs() < 0.04, "{bits}");
        // A gap that contains a silence also contains 8 ms of a sending period. The mean sending
        // period is 500 ms long.
        assert!((silent - 0.75).abs() < 0.02, "{silent}");
    }

    #[test]
    fn pareto_periods_keep_the_mean_rate() {
        let period = |mean| Variable::pareto_of_mean(1.9, mean).unwrap();
        let (bits, _) =
            measure(Modulated::on_off(1000, 8e6, period(100e6), period(100e6)), 3_000_000, 0);
        assert!((bits / 4e6 - 1.0).abs() < 0.05, "{bits}");
    }

    #[test]
    fn constant_periods_are_exact() {
        let process = Modulated::on_off(1000, 1e6, Variable::Fixed(20e6), Variable::Fixed(30e6));
        // The source sends during 20 ms of every 50 ms. These 20 ms suffice for 2.5 packets, so 100
        // ms contain five packets.
        let (bits, _) = measure(process, 1_000_000, 0);
        assert!((bits / 400e3 - 1.0).abs() < 1e-5, "{bits}");
    }

    #[test]
    fn a_chain_of_three_states_has_its_stationary_rate() {
        let hold = |mean| Variable::Exponential { mean };
        let states = |bps: [f64; 3]| {
            vec![
                State { bps: bps[0], hold: hold(10e6), next: vec![0.0, 0.5, 0.5] },
                State { bps: bps[1], hold: hold(20e6), next: vec![1.0, 0.0, 0.0] },
                State { bps: bps[2], hold: hold(40e6), next: vec![0.5, 0.5, 0.0] },
            ]
        };
        // The chain visits the states in the ratio 4 : 3 : 2, so the ratio of their times is 40 :
        // 60 : 80.
        let expected = (40.0 * 1e6 + 80.0 * 4e6) / 180.0;
        for exponential in [false, true] {
            let (bits, _) = measure(
                Modulated::new(states([1e6, 0.0, 4e6]), 500, exponential, First::Zero),
                1_000_000,
                0,
            );
            assert!((bits / expected - 1.0).abs() < 0.02, "{bits} {expected}");
        }
    }

    #[test]
    fn a_chain_that_falls_silent_for_good_ends() {
        let silent = State { bps: 0.0, hold: Variable::Fixed(1e15), next: vec![0.0, 1.0] };
        let states =
            vec![State { bps: 8e6, hold: Variable::Fixed(1.5e6), next: vec![0.0, 1.0] }, silent];
        let mut process = Modulated::new(states, 1000, false, First::Zero);
        let mut draws = Draws::new(1, 1, 1);
        assert_eq!(process.next(&mut draws), Some((Nanos(1_000_000), 1000)));
        assert_eq!(process.next(&mut draws), None);
    }
}
