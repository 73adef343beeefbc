//! The journey of a packet through the rules. It lists the visited rules: those that match, and why
//! the others do not. It ends with the packet's fate, changes no state, and is bounded.

use weir_core::units::Nanos;
use weir_rules::classify::{
    Classifier, DynamicEntry, End, Fate, Journey, MOST_HOPS, MOST_LISTED, Missed, Pass, Question,
    Reaction, Visit,
};
use weir_rules::packet::PacketSpec;
use weir_rules::ruleset::Ruleset;
use weir_rules::script::print_clause;

use super::common::{BRIDGE_IN, BRIDGE_OUT, Bench, DOWN, UP, place, script};

/// A question without its packet.
#[derive(Clone, Copy)]
struct Asked<'a> {
    passes: &'a [Pass],
    dynamic: &'a [DynamicEntry],
    lucky: bool,
}

const USUAL: Asked<'_> = Asked { passes: &[UP], dynamic: &[], lucky: true };

fn ask(rules: &Ruleset, packet: &str, asked: Asked<'_>) -> Journey {
    let spec: PacketSpec = packet.parse().expect("the packet is correct");
    let frame = spec.frame();
    let Asked { passes, dynamic, lucky } = asked;
    let question = Question { frame: &frame, passes, dynamic, lucky, now: Nanos(1) };
    Classifier::compile(rules, &place()).journey(&question)
}

fn told(visits: &[Visit]) -> Vec<String> {
    let one = |visit: &Visit| {
        let reaction = match &visit.reaction {
            Reaction::Missed(Missed::Clause(clause)) => format!("not {}", print_clause(clause)),
            Reaction::Missed(missed) => format!("{missed:?}"),
            Reaction::Matched { by: Some(by), .. } => format!("by {by}"),
            Reaction::Matched { jump: Some(to), .. } => format!("to {to}"),
            Reaction::Matched { .. } => "match".to_owned(),
        };
        format!("{} {reaction}", visit.number)
    };
    visits.iter().map(one).collect()
}

#[test]
fn every_rule_says_why_it_does_not_match() {
    let rules = script(
        "add 100 pipe 1 tcp from any to any 443\n\
         add 110 deny ip from 192.0.2.0/24 to any\n\
         add 120 count ip from any to any in\n\
         add 130 count udp from any to any\n\
         add 140 skipto 200 ip from any to any out xmit eth0\n\
         add 150 deny ip from any to any\n\
         add 200 set 7 deny ip from any to any\n\
         add 210 check-state\n\
         add 220 pipe 3 { dst-port 80 or dst-port 8080 }\n\
         set disable 7",
    );
    let journey = ask(&rules, "tcp 10.0.0.1:1000 10.0.0.2:80", USUAL);
    assert_eq!(
        told(&journey.legs[0].visits),
        [
            "100 not dst-port 443",
            "110 not src-ip 192.0.2.0/24",
            "120 not in",
            "130 not proto udp",
            "140 to 210",
            "210 NoState",
            "220 match",
        ]
    );
    assert_eq!((journey.legs[0].fate, journey.end), (Fate::Pipe(3, None), End::Sent));
}

#[test]
fn rules_that_the_pass_excludes_are_named_too() {
    let rules = script(
        "add 100 count ip from any to any in recv wlan1\n\
         add 110 count ip from any to any out\n\
         add 120 pipe 1 ip from any to any in",
    );
    let journey =
        ask(&rules, "icmp 10.0.0.1 10.0.0.2", Asked { passes: &[BRIDGE_IN, BRIDGE_OUT], ..USUAL });
    assert_eq!(told(&journey.legs[0].visits), ["100 not recv wlan1", "110 not out", "120 match"]);
    assert_eq!(
        told(&journey.legs[1].visits),
        ["100 ComesIn", "110 match", "120 ComesIn", "65535 match"]
    );
    assert_eq!(journey.legs.len(), 2);
}

#[test]
fn without_one_pass_the_search_goes_on_after_a_pipe() {
    let rules = script(
        "disable one_pass\n\
         add 100 pipe 1 ip from any to any\n\
         add 110 setdscp ef ip from any to any\n\
         add 120 queue 2 ip from any to any dscp ef\n\
         add 130 deny ip from any to any",
    );
    let journey = ask(&rules, "udp 10.0.0.1:1 10.0.0.2:2", USUAL);
    let fates: Vec<Fate> = journey.legs.iter().map(|leg| leg.fate).collect();
    assert!(matches!(fates[..], [Fate::Pipe(1, Some(_)), Fate::Queue(2, Some(_)), Fate::Deny]));
    assert_eq!(journey.legs[1].dscp, Some(46));
    assert_eq!(journey.legs[2].key.dscp, 46, "the packet carries it from then on");
    assert!(journey.legs[1].resumed && journey.end == End::Denied);
}

