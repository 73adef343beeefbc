//! Live links as a library: `weir run`, `weir pair`, `weir bridge`, `weir live` and `weir serve`
//! without a command line.
//!
//! [`LiveSession`] is built from a [`SessionConfig`], started, changed and observed while packets
//! pass, and stopped with its results. The library does not print, read a command line or keep
//! global state; several sessions can run in one process. [`remote`] gives a session its
//! control socket, and [`changes`] changes links in words. [`daemon`] puts one session behind the
//! API of the daemon, and [`dashboard`] shows a session or the daemon on a web page. [`agent`]
//! shapes the containers that carry labels, and [`compose`] shapes the containers of a job.
//! [`scenario`] builds a session for the hosts of a scenario, and [`convert`] makes scenarios from
//! the descriptions of other tools.
//!
//! ```no_run
//! use weir_linux::process::Signals;
//! use weir_linux::topology::{PairSetup, Side};
//! use weir_live::{Emulation, Link, LiveSession, SessionConfig};
//! use weir_rules::{NoFiles, check_spec};
//!
//! // The helper processes of a session are started from this executable.
//! if let Some(code) = weir_linux::helper::main_if_helper() {
//!     std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
//! }
//! let slow = check_spec("bw 4Mbit/s delay 20ms", &NoFiles).spec.expect("a specification");
//! let links = [Link::new("to-right", slow.clone()), Link::new("to-left", slow)];
//! let config = SessionConfig::new(PairSetup::default(), Emulation::Links(Box::new(links)));
//!
//! let prepared = LiveSession::build(config)?;
//! let signals = Signals::take()?;
//! let mut session = prepared.start()?;
//! session.spawn(Side::Right, &["ping".into(), "-c3".into(), "left".into()])?;
//!
//! // From any thread, while packets are inside:
//! let control = session.control().clone();
//! let faster = check_spec("bw 8Mbit/s delay 20ms", &NoFiles).spec.expect("a specification");
//! control.set_link("to-right", &faster)?;
//! println!("{} packets so far", control.snapshot()?.links[0].counters.packets_in);
//!
//! session.wait(&signals, None)?;
//! let finished = session.stop()?;
//! println!("{} packets in all", finished.results().links[0].counters.packets_in);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod agent;
pub mod changes;
pub mod compose;
pub mod convert;
pub mod daemon;
pub mod dashboard;
mod lab;
mod links;
mod observe;
pub mod plan;
mod readings;
pub mod remote;
pub mod rules;
pub mod scenario;
mod session;

pub use lab::{Board, EngineError, LabError};
pub use session::attached::{AttachSetup, Attached, Awaited};
pub use session::follow::FollowEnd;
pub use session::held::{HeldSite, HoldEnd};
pub use session::{
    BuildError, Capture, ChangeError, Control, Emulation, Ended, Finished, Lanes, Link,
    LiveSession, NamedLink, Observation, OpenPorts, Place, Prepared, SessionConfig, Snapshot,
    StartError, StopError, Surroundings, Tuning,
};
