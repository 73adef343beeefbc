//! Runs `tests/show/*.md`. Each fenced block `show` contains a script, a line `---`, and the output
//! of the script's queries. An optional first line `flags …` contains the flags of the command.
//! Counters are derived from the numbers of the counted objects.
//!
//! `WEIR_UPDATE_SPEC=1` rewrites the outcomes; read the difference before you commit it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_core::key::FlowKey;
use weir_core::stats::{DropReason, MarkReason, Reasons};
use weir_rules::command::ObjectKind;
use weir_rules::ruleset::{Effect, Ruleset};
use weir_rules::show::{
    Answer, DynamicKind, DynamicView, FlowCount, Options, RuleCount, Source, answer, text,
};
use weir_rules::{Files, NoFiles, script};

struct DerivedCounters;

impl Source for DerivedCounters {
    fn rule(&self, id: u32) -> RuleCount {
        let last_s = (id % 2 == 1).then_some(1_795_000_000 + u64::from(id));
        RuleCount { packets: u64::from(id) * 7, bytes: u64::from(id) * 1_000_003, last_s }
    }

    fn flows(&self, kind: ObjectKind, number: u16) -> (Vec<FlowCount>, u64) {
        let key = |last: u8| FlowKey {
            src: 0x0a00_0000 + u128::from(last),
            dst: 0x0a4d_0001,
            proto: 6,
            src_port: 1024,
            ..FlowKey::default()
        };
        let v6 = FlowKey {
            src: 0xfd00 << 112 | 1,
            dst: 0xfd00 << 112 | 2,
            proto: 17,
            dst_port: 53,
            ipv6: true,
            vlan: 5,
            ..FlowKey::default()
        };
        let mut reasons = Reasons::default();
        (0..12).for_each(|_| reasons.count_drop(DropReason::QueueFull));
        let count = |key, n: u64| FlowCount {
            key,
            packets: 1042 * n,
            bytes: 1_563_000 * n,
            reasons,
            queue_packets: 3,
            queue_bytes: 4500,
            ..FlowCount::default()
        };
        match (kind, number) {
            (_, 7) => {
                let mut managed = FlowCount {
                    variables: vec![("probability", 1 << 29), ("count", 4)],
                    ..count(FlowKey::default(), 1)
                };
                managed.reasons.count_drop(DropReason::Early);
                managed.reasons.count_mark(MarkReason::Early);
                (vec![managed], 1)
            }
            (_, 1) => (vec![count(FlowKey::default(), 1)], 1),
            (ObjectKind::Queue, 3) => {
                (vec![count(key(1), 1), count(v6, 2), count(key(2), 3)], 10_000)
            }
            _ => (Vec::new(), 0),
        }
    }

    fn dynamic(&self) -> Vec<DynamicView> {
        let end = |text: &str| text.parse::<IpAddr>().unwrap();
        let one = |rule, kind, proto, packets| DynamicView {
            rule,
            kind,
            proto,
            src: end("10.0.0.1"),
            src_port: 40_000,
            dst: end("10.77.0.1"),
            dst_port: 80,
            packets,
            bytes: packets * 100,
            expires_s: 17,
            name: "default".to_owned(),
        };
        vec![one(100, DynamicKind::State, 6, 5), one(200, DynamicKind::Limit, 17, 12)]
    }
}

