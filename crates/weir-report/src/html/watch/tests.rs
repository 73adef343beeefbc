//! Tests of the text of a watch's page.

use weir_measure::watch::{Counters, Handle, Method, Pace, Queue, Run, Sink};

use super::*;

/// The text of a page without its style, pictures and script, in lines.
fn words(page: &str) -> String {
    let (_, body) = page.split_once("<body>").expect("a body");
    let (body, _) = body.split_once("<script").expect("a script");
    let mut text = String::new();
    let mut rest = body;
    while let Some((before, picture)) = rest.split_once("<svg") {
        text.push_str(before);
        rest = picture.split_once("</svg>").expect("its end").1;
    }
    text.push_str(rest);
    BEGIN_LINES.iter().fold(text, |text, tag| text.replace(tag, &format!("\n{tag}")))
}

#[test]
fn a_small_watch_reads_as_expected() {
    let mut tally = Tally::new();
    let queue = |kind: &str, handle, parent, root| Queue {
        device: "eth0".into(),
        netns: None,
        kind: kind.into(),
        handle: Handle(handle),
        parent: Handle(parent),
        band: None,
        root,
    };
    tally.appeared(1_000_000_000, 0, &queue("htb", 0x1_0000, u32::MAX, true));
    tally.appeared(1_000_000_000, 1, &queue("pfifo", 0, 0x1_002a, false));
    for (id, drops) in [(0, 0), (1, 5)] {
        tally.counters(1_000_000_000, id, &Counters::default());
        for (n, qlen) in [0, 1, 3, 1, 0].into_iter().enumerate() {
            let first = 1_000_000_000 + n as u64 * 10_000_000;
            tally.runs(&[Run {
                queue: id,
                first,
                last: first + 9_000_000,
                count: 10,
                qlen,
                backlog: qlen * 1000,
            }]);
        }
        tally.counters(1_049_000_000, id, &Counters { packets: 95, drops, ..Counters::default() });
    }
    tally.vanished(1_049_000_000, 1);
    tally.remark(1_050_000_000, "eth0 is gone");
    let mut pace = Pace { asked: Some(1000), readings: 50, missed: 1, ..Pace::default() };
    pace.gaps.record(1_000_000);
    let summary = Summary::of(&tally, Method::Timer, 0.05, &pace);
    insta::assert_snapshot!(words(&html(
        &tally,
        &summary,
        &About { version: "1.2.3".into(), ..About::default() }
    )));
}

/// Elements that begin a line of the snapshot.
const BEGIN_LINES: [&str; 12] = [
    "<header",
    "<h1",
    "<h2",
    "<dl",
    "<ul",
    "<li",
    "<div class=\"scroll",
    "<tr",
    "<section",
    "<div class=\"plots",
    "<figure ",
    "<footer",
];
