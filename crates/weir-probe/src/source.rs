//! How queues are read: the methods, what can be asked of them, and what all have in common.

use std::str::FromStr;

use serde::Serialize;

use crate::error::ProbeError;
use crate::gaps::Gaps;
use crate::model::Sink;
use crate::target::Target;

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

/// What to read, and how often.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The devices.
    pub targets: Vec<Target>,
    /// How; `None` chooses by rate and rights.
    pub method: Option<Method>,
    /// Readings per second; `None` as many as the method gives.
    pub rate: Option<u64>,
    /// Whether to read what hangs below the roots.
    pub children: bool,
    /// Whether to read the bands of `pfifo_fast`.
    pub bands: bool,
}

impl Plan {
    /// The highest rate that can be asked for, per second: one reading takes longer than the time
    /// to the next.
    pub const MAX_RATE: u64 = 50_000_000;

    /// # Errors
    /// [`ProbeError::Plan`] for no target and for a rate of zero or beyond [`Plan::MAX_RATE`].
    pub fn check(&self) -> Result<(), ProbeError> {
        if self.targets.is_empty() {
            return Err(ProbeError::Plan("no device to watch".into()));
        }
        match self.rate {
            Some(0) => Err(ProbeError::Plan(
                "a rate of 0 reads nothing; leave it out for as many readings as possible".into(),
            )),
            Some(rate) if rate > Plan::MAX_RATE => Err(ProbeError::Plan(format!(
                "{rate} readings a second cannot be had; up to {} can be asked for",
                Plan::MAX_RATE
            ))),
            _ => Ok(()),
        }
    }

    /// Time between two readings in ns, 0 without a rate.
    #[must_use]
    pub fn interval(&self) -> u64 {
        self.rate.map_or(0, |rate| 1_000_000_000 / rate.max(1))
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

/// Something that reads queues.
pub trait Source {
    /// How it reads.
    fn method(&self) -> Method;

    /// Reads for some milliseconds at most, or waits for the next moment of its pace, and tells the
    /// sink.
    ///
    /// # Errors
    /// What makes going on impossible. A device that is gone is no error but a remark.
    fn turn(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError>;

    /// Ends the reading: hands over what is left and says what the reader of the results must know.
    /// There is no turn after it.
    ///
    /// # Errors
    /// As for a turn. What was handed over before stays right.
    fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError> {
        let _ = sink;
        Ok(())
    }

    /// How often it has read so far.
    fn pace(&self) -> Pace;
}

/// A source that is ready to read.
pub struct Opened {
    /// The source.
    pub source: Box<dyn Source>,
    /// What the user must know: why a slower method was chosen.
    pub remarks: Vec<String>,
}
