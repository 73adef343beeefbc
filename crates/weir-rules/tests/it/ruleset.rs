//! Properties of configurations: the script of a configuration creates the same configuration, and
//! changes lead from any configuration to any other.

use std::collections::BTreeSet;

use proptest::prelude::*;
use weir_core::{Emulator, Limits, Nanos};
use weir_rules::NoFiles;
use weir_rules::command::Command;
use weir_rules::ruleset::{Changes, EngineChange, Ruleset};
use weir_rules::script;

/// Lines of a script with few different numbers, so that numbers coincide often. Some lines are
/// refused.
fn line() -> impl Strategy<Value = String> {
    let number = 1..6u16;
    let spec = prop_oneof![
        Just("bw 4Mbit/s delay 20ms queue 50"),
        Just("bw 1234567bit/s delay 1500us jitter 2ms normal loss 1%"),
        Just("delay 5ms mask src-ip 0xff"),
        Just("bw 2Gbit/s burst 20KB plr 0.01"),
        Just("")
    ];
    let kind = proptest::sample::select(vec!["fifo", "drr", "wf2q+", "prio"]);
    let action = (
        proptest::sample::select(vec![
            "allow",
            "deny",
            "count",
            "pipe 1",
            "queue 2",
            "skipto 900",
            "pipe tablearg",
        ]),
        0..6u16,
    )
        .prop_map(|(action, n)| if n == 0 { "pipe 5".to_owned() } else { action.to_owned() });
    let body = proptest::sample::select(vec![
        "ip from any to any",
        "tcp from 10.0.0.0/8 to any dst-port 80,8000-8080 out",
        "udp from any to table(t1) in",
        "ip from table(2) to not 192.0.2.0/24",
        "{ tcp or udp } from any to any keep-state",
    ]);
    let flow = proptest::sample::select(vec![
        "",
        "weight 10",
        "weight 3 mask dst-ip 0xffff",
        "queue 100KB",
        "pri 4",
    ]);
    prop_oneof![
        4 => (number.clone(), spec.clone()).prop_map(|(n, spec)| format!("pipe {n} config {spec}")),
        2 => (number.clone(), kind, spec.clone()).prop_map(|(n, kind, spec)| format!("sched {n} config type {kind} {spec}")),
        3 => (number.clone(), number.clone(), flow).prop_map(|(n, to, flow)| format!("queue {n} config sched {to} {flow}")),
        5 => (0..4u16, 0..4u8, action, body).prop_map(|(n, set, action, body)| {
            let number = if n == 0 { String::new() } else { format!("{} ", n * 300) };
            format!("add {number}set {set} {action} {body}")
        }),
        1 => (0..15u8, 15..31u8).prop_map(|(a, b)| format!("set disable {a} {b} enable {}", (a + 1) % 15)),
        1 => (0..4u8, 0..4u8).prop_map(|(a, b)| format!("set swap {a} {b}")),
        1 => number.clone().prop_map(|n| format!("pipe delete {n}")),
        1 => number.clone().prop_map(|n| format!("queue delete {n}")),
        1 => (1..4u16).prop_map(|n| format!("delete {}", n * 300)),
        1 => Just("table t1 create type addr".to_owned()),
        2 => (1..3u8, any::<u32>(), 8..=32u8, any::<u32>())
            .prop_map(|(t, a, len, v)| {
                let address = std::net::Ipv4Addr::from(a & u32::MAX << (32 - len));
                format!("table {} add {address}/{len} {v}", if t == 1 { "t1" } else { "2" })
            }),
        1 => any::<bool>().prop_map(|on| format!("{} one_pass", if on { "enable" } else { "disable" })),
        1 => (1..4u16, spec).prop_map(|(port, spec)| format!("netconfig config client {port} IN {} OUT delay 1ms", spec.split(" mask").next().unwrap())),
        1 => (1..4u16).prop_map(|port| format!("netconfig delete client {port}")),
        1 => Just("table t1 lock".to_owned()),
        1 => Just("flush".to_owned()),
    ]
}

fn commands(line: &str) -> Vec<Command> {
    let parsed = script::parse(line, "line", &NoFiles);
    assert!(!parsed.diagnostics.has_errors(), "{line}\n{}", parsed.diagnostics);
    parsed.commands.into_iter().map(|spanned| spanned.command).collect()
}

fn build(lines: &[String]) -> Ruleset {
    let mut ruleset = Ruleset::default();
    for command in lines.iter().flat_map(|line| commands(line)) {
        let before = ruleset.clone();
        if ruleset.apply(&command).is_err() {
            assert_eq!(ruleset, before, "a refused command changes nothing");
        }
    }
    ruleset
}

