//! How queues were read: the method, and how often against what was asked.

use alloc::format;
use alloc::string::String;
use core::str::FromStr;

use serde::Serialize;

use super::gaps::Gaps;

/// A way to read queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A loop inside the kernel, flat out or at a busy pace: takes a processor.
    Loop,
    /// One reading inside the kernel at each tick of a timer: cheap, up to 10,000 a second.
    Timer,
    /// A record of every packet put in and taken out.
    Events,
    /// Questions over a netlink socket, as `tc` asks them: no rights needed.
    Netlink,
    /// The program `tc` once for each reading: the baseline of the publication.
    Tc,
    /// Questions to Weir's own daemon about its queues; not for the kernel's.
    Daemon,
}

impl Method {
    /// Every method that reads the kernel's queues, the fastest first.
    pub const ALL: [Method; 5] =
        [Method::Loop, Method::Timer, Method::Events, Method::Netlink, Method::Tc];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Method::Loop => "loop",
            Method::Timer => "timer",
            Method::Events => "events",
            Method::Netlink => "netlink",
            Method::Tc => "tc",
            Method::Daemon => "daemon",
        }
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Method, String> {
        let found = Method::ALL.into_iter().find(|method| method.name() == text);
        found.ok_or_else(|| {
            format!("'{text}' is no method; allowed: {}", Method::ALL.map(Method::name).join(", "))
        })
    }
}

/// How often was read, against what was asked.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Readings per second that were asked for.
    pub asked: Option<u64>,
    /// Readings taken, each of all queues; of the method `events`, the events.
    pub readings: u64,
    /// Moments of the asked pace that passed without a reading.
    pub missed: u64,
    /// Time between each reading and the one before, where both were of the same namespace; or
    /// between an event and the one before.
    pub gaps: Gaps,
}
