//! The cost of a verdict, and of a change of the rules.
//!
//! The 4,096 packets have random addresses, so that neither caches nor branch predictors can
//! anticipate the next packet.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use weir_core::key::FlowKey;
use weir_core::rng::{Purpose, Stream};
use weir_core::units::Nanos;
use weir_rules::classify::{Classifier, Packet, Pass, Place, PlaceInterface, State, Tags};
use weir_rules::rule::{Address, Clause, Rule, RuleAction, Span16, TableMatch, Target, Term, Test};
use weir_rules::ruleset::{Entry, Ruleset};
use weir_rules::table::{Table, TableKey, TableKind};
use weir_wire::Parsed;
use weir_wire::builder::PacketBuilder;

/// A packet goes out through interface 0.
const UP: Pass = Pass { out: true, bridged: false, recv: None, xmit: Some(0) };
/// A packet comes in through interface 0.
const DOWN: Pass = Pass { out: false, bridged: false, recv: Some(0), xmit: None };

fn verdicts(c: &mut Criterion) {
    let one = ruleset(vec![rule(100, pipe(1), vec![Test::Out])]);
    // The rules of an office: services by port, a network, then everything else.
    let mut office: Vec<Rule> =
        (0..18).map(|n| rule(100 + n, pipe(n), vec![Test::Protocol(6), port(7000 + n)])).collect();
    office.push(rule(
        200,
        pipe(20),
        vec![Test::Protocol(17), Test::DstAddress(vec![prefix(0xc0a8_0000, 16)])],
    ));
    office.push(rule(300, pipe(21), vec![Test::Out]));
    let office = ruleset(office);
    let hosts = |n: u16| Test::DstAddress(vec![prefix(customer(n.into()), 32)]);
    let customers =
        ruleset((0..10_000).map(|n| rule(n + 1, pipe(n % 500 + 1), vec![hosts(n)])).collect());
    let ports = ruleset(
        (0..10_000)
            .map(|n| rule(n + 1, pipe(n % 500 + 1), vec![Test::Protocol(17), port(n)]))
            .collect(),
    );
    let both = |n: u16| {
        vec![Test::DstAddress(vec![prefix(customer(u32::from(n) / 100), 32)]), port(n % 100 * 100)]
    };
    let both = ruleset((0..10_000).map(|n| rule(n + 1, pipe(n % 500 + 1), both(n))).collect());
    let mut table = ruleset(vec![rule(
        100,
        RuleAction::Pipe(Target::TableArg),
        vec![Test::DstAddress(vec![in_table()])],
    )]);
    set_table(&mut table, 100_000);
    for (name, rules) in [
        ("1-rule", &one),
        ("20-rules", &office),
        ("10000-hosts", &customers),
        ("10000-ports", &ports),
        ("100-hosts-by-100-ports", &both),
        ("table-of-100000", &table),
    ] {
        let spread = if name.starts_with("table") { 100_000 } else { 10_000 };
        let packets = packets(spread);
        let classifier = Classifier::compile(rules, &place());
        let (mut state, mut tags, mut at) = (State::new(1), Tags::new(), 0);
        state.carry_over(&classifier);
        c.bench_function(&format!("classify/{name}"), |b| {
            b.iter(|| {
                let (frame, parsed, key) = &packets[at];
                at = (at + 1) % packets.len();
                let mut packet = Packet {
                    frame,
                    parsed: Some(parsed),
                    key,
                    len: 100,
                    pass: UP,
                    tags: &mut tags,
                    now: Nanos(1),
                };
                black_box(classifier.classify(&mut state, &mut packet, None))
            });
        });
    }
}

fn changes(c: &mut Criterion) {
    let hosts = |n: u16| Test::DstAddress(vec![prefix(customer(n.into()), 32)]);
    let rules =
        ruleset((0..10_000).map(|n| rule(n + 1, pipe(n % 500 + 1), vec![hosts(n)])).collect());
    c.bench_function("compile/10000-rules", |b| {
        b.iter(|| Classifier::compile(black_box(&rules), &place()));
    });
    let mut table = ruleset(vec![rule(
        100,
        RuleAction::Pipe(Target::TableArg),
        vec![Test::DstAddress(vec![in_table()])],
    )]);
    set_table(&mut table, 100_000);
    c.bench_function("compile/table-of-100000", |b| {
        b.iter(|| Classifier::compile(black_box(&table), &place()));
    });
    let mut classifier = Classifier::compile(&table, &place());
    let name = "customers".into();
    let keys: Vec<TableKey> = (0..100_000).step_by(97).map(key).collect();
    let mut at = 0;
    c.bench_function("change/one-of-100000", |b| {
        b.iter(|| {
            at = (at + 1) % keys.len();
            classifier = classifier.update_table(black_box(&table), &name, &keys[at..=at]);
        });
    });
}

fn rule(number: u16, action: RuleAction, tests: Vec<Test>) -> Rule {
    let body = tests.into_iter().map(|test| Clause(vec![Term { not: false, test }])).collect();
    Rule {
        number,
        set: 0,
        probability: None,
        action,
        tag: None,
        untag: None,
        log: false,
        body,
        comment: None,
    }
}

fn ruleset(rules: Vec<Rule>) -> Ruleset {
    let rules: Vec<Entry> =
        (1..).zip(rules).map(|(id, rule)| Entry { id, rule: rule.into() }).collect();
    Ruleset { rules: rules.into(), ..Ruleset::default() }
}

fn pipe(number: u16) -> RuleAction {
    RuleAction::Pipe(Target::Number(number.max(1)))
}

fn port(port: u16) -> Test {
    Test::DstPort(vec![Span16 { first: port, last: port }])
}

fn prefix(address: u32, len: u32) -> Address {
    Address::V4 { address, mask: u32::MAX << (32 - len) }
}

fn in_table() -> Address {
    Address::Table(TableMatch { table: "customers".into(), value: None })
}

/// The address of customer `n`. The addresses are spread over the IPv4 space.
fn customer(n: u32) -> u32 {
    (n + 1).wrapping_mul(0x9e37_79b1)
}

fn key(n: u32) -> TableKey {
    TableKey::V4 { address: customer(n), len: 32 }
}

fn set_table(rules: &mut Ruleset, entries: u32) {
    let entries = (0..entries).map(|n| (key(n), n % 500 + 1)).collect();
    let table = Table { kind: TableKind::Address, entries, ..Table::default() };
    Arc::make_mut(&mut rules.tables).insert("customers".into(), table.into());
}

fn place() -> Place {
    let interface = PlaceInterface { number: 0, name: "eth0".into(), v4: vec![1], v6: vec![] };
    Place { interfaces: vec![interface], passes: vec![UP, DOWN], ..Place::default() }
}

/// Packets of TCP and UDP to some of the customers.
fn packets(customers: u32) -> Vec<(Vec<u8>, Parsed, FlowKey)> {
    let mut random = Stream::new(1, 1, Purpose::Classifier);
    let packet = |_| {
        let dst = Ipv4Addr::from(customer(random.below(customers)));
        let src = Ipv4Addr::from(random.bits32());
        let port = random.below(100) as u16 * 100;
        let packet = if random.below(2) == 0 {
            PacketBuilder::tcp(src, dst, 443, port)
        } else {
            PacketBuilder::udp(src, dst, 443, port)
        };
        let frame = packet.frame();
        let parsed = weir_wire::parse(&frame).expect("a built frame parses");
        let key = weir_wire::flow_key(&frame, &parsed);
        (frame, parsed, key)
    };
    (0..4096).map(packet).collect()
}

criterion_group!(benches, verdicts, changes);
criterion_main!(benches);
