//! Writes a report of invented but plausible data, for viewing the page and for trying out changes.
//!
//! `cargo run -p weir-report --example demo_report OUT.html [SECONDS]` also prints the summary and
//! writes `OUT.json`.

mod data;

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let path =
        PathBuf::from(std::env::args_os().nth(1).ok_or("usage: demo_report OUT.html [SECONDS]")?);
    let seconds = std::env::args().nth(2).map_or(Ok(30), |s| s.parse())?;
    let run = data::run(seconds);
    eprint!("{}", weir_report::summary(&run, std::env::var_os("NO_COLOR").is_none()));
    weir_report::write_atomic(&path, weir_report::to_html(&run).as_bytes())?;
    weir_report::write_atomic(&path.with_extension("json"), weir_report::to_json(&run).as_bytes())?;
    Ok(())
}
