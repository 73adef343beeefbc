//! Tests the verdict of a soak (`bench/soak/run --judge`) with rows that the test makes up.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// One row: seconds, whether the counters balance, descriptors, memory in KiB.
type Row = (u32, u8, u32, u32);

#[test]
fn a_steady_daemon_passes_and_gets_a_plot() {
    let (done, plotted) = judge("steady", (1..=100).map(|s| (s, 1, 30 + s % 7, 40_000 + s % 90)));
    assert!(done.status.success(), "{done:?}");
    assert!(text(&done).ends_with("ok\n") && plotted.contains("<polyline"), "{done:?}");
}

#[test]
fn growing_memory_growing_descriptors_and_lost_packets_fail_the_soak() {
    for (name, rows, said) in [
        ("memory", row(|s| (s, 1, 30, 40_000 + 1000 * s)), "rss_kib grows"),
        ("descriptors", row(|s| (s, 1, 30 + 2 * s, 40_000)), "descriptors grows"),
        ("lost", row(|s| (s, u8::from(s != 70), 30, 40_000)), "counters do not balance in 1 rows"),
    ] {
        let (done, _) = judge(name, (1..=100).map(rows));
        assert_eq!(done.status.code(), Some(1), "{name}: {done:?}");
        assert!(text(&done).contains(said), "{name}: {done:?}");
    }
}

/// Gives closures one type, so that they fit into one array.
fn row(row: fn(u32) -> Row) -> fn(u32) -> Row {
    row
}

/// Runs the verdict on these rows. Returns its output, and the plot.
fn judge(name: &str, rows: impl Iterator<Item = Row>) -> (Output, String) {
    let mut table = String::from(
        "seconds,steady,generation,revision,changes,clients,packets_in,packets_out,duplicated,\
         drops,backlog,balanced,descriptors,threads,rss_kib,lateness_p99_us,events\n",
    );
    for (seconds, balanced, descriptors, memory) in rows {
        let steady = u8::from(seconds > 50);
        writeln!(
            table,
            "{seconds},{steady},1,1,1,1,{seconds},{seconds},0,0,0,{balanced},{descriptors},9,{memory},100,"
        )
        .expect("writing to a string does not fail");
    }
    let directory = std::env::temp_dir().join(format!("weir-soak-{}-{name}", std::process::id()));
    fs::create_dir_all(&directory).expect("a temporary directory");
    let path = directory.join("rows.csv");
    fs::write(&path, table).expect("a file");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/soak/run");
    let done = Command::new(program).arg("--judge").arg(&path).output().expect("it runs");
    let plot = fs::read_to_string(directory.join("rows.svg")).unwrap_or_default();
    // A directory that remains in /tmp is not a failure of the code under test.
    let _ = fs::remove_dir_all(&directory);
    (done, plot)
}

fn text(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}
