//! How queues are read: the methods, what can be asked of them, and what all have in common.

use crate::error::ProbeError;
use crate::target::Target;
use weir_measure::watch::{Method, Pace, Sink};

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
