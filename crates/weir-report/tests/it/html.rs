//! The report page is complete, bounded in size, and safe with any names and commands.

#[path = "../../examples/demo_report/data.rs"]
mod data;

use weir_measure::document::{Kind, Schemas};
use weir_report::{LinkResult, Run, RunInfo, RunResult, to_html, to_json};

use crate::check::assert_follows;

#[test]
fn an_hour_fits_in_two_megabytes() {
    let page = to_html(&data::run(3600));
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(page.contains("Throughput") && page.contains("Queue length"));
}

#[test]
fn hostile_text_stays_text() {
    let nasty = "</script><script>alert(1)</script><!--\"'&\u{0}";
    let link = LinkResult {
        name: nasty.into(),
        from: nasty.into(),
        to: nasty.into(),
        spec: nasty.into(),
        ..LinkResult::default()
    };
    let info = RunInfo {
        version: nasty.into(),
        command: vec![nasty.into()],
        started: nasty.into(),
        notes: vec![nasty.into()],
        ..RunInfo::default()
    };
    let page = to_html(&RunResult::new(info, vec![link]));
    assert_eq!(page.matches("<script").count(), 3, "two of data and one of code");
    assert_eq!(page.matches("</script>").count(), 3);
    assert!(!page.contains("<!--"));
}

#[test]
fn nothing_is_fetched() {
    let page = to_html(&data::run(12));
    let outside = |s: &str| page.matches(s).count();
    assert_eq!(outside(" src=") + outside("@import") + outside("url(http") + outside("<link"), 0);
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn the_result_inside_the_page_is_the_result() {
    let run = data::run(12);
    let page = to_html(&run);
    let (_, rest) = page.split_once("id=\"weir-result\">").unwrap();
    let inside: serde_json::Value =
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    assert_eq!(inside, serde_json::from_str::<serde_json::Value>(&to_json(&run)).unwrap());
    assert_follows(&Schemas::new().with::<Run<'_>>(Kind::Run).finish(), &inside);
    assert!(run.links().iter().all(|link| link.counters.balanced()), "the made-up data adds up");
}
