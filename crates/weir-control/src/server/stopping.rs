//! How the tasks of the server notice that it stops.

use tokio::sync::watch;

/// Waits until the server stops.
pub(super) async fn stop(stopped: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, so it has stopped too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
