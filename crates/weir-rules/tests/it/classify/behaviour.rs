//! The classifier on prepared packets: the effect of each kind of rule.

use super::common::{self, Bench, UP, add, any, ruleset, term};
use weir_core::units::Probability;
use weir_rules::classify::{DEFAULT_ID, Fate, JUMPS, Resume};
use weir_rules::rule::{Address, Clause, RuleAction, Span16, Target, Term, Test};
use weir_rules::ruleset::Ruleset;
use weir_rules::table::{Table, TableKey, TableKind};
use weir_wire::builder::PacketBuilder;

fn pipe(number: u16) -> RuleAction {
    RuleAction::Pipe(Target::Number(number))
}

fn udp() -> PacketBuilder {
    PacketBuilder::udp([10, 0, 0, 1], [192, 0, 2, 7], 1000, 53)
}

fn port(port: u16) -> Test {
    Test::DstPort(vec![Span16 { first: port, last: port }])
}

#[test]
fn the_first_rule_that_matches_decides_and_is_counted() {
    let rules = ruleset([
        add(100, pipe(1), [term(port(80))]),
        add(200, pipe(2), [term(port(53))]),
        add(300, pipe(3), any()),
    ]);
    let mut bench = Bench::new(&rules);
    assert_eq!(bench.fate(&udp()), Fate::Pipe(2, None));
    let packets: Vec<_> = bench
        .state
        .counters()
        .map(|(id, counters)| (id, counters.packets, counters.bytes))
        .collect();
    assert_eq!(packets, [(1, 0, 0), (2, 1, 28), (3, 0, 0), (DEFAULT_ID, 0, 0)]);
}

#[test]
fn without_a_match_a_packet_passes_and_the_default_rule_counts_it() {
    let mut bench = Bench::new(&ruleset([add(1, RuleAction::Deny, [term(port(80))])]));
    assert_eq!(bench.fate(&udp()), Fate::Allow);
    assert_eq!(
        bench.state.counters().last().map(|(id, counters)| (id, counters.packets)),
        Some((DEFAULT_ID, 1))
    );
}

