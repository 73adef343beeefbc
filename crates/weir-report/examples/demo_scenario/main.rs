//! Writes a directory of results from a small simulation, for viewing:
//! `cargo run -p weir-report --example demo_scenario -- DIR [RUNS]`.

mod data;

use std::fs::File;
use std::sync::{Arc, Mutex};

use weir_report::sim::{Contents, TraceCapture, TraceTable, write};

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = std::path::PathBuf::from(args.next().expect("a directory to write to"));
    let runs: u64 = args.next().map_or(1, |n| n.parse().expect("a number of runs"));
    std::fs::create_dir_all(&dir).expect("the directory can be made");
    write(&dir, &data::results(1..1 + runs, 0.2), Contents::default())
        .expect("results can be written");
    let records = Arc::new(Mutex::new(Vec::new()));
    let blocks = Arc::clone(&records);
    data::run(
        1,
        0.2,
        Some(Box::new(move |block| blocks.lock().expect("no panic").extend_from_slice(block))),
    );
    let records = records.lock().expect("no panic");
    let file = |name: &str| File::create(dir.join(name)).expect("a trace can be made");
    let mut table =
        TraceTable::new(file("trace.parquet"), &data::names()).expect("a table can be begun");
    records.chunks(8192).for_each(|block| table.write(block).expect("a table can be written"));
    table.finish().expect("a table can be ended");
    let mut capture =
        TraceCapture::new(file("trace.pcapng"), &data::names()).expect("a capture can be begun");
    capture.write(&records).expect("a capture can be written");
}
