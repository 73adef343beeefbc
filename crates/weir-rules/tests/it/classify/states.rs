//! Dynamic rules from scripts: the packets of a flow, its lifetime, and limits on the number of
//! flows.

use super::common::{BRIDGE_IN, BRIDGE_OUT, Bench, DOWN, UP, script};
use weir_core::units::Nanos;
use weir_rules::classify::{Fate, MOST_DYNAMIC, Pass};
use weir_wire::builder::{PacketBuilder, Transport};

fn udp(src_port: u16) -> PacketBuilder {
    PacketBuilder::udp([10, 0, 0, 1], [192, 0, 2, 7], src_port, 53)
}

fn tcp(flags: u8) -> PacketBuilder {
    PacketBuilder::new(
        [10, 0, 0, 1],
        [192, 0, 2, 7],
        Transport::Tcp { src_port: 1000, dst_port: 80, sequence: 1, flags, options: Vec::new() },
    )
}

/// The reply to a packet.
fn back(packet: &PacketBuilder) -> PacketBuilder {
    let mut answer = packet.clone();
    (answer.src, answer.dst) = (packet.dst, packet.src);
    match &mut answer.transport {
        Transport::Udp { src_port, dst_port } | Transport::Tcp { src_port, dst_port, .. } => {
            std::mem::swap(src_port, dst_port);
        }
        _ => {}
    }
    answer
}

impl Bench {
    /// The fate of a packet that arrives `ms` milliseconds after the start.
    fn at_ms(&mut self, ms: u64, packet: &PacketBuilder, pass: Pass) -> Fate {
        self.now = Nanos::from_millis(ms);
        self.fate_from(packet, pass, None)
    }

    /// The number of packets that each rule matched, with the default rule last.
    fn packets(&self) -> Vec<u64> {
        self.state.counters().map(|(_, counters)| counters.packets).collect()
    }
}

/// A script that lets UDP flows from 10.0.0.0/8 go out, and only their replies come in.
const KEPT: &str = "
    add 10 check-state
    add 20 pipe 3 udp from 10.0.0.0/8 to any out keep-state
    add 30 deny ip from any to any";

#[test]
fn only_replies_to_a_flow_that_went_out_come_in() {
    let mut bench = Bench::new(&script(KEPT));
    assert_eq!(bench.fate_from(&back(&udp(1)), DOWN, None), Fate::Deny);
    assert_eq!(bench.fate_from(&udp(1), UP, None), Fate::Pipe(3, None));
    assert_eq!(bench.fate_from(&back(&udp(1)), DOWN, None), Fate::Pipe(3, None));
    assert_eq!(bench.fate_from(&back(&udp(2)), DOWN, None), Fate::Deny);
    let v6 = PacketBuilder::udp(
        [0u16, 0, 0, 0, 0, 0, 0xc000, 0x207],
        [0u16, 0, 0, 0, 0, 0, 0xa00, 1],
        53,
        1,
    );
    assert_eq!(
        bench.fate_from(&v6, DOWN, None),
        Fate::Deny,
        "an IPv6 flow with the same numbers is another flow"
    );
    assert_eq!(bench.packets(), [0, 2, 3, 0], "matches count at the rule that made the entry");
    let entries = bench.state.dynamic().entries(bench.now);
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (entries[0].number, entries[0].packets, entries[0].bytes, entries[0].limited),
        (20, 2, 56, false)
    );
}

#[test]
fn a_flow_ends_after_its_lifetime_without_packets() {
    let mut bench = Bench::new(&script(KEPT));
    assert_eq!(bench.at_ms(0, &udp(1), UP), Fate::Pipe(3, None));
    // Each packet restarts the lifetime of ten seconds.
    assert_eq!(bench.at_ms(9_999, &back(&udp(1)), DOWN), Fate::Pipe(3, None));
    assert_eq!(bench.at_ms(19_998, &back(&udp(1)), DOWN), Fate::Pipe(3, None));
    assert_eq!(bench.at_ms(29_998, &back(&udp(1)), DOWN), Fate::Deny);
    assert!(bench.state.dynamic().entries(bench.now).is_empty());
}

