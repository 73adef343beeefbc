//! Scenarios on real frames: what `weir live` does, without a command line.
//!
//! Each host of the scenario's traffic is a network namespace. Between them is one session, in which
//! every direction of every link is a pipe or scheduler, configured as the simulator configures it.
//! Packets are sent by generators on the hosts ([`weir_traffic::host`]), by the kernel's TCP, or by
//! programs. The results are those of the simulator.
//!
//! [`check`] refuses what only the simulator has; [`LiveScenario::build`] sets the hosts up, and
//! [`LiveScenario::run`] makes the run.

mod agents;
mod check;
mod error;
mod flows;
mod gather;
mod kinds;
mod plan;
mod run;
mod sampler;
mod watch;

pub use check::check;
pub use error::{Gone, ScenarioError, TrafficError};
pub use run::{LiveScenario, Ran, ScenarioResults, ScenarioSetup};
