//! Tests schedulers on real packets: two flows share one link, and the tests judge the service of
//! each flow. Every scheduler of the table also carries a single stream.
//!
//! Both flows offer more than their shares, and the tests judge the ratio of received bytes. A busy
//! machine changes the outcome only if it makes a sender too slow for its offer. A run with wrong
//! shares is therefore repeated.

use libtest_mimic::Trial;
use weir_core::sched::{Kind, Row};
use weir_traffic::stats::Reception;

use crate::common::{Lab, Stream, at_once, load, trial};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("weighing_schedulers_share_a_link_by_weight", &[], by_weight),
        trial("schedulers_in_a_scheduler_share_by_weight_on_both_levels", &[], hierarchy),
        trial("strict_priority_starves_the_others", &[], starves),
        trial("token_buckets_bound_a_flow_and_leave_the_rest_to_others", &[], bounds),
        trial("stations_on_the_medium_get_the_same_number_of_packets", &[], medium),
        trial("every_scheduler_carries_what_fits", &[], carries),
    ]
}

fn rows() -> impl Iterator<Item = &'static Row> {
    Kind::ALL.into_iter().map(Kind::row)
}

/// The offered load of a flow.
#[derive(Clone, Copy)]
struct Offer {
    bits_per_second: u32,
    size: u32,
}

/// Sends two flows through queues 1 and 2 of these rules. Returns the reception of each flow over
/// the same time.
fn two_flows(lab: &Lab, rules: &str, offers: [Offer; 2]) -> [Reception; 2] {
    let rules = format!(
        "{rules}add 100 queue 1 udp from any to any 9001 out\n\
         add 200 queue 2 udp from any to any 9002 out\n"
    );
    let (load, file) = (load(), lab.file("test.rules", &rules));
    let send = |port, offer: Offer| {
        let Offer { bits_per_second, size } = offer;
        format!(
            "{load} send --to right:{port} -4 --rate {bits_per_second} --seconds 2 --size {size} \
             --after 0.5 >/dev/null"
        )
    };
    let receive = |port, name: &str| {
        let out = lab.path(name).display().to_string();
        format!("{load} recv --bind 0.0.0.0:{port} --seconds 1.8 --idle 3 --json --out {out}")
    };
    let left = format!("{} & {}; wait", send(9001, offers[0]), send(9002, offers[1]));
    let right = format!("{} & {}; wait", receive(9001, "one.json"), receive(9002, "two.json"));
    lab.pair_with(&["--rules", &file], 7, &left, &right);
    [lab.reception("one.json"), lab.reception("two.json")]
}

/// Checks that the second flow gets this share of the bytes, and the first flow the rest. The error
/// of each share must be less than `tolerance` times the share.
fn check_share(lab: &Lab, what: &str, rules: &str, offers: [Offer; 2], share: f64, tolerance: f64) {
    let mut tried = Vec::new();
    for _ in 0..ATTEMPTS {
        let [one, two] = two_flows(lab, rules, offers).map(|r| r.bits_per_second);
        let found = two / (one + two);
        let (off, off_other) =
            ((found / share - 1.0).abs(), ((1.0 - found) / (1.0 - share) - 1.0).abs());
        if off < tolerance && off_other < tolerance {
            return;
        }
        tried.push(format!("{:.0}:{:.0} kbit/s", one / 1e3, two / 1e3));
    }
    panic!(
        "{what}: shares of {:.0} and {:.0} % were expected, and were {tried:?}",
        100.0 * (1.0 - share),
        100.0 * share
    );
}

fn by_weight(_lab: &Lab) {
    at_once(2, rows().filter(|row| row.traits.weighted), |row| {
        let rules = format!(
            "sched 1 config type {} bw 20Mbit/s\nqueue 1 config sched 1 weight 1 queue 300\n\
             queue 2 config sched 1 weight 3 queue 300\n",
            row.name
        );
        check_share(&Lab::new(), row.name, &rules, OFFERS, 0.75, 0.03);
    });
}

