//! The daemon's packets: bridges that are shaped by rules, behind the control API's
//! [`Plane`](weir_control::plane::Plane).

mod field;
mod gather;
mod plane;

pub use field::{BridgesError, BridgesSetup, Field};
pub use plane::{LivePlane, PlaneError};
