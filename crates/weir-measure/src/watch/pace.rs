//! The method of reading queues, and the achieved rate of readings compared with the requested
//! rate.

use alloc::format;
use alloc::string::String;
use core::str::FromStr;

use serde::Serialize;

use super::gaps::Gaps;

/// A method of reading queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A loop inside the kernel, which runs continuously or paces itself by spinning, and occupies
    /// a processor.
    Loop,
    /// A program inside the kernel, which takes one reading each time that a timer wakes Weir:
    /// cheap, and chosen for at most 10,000 readings per second.
    Timer,
    /// A record of every enqueue and dequeue.
    Events,
    /// Netlink queries, as `tc` sends them; they need no privileges.
    Netlink,
    /// Runs the program `tc` once per reading: the baseline of the Fast Queue Sampler publication.
    Tc,
    /// Queries Weir's daemon about its own queues; not for the kernel's queues.
    Daemon,
}

impl Method {
    /// Every method for the kernel's queues.
    pub const ALL: [Method; 5] =
        [Method::Loop, Method::Timer, Method::Events, Method::Netlink, Method::Tc];

    /// The method's name.
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

/// The achieved rate of readings, compared with the requested rate.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Requested readings per second; `None` for as many as possible, and for a record of events.
    pub asked: Option<u64>,
    /// Number of readings, each of all queues; for the method `events`, the number of events.
    pub readings: u64,
    /// Scheduled moments at which no reading was taken.
    pub missed: u64,
    /// Time between consecutive readings of the same namespace, or between consecutive events.
    pub gaps: Gaps,
}
