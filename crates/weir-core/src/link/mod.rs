//! Links: serialisation, impairments and the delay line behind a scheduler.

mod delay;
mod impair;
mod loss;
mod means;
mod model;
mod overhead;
mod profile;
mod schedule;
mod serial;
mod sums;
mod trace;

pub(crate) use delay::DelayLine;
pub(crate) use impair::Impairments;
pub(crate) use loss::LossProcess;
pub use means::LinkHistory;
pub use model::{Capacity, Loss, Step};
pub use overhead::Overhead;
pub use profile::{DEFAULT_SAMPLES, MAX_SAMPLES, Profile, ProfileError};
pub use schedule::{MIN_STEP, Schedule, ScheduleError};
pub(crate) use serial::{Serializer, Timed};
pub use sums::ConfiguredMeans;
pub use trace::{OPPORTUNITY_BYTES, Trace, TraceCursor, TraceError};
