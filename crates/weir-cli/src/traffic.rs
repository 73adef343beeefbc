//! `weir traffic`: generates all traffic of one host of a live scenario. This is an internal
//! command: `weir live` starts one process on each host and communicates with it over standard
//! input and output.

use std::io;
use std::process::ExitCode;

use crate::output::Failure;

/// `weir traffic`.
pub(crate) fn traffic() -> Result<ExitCode, Failure> {
    weir_traffic::host::run(&mut io::stdin().lock(), &mut io::stdout())
        .map_err(|error| Failure::of_weir(format!("weir traffic: {error}")))?;
    Ok(ExitCode::SUCCESS)
}
