//! Weir's results in readable and in machine-readable form.
//!
//! A driver fills a [`RunResult`] with the engine's counters and histograms and with the time
//! series of a [`LinkRecorder`](weir_measure::series::LinkRecorder). [`summary()`] formats it for
//! the terminal, [`to_json`] as a results document, and [`to_html`] as a report with plots in one
//! file. [`CaptureFile`] writes a pcapng file. The results of scenarios, with several flows, links
//! and runs, are in [`sim`]; those of watched queues are in [`watch`]. Nothing here drives traffic
//! or runs on the packet path.

mod file;
pub mod finding;
pub mod format;
mod html;
mod json;
mod model;
pub mod pcap;
pub mod plot;
pub mod sim;
mod summary;
pub mod watch;

pub use file::{WriteError, write_atomic};
pub use html::{
    Chapter, OPEN_LOOP, SpanChange, SpanObject, SpanPoint, SpanReport, chapters_to_html,
    finding_to_html, replay_gaps, replay_to_html, span_to_html, to_html,
};
pub use json::{Run, to_json};
pub use model::{
    LATE_NS, LATE_PACKETS_WARNING, LATE_WARNING, Late, LinkResult, MeasuredLoss, PipeResult,
    RuleResult, RunInfo, RunResult, why_late,
};
pub use pcap::{CaptureError, CaptureFile, CaptureReport, CaptureWriter};
pub use summary::summary;
