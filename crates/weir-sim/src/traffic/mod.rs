//! Traffic: from the settings of a scenario to endpoints in a world.
//!
//! A [`Spec`] holds the settings of a scenario, a [`Plan`] the checked settings, and
//! [`Plan::install`] puts endpoints into a world. Open-loop traffic is a [`Ping`], or a [`Source`]
//! with a [`Process`] that determines when packets are sent, without feedback from the network.
//! Other traffic uses a [`Transport`]: one flow that counts itself, or an owner that opens flows,
//! gets a notice when they are done, and counts completions.

mod cbr;
mod check;
mod closed;
mod connection;
mod flows;
mod incast;
pub mod modulated;
mod ping;
mod placement;
mod plan;
mod real;
mod refusal;
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
pub use ping::{Echo, Ping};
pub use placement::Placement;
pub use plan::Plan;
pub use refusal::{Reason, SpecError};
pub use source::{Process, Sending, Sink, Source};
pub use spec::{COMMON, Common, KINDS, Kind, Spec, TRANSPORT};
pub use transport::{Opening, Supply, Transport};