#[test]
fn a_connection_that_both_ends_have_closed_expires_soon() {
    let mut bench = Bench::new(&script(
        "add 10 check-state\nadd 20 allow tcp from 10.0.0.0/8 to any setup keep-state\nadd 30 \
         deny tcp from any to any",
    ));
    assert_eq!(
        bench.at_ms(0, &tcp(16), UP),
        Fate::Deny,
        "only a connection's first packet opens it"
    );
    assert_eq!(bench.at_ms(0, &tcp(2), UP), Fate::Allow);
    assert_eq!(bench.at_ms(19_000, &back(&tcp(18)), DOWN), Fate::Allow);
    assert_eq!(
        bench.at_ms(300_000, &tcp(16), UP),
        Fate::Allow,
        "open at both ends, it lives for five minutes"
    );
    assert_eq!(bench.at_ms(300_001, &tcp(17), UP), Fate::Allow);
    assert_eq!(
        bench.at_ms(400_000, &back(&tcp(17)), DOWN),
        Fate::Allow,
        "half closed, it lives on"
    );
    assert_eq!(bench.at_ms(400_999, &tcp(16), UP), Fate::Allow);
    assert_eq!(bench.at_ms(401_999, &tcp(16), UP), Fate::Deny);
}

#[test]
fn a_rule_finds_only_states_with_its_state_name() {
    let text = "
        add 10 check-state :web
        add 20 pipe 2 udp from any to any 53 out keep-state :dns
        add 30 pipe 3 udp from any to any 80 out keep-state :web
        add 40 deny ip from any to any";
    let mut bench = Bench::new(&script(text));
    let web = PacketBuilder::udp([10, 0, 0, 1], [192, 0, 2, 7], 1000, 80);
    assert_eq!(bench.fate(&web), Fate::Pipe(3, None));
    assert_eq!(bench.fate(&udp(1000)), Fate::Pipe(2, None));
    assert_eq!(bench.fate_from(&back(&web), DOWN, None), Fate::Pipe(3, None));
    // Rule 20 finds the state, because `keep-state` looks up states before the rule's other tests.
    assert_eq!(bench.fate_from(&back(&udp(1000)), DOWN, None), Fate::Pipe(2, None));
    let record = text.replace("keep-state", "record-state");
    let mut bench = Bench::new(&script(&record));
    assert_eq!(
        (bench.fate(&web), bench.fate(&udp(1000))),
        (Fate::Pipe(3, None), Fate::Pipe(2, None))
    );
    assert_eq!(bench.fate_from(&back(&web), DOWN, None), Fate::Pipe(3, None));
    assert_eq!(
        bench.fate_from(&back(&udp(1000)), DOWN, None),
        Fate::Deny,
        "a rule that only records finds nothing"
    );
}

#[test]
fn the_name_any_selects_states_of_every_name() {
    for name in ["", " :dns"] {
        let text = format!(
            "add 10 check-state :any\nadd 20 pipe 2 udp from any to any out \
             record-state{name}\nadd 30 deny ip from any to any"
        );
        let mut bench = Bench::new(&script(&text));
        assert_eq!(bench.fate(&udp(1)), Fate::Pipe(2, None));
        assert_eq!(bench.fate_from(&back(&udp(1)), DOWN, None), Fate::Pipe(2, None), "{name}");
        assert_eq!(bench.fate_from(&back(&udp(2)), DOWN, None), Fate::Deny);
    }
}

