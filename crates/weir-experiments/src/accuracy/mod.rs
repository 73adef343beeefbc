//! The accuracy of live emulation: how far delays are from the configured delay, depending on the
//! timer, the load of the processors and competing traffic.
//!
//! A probe passes a link with a delay of 10 ms between two namespaces. The sender stamps each
//! packet, and the receiving kernel records its arrival, so that the receiver's own wake-up does
//! not count. Each mode in which the live loop can wait is measured under three loads: no other
//! work, threads that compute without a pause, and other packets on the same link.

mod bed;
mod case;
mod finding;

use weir_report::finding::Finding;

use super::experiment::{Options, Progress};

use bed::{Hogs, Network};
pub use case::AccuracyError;
use case::{LOADS, Load, Row, WAITS};

/// The experiment's name.
pub const NAME: &str = "emulation-accuracy";
/// One line that says what the experiment shows.
pub const SUMMARY: &str = "how far live delays are from the configured delay, depending on the \
                           timer, processor load and competing traffic; needs root";
/// The publication.
pub const SOURCE: &str = "L. Rizzo, Google Tech Talk, April 2010";

/// Runs the experiment, with [`Options::seeds`] rounds in which the cases alternate.
///
/// # Errors
/// The process is not root, an operation of the measurement fails, or no probe arrives.
pub fn run(options: &Options, progress: &Progress<'_>) -> Result<Finding, AccuracyError> {
    if !rustix::process::geteuid().is_root() {
        return Err(AccuracyError::NotRoot);
    }
    let bed = Network::make()?;
    let mut rows: Vec<Row> = LOADS
        .into_iter()
        .flat_map(|load| WAITS.map(|wait| Row { wait, load, runs: Vec::new() }))
        .collect();
    let (rounds, all) = (options.seeds() as usize, options.seeds() as usize * rows.len());
    for round in 0..rounds {
        for (n, row) in (1..).zip(&mut rows) {
            let hogs = (row.load == Load::Hogs).then(Hogs::start);
            let measure = || bed.measure(row.wait, row.load, options.quick);
            // A machine that stops for seconds can lose all probes of a run.
            let errors = measure().or_else(|error| match error {
                AccuracyError::Silent(_) => measure(),
                other => Err(other),
            })?;
            drop(hogs);
            row.runs.push(errors);
            progress(round * (all / rounds) + n, all);
        }
    }
    Ok(finding::finding(&rows))
}
