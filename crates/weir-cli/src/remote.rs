//! The control socket of a command that runs links.

use std::process::id;

use rustix::process::{Signal, getpid, kill_process};
use weir_control::directory::Name;
use weir_live::changes::Changes;
use weir_live::remote::{About, ReserveError, Reserved, Served};

use crate::output::{Failure, USAGE, say};
use crate::web::Page;

/// Binds the socket of this command under the name `wanted` or, without it, under `derived` or a
/// similar name that is free. Without `wanted`, a socket that cannot be bound is no failure: the
/// result is `None` and, unless `quiet`, a note states the reason.
///
/// Call this before the namespaces of the links exist, so that the user can reach the socket from
/// outside them.
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

/// Starts to answer on the socket, if there is one, and serves the web page, if it is wanted.
/// `weir stop` makes this process send itself SIGTERM.
pub(crate) fn serve(
    reserved: Option<Reserved>,
    about: About,
    changes: &Changes,
    page: Option<&Page>,
    quiet: bool,
) -> Result<Option<Served>, Failure> {
    // A process may always signal itself, and the signal has the same effect as from another
    // process.
    let stop = || {
        let _ = kill_process(getpid(), Signal::TERM);
    };
    let Some(reserved) = reserved else {
        return match page {
            None => Ok(None),
            Some(_) => Err(Failure::of_weir("--web: the links have no socket, so no page either")),
        };
    };
    let web = page.map(Page::endpoint).transpose()?;
    match reserved.serve(about, changes.clone(), web, stop) {
        Ok(served) => {
            if let Some(page) = page {
                page.announce();
            }
            Ok(Some(served))
        }
        Err(error) if page.is_some() => Err(Failure::of_weir(format!("--web: {error}"))),
        Err(error) => {
            if !quiet {
                note(&error);
            }
            Ok(None)
        }
    }
}

fn note(error: &dyn std::error::Error) {
    say(format_args!("weir: note: process {} cannot be changed while it runs: {error}\n", id()));
}
