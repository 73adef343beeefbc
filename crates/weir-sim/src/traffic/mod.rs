//! Traffic: what is sent, from the settings of a scenario to endpoints in a world.
//!
//! A [`Spec`] is what a scenario says, a [`Plan`] is that with all settings judged, and
//! [`Plan::install`] puts endpoints into a world. Open-loop traffic is a [`Source`] with a
//! [`Process`] that decides when packets go; it hears nothing from the network. Other traffic goes
//! over a [`Transport`]: an owner opens flows, hears when they are done, and counts what they were
//! for.

mod cbr;
mod check;
mod closed;
mod connection;
mod flows;
mod incast;
pub mod modulated;
mod ping;
mod plan;
mod real;
pub mod renewal;
pub mod replay;
mod request;
pub mod settings;
mod site;
mod source;
pub mod spec;
mod tcp;
mod transport;
mod web;

pub use cbr::{Cbr, Constant};
pub use check::{Reason, SpecError};
pub use ping::{Echo, Ping};
pub use plan::{Placement, Plan};
pub use source::{Process, Sending, Sink, Source};
pub use spec::{COMMON, Common, KINDS, Kind, Spec, TRANSPORT};
pub use transport::{Opening, Supply, Transport};
