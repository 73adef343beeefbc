//! Reports as HTML, each in one file: statistics, plots, and the result itself as embedded JSON.
//!
//! The plots are drawn here, so a page is complete without scripts and prints well. The page's
//! scripts only let a reader read values, zoom and save. The page fetches nothing, and its content
//! security policy forbids fetching. The series are down-sampled (sums exact, extremes kept), so
//! the size of the file does not grow with the length of the run.

mod charts;
mod collection;
mod finding;
mod page;
mod replay;
mod run;
pub(crate) mod sim;
mod span;
pub(crate) mod watch;

pub use collection::{Chapter, chapters_to_html};
pub use finding::finding_to_html;
pub use replay::{OPEN_LOOP, replay_gaps, replay_to_html};
pub use run::to_html;
pub use span::{SpanChange, SpanObject, SpanPoint, SpanReport, span_to_html};
