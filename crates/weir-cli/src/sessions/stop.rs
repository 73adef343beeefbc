//! `weir stop`: ends a session.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use weir_control::server::is_listening;

use super::args::StopArgs;
use super::find::{Asked, failure, session};
use crate::output::Failure;

/// Asks a session to end, and waits for its end.
pub(crate) fn stop(args: &StopArgs) -> Result<ExitCode, Failure> {
    let Asked { mut client, view } = session(args.name.as_deref())?;
    client.stop().map_err(|error| failure(&view.name, &error))?;
    let deadline = Instant::now() + PATIENCE;
    while is_listening(client.path()) {
        if Instant::now() >= deadline {
            let process =
                view.pid.map_or("in another PID namespace".to_owned(), |pid| pid.to_string());
            return Err(Failure::of_weir(format!(
                "session {} has not ended within {} s; its process is {process}",
                view.name,
                PATIENCE.as_secs()
            )));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(ExitCode::SUCCESS)
}

/// The longest wait for the session's end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two checks whether the session has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
