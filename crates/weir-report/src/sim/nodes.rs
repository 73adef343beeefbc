//! The results of hosts that ran programs or containers.

use schemars::JsonSchema;
use serde::Serialize;

/// The results of a host that ran a program or container in one run. Times count from the start of
/// the first program.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct NodeOutcome {
    /// The name in the scenario.
    pub name: String,
    /// The command, or the image with its command.
    pub program: String,
    /// The exit code; 128 + n after signal n; `null` if the program did not start, or was killed at
    /// the end of the run.
    pub exit_code: Option<u8>,
    /// Whether the end of the run ended the program.
    pub stopped: bool,
    /// When the program started; `null` if it never did.
    pub started_ns: Option<u64>,
    /// When the host was up: healthy, or started if it has no health check.
    pub up_ns: Option<u64>,
    /// When the program ended.
    pub ended_ns: Option<u64>,
    /// Bytes that the program printed.
    pub log_bytes: u64,
    /// Bytes in the middle of the log that were not kept.
    pub log_cut_bytes: u64,
}
