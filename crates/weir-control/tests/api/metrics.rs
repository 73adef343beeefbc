//! The metrics follow the conventions of Prometheus, in both formats.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use weir_core::stats::{DropReason, MarkReason};

use super::{Lab, send};

#[test]
fn every_metric_follows_the_conventions() {
    let lab = Lab::new();
    send(&lab.client(), "pipe 1 config bw 4Mbit/s\nadd 100 pipe 1 ip from any to any");
    for accept in ["application/openmetrics-text", "text/plain"] {
        check_conventions(&scrape(&lab, accept).1);
    }
}

#[test]
fn a_client_that_prefers_plain_text_gets_the_classic_format() {
    let lab = Lab::new();
    send(&lab.client(), "pipe 1 config bw 4Mbit/s");
    let (head, classic) = scrape(&lab, "text/plain;version=0.0.4");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(!classic.contains("# EOF") && !classic.contains("# UNIT"), "{classic}");
    assert!(classic.contains("# TYPE weir_link_packets_total counter\n"), "{classic}");
    let (head, open) = scrape(&lab, "*/*");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    assert!(open.contains("# TYPE weir_link_packets counter\n") && open.ends_with("# EOF\n"));
    let samples = |text: &str| {
        let changing = |line: &&str| {
            line.starts_with('#') || line.contains("uptime") || line.contains("requests")
        };
        let lines = text.lines().filter(|line| !changing(line)).map(str::to_owned);
        lines.collect::<BTreeSet<_>>()
    };
    assert_eq!(samples(&classic), samples(&open));
}

#[test]
fn every_drop_and_mark_reason_has_a_series_before_it_first_occurs() {
    let lab = Lab::new();
    send(&lab.client(), "pipe 1 config bw 4Mbit/s");
    let text = lab.client().metrics().unwrap();
    for reason in DropReason::ALL {
        let count = if reason == DropReason::QueueFull { 2 } else { 0 };
        let series =
            format!("weir_link_drops_total{{link=\"1\",reason=\"{}\"}} {count}\n", reason.name());
        assert!(text.contains(&series), "{series}{text}");
    }
    for reason in MarkReason::ALL {
        let series =
            format!("weir_link_marks_total{{link=\"1\",reason=\"{}\"}} 0\n", reason.name());
        assert!(text.contains(&series), "{series}{text}");
    }
}

#[test]
fn delays_and_queue_times_are_histograms() {
    let lab = Lab::new();
    send(&lab.client(), "pipe 1 config bw 4Mbit/s");
    let text = lab.client().metrics().unwrap();
    for line in [
        "# TYPE weir_link_queue_time_seconds histogram",
        "# TYPE weir_link_delay_seconds histogram",
        "# TYPE weir_lane_lateness_seconds histogram",
        "weir_link_queue_time_seconds_bucket{le=\"0.002\",link=\"1\"} 0",
        "weir_link_queue_time_seconds_bucket{le=\"0.005\",link=\"1\"} 15",
        "weir_link_queue_time_seconds_bucket{le=\"+Inf\",link=\"1\"} 15",
        "weir_link_queue_time_seconds_count{link=\"1\"} 15",
        "weir_link_queue_time_seconds_sum{link=\"1\"} 0.045",
        "weir_lane_lateness_seconds_count{lane=\"a-b\",from=\"a\",to=\"b\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
}

#[test]
fn thousands_of_pipes_have_a_bounded_number_of_series_and_the_right_sum() {
    let lab = Lab::new();
    let script: String = (1..=1500).map(|n| format!("pipe {n} config bw 4Mbit/s\n")).collect();
    send(&lab.client(), &script);
    let text = lab.client().metrics().unwrap();
    let prefix = "weir_link_packets_total{";
    let series: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with(prefix) && line.contains("direction=\"in\""))
        .collect();
    assert_eq!(series.len(), 1001);
    let value = |line: &&str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    assert_eq!(series.iter().map(value).sum::<u64>(), 1500 * 17);
    let others = series.iter().find(|line| line.contains("link=\"other\"")).map(value);
    assert_eq!(others, Some(500 * 17));
}

/// Checks what `promtool check metrics` checks, and that no family appears twice.
fn check_conventions(text: &str) {
    let (mut types, mut helps) = (BTreeMap::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' ')) {
            assert!(types.insert(name, kind).is_none(), "{name} appears twice");
        } else if let Some((name, help)) =
            line.strip_prefix("# HELP ").and_then(|l| l.split_once(' '))
        {
            assert!(!help.is_empty() && helps.insert(name), "{name}");
        }
    }
    assert!(types.keys().eq(&helps), "every metric has a type and a help");
    let mut series = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name_and_labels, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(series.insert(name_and_labels), "{name_and_labels} appears twice");
        let name = name_and_labels.split('{').next().unwrap();
        let family = ["_total", "_bucket", "_count", "_sum", ""]
            .iter()
            .find_map(|suffix| {
                let family = name.strip_suffix(suffix)?;
                types.get_key_value(family).or_else(|| types.get_key_value(name))
            })
            .unwrap_or_else(|| panic!("{name} has no type"));
        let (family, kind) = family;
        assert!(
            family.starts_with("weir_")
                && family.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        );
        assert_eq!(name.ends_with("_total"), *kind == "counter", "{line}");
        assert!(!name_and_labels.contains("quantile="), "only a summary has quantiles: {line}");
        assert_eq!(name_and_labels.contains("{le=\""), name.ends_with("_bucket"), "{line}");
        for unit in ["_ns", "_ms", "_us", "_milliseconds", "_kilobytes", "_percent"] {
            assert!(!family.contains(unit), "{family} is not in a base unit");
        }
        for word in ["_gauge", "_counter", "_histogram"] {
            assert!(!family.contains(word), "{family} names its type");
        }
    }
}

/// The head of the response, and its body.
fn scrape(lab: &Lab, accept: &str) -> (String, String) {
    let mut stream = UnixStream::connect(lab.socket()).unwrap();
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: weir\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}
