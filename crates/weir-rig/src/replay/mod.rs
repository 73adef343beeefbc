//! Replays a recording of the kernel's queue with other disciplines: the recorded packets arrive at
//! their recorded times at a discipline of Weir, in simulated time, and a link of the recorded rate
//! serves this discipline.
//!
//! The first row of a [`Replay`] is the kernel's own queue as it was recorded; all rows are
//! computed in the same manner. A replay is *open loop*: the arrivals are those that the kernel's
//! discipline caused. Senders that respond to drops, marks and delays would have sent other packets
//! to another discipline.
//!
//! # Link
//! The link is a token bucket, like the kernel's `tbf`: a packet departs as soon as the bucket
//! holds its bytes. The bucket is large enough for the largest packet. The link takes the next
//! packet from the discipline when the previous one has departed, and the packet that waits for its
//! tokens still counts as queued, as in the kernel.

mod account;
mod curve;
mod file;
mod results;
mod serve;

use weir_measure::packets::Head;
use weir_rules::manager::Manager;

pub use curve::{Curve, Point};
pub use file::{Recording, RecordingError};
pub use results::{Content, Fairness, Link, QueueLength, Replay, ReplayError, Row};

/// Replays a recording with each discipline. The first row is the kernel's own.
/// `choose` determines the link from the head of the recording.
///
/// # Errors
/// The recording cannot be read, `choose` fails, or a discipline cannot be replayed.
pub fn replay<E: From<ReplayError>>(
    recording: &Recording,
    managers: &[Manager],
    seed: u64,
    choose: impl FnOnce(&Head) -> Result<Link, E>,
) -> Result<Replay, E> {
    let survey = account::survey(recording).map_err(ReplayError::from)?;
    let link = choose(&survey.head)?;
    let mut rows = vec![survey.row()];
    for manager in managers {
        rows.push(serve::serve(recording, &survey, manager, &link, seed)?);
    }
    let account::Survey { head, content, .. } = survey;
    Ok(Replay { recording: head, content, link, seed, rows })
}