/// The output of a script's queries.
fn outcome(input: &str, files: &dyn Files) -> String {
    let (flags, script) = match input.strip_prefix("flags ").and_then(|rest| rest.split_once('\n'))
    {
        Some((flags, script)) => (flags, script),
        None => ("", input),
    };
    let parsed = script::parse(script, "script", files);
    assert!(!parsed.diagnostics.has_errors(), "{}", parsed.diagnostics);
    let mut ruleset = Ruleset::default();
    let outcomes = ruleset.apply_all(&parsed.commands).unwrap();
    let flag = |name: &str| flags.split(' ').any(|given| given == name);
    let time = |seconds: u64| format!("({seconds} as a date)");
    let options = Options {
        counters: flag("-a"),
        time: flag("-t").then_some(&time as &dyn Fn(u64) -> String),
        seconds: flag("-T"),
        dynamic: flag("-d"),
        dynamic_only: flag("-D"),
        sets: flag("-S"),
    };
    let mut out = String::new();
    for outcome in outcomes {
        if let Effect::Query(query) = outcome.effect {
            let view = answer(&query, &ruleset, &DerivedCounters);
            // The answer is converted to JSON and back, as if a daemon had sent it.
            let sent: Answer =
                serde_json::from_str(&serde_json::to_string(&view).unwrap()).unwrap();
            assert_eq!(sent, view);
            out.push_str(&text(&sent, &options));
        }
        for warning in outcome.warnings {
            out.push_str(&format!("warning: {warning}\n"));
        }
    }
    out
}

#[test]
fn every_case_is_printed_as_in_its_file() {
    let update = std::env::var_os("WEIR_UPDATE_SPEC").is_some();
    let (mut failures, mut cases) = (String::new(), 0);
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    files.insert(
        "radio.profile".to_owned(),
        include_str!("../../../../examples/talk/radio.profile").to_owned(),
    );
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/show")).unwrap() {
        let path = entry.unwrap().path();
        let document = std::fs::read_to_string(&path).unwrap();
        let mut rewritten = String::new();
        let mut rest = document.as_str();
        while let Some((before, block)) = rest.split_once("```show\n") {
            let (block, after) = block.split_once("```\n").unwrap();
            let (input, expected) = block.split_once("---\n").unwrap_or((block, ""));
            let found = outcome(input, &files);
            cases += 1;
            if found != expected {
                failures.push_str(&format!(
                    "{}:\n{input}--- expected\n{expected}--- found\n{found}\n",
                    path.display()
                ));
            }
            rewritten.push_str(&format!("{before}```show\n{input}---\n{found}```\n"));
            rest = after;
        }
        if update {
            std::fs::write(&path, rewritten + rest).unwrap();
        }
    }
    assert!(cases > 0, "no case found");
    assert!(
        update || failures.is_empty(),
        "{failures}\nset WEIR_UPDATE_SPEC=1 to rewrite the outcomes"
    );
}

#[test]
fn the_talks_configurations_are_accepted_without_warnings() {
    let directory =
        std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/talk"));
    let mut files = BTreeMap::new();
    files.insert(
        "radio.profile".to_owned(),
        std::fs::read_to_string(directory.join("radio.profile")).unwrap(),
    );
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "ipfw") {
            let parsed = script::parse(&std::fs::read_to_string(&path).unwrap(), "talk", &files);
            assert!(parsed.diagnostics.is_empty(), "{}:\n{}", path.display(), parsed.diagnostics);
            let mut ruleset = Ruleset::default();
            ruleset.apply_all(&parsed.commands).unwrap();
            assert!(!ruleset.rules.is_empty());
            assert_eq!(ruleset.configuration_warnings(), []);
            seen += 1;
        }
    }
    assert_eq!(seen, 6);
}

/// Without the keyword `queue`, the scheduler in front of the link determines the queue's limit.
#[test]
fn the_default_queue_of_a_pipe_is_that_of_its_scheduler() {
    let shown = |script: &str| outcome(&format!("{script}\npipe show\nqueue show\n"), &NoFiles);
    let plain = shown("pipe 1 config bw 10Mbit/s\n");
    assert!(plain.contains("83 sl.") && !plain.contains("10000000 sl."), "{plain}");
    let own = shown("pipe 1 config bw 10Mbit/s sched fq_codel\n");
    assert!(own.contains("10000000 sl.") && !own.contains("83 sl."), "{own}");
    let fed = shown("pipe 1 config bw 10Mbit/s sched fq_codel\nqueue 2 config pipe 1\n");
    assert_eq!(fed.matches("10000000 sl.").count(), 2, "{fed}");
    let child = shown("pipe 1 config bw 10Mbit/s\nsched 2 config parent 1 type rr\n");
    assert!(child.to_lowercase().contains("wf2q+"), "{child}");
}
