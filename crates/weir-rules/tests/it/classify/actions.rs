//! Tables, tags and jumps in scripts: which path a packet takes after a look-up.

use super::common::{Bench, DOWN, UP, script};
use weir_rules::classify::{Fate, Resume};
use weir_rules::ruleset::Ruleset;
use weir_wire::builder::{PacketBuilder, Transport};

fn udp(dst_port: u16) -> PacketBuilder {
    PacketBuilder::udp([10, 0, 0, 1], [192, 0, 2, 7], 1000, dst_port)
}

fn udp6() -> PacketBuilder {
    PacketBuilder::udp([0xfd00u16, 0, 0, 0, 0, 0, 0, 1], [0xfd00u16, 0, 0, 0, 0, 0, 0, 2], 1000, 53)
}

/// The fate of each packet that goes out.
fn fates<const N: usize>(rules: &Ruleset, packets: [&PacketBuilder; N]) -> [Fate; N] {
    let mut bench = Bench::new(rules);
    packets.map(|packet| bench.fate(packet))
}

#[test]
fn each_field_is_looked_up_in_its_kind_of_table() {
    let tables = "
        table nets create type addr
        table nets add 10.0.0.0/8 1
        table nets add 192.0.2.7 2
        table nets add fd00::/64 3
        table numbers create type number
        table numbers add 1000 4
        table numbers add 53 5
        table numbers add 46 6
        table numbers add 0 7\n";
    let echo = PacketBuilder::echo([10, 0, 0, 1], [192, 0, 2, 7], 1, 2);
    let later = PacketBuilder::new([10, 0, 0, 1], [192, 0, 2, 7], Transport::Raw(17))
        .payload([0; 8])
        .fragment(1, false);
    for (lookup, expected) in [
        ("src-ip nets", [1, 1, 3, 1, 1]),
        ("dst-ip nets", [2, 2, 3, 2, 2]),
        ("dst-ip nets,2", [2, 2, 0, 2, 2]),
        ("src-port numbers", [4, 4, 4, 0, 0]),
        ("dst-port numbers", [5, 0, 5, 0, 0]),
        ("dscp numbers", [6, 7, 7, 7, 7]),
        ("dscp nets", [0; 5]),
    ] {
        let rules = script(&format!(
            "{tables}add pipe tablearg lookup {lookup}\nadd deny ip from any to any"
        ));
        let found = fates(&rules, [&udp(53).dscp(46), &udp(54), &udp6(), &echo, &later]);
        assert_eq!(
            found,
            expected.map(|n| if n == 0 { Fate::Deny } else { Fate::Pipe(n, None) }),
            "{lookup}"
        );
    }
}

#[test]
fn flows_are_looked_up_by_the_fields_of_the_table() {
    let text = "
        table whole create type flow
        table whole add 10.0.0.1,udp,1000,192.0.2.7,53 1
        table whole add fd00::1,17,1000,fd00::2,53 2
        table part create type flow:proto,dst-port
        table part add tcp,80 3
        table part add udp,53 4
        table src create type flow:src-ip
        table src add 10.0.0.1 5
        add 10 pipe tablearg flow table(whole)
        add 20 pipe tablearg flow table(part)
        add 30 pipe tablearg flow table(src,5)
        add 40 deny ip from any to any";
    let rules = script(text);
    let other = PacketBuilder::udp([10, 0, 0, 9], [192, 0, 2, 7], 1000, 53);
    let tcp = PacketBuilder::tcp([10, 0, 0, 9], [192, 0, 2, 7], 5, 80);
    let tcp6 = PacketBuilder::tcp(
        [0xfd00u16, 0, 0, 0, 0, 0, 0, 9],
        [0xfd00u16, 0, 0, 0, 0, 0, 0, 2],
        5,
        80,
    );
    let none = PacketBuilder::udp([10, 0, 0, 9], [192, 0, 2, 7], 1000, 54);
    let found = fates(&rules, [&udp(53), &udp6(), &other, &tcp, &tcp6, &udp(54), &none]);
    let pipe = |n| Fate::Pipe(n, None);
    assert_eq!(found, [pipe(1), pipe(2), pipe(4), pipe(3), pipe(3), pipe(5), Fate::Deny]);
}

#[test]
fn interfaces_are_looked_up_by_name() {
    let text = "
        table links create type iface
        table links add eth0 8
        table links add wlan0 9
        add pipe tablearg via table(links)
        add deny ip from any to any";
    let mut bench = Bench::new(&script(text));
    assert_eq!(bench.fate_from(&udp(53), UP, None), Fate::Pipe(8, None));
    assert_eq!(bench.fate_from(&udp(53), DOWN, None), Fate::Pipe(8, None));
    let mut bench = Bench::new(&script(&text.replace("via table(links)", "recv table(links,9)")));
    assert_eq!(bench.fate_from(&udp(53), DOWN, None), Fate::Deny);
    let mut bench = Bench::new(&script(&text.replace("via table", "xmit table")));
    assert_eq!(bench.fate_from(&udp(53), UP, None), Fate::Pipe(8, None));
    assert_eq!(bench.fate_from(&udp(53), DOWN, None), Fate::Deny);
}