/// Everything that the script of a configuration preserves; identities and the slots of netconfig
/// links are not preserved.
fn kept(ruleset: &Ruleset) -> impl PartialEq + std::fmt::Debug {
    let is_configured = |pipe: u16| pipe < weir_rules::ruleset::FIRST_NETCONFIG_PIPE;
    let rules: Vec<_> = ruleset
        .rules
        .iter()
        .map(|e| script::print(&Command::Add(Box::new((*e.rule).clone()))))
        .collect();
    let rules: Vec<_> =
        rules.into_iter().filter(|line| !line.contains(" set 31 pipe 64")).collect();
    let pipes: Vec<_> = ruleset
        .pipes
        .iter()
        .filter(|(n, _)| is_configured(**n))
        .map(|(n, p)| (*n, p.clone()))
        .collect();
    let links = ruleset.netconfig_lines();
    (
        rules,
        pipes,
        links,
        ruleset.scheds.clone(),
        ruleset.queues.clone(),
        (ruleset.tables.clone(), ruleset.enabled_sets, ruleset.one_pass),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_script_of_a_configuration_creates_it_again(
        lines in proptest::collection::vec(line(), 0..40),
    ) {
        let ruleset = build(&lines);
        let text = ruleset.script();
        let parsed = script::parse(&text, "script", &NoFiles);
        prop_assert!(!parsed.diagnostics.has_errors(), "{text}\n{}", parsed.diagnostics);
        let mut again = Ruleset::default();
        again
            .apply_all(&parsed.commands)
            .map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(kept(&again), kept(&ruleset), "{}", text);
        prop_assert_eq!(again.script(), text);
    }

    #[test]
    fn changes_lead_an_engine_from_any_configuration_to_any_other(
        first in proptest::collection::vec(line(), 0..30),
        second in proptest::collection::vec(line(), 0..30),
    ) {
        let (first, second) = (build(&first), build(&second));
        let mut emulator = Emulator::new(1, Limits::default());
        let mut now = Nanos::ZERO;
        for (old, new) in [(&Ruleset::default(), &first), (&first, &second), (&second, &first)] {
            let changes = Changes::between(old, new);
            now = Nanos(now.0 + 1_000);
            changes.engine.iter().for_each(|change| change.apply(now, &mut emulator));
            let links: BTreeSet<u16> = emulator.schedulers().collect();
            prop_assert_eq!(
                links,
                new.pipes.keys().chain(new.scheds.keys()).copied().collect::<BTreeSet<_>>()
            );
            let queues: BTreeSet<u16> = emulator.queues().collect();
            prop_assert_eq!(queues, new.queues.keys().copied().collect::<BTreeSet<_>>());
            for (&id, spec) in new.queues.iter() {
                prop_assert_eq!(emulator.queue_config(id), Some((spec.scheduler, &spec.flowset)));
            }
            // A direct change and one from an empty configuration give every link the same
            // settings.
            for change in Changes::between(&Ruleset::default(), new).engine {
                if let EngineChange::SetLink { id, scheduler, link, .. } = change {
                    prop_assert_eq!(emulator.scheduler_config(id), Some((*scheduler, &*link)));
                }
            }
        }
    }
}

/// A queue and its scheduler are checked against each other, whichever of them is configured first.
#[test]
fn a_rate_that_the_medium_does_not_have_is_refused() {
    let refused = |text: &str| {
        let commands = script::parse(text, "", &NoFiles).commands;
        let mut ruleset = Ruleset::default();
        commands
            .iter()
            .find_map(|spanned| ruleset.apply(&spanned.command).err())
            .map(|error| error.to_string())
    };
    let message = "queue 1: 802.11b has no data rate of 7 Mbit/s; it has 1, 2, 5.5, 11";
    for text in [
        "sched 1 config type dcf\nqueue 1 config sched 1 rate 7M\n",
        "queue 1 config sched 1 rate 7M\nsched 1 config type dcf\n",
    ] {
        assert_eq!(refused(text).as_deref(), Some(message), "{text}");
    }
    let above = "sched 1 config type dcf edca queue\nsched 2 config type fifo parent 1 pri 9\n";
    assert_eq!(
        refused(above).as_deref(),
        Some("sched 2: 9 is no user priority of 802.11; there are 0 to 7")
    );
    // A change of the medium may not leave a station with a rate that the medium does not have.
    let later = "sched 1 config type dcf\nqueue 1 config sched 1 rate 11M\n\
                 sched 1 config type dcf standard g\n";
    assert_eq!(
        refused(later).as_deref(),
        Some("queue 1: 802.11g has no data rate of 11 Mbit/s; it has 6, 9, 12, 18, 24, 36, 48, 54")
    );
    let fits = "sched 1 config type dcf standard g\nqueue 1 config sched 1 rate 6M\n\
                sched 2 config type htb\nqueue 2 config sched 2 rate 7M\n";
    assert_eq!(refused(fits), None);
}