fn hierarchy(lab: &Lab) {
    // Schedulers 2 and 3 share the link with weights 1:3. Scheduler 2 has an active and an inactive
    // flow; the active flow gets the scheduler's whole share.
    let rules = "sched 1 config type qfq bw 20Mbit/s\nsched 2 config type drr parent 1\n\
                 sched 3 config type wf2q+ parent 1 weight 3\n\
                 queue 1 config sched 2 queue 300\nqueue 2 config sched 3 weight 7 queue 300\n\
                 queue 3 config sched 2 weight 9\n";
    check_share(lab, "two levels", rules, OFFERS, 0.75, 0.03);
    // Three levels: scheduler 2 gets four fifths of the link. Its only flow is scheduler 3, which
    // gets this whole share.
    let rules = "sched 1 config type drr bw 20Mbit/s\nsched 2 config type prio parent 1 weight 4\n\
                 sched 3 config type drr parent 2 pri 5\n\
                 queue 1 config sched 1 queue 300\nqueue 2 config sched 3 queue 300\n";
    check_share(lab, "three levels", rules, OFFERS, 0.8, 0.03);
}

fn starves(lab: &Lab) {
    let rules = "sched 1 config type prio bw 10Mbit/s\nqueue 1 config sched 1 pri 5\n\
        queue 2 config sched 1 pri 4 queue 300\n";
    let [low, high] =
        two_flows(lab, rules, [OFFERS[0], Offer { bits_per_second: 20_000_000, ..OFFERS[1] }]);
    // The packets of the low priority arrived before the other flow began or after it ended.
    assert!(low.received * 10 < high.received, "{} and {} packets", low.received, high.received);
    assert!(high.bits_per_second > 9_500_000.0, "{} bit/s", high.bits_per_second);
}

fn bounds(lab: &Lab) {
    let rules = "sched 1 config type htb bw 20Mbit/s\n\
                 queue 1 config sched 1 ceil 4Mbit/s burst 3KB queue 300\n\
                 queue 2 config sched 1 queue 300\n";
    let wide = Offer { bits_per_second: 24_000_000, ..OFFERS[1] };
    check_share(lab, "a bound of 4 Mbit/s", rules, [OFFERS[0], wide], 0.8, 0.03);
    // The promised rate takes precedence, whatever the priority of the other flow.
    let rules = "sched 1 config type htb bw 20Mbit/s\n\
                 queue 1 config sched 1 rate 8Mbit/s pri 9 queue 300\n\
                 queue 2 config sched 1 queue 300\n";
    let offers = [Offer { bits_per_second: 12_000_000, ..OFFERS[0] }, wide];
    check_share(lab, "a promise of 8 Mbit/s", rules, offers, 0.6, 0.03);
}

fn medium(lab: &Lab) {
    let rules = "sched 1 config type dcf\nqueue 1 config sched 1 queue 300\n\
        queue 2 config sched 1 queue 300\n";
    let offers = [
        Offer { bits_per_second: 2_400_000, size: 300 },
        Offer { bits_per_second: 12_000_000, size: 1500 },
    ];
    // Both flows get equal numbers of packets, with random variation. Their bytes are therefore in
    // proportion to their packet sizes.
    check_share(lab, "dcf", rules, offers, 1500.0 / 1800.0, 0.12);
}

fn carries(_lab: &Lab) {
    at_once(4, rows(), |row| {
        let lab = Lab::new();
        let rules = format!(
            "sched 1 config type {} bw 20Mbit/s\nqueue 1 config sched 1\n\
             add queue 1 udp from any to any 9000 out\n",
            row.name
        );
        let file = lab.file("test.rules", &rules);
        let (r, _) = lab.stream_through(
            &["--rules", &file],
            7,
            &Stream { count: 200, pps: 400, size: 1000, ..Stream::default() },
        );
        assert_eq!((r.received, r.lost, r.duplicated, r.reordered), (200, 0, 0, 0), "{}", row.name);
    });
}

/// The offered loads. Each exceeds the flow's share of a link of 20 Mbit/s, which is 5 or 15 Mbit/s
/// for weights of 1 and 3.
const OFFERS: [Offer; 2] = [
    Offer { bits_per_second: 10_000_000, size: 1000 },
    Offer { bits_per_second: 22_000_000, size: 1000 },
];
/// Maximum number of attempts.
const ATTEMPTS: usize = 3;
