//! The daemon's packet plane: bridges shaped by rules, behind the control API's
//! [`Plane`](weir_control::plane::Plane).

mod bridges;
mod gather;
pub(crate) mod instances;
mod interfaces;
mod pages;
mod plane;
mod session;
mod watchdog;

pub use bridges::{Bridges, BridgesError, BridgesSetup};
pub(crate) use plane::wall_seconds;
pub use plane::{LivePlane, PlaneError};
pub use session::DaemonSession;
pub use watchdog::{CHECKS, Watchdog};
