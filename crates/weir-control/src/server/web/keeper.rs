//! Writes the points of the page's objects to disk, every few seconds and when the server stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::hub::Hub;
use crate::dashboard::History;
use crate::server::stopping::stop;

/// Writes the history until the server stops, and once more then. Another thread writes to the
/// disk.
pub(super) async fn keep(hub: Arc<Hub>, mut history: History, mut stopped: watch::Receiver<bool>) {
    loop {
        let ends = tokio::select! {
            () = sleep(EVERY) => false,
            () = stop(&mut stopped) => true,
        };
        let hub = Arc::clone(&hub);
        let written = tokio::task::spawn_blocking(move || {
            let fresh = hub.fresh(&history, ends);
            history.add(&fresh);
            history
        });
        let Ok(back) = written.await else { return };
        history = back;
        if ends {
            return;
        }
    }
}

/// The time between two writes.
const EVERY: Duration = Duration::from_secs(5);