#[test]
fn from_any_to_any_matches_ip_and_layer2_matches_every_frame() {
    let arp = PacketBuilder::arp([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut bench = Bench::new(&ruleset([add(1, pipe(1), any()), add(2, pipe(2), [])]));
    assert_eq!(bench.fate(&arp), Fate::Allow);
    let mut frames = any();
    frames.push(term(Test::Layer2));
    let mut bench = Bench::new(&ruleset([add(1, pipe(1), frames)]));
    assert_eq!(bench.fate(&arp), Fate::Pipe(1, None));
    let negated = Term {
        not: true,
        test: Test::SrcAddress(vec![Address::V4 { address: 0, mask: u32::MAX }]),
    };
    let mut bench = Bench::new(&ruleset([add(1, pipe(1), [Clause(vec![negated])])]));
    assert_eq!(bench.fate(&arp), Fate::Allow);
    assert_eq!(bench.fate(&udp()), Fate::Pipe(1, None));
}

#[test]
fn without_one_pass_the_search_continues_after_the_rule_even_if_it_was_deleted() {
    let mut rules =
        ruleset([add(100, pipe(1), any()), add(100, pipe(2), any()), add(300, pipe(3), any())]);
    rules.one_pass = false;
    let mut bench = Bench::new(&rules);
    let first = Resume { number: 100, id: 1 };
    assert_eq!(bench.fate(&udp()), Fate::Pipe(1, Some(first)));
    assert_eq!(
        bench.fate_from(&udp(), UP, Some(first)),
        Fate::Pipe(2, Some(Resume { number: 100, id: 2 }))
    );
    let gone = Resume { number: 100, id: 77 };
    assert_eq!(
        bench.fate_from(&udp(), UP, Some(gone)),
        Fate::Pipe(3, Some(Resume { number: 300, id: 3 }))
    );
    let last = Resume { number: 300, id: 3 };
    assert_eq!(bench.fate_from(&udp(), UP, Some(last)), Fate::Allow);
}

#[test]
fn jumps_calls_and_returns_reach_their_targets() {
    let rules = ruleset([
        add(100, RuleAction::Call(Target::Number(500)), any()),
        add(200, RuleAction::SkipTo(Target::Number(350)), any()),
        add(300, RuleAction::Deny, any()),
        add(400, pipe(4), any()),
        add(500, RuleAction::Count, any()),
        add(600, RuleAction::Return, any()),
        add(700, RuleAction::Deny, any()),
    ]);
    let mut bench = Bench::new(&rules);
    assert_eq!(bench.fate(&udp()), Fate::Pipe(4, None));
    let packets: Vec<_> = bench.state.counters().map(|(_, counters)| counters.packets).collect();
    assert_eq!(packets, [1, 1, 0, 1, 1, 1, 0, 0]);
}

#[test]
fn endless_loops_are_ended_and_counted() {
    let rules = ruleset([
        add(100, RuleAction::Call(Target::Number(100)), any()),
        add(200, RuleAction::Call(Target::Number(100)), any()),
        add(300, RuleAction::Return, any()),
    ]);
    let mut bench = Bench::new(&rules);
    assert_eq!(bench.fate(&udp()), Fate::Deny);
    assert_eq!(bench.state.loops(), 1);
    assert!(
        bench.state.counters().map(|(_, counters)| counters.packets).sum::<u64>()
            < u64::from(JUMPS) * 3
    );
}

#[test]
fn a_table_gives_its_value_to_the_action() {
    let mut rules = ruleset([add(
        100,
        RuleAction::Pipe(Target::TableArg),
        [term(Test::SrcAddress(vec![common::table("customers", None)]))],
    )]);
    common::set_table(
        &mut rules,
        "customers",
        TableKind::Address,
        [
            (TableKey::V4 { address: 0x0a00_0000, len: 8 }, 8),
            (TableKey::V4 { address: 0x0a00_0001, len: 32 }, 32),
        ],
    );
    let mut bench = Bench::new(&rules);
    assert_eq!(bench.fate(&udp()), Fate::Pipe(32, None));
    // Only the changed entry is compiled.
    let key = TableKey::V4 { address: 0x0a00_0001, len: 32 };
    common::edit_table(&mut rules, "customers", |table: &mut Table| {
        table.entries.remove(&key);
    });
    bench.classifier = bench.classifier.update_table(&rules, &"customers".into(), &[key]);
    assert_eq!(bench.fate(&udp()), Fate::Pipe(8, None));
    common::edit_table(&mut rules, "customers", |table| table.entries.clear());
    bench.classifier = bench.classifier.recompile(&rules);
    assert_eq!(bench.fate(&udp()), Fate::Allow);
}

#[test]
fn a_rule_with_a_probability_matches_that_share_of_packets() {
    let mut rules = ruleset([add(100, pipe(1), any()), add(200, pipe(2), any())]);
    common::edit_rule(&mut rules, 0, |rule| rule.probability = Probability::new(0.3));
    let mut bench = Bench::new(&rules);
    assert!(bench.classifier.needs_each_segment());
    let first = (0..10_000).filter(|_| bench.fate(&udp()) == Fate::Pipe(1, None)).count();
    // The bounds are six standard deviations of 46 on either side of 3000.
    assert!((2724..3276).contains(&first), "{first}");
}

#[test]
fn tags_are_set_tested_and_removed() {
    let mut rules = ruleset([
        add(100, RuleAction::Count, [term(port(53))]),
        add(200, RuleAction::Count, [term(Test::Tagged(vec![Span16 { first: 7, last: 7 }]))]),
        add(300, pipe(1), [term(Test::Tagged(Vec::new()))]),
        add(400, pipe(2), any()),
    ]);
    common::edit_rule(&mut rules, 0, |rule| rule.tag = Some(Target::Number(7)));
    let mut bench = Bench::new(&rules);
    assert_eq!(bench.fate(&udp()), Fate::Pipe(1, None));
    assert_eq!(bench.tags, [7]);
    common::edit_rule(&mut rules, 1, |rule| rule.untag = Some(Target::Number(7)));
    let mut bench = Bench::new(&rules);
    assert!(bench.classifier.needs_tags());
    assert_eq!(bench.fate(&udp()), Fate::Pipe(2, None));
    assert!(bench.tags.is_empty());
}

#[test]
fn the_rules_of_a_disabled_set_are_skipped() {
    let mut rules = ruleset([add(100, pipe(1), any()), add(200, pipe(2), any())]);
    common::edit_rule(&mut rules, 0, |rule| rule.set = 5);
    rules.enabled_sets = !(1 << 5);
    assert_eq!(Bench::new(&rules).fate(&udp()), Fate::Pipe(2, None));
}

#[test]
fn counters_and_random_streams_survive_a_new_rule() {
    let mut rules = ruleset([add(100, RuleAction::Count, any()), add(200, pipe(2), any())]);
    common::edit_rule(&mut rules, 1, |rule| rule.probability = Probability::new(0.5));
    let mut alone = Bench::new(&rules);
    let undisturbed: Vec<_> = (0..200).map(|_| alone.fate(&udp())).collect();
    let mut bench = Bench::new(&rules);
    let mut fates: Vec<_> = (0..100).map(|_| bench.fate(&udp())).collect();
    let mut entries = (*rules.rules).clone();
    let mut extra = add(50, RuleAction::Count, any());
    extra.probability = Probability::new(0.5);
    entries.insert(0, weir_rules::ruleset::Entry { id: 9, rule: extra.into() });
    let changed = Ruleset { rules: entries.into(), ..rules };
    bench.classifier = bench.classifier.recompile(&changed);
    fates.extend((0..100).map(|_| bench.fate(&udp())));
    assert_eq!(fates, undisturbed);
    let packets: Vec<_> =
        bench.state.counters().map(|(id, counters)| (id, counters.packets)).collect();
    assert_eq!(packets[1], (1, 200));
    assert_eq!(packets[0].0, 9);
    bench.state.zero(Some(&[1]));
    assert_eq!(bench.state.counters().nth(1).map(|(_, counters)| counters.packets), Some(0));
}
