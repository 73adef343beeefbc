//! The control socket of a command that runs links.

use std::process::id;

use rustix::process::{Signal, getpid, kill_process};
use weir_control::directory::Name;
use weir_live::changes::Changes;
use weir_live::remote::{About, ReserveError, Reserved, Served};

use crate::output::{Failure, USAGE, say};

/// Binds the socket of this command: with the name `wanted`, or one like `derived`. Without a
/// wanted name, links run even where no socket can be bound; a note then says so.
///
/// The call comes before the namespaces of the links exist, so that this user reaches the socket
/// from outside.
pub(crate) fn reserve(
    wanted: Option<&Name>,
    derived: &Name,
    quiet: bool,
) -> Result<Option<Reserved>, Failure> {
    match wanted {
        Some(name) => Reserved::exactly(name).map(Some).map_err(|error| match error {
            ReserveError::Taken(_) => Failure::new(USAGE, format!("--name {name}: {error}")),
            error => Failure::of_weir(format!("--name {name}: {error}")),
        }),
        None => match Reserved::like(derived) {
            Ok(reserved) => Ok(Some(reserved)),
            Err(error) => {
                if !quiet {
                    note(&error);
                }
                Ok(None)
            }
        },
    }
}

/// Answers on the socket, if there is one, from now on. `weir stop` sends this process SIGTERM.
pub(crate) fn serve(
    reserved: Option<Reserved>,
    about: About,
    changes: &Changes,
    quiet: bool,
) -> Option<Served> {
    // The signal has the effect that it has from anyone else; a process may always signal itself.
    let stop = || {
        let _ = kill_process(getpid(), Signal::TERM);
    };
    match reserved?.serve(about, changes.clone(), stop) {
        Ok(served) => Some(served),
        Err(error) => {
            if !quiet {
                note(&error);
            }
            None
        }
    }
}

fn note(error: &dyn std::error::Error) {
    say(format_args!("weir: note: process {} cannot be changed while it runs: {error}\n", id()));
}
