//! Quantities over time in bounded memory, for recordings from a second to days.
//!
//! [`Periods`] are consecutive intervals of equal width. When their number exceeds the capacity,
//! adjacent periods are merged in pairs and the width doubles. Merging preserves sums and extremes,
//! so a peak in a single reading remains visible in a recording of any length. An [`Envelope`] is a
//! quantity within a period; a [`LinkPeriod`] is the activity of a link in a period.
//!
//! Three recorders use these types. The live loop's [`LinkRecorder`] spreads the increments of
//! running counters over time; the simulator's meter and the probe record at each sample.

mod link;
mod periods;
mod recorder;

pub use link::{FlowPeriod, LinkPeriod, LinkSeries};
pub use periods::{Envelope, Period, Periods};
pub use recorder::{LinkRecorder, QueueState};
