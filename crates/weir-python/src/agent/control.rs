//! The agent as a congestion control: the action is the congestion window in bytes.

use weir_core::Nanos;
use weir_core::settings::{self, Row};
use weir_sim::tcp::cc::{
    Choice, Control, External, ExternalFactory, Feedback, Path, Sample, Setup, Signal, Traits,
};

use super::state::{OfControl, Shared, current, lock, row};

pub(super) struct Factory;

static ROW: Row<Traits> = row(Traits { feedback: Feedback::Accurate, ecn: false, paces: true });

impl settings::Factory for Factory {
    type Traits = Traits;

    fn row(&self) -> &'static Row<Traits> {
        &ROW
    }
}

impl ExternalFactory for Factory {
    fn make(&self, _choice: &Choice, setup: &Setup) -> Box<dyn External> {
        let mss = setup.mss.into();
        Box::new(AgentControl { agent: current(), mss, window: setup.initial_window })
    }
}

#[derive(Debug)]
struct AgentControl {
    agent: Shared,
    mss: u64,
    window: u64,
}

impl AgentControl {
    /// Sets the window by the agent's action, then lets `see` change the agent's sums.
    fn update(&mut self, path: &Path, see: impl FnOnce(&mut OfControl)) {
        let mut agent = lock(&self.agent);
        if let Some(&window) = agent.action.first() {
            self.window = (window as u64).clamp(2 * self.mss, 1 << 40);
        }
        let seen = &mut agent.control;
        (seen.in_flight, seen.window) = (path.in_flight, self.window);
        if path.min_rtt != Nanos::MAX {
            seen.min_rtt = path.min_rtt.0;
        }
        see(seen);
    }
}

impl Control for AgentControl {
    fn acked(&mut self, path: &Path, sample: &Sample) {
        self.update(path, |seen| {
            seen.acked += sample.acked;
            seen.lost += sample.lost;
            if let Some(rtt) = sample.rtt {
                seen.rtt_sum += rtt.0;
                seen.rtts += 1;
            }
        });
    }

    fn reduce(&mut self, path: &Path, _signal: Signal) {
        self.update(path, |_| {});
    }

    fn timeout(&mut self, path: &Path, _first: bool) {
        self.update(path, |seen| seen.timeouts += 1);
    }

    fn undo(&mut self, path: &Path) {
        self.update(path, |_| {});
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn threshold(&self) -> u64 {
        self.window
    }

    // The agent alone decides about the window.
    fn owns_window(&self, _signal: Signal) -> bool {
        true
    }
}
