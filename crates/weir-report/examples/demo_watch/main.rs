//! Writes the report and the records of an invented watch, for viewing the page and for trying out
//! changes.
//!
//! `cargo run -p weir-report --example demo_watch OUT.html [SECONDS]` also writes `OUT.json`,
//! `OUT.jsonl`, `OUT.csv` and `OUT.parquet`.

mod data;

use std::error::Error;
use std::path::PathBuf;

use weir_measure::watch::{Sink, Tally, Tee};
use weir_report::watch::{About, Format, Recorder, html};

fn main() -> Result<(), Box<dyn Error>> {
    let path =
        PathBuf::from(std::env::args_os().nth(1).ok_or("usage: demo_watch OUT.html [SECONDS]")?);
    let seconds = std::env::args().nth(2).map_or(Ok(10), |s| s.parse())?;
    let mut tally = Tally::new();
    let open =
        |format: Format| Recorder::create(&path.with_extension(format.extension()), format, "demo");
    let mut records = Format::ALL.map(open).into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut sinks: Vec<&mut dyn Sink> = vec![&mut tally];
    sinks.extend(records.iter_mut().map(|record| record as &mut dyn Sink));
    data::play(seconds, &mut Tee(sinks));
    tally.finish();
    for record in records {
        eprintln!("{} entries", record.finish()?);
    }
    eprintln!("one reading of {} packets stands out", data::PEAK);
    let summary = data::summary(&tally, seconds);
    let about = About {
        version: "demo".into(),
        started: "2026-11-22 02:00:00".into(),
        command: vec!["iperf3".into(), "-c".into(), "10.0.0.2".into()],
    };
    weir_report::write_atomic(&path, html(&tally, &summary, &about).as_bytes())?;
    weir_report::write_atomic(&path.with_extension("json"), summary.to_json().as_bytes())?;
    Ok(())
}
