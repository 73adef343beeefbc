//! Random rulesets and packets: the compiled classifier decides, counts and tags in the same manner
//! as a naive interpreter of the same rules.

use proptest::prelude::*;
use weir_core::units::{Nanos, Probability};
use weir_rules::classify::{Fate, Pass, Place, Question, Reaction};
use weir_rules::rule::{
    Address, Clause, Interface, LookupField, Rule, RuleAction, Span16, TableMatch, Target, Term,
    Test,
};
use weir_rules::ruleset::Ruleset;
use weir_rules::table::{FlowFields, TableKey, TableKind};
use weir_wire::builder::{PacketBuilder, Transport};

use super::common::{Bench, PASSES, edit_rule, edit_table, place, ruleset, set_table};
use super::oracle::Oracle;

/// A number within 0..n that is mostly small, so that values coincide often.
fn few(n: u32) -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0..n.min(4), 1 => 0..n]
}

fn v4() -> impl Strategy<Value = u32> {
    (few(3), few(3), few(256)).prop_map(|(a, b, c)| 0x0a00_0000 + (a << 16) + (b << 8) + c)
}

fn v6() -> impl Strategy<Value = u128> {
    v4().prop_map(|address| 0xfd00 << 112 | u128::from(address))
}

fn span(most: u16) -> impl Strategy<Value = Span16> {
    (few(most.into()), prop_oneof![3 => Just(0), 1 => few(most.into())]).prop_map(
        |(first, more)| Span16 {
            first: first as u16,
            last: (first + more).min(u16::MAX.into()) as u16,
        },
    )
}

fn spans(most: u16) -> impl Strategy<Value = Vec<Span16>> {
    prop::collection::vec(span(most), 1..4)
}

fn table() -> impl Strategy<Value = TableMatch> {
    ("[anfix]", prop::option::weighted(0.3, few(8)))
        .prop_map(|(name, value)| TableMatch { table: name.into(), value })
}

fn address() -> impl Strategy<Value = Address> {
    let prefix4 = (v4(), prop_oneof![Just(32), 8..=32u32]).prop_map(|(address, len)| {
        let mask = u32::MAX << (32 - len);
        Address::V4 { address: address & mask, mask }
    });
    let prefix6 = (v6(), prop_oneof![Just(128), 96..=128u32]).prop_map(|(address, len)| {
        let mask = u128::MAX << (128 - len);
        Address::V6 { address: address & mask, mask }
    });
    prop_oneof![
        1 => Just(Address::Any),
        1 => Just(Address::Me),
        1 => Just(Address::Me6),
        8 => prefix4,
        4 => prefix6,
        1 => (v4(), any::<u32>()).prop_map(|(address, mask)| Address::V4 { address: address & mask, mask }),
        1 => (v4(), any::<[u64; 4]>()).prop_map(|(base, members)| Address::Set { base: base & !3, members }),
        2 => table().prop_map(Address::Table),
    ]
}

fn addresses() -> impl Strategy<Value = Vec<Address>> {
    prop_oneof![4 => prop::collection::vec(address(), 1..2), 1 => prop::collection::vec(address(), 1..20)]
}

fn interface() -> impl Strategy<Value = Interface> {
    prop_oneof![
        Just(Interface::Any),
        Just(Interface::Name("eth0".into())),
        Just(Interface::Name("wlan*".into())),
        Just(Interface::V4(0x0a00_00fe)),
        table().prop_map(Interface::Table),
    ]
}

fn test() -> impl Strategy<Value = Test> {
    let fields = prop_oneof![
        Just(LookupField::SrcIp),
        Just(LookupField::DstIp),
        Just(LookupField::SrcPort),
        Just(LookupField::DstPort),
        Just(LookupField::Dscp)
    ];
    prop_oneof![
        6 => addresses().prop_map(Test::SrcAddress),
        6 => addresses().prop_map(Test::DstAddress),
        4 => spans(100).prop_map(Test::SrcPort),
        4 => spans(100).prop_map(Test::DstPort),
        3 => prop_oneof![Just(6u8), Just(17), Just(1)].prop_map(Test::Protocol),
        1 => prop_oneof![Just(Test::Ip4), Just(Test::Ip6), Just(Test::Layer2), Just(Test::Bridged)],
        2 => prop_oneof![Just(Test::In), Just(Test::Out)],
        2 => prop_oneof![interface().prop_map(Test::Via), interface().prop_map(Test::Recv), interface().prop_map(Test::Xmit)],
        1 => spans(8).prop_map(Test::Vlan),
        1 => any::<u64>().prop_map(Test::Dscp),
        1 => spans(255).prop_map(Test::IpTtl),
        1 => (0u8..64, 0u8..64).prop_map(|(set, clear)| Test::TcpFlags { set: set & 3, clear: clear & 4 }),
        1 => prop::collection::vec(span(4), 0..2).prop_map(Test::Tagged),
        1 => (fields, table()).prop_map(|(field, table)| Test::Lookup { field, table }),
        1 => table().prop_map(Test::Flow),
    ]
}