#[test]
fn rules_with_a_probability_follow_the_question() {
    let rules =
        script("add 100 prob 0.25 deny ip from any to any\nadd 110 pipe 1 ip from any to any");
    let lucky = ask(&rules, "udp 10.0.0.1:1 10.0.0.2:2", USUAL);
    assert_eq!(lucky.end, End::Denied);
    assert!(matches!(
        lucky.legs[0].visits[0].reaction,
        Reaction::Matched { probability: Some(_), .. }
    ));
    let other = ask(&rules, "udp 10.0.0.1:1 10.0.0.2:2", Asked { lucky: false, ..USUAL });
    assert_eq!(other.legs[0].fate, Fate::Pipe(1, None));
    let first = &other.legs[0].visits[0].reaction;
    assert!(matches!(first, Reaction::Missed(Missed::Probability(_))), "{first:?}");
}

#[test]
fn dynamic_rules_are_followed_and_stay_as_they_are() {
    let rules = script(
        "add 100 check-state\n\
         add 110 pipe 1 tcp from 10.0.0.0/8 to any keep-state\n\
         add 120 deny ip from any to any",
    );
    let back = "tcp 192.0.2.1:80 10.0.0.1:1000";
    let journey = ask(&rules, back, Asked { passes: &[DOWN], ..USUAL });
    assert_eq!(journey.end, End::Denied);
    // The bench classifies the first packet of the flow, which creates an entry. The journey of the
    // reply then finds the entry.
    let mut bench = Bench::new(&rules);
    let forth: PacketSpec = "tcp 10.0.0.1:1000 192.0.2.1:80 flags syn".parse().unwrap();
    assert_eq!(bench.frame(&forth.frame(), UP, None).fate, Fate::Pipe(1, None));
    let entries: Vec<DynamicEntry> = bench.state.dynamic().entries(Nanos(1));
    let journey = ask(&rules, back, Asked { passes: &[DOWN], dynamic: &entries, ..USUAL });
    assert_eq!(told(&journey.legs[0].visits), ["100 by 110"]);
    assert_eq!(journey.legs[0].fate, Fate::Pipe(1, None));
    assert_eq!(bench.state.dynamic().entries(Nanos(1)), entries);
}

#[test]
fn a_limit_counts_the_flows_that_exist() {
    let rules = script("add 100 pipe 1 udp from any to any limit src-addr 1");
    let mut bench = Bench::new(&rules);
    let first: PacketSpec = "udp 10.0.0.1:1 10.0.0.2:2".parse().unwrap();
    bench.frame(&first.frame(), UP, None);
    let entries: Vec<DynamicEntry> = bench.state.dynamic().entries(Nanos(1));
    let fate = |packet: &str| {
        let journey = ask(&rules, packet, Asked { dynamic: &entries, ..USUAL });
        journey.legs[0].fate
    };
    assert_eq!(fate("udp 10.0.0.1:1 10.0.0.2:2"), Fate::Pipe(1, None));
    assert_eq!(fate("udp 10.0.0.1:9 10.0.0.2:2"), Fate::Deny);
    assert_eq!(fate("udp 10.0.0.7:1 10.0.0.2:2"), Fate::Pipe(1, None));
}

#[test]
fn long_lists_and_loops_end() {
    let many: String =
        (1..3000).map(|n| format!("add {n} count udp from any to any {n}\n")).collect();
    let journey = ask(&script(&many), "tcp 10.0.0.1:1 10.0.0.2:2", USUAL);
    assert_eq!(journey.legs[0].visits.len(), MOST_LISTED + 1);
    assert_eq!(journey.unlisted, 2999 - MOST_LISTED as u64);
    assert_eq!(journey.end, End::Sent);
    let round = script(
        "disable one_pass\nadd 100 count ip from any to any\nadd 110 call 100 ip from any to any",
    );
    let journey = ask(&round, "udp 10.0.0.1:1 10.0.0.2:2", USUAL);
    assert_eq!(journey.end, End::Sent, "the stack of calls is bounded");
    let pipes: String =
        (1..=100).map(|n| format!("add {n} pipe {n} ip from any to any\n")).collect();
    let journey =
        ask(&script(&format!("disable one_pass\n{pipes}")), "udp 10.0.0.1:1 10.0.0.2:2", USUAL);
    assert_eq!((journey.end, journey.legs.len()), (End::Loop, MOST_HOPS as usize + 1));
}
