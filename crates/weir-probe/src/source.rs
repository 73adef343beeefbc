//! The methods of reading queues, their plan, and their common interface.

use crate::error::ProbeError;
use crate::target::Target;
use weir_measure::watch::{Method, Pace, Sink};

/// The queues to read, and the rate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The devices.
    pub targets: Vec<Target>,
    /// The method; `None` chooses by rate and privileges.
    pub method: Option<Method>,
    /// Readings per second; `None` for as many as the method allows.
    pub rate: Option<u64>,
    /// Whether to read the children of the roots.
    pub children: bool,
    /// Whether to read the bands of `pfifo_fast`.
    pub bands: bool,
    /// Whether to report every packet, too. Only the method `events` can do this.
    pub packets: bool,
}

impl Plan {
    /// The highest valid rate, per second. At higher rates one reading takes longer than the
    /// interval.
    pub const MAX_RATE: u64 = 50_000_000;

    /// Checks the plan.
    ///
    /// # Errors
    /// [`ProbeError::Plan`] for a plan without a target, for one that reports packets with a method
    /// other than `events`, and for a rate of zero or above [`Plan::MAX_RATE`].
    pub fn check(&self) -> Result<(), ProbeError> {
        if self.targets.is_empty() {
            return Err(ProbeError::Plan("no device to watch".into()));
        }
        if self.packets && self.method != Some(Method::Events) {
            return Err(ProbeError::Plan(
                "only the method events sees single packets: leave out --method and --rate".into(),
            ));
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

    /// Time between two readings in ns; 0 without a rate.
    #[must_use]
    pub fn interval(&self) -> u64 {
        self.rate.map_or(0, |rate| 1_000_000_000 / rate.max(1))
    }
}

/// A reader of queues.
pub trait Source {
    /// The method of this source.
    fn method(&self) -> Method;

    /// Reads for some milliseconds at most, or waits for the next scheduled reading, and reports to
    /// the sink.
    ///
    /// # Errors
    /// The source cannot continue. A vanished device is not an error but a remark.
    fn turn(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError>;

    /// Ends the watch: delivers what remains, such as events and remarks. No turn may follow.
    ///
    /// # Errors
    /// The same as for a turn. Data that was delivered before stays valid.
    fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError> {
        let _ = sink;
        Ok(())
    }

    /// The statistics of the pace so far.
    fn pace(&self) -> Pace;
}

/// A source that is ready to read.
pub struct Opened {
    /// The source.
    pub source: Box<dyn Source>,
    /// Remarks for the user, such as why a slower method was chosen.
    pub remarks: Vec<String>,
}