#[test]
fn a_limit_denies_further_flows_until_one_has_ended() {
    let text =
        "add 10 allow udp from any to any out limit src-addr 2\nadd 20 deny ip from any to any";
    let mut bench = Bench::new(&script(text));
    assert_eq!(
        (bench.at_ms(0, &udp(1), UP), bench.at_ms(1000, &udp(2), UP)),
        (Fate::Allow, Fate::Allow)
    );
    assert_eq!(bench.at_ms(1000, &udp(3), UP), Fate::Deny);
    assert_eq!(bench.at_ms(1000, &udp(2), UP), Fate::Allow, "a known flow does not count again");
    assert_eq!(bench.at_ms(1000, &back(&udp(1)), DOWN), Fate::Allow);
    let other = PacketBuilder::udp([10, 0, 0, 2], [192, 0, 2, 7], 3, 53);
    assert_eq!(bench.at_ms(1000, &other, UP), Fate::Allow, "of another source");
    assert_eq!(bench.at_ms(10_999, &udp(3), UP), Fate::Deny);
    assert_eq!(bench.at_ms(11_000, &udp(3), UP), Fate::Allow);
    assert_eq!(
        bench.state.dynamic().refused(),
        0,
        "a flow beyond a limit does not count as refused by the table"
    );
}

#[test]
fn a_table_limits_the_flows_of_each_customer() {
    let text = "
        table most create type addr
        table most add 10.0.0.1 1
        table most add 10.0.0.2 3
        add 10 allow udp from table(most) to any limit src-addr tablearg
        add 20 deny ip from any to any";
    let mut bench = Bench::new(&script(text));
    for (host, passed) in [(1, 1), (2, 3), (3, 0)] {
        let flow = |port| PacketBuilder::udp([10, 0, 0, host], [192, 0, 2, 7], port, 53);
        let allowed = (1..9).filter(|&port| bench.fate(&flow(port)) == Fate::Allow).count();
        assert_eq!(allowed, passed, "10.0.0.{host}");
    }
}

#[test]
fn a_full_table_refuses_flows_and_counts_them() {
    let mut bench = Bench::new(&script("add 10 allow udp from any to any keep-state"));
    let flow = |n: usize| {
        let [a, b, c, d] = (n as u32).to_be_bytes();
        PacketBuilder::udp([10 + a, b, c, d], [192, 0, 2, 7], 9, 53)
    };
    for n in 0..MOST_DYNAMIC {
        assert_eq!(bench.at_ms(0, &flow(n), UP), Fate::Allow);
    }
    assert_eq!(bench.at_ms(1, &flow(MOST_DYNAMIC), UP), Fate::Deny);
    assert_eq!(bench.at_ms(1, &back(&flow(5)), DOWN), Fate::Allow, "existing flows continue");
    assert_eq!(bench.state.dynamic().refused(), 1);
    assert_eq!(bench.state.dynamic().entries(bench.now).len(), MOST_DYNAMIC);
    assert_eq!(bench.at_ms(10_000, &flow(MOST_DYNAMIC), UP), Fate::Allow);
    assert_eq!(bench.state.dynamic().entries(bench.now).len(), 2);
}

#[test]
fn a_reply_gets_the_table_value_of_its_flow() {
    let text = "
        table customers create type addr
        table customers add 10.0.0.0/24 7
        add 10 pipe tablearg ip from table(customers) to any out keep-state";
    let mut bench = Bench::new(&script(text));
    assert_eq!(bench.fate(&udp(1)), Fate::Pipe(7, None));
    assert_eq!(bench.fate_from(&back(&udp(1)), DOWN, None), Fate::Pipe(7, None));
}