fn clause() -> impl Strategy<Value = Clause> {
    let term = || (prop::bool::weighted(0.15), test()).prop_map(|(not, test)| Term { not, test });
    prop_oneof![4 => prop::collection::vec(term(), 1..2), 1 => prop::collection::vec(term(), 2..4)]
        .prop_map(Clause)
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![3 => (1u16..900).prop_map(Target::Number), 1 => Just(Target::TableArg)]
}

fn action() -> impl Strategy<Value = RuleAction> {
    prop_oneof![
        2 => Just(RuleAction::Allow),
        1 => Just(RuleAction::Deny),
        4 => Just(RuleAction::Count),
        6 => target().prop_map(RuleAction::Pipe),
        2 => target().prop_map(RuleAction::Queue),
        2 => target().prop_map(RuleAction::SkipTo),
        1 => target().prop_map(RuleAction::Call),
        1 => Just(RuleAction::Return),
        1 => target().prop_map(RuleAction::SetDscp),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let tag = || {
        prop::option::weighted(
            0.1,
            prop_oneof![(1u16..4).prop_map(Target::Number), Just(Target::TableArg)],
        )
    };
    let probability =
        prop::option::weighted(0.1, (0.0..=1.0f64).prop_map(|p| Probability::new(p).unwrap()));
    let body = prop::collection::vec(clause(), 0..4);
    (1u16..900, 0u8..3, probability, action(), tag(), tag(), body).prop_map(
        |(number, set, probability, action, tag, untag, body)| Rule {
            number,
            set,
            probability,
            action,
            tag,
            untag,
            log: false,
            body,
            comment: None,
        },
    )
}

fn rules(most: usize) -> impl Strategy<Value = Ruleset> {
    let tables =
        prop::collection::vec((v4(), 8..=32u8, v6(), 96..=128u8, few(100), few(70_000)), 0..20);
    (prop::collection::vec(rule(), 0..most), tables, any::<bool>(), 0u32..8).prop_map(
        |(mut rules, entries, one_pass, sets)| {
            rules.sort_by_key(|rule| rule.number);
            let mut ruleset = Ruleset { one_pass, enabled_sets: sets | 3, ..ruleset(rules) };
            let key4 = |a: u32, len: u8| TableKey::V4 { address: a & u32::MAX << (32 - len), len };
            let key6 =
                |a: u128, len: u8| TableKey::V6 { address: a & u128::MAX << (128 - len), len };
            let prefixes = entries
                .iter()
                .flat_map(|&(a, la, b, lb, _, value)| [(key4(a, la), value), (key6(b, lb), value)]);
            set_table(&mut ruleset, "a", TableKind::Address, prefixes);
            set_table(
                &mut ruleset,
                "n",
                TableKind::Number,
                entries.iter().map(|e| (TableKey::Number(e.4), e.5)),
            );
            let fields = FlowFields { src_ip: true, dst_port: true, ..FlowFields::default() };
            let flow = |e: &(u32, u8, u128, u8, u32, u32)| {
                let key = TableKey::Flow {
                    ipv6: false,
                    src: e.0.into(),
                    dst: 0,
                    proto: 0,
                    src_port: 0,
                    dst_port: e.4 as u16,
                };
                (key, e.5)
            };
            set_table(&mut ruleset, "f", TableKind::Flow(fields), entries.iter().map(flow));
            let names = entries.iter().take(1).map(|e| (TableKey::Interface("eth0".into()), e.5));
            set_table(&mut ruleset, "i", TableKind::Interface, names);
            // Rules name the table "x", which does not exist.
            ruleset
        },
    )
}

fn packet() -> impl Strategy<Value = PacketBuilder> {
    let ports = (few(100), few(100)).prop_map(|(a, b)| (a as u16, b as u16));
    let addresses = prop_oneof![
        3 => (v4(), v4()).prop_map(|(a, b)| (std::net::Ipv4Addr::from(a).into(), std::net::Ipv4Addr::from(b).into())),
        1 => (v6(), v6()).prop_map(|(a, b)| (std::net::Ipv6Addr::from(a).into(), std::net::Ipv6Addr::from(b).into())),
    ];
    (addresses, ports, 0u8..8, 0u8..64, any::<u8>(), prop::option::weighted(0.2, 0u16..8), 0u8..32)
        .prop_map(
            |((src, dst), (a, b), kind, dscp, ttl, vlan, flags): (
                (std::net::IpAddr, std::net::IpAddr),
                _,
                _,
                _,
                _,
                _,
                _,
            )| {
                let mut packet = match kind {
                    0..=2 => PacketBuilder::udp(src, dst, a, b),
                    3..=5 => PacketBuilder::tcp(src, dst, a, b),
                    6 => PacketBuilder::echo(src, dst, a, b),
                    _ if src.is_ipv4() => PacketBuilder::arp(src, dst),
                    _ => PacketBuilder::udp(src, dst, a, b),
                };
                if let Transport::Tcp { flags: of_packet, .. } = &mut packet.transport {
                    *of_packet = flags;
                }
                packet.ttl = ttl;
                if let Some(id) = vlan {
                    packet = packet.vlan(id);
                }
                if matches!(packet.transport, Transport::Arp) { packet } else { packet.dscp(dscp) }
            },
        )
}

/// Compares the verdicts of the classifier and the interpreter on each packet in each pass, and
/// then on the packet after each pipe.
fn agree(
    rules: &Ruleset,
    place: &Place,
    packets: &[PacketBuilder],
    passes: &[Pass],
) -> Result<(), TestCaseError> {
    let mut bench = Bench::at(rules, place);
    let mut oracle = Oracle::new(rules, place);
    for (packet, pass) in
        packets.iter().flat_map(|packet| passes.iter().map(move |pass| (packet, *pass)))
    {
        let mut from = None;
        // A rule that calls backwards would send a packet through the same pipes for ever.
        for _ in 0..8 {
            let verdict = bench.verdict(packet, pass, from);
            let expected = oracle.verdict(packet, pass, from);
            prop_assert_eq!(
                (verdict.fate, verdict.dscp),
                expected,
                "{:?} in {:?} from {:?}",
                packet,
                pass,
                from
            );
            prop_assert_eq!(&bench.tags, &oracle.tags, "{:?} in {:?}", packet, pass);
            match verdict.fate {
                Fate::Pipe(_, Some(resume)) | Fate::Queue(_, Some(resume)) => from = Some(resume),
                _ => break,
            }
        }
    }
    for (id, counters) in bench.state.counters() {
        prop_assert_eq!(
            counters.packets,
            oracle.packets.get(&id).copied().unwrap_or(0),
            "rule {}",
            id
        );
    }
    Ok(())
}

/// Checks that the rules that match on a journey are those that count the packet, and that the
/// journey ends with the packet's fate.
fn agree_on_journey(
    rules: &Ruleset,
    packet: &PacketBuilder,
    pass: Pass,
) -> Result<(), TestCaseError> {
    let mut bench = Bench::new(rules);
    let frame = packet.frame();
    let verdict = bench.verdict(packet, pass, None);
    let question =
        Question { frame: &frame, passes: &[pass], dynamic: &[], lucky: true, now: Nanos::ZERO };
    let journey = bench.classifier.journey(&question);
    let leg = &journey.legs[0];
    prop_assert_eq!((leg.fate, leg.dscp), (verdict.fate, verdict.dscp), "{:?}", journey);
    if journey.unlisted > 0 {
        return Ok(());
    }
    let mut matched: Vec<u32> = leg
        .visits
        .iter()
        .filter(|visit| matches!(visit.reaction, Reaction::Matched { .. }))
        .map(|visit| visit.id)
        .collect();
    matched.sort_unstable();
    matched.dedup();
    let counted = bench.state.counters().filter(|(_, counters)| counters.packets > 0);
    let mut counted: Vec<u32> = counted.map(|(id, _)| id).collect();
    counted.sort_unstable();
    prop_assert_eq!(matched, counted);
    Ok(())
}

proptest! {
    #[test]
    fn journeys_follow_the_rules_that_match(
        mut rules in rules(40),
        packets in prop::collection::vec(packet(), 1..6),
    ) {
        for at in 0..rules.rules.len() {
            edit_rule(&mut rules, at, |rule| rule.probability = None);
        }
        for (packet, pass) in packets.iter().zip(PASSES.into_iter().cycle()) {
            agree_on_journey(&rules, packet, pass)?;
        }
    }

    #[test]
    fn short_rulesets_decide_as_the_interpreter_does(
        rules in rules(12),
        packets in prop::collection::vec(packet(), 1..8),
    ) {
        agree(&rules, &place(), &packets, &PASSES)?;
    }

    #[test]
    fn long_rulesets_decide_as_the_interpreter_does(
        rules in rules(150),
        packets in prop::collection::vec(packet(), 1..20),
    ) {
        agree(&rules, &place(), &packets, &PASSES)?;
    }

    #[test]
    fn unexpected_passes_get_the_same_verdicts(
        rules in rules(60),
        packets in prop::collection::vec(packet(), 1..8),
    ) {
        let unprepared = Place { passes: Vec::new(), ..place() };
        agree(&rules, &unprepared, &packets, &PASSES)?;
    }

    #[test]
    fn an_updated_table_equals_one_compiled_anew(
        start in rules(30),
        changes in prop::collection::vec((v4(), 8..=32u8, prop::option::of(few(900))), 1..12),
        packets in prop::collection::vec(packet(), 1..8),
    ) {
        let mut rules = start;
        let mut bench = Bench::new(&rules);
        for (address, len, value) in changes {
            let key = TableKey::V4 { address: address & u32::MAX << (32 - len), len };
            edit_table(&mut rules, "a", |table| match value {
                Some(value) => {
                    table.entries.insert(key.clone(), value);
                }
                None => {
                    table.entries.remove(&key);
                }
            });
            bench.classifier = bench.classifier.update_table(&rules, &"a".into(), &[key]);
        }
        let mut fresh = Bench::new(&rules);
        for packet in &packets {
            prop_assert_eq!(
                bench.verdict(packet, PASSES[0], None),
                fresh.verdict(packet, PASSES[0], None)
            );
        }
    }
}
