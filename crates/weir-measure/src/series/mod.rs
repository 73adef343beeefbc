//! Quantities over time in bounded memory, for a second as well as for a day.
//!
//! [`Periods`] are consecutive intervals of equal width. When their number exceeds the capacity,
//! adjacent periods are merged in pairs and the width doubles. Sums and extremes survive every
//! merge, so a peak of a single reading remains visible however long the recording lasts. An
//! [`Envelope`] is a quantity within a period; a [`LinkPeriod`] is the activity of a link in one.
//!
//! All recordings use these types: the live loop's ([`LinkRecorder`]), which spreads the
//! differences of running counters over time, the simulator's meter, and the probe's lengths of
//! queues.

mod link;
mod periods;
mod recorder;

pub use link::{FlowPeriod, LinkPeriod, LinkSeries};
pub use periods::{Envelope, Period, Periods};
pub use recorder::LinkRecorder;
