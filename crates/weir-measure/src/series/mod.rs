//! Quantities over time in bounded memory: a second and a day both fit.
//!
//! [`Periods`] are equal lengths of time, one after the other. When they outgrow their places,
//! neighbouring periods are merged in pairs and the width doubles. Sums and extremes survive every
//! merge, so a peak of a single reading is there however long the recording lasts. An [`Envelope`]
//! is a quantity within a period; a [`LinkPeriod`] is what a link did in one.
//!
//! All recordings are made of these: the live loop's ([`LinkRecorder`]), which spreads the
//! differences of running counters over time, the simulator's meter, and the sampler's lengths of
//! queues.

mod link;
mod periods;
mod recorder;

pub use link::{FlowPeriod, LinkPeriod, LinkSeries};
pub use periods::{Envelope, Period, Periods};
pub use recorder::LinkRecorder;
