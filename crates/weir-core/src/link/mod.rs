//! Links: serialisation, impairments and the delay line behind a scheduler.

mod overhead;
mod profile;
mod schedule;
mod trace;

pub use overhead::Overhead;
pub use profile::{DEFAULT_SAMPLES, MAX_SAMPLES, Profile, ProfileError};
pub use schedule::{Schedule, ScheduleError, Step};
pub use trace::{OPPORTUNITY_BYTES, Trace, TraceCursor, TraceError};
