//! All formats of a scenario's results, from a small simulation.

#[path = "../../examples/demo_scenario/data.rs"]
mod data;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;
use weir_measure::document::{Kind, Schemas};
use weir_report::sim::{
    Contents, Scenario, Significance, Summary, TraceTable, compare, to_html, to_json, to_json_with,
    write,
};

use crate::check::assert_follows;

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("weir-report-sim-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// A summary, which follows the schema of results.
fn document(summary: &str) -> Value {
    let summary = serde_json::from_str(summary).unwrap();
    assert_follows(&Schemas::new().with::<Scenario<'_>>(Kind::Scenario).finish(), &summary);
    summary
}

#[test]
fn a_directory_has_every_file_and_the_same_bytes_each_time() {
    let dirs = [scratch("first"), scratch("second")];
    dirs.iter().for_each(|dir| write(dir, &data::results(1..3, 0.5), Contents::default()).unwrap());
    let files = [
        "summary.json",
        "scenario.toml",
        "report.html",
        "flows.parquet",
        "links.parquet",
        "series.parquet",
        "delays.parquet",
    ];
    assert_eq!(std::fs::read_dir(&dirs[0]).unwrap().count(), files.len());
    for file in files {
        let [a, b] = [0, 1].map(|i| std::fs::read(dirs[i].join(file)).unwrap());
        assert!(!a.is_empty() && a == b, "{file}");
    }
    dirs.iter().for_each(|dir| std::fs::remove_dir_all(dir).unwrap());
}

#[test]
fn the_summary_has_the_published_keys_and_consistent_values() {
    let results = data::results(1..2, 0.5);
    let summary = document(&to_json(&results));
    for key in ["seed", "simulated_s", "events", "flows", "links"] {
        assert!(summary.get(key).is_some(), "{key}");
    }
    assert!(
        summary.get("cpu_s").is_none(),
        "processor time differs between equal runs, so it is present only on request"
    );
    assert_eq!(document(&to_json_with(&results, Some(1.5)))["cpu_s"], 1.5);
    let flow = &summary["flows"][1];
    for key in ["name", "kind", "goodput_bps", "sent", "received", "lost", "retransmitted"] {
        assert!(!flow[key].is_null(), "{key}");
    }
    for key in ["mean", "p50", "p99", "p999", "max"] {
        assert!(flow["delay_ns"][key].as_u64().unwrap() > 0, "{key}");
    }
    assert_eq!(
        (&summary["schema"], &summary["kind"]),
        (&"weir.results/1".into(), &"scenario".into())
    );
    let run = &results.runs[0];
    assert_eq!(flow["sent"], run.flows[1].sent);
    assert!(
        (flow["goodput_bps"].as_f64().unwrap() - run.bps(run.flows[1].goodput_bytes)).abs() < 0.1,
        "the summary has nine digits"
    );
    assert_eq!(summary["links"][1]["queue_ns"]["max"], run.links[1].queue_ns.max);
    assert_eq!(summary["links"][1]["classes"].as_array().unwrap().len(), 2);
    assert_eq!(summary["batches"]["flows"][1]["goodput_bps"].as_array().unwrap().len(), 20);
    assert!(summary["links"].as_array().unwrap().iter().all(|l| l["balanced"] == true));
}

#[test]
fn several_runs_have_means_and_intervals() {
    let results = data::results(1..5, 2.0);
    let summary = document(&to_json(&results));
    assert_eq!(summary["runs"].as_array().unwrap().len(), 4);
    assert!(summary.get("batches").is_none());
    let mean = results.runs.iter().map(|run| run.flows[1].received as f64).sum::<f64>() / 4.0;
    assert!((summary["flows"][1]["received"].as_f64().unwrap() - mean).abs() <= 0.5);
    assert!(summary["flows"][1]["ci95"]["goodput_bps"].as_f64().unwrap() > 0.0);
    // Each run counts once in the centre of an interval, and each packet in a distribution.
    let of_run = |run: &Value| run["flows"][1]["delay_mean_ns"].as_f64().unwrap();
    let centre = summary["runs"].as_array().unwrap().iter().map(of_run).sum::<f64>() / 4.0;
    let means = &summary["flows"][1]["means"];
    assert!((means["delay_mean_ns"].as_f64().unwrap() / centre - 1.0).abs() < 1e-6, "{means}");
    assert_eq!(
        means.as_object().unwrap().keys().collect::<Vec<_>>(),
        summary["flows"][1]["ci95"].as_object().unwrap().keys().collect::<Vec<_>>()
    );
    let most = results.runs.iter().map(|run| run.flows[1].delay_ns.max).max().unwrap();
    assert_eq!(summary["flows"][1]["delay_ns"]["max"], most, "the distribution is of all packets");
}

#[test]
fn tables_are_read_back_and_add_up() {
    let dir = scratch("tables");
    let results = data::results(1..2, 0.5);
    write(&dir, &results, Contents { report: false, tables: true }).unwrap();
    let rows = |file: &str| -> Vec<parquet::record::Row> {
        let bytes = std::fs::read(dir.join(file)).unwrap();
        SerializedFileReader::new(Bytes::from(bytes))
            .unwrap()
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    let run = &results.runs[0];
    assert_eq!((rows("flows.parquet").len(), rows("links.parquet").len()), (3, 2));
    let video = &rows("flows.parquet")[1];
    assert_eq!(
        (video.get_string(1).unwrap().as_str(), video.get_string(2).unwrap().as_str()),
        ("video", "cbr")
    );
    let series = rows("series.parquet");
    assert_eq!(series.len(), 5 * run.series.len());
    let of = |name: &str| {
        series
            .iter()
            .filter(|r| r.get_string(2).unwrap() == name)
            .map(|r| r.get_long(8).unwrap() as u64)
            .sum::<u64>()
    };
    assert_eq!(of("bottleneck"), run.series.links[1].iter().map(|s| s.bytes_out).sum::<u64>());
    let delays = rows("delays.parquet");
    let counted = |name: &str, what: &str| {
        let its = delays
            .iter()
            .filter(|r| r.get_string(2).unwrap() == name && r.get_string(3).unwrap() == what);
        its.map(|r| r.get_long(6).unwrap() as u64).sum::<u64>()
    };
    assert_eq!(counted("video", "delay"), run.flows[1].received);
    assert_eq!(counted("bottleneck", "queue"), run.links[1].queue_ns.count);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn results_are_compared_by_name() {
    let dirs = [scratch("left"), scratch("right")];
    write(&dirs[0], &data::results(1..4, 0.0), Contents { report: false, tables: false }).unwrap();
    write(&dirs[1], &data::results(4..7, 10.0), Contents { report: false, tables: false }).unwrap();
    let [left, right] = [0, 1].map(|i| Summary::read(&dirs[i]).unwrap());
    let all = compare(&left, &right);
    let lost = all.differences.iter().find(|d| d.name == "video" && d.figure == "loss").unwrap();
    assert!(lost.difference > 0.05 && lost.significance.significant() == Some(true), "{lost:?}");
    let sent = all.differences.iter().find(|d| d.name == "video" && d.figure == "sent").unwrap();
    assert_eq!(sent.significance, Significance::Equal);
    assert!(all.only_left.is_empty() && all.only_right.is_empty());
    dirs.iter().for_each(|dir| std::fs::remove_dir_all(dir).unwrap());
}

#[test]
fn a_trace_has_every_packet_that_was_counted() {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let blocks = Arc::clone(&bytes);
    let outcome = data::run(
        1,
        0.5,
        Some(Box::new(move |records| blocks.lock().unwrap().extend_from_slice(records))),
    );
    let records = bytes.lock().unwrap();
    let mut file = Vec::new();
    let mut trace = TraceTable::new(&mut file, &data::names()).unwrap();
    records.chunks(1000).for_each(|block| trace.write(block).unwrap());
    trace.finish().unwrap();
    let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
    let after = |row: &parquet::record::Row| row.get_long(0).unwrap() as u64 > outcome.warmup_ns;
    let rows: Vec<_> =
        reader.get_row_iter(None).unwrap().map(Result::unwrap).filter(after).collect();
    let count = |event: &str, flow: &str| {
        rows.iter()
            .filter(|r| r.get_string(1).unwrap() == event && r.get_string(3).unwrap() == flow)
            .count() as u64
    };
    for flow in &outcome.flows {
        assert_eq!(
            (count("arrived", &flow.name), count("dropped", &flow.name)),
            (flow.received, flow.lost),
            "{}",
            flow.name
        );
    }
    let [pairs, services, apart] = outcome.links[0].inversions.unwrap();
    assert!(
        pairs > services && services > 0 && apart >= pairs,
        "ranks repeat from 0 to 3 within a burst, and the FIFO ignores them"
    );
}

#[test]
fn the_report_is_complete_and_escapes_names() {
    let mut results = data::results(1..3, 0.5);
    let nasty = "</script><script>alert(1)</script><!--\"'&";
    for run in &mut results.runs {
        run.scenario = nasty.into();
        run.flows[0].name = nasty.into();
        run.flows[0].kind = nasty.into();
        run.links[0].name = nasty.into();
        run.links[0].spec = nasty.into();
    }
    let page = to_html(&results);
    assert_eq!(page.matches("<script").count(), 3, "two of data and one of code");
    assert!(!page.contains("<!--") && page.len() < 2_000_000, "{} bytes", page.len());
    for title in
        ["Throughput of flows", "One-way delay, cumulative", "Queue length", "Drops and marks", "±"]
    {
        assert!(page.contains(title), "{title}");
    }
}
