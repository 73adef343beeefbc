//! Scenarios on real frames: `weir live` without a command line.
//!
//! Each host that has traffic is a network namespace; in a lab, all hosts are. One session connects
//! the hosts. In it, every direction of every link is a pipe or scheduler, configured as the
//! simulator configures it. The packets come from generators on the hosts
//! ([`weir_traffic::host`]), from the kernel's TCP, or from programs. The results have the form of
//! the simulator's results.
//!
//! [`check`] refuses what only the simulator supports, [`LiveScenario::build`] sets up the hosts,
//! and [`LiveScenario::run`] executes the run.

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

pub use check::{check, too_many_hosts};
pub use error::{Gone, ScenarioError, TrafficError};
pub use plan::links;
pub use run::{Follower, LiveScenario, Ran, ScenarioResults, ScenarioSetup};
