//! Writes the runs of a rig as one JSON document, to a file or to standard output.

use std::path::Path;

use weir_report::write_atomic;
use weir_rig::Report;
use weir_rig::report::Run;

use crate::output::{Failure, print};

pub(super) fn write_json(path: &Path, runs: Vec<Run>) -> Result<(), Failure> {
    let text = Report { runs }.to_json();
    if path.as_os_str() == "-" {
        print(&text).map(|_| ())
    } else {
        write_atomic(path, text.as_bytes()).map_err(Failure::of_weir)
    }
}