#[test]
fn a_rule_does_not_match_if_its_action_cannot_use_the_table_value() {
    let table = "table t create type number\ntable t add 53 0\ntable t add 54 65536\ntable t add \
                 55 65535\n";
    let text = |action: &str| {
        script(&format!(
            "{table}add 10 {action} tablearg lookup dst-port t\nadd 20 deny ip from any to any"
        ))
    };
    let packets = [&udp(53), &udp(54), &udp(55)];
    assert_eq!(fates(&text("pipe"), packets), [Fate::Deny, Fate::Deny, Fate::Pipe(65_535, None)]);
    assert_eq!(fates(&text("queue"), packets), [Fate::Deny, Fate::Deny, Fate::Queue(65_535, None)]);
    // The default rule, which follows all rules, lets packets pass.
    assert_eq!(fates(&text("skipto"), packets), [Fate::Deny, Fate::Allow, Fate::Allow]);
}

#[test]
fn a_jump_by_table_goes_only_forwards() {
    let text = "
        table t create type number
        table t add 53 400
        table t add 54 100
        add 100 pipe 1 tcp from any to any
        add 200 skipto tablearg lookup dst-port t
        add 300 pipe 3 ip from any to any
        add 400 pipe 4 ip from any to any";
    let mut bench = Bench::new(&script(text));
    assert_eq!(bench.fate(&udp(53)), Fate::Pipe(4, None));
    assert_eq!(bench.fate(&udp(54)), Fate::Pipe(3, None), "a jump back leads to the next rule");
    assert_eq!(bench.fate(&udp(55)), Fate::Pipe(3, None), "no value, no jump");
    assert_eq!(bench.state.loops(), 0);
}

#[test]
fn nested_calls_return_in_turn() {
    let text = "
        table subs create type number
        table subs add 53 1000
        table subs add 54 2000
        add 100 call tablearg lookup dst-port subs
        add 200 pipe 2 tagged 1,2
        add 300 return ip from any to any
        add 400 pipe 4 ip from any to any
        add 1000 call 2000 ip from any to any
        add 1100 count tag 1 ip from any to any
        add 1200 return ip from any to any
        add 2000 count tag 3 ip from any to any
        add 2100 return ip from any to any
        add 2200 deny ip from any to any";
    let mut bench = Bench::new(&script(text));
    assert_eq!(bench.fate(&udp(53)), Fate::Pipe(2, None));
    assert_eq!(bench.tags, [3, 1], "the inner one came first");
    assert_eq!(bench.fate(&udp(54)), Fate::Pipe(4, None), "a return without a call is passed over");
    assert_eq!(bench.tags, [3]);
}

#[test]
fn sixteen_calls_may_nest_and_a_further_call_is_skipped() {
    // Each call leads to the next one, and the last one leads to `pipe 7`. A packet that skips a
    // call goes to `pipe 8`.
    for (calls, pipe) in [(16, 7), (17, 8)] {
        let chain: String = (1..=calls)
            .map(|n| {
                format!(
                    "add {} call {} ip from any to any\nadd {} pipe 8 ip from any to any\n",
                    n * 10,
                    n * 10 + 10,
                    n * 10 + 1
                )
            })
            .collect();
        let rules = script(&format!("{chain}add {} pipe 7 ip from any to any", calls * 10 + 10));
        assert_eq!(fates(&rules, [&udp(53)]), [Fate::Pipe(pipe, None)], "{calls} calls");
    }
}

#[test]
fn later_rules_test_the_rewritten_dscp() {
    let text = "
        table t create type number
        table t add 53 46
        add 10 setdscp tablearg lookup dst-port t
        add 20 pipe 2 dscp ef
        add 30 setdscp 4 ip from any to any
        add 40 pipe 4 iptos lowdelay
        add 50 pipe 5 dscp 4";
    let mut bench = Bench::new(&script(text));
    for (packet, fate, dscp) in [(udp(53), 2, 46), (udp(54), 4, 4), (udp6().dscp(1), 2, 46)] {
        let verdict = bench.verdict(&packet, UP, None);
        assert_eq!((verdict.fate, verdict.dscp), (Fate::Pipe(fate, None), Some(dscp)));
    }
    let arp = bench.verdict(&PacketBuilder::arp([10, 0, 0, 1], [10, 0, 0, 2]), UP, None);
    assert_eq!((arp.fate, arp.dscp), (Fate::Allow, None));
}

#[test]
fn tags_outlast_a_pipe_and_are_tested_by_range() {
    let text = "
        disable one_pass
        add 10 pipe 1 tag 7 ip from any to any 53
        add 20 pipe 2 tagged 1-6,8
        add 30 pipe 3 untag 7 tagged 5-9
        add 40 pipe 4 tagged any
        add 50 pipe 5 ip from any to any";
    let mut bench = Bench::new(&script(text));
    let frame = udp(53).frame();
    let mut from: Option<Resume> = None;
    let mut pipes = Vec::new();
    while let Fate::Pipe(number, resume) = bench.frame(&frame, UP, from).fate {
        pipes.push((number, bench.tags.clone()));
        from = resume;
    }
    assert_eq!(pipes, [(1, vec![7]), (3, vec![]), (5, vec![])]);
}

#[test]
fn rules_that_can_separate_the_packets_of_a_train_need_each_segment() {
    for (body, each) in [
        ("iplen 100", true),
        ("ipid 1", true),
        ("tcpseq 1", true),
        ("tcpdatalen 0", true),
        ("tcpflags fin", true),
        ("tcpflags !psh", true),
        // Only the first packet of a train has CWR set.
        ("tcpflags 0x80", true),
        ("tcpflags syn,!ack", false),
        ("established", false),
        ("tcpack 1", false),
        ("dst-port 80 keep-state", false),
    ] {
        let bench = Bench::new(&script(&format!("add deny tcp from any to any {body}")));
        assert_eq!(bench.classifier.needs_each_segment(), each, "{body}");
    }
}