#[test]
fn replies_continue_after_the_rule_that_created_the_state() {
    let text = "
        add 10 check-state
        add 20 deny udp from 192.0.2.0/24 to any
        add 30 skipto 50 udp from 10.0.0.0/8 to any keep-state
        add 40 deny ip from any to any
        add 50 pipe 5 ip from any to any";
    let mut bench = Bench::new(&script(text));
    assert_eq!(bench.fate_from(&back(&udp(1)), DOWN, None), Fate::Deny);
    assert_eq!(bench.fate(&udp(1)), Fate::Pipe(5, None));
    assert_eq!(bench.fate_from(&back(&udp(1)), DOWN, None), Fate::Pipe(5, None));
    let counted = text.replace("skipto 50 udp", "count udp").replace("add 40 deny", "add 40 count");
    let mut bench = Bench::new(&script(&counted));
    assert_eq!(bench.fate(&udp(1)), Fate::Pipe(5, None));
    assert_eq!(bench.fate_from(&back(&udp(1)), DOWN, None), Fate::Pipe(5, None));
    assert_eq!(bench.packets(), [0, 0, 2, 2, 2, 0]);
}

#[test]
fn states_end_with_their_rule_and_are_inactive_with_its_set() {
    let mut rules = script(
        "add 10 check-state\nadd 20 set 3 pipe 3 udp from 10.0.0.0/8 to any out keep-state\nadd \
         30 deny ip from any to any",
    );
    let mut bench = Bench::new(&rules);
    assert_eq!(bench.fate(&udp(1)), Fate::Pipe(3, None));
    let mut change = |bench: &mut Bench, line: &str| {
        let parsed = weir_rules::script::parse(line, "line", &weir_rules::NoFiles);
        rules.apply_all(&parsed.commands).unwrap();
        bench.classifier = bench.classifier.recompile(&rules);
        bench.fate_from(&back(&udp(1)), DOWN, None)
    };
    assert_eq!(change(&mut bench, "set disable 3"), Fate::Deny);
    assert_eq!(change(&mut bench, "set enable 3"), Fate::Pipe(3, None));
    assert_eq!(
        change(&mut bench, "add 5 count ip from any to any"),
        Fate::Pipe(3, None),
        "another rule changes nothing"
    );
    assert_eq!(change(&mut bench, "delete 20"), Fate::Deny);
    assert!(bench.state.dynamic().entries(bench.now).is_empty());
    assert_eq!(
        change(&mut bench, "add 20 set 3 pipe 3 udp from 10.0.0.0/8 to any out keep-state"),
        Fate::Deny,
        "a new rule, with no states"
    );
}

#[test]
fn workers_share_the_states_but_not_the_counters() {
    let rules = script(KEPT);
    let mut one = Bench::new(&rules);
    let mut two = Bench::new(&rules);
    two.state = one.state.sibling(1);
    assert_eq!(one.fate(&udp(1)), Fate::Pipe(3, None));
    assert_eq!(two.fate_from(&back(&udp(1)), DOWN, None), Fate::Pipe(3, None));
    assert_eq!((one.packets()[1], two.packets()[1]), (1, 1));
    assert_eq!(one.state.dynamic().entries(Nanos::ZERO)[0].packets, 2);
}

#[test]
fn over_a_bridge_states_are_checked_only_when_the_packet_comes_in() {
    let mut bench = Bench::new(&script(
        "add 10 check-state\nadd 20 pipe 3 udp from 10.0.0.0/8 to any keep-state\nadd 30 deny ip \
         from any to any",
    ));
    assert_eq!(bench.fate_from(&udp(1), BRIDGE_IN, None), Fate::Pipe(3, None));
    assert_eq!(bench.fate_from(&udp(1), BRIDGE_OUT, None), Fate::Allow);
    assert_eq!(bench.fate_from(&back(&udp(1)), BRIDGE_IN, None), Fate::Pipe(3, None));
    assert_eq!(bench.fate_from(&back(&udp(2)), BRIDGE_IN, None), Fate::Deny);
}

#[test]
fn a_rule_that_keeps_states_matches_only_ip() {
    let arp = PacketBuilder::arp([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut bench = Bench::new(&script("add 10 pipe 1 layer2 keep-state"));
    assert_eq!((bench.fate(&arp), bench.fate(&udp(1))), (Fate::Allow, Fate::Pipe(1, None)));
    assert_eq!(bench.state.dynamic().entries(Nanos::ZERO).len(), 1);
}
