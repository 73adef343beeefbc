//! Tests the effects of a link on packets as a receiver sees them: loss, duplication, corruption,
//! order, rate, traces and profiles.

use libtest_mimic::Trial;
use serde_json::Value;
use weir_traffic::clock::SECOND;
use weir_traffic::stats::Reception;

use crate::common::{Lab, Need, Stream, check_count, drops, link_from, load, number, trial};

/// The tests that count packets. Arrival times do not matter to them.
pub(crate) fn counts() -> Vec<Trial> {
    vec![
        trial("loss_takes_its_share_and_the_same_seed_takes_the_same_packets", &[], loss),
        trial("gilbert_elliott_loss_comes_in_runs", &[], gilbert_elliott),
        trial("duplication_makes_its_share_of_copies", &[], duplication),
        trial("corruption_inverts_one_bit_that_a_raw_capture_sees", &[Need::Root], corruption),
    ]
}

/// The tests that measure when packets arrive.
pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("chosen_packets_overtake_those_in_the_delay_line", &[], reordering),
        trial("jitter_keeps_the_order_or_not_as_configured", &[], jitter),
        trial("a_rate_is_never_exceeded_and_the_overflow_is_counted", &[], rate),
        trial("both_directions_are_delayed_over_ipv4_and_ipv6", &[], both_directions),
        trial("packets_leave_at_a_traces_opportunities", &[], mahimahi),
        trial("a_profile_adds_air_time_and_loses_its_share", &[], profile),
    ]
}

fn loss(lab: &Lab) {
    // The namespaces' own packets also take random draws. Wait until they have passed, so that the
    // stream gets the same draws each time.
    let stream = Stream { extra: "--list-lost", settle: 2, ..Stream::default() };
    let (first, summary) = lab.stream("loss 5%", 7, &stream);
    check_count("lost", first.lost, stream.count, 0.05);
    assert_eq!((first.duplicated, first.reordered), (0, 0));
    let link = link_from(&summary, "left");
    // The link also carries, and may lose, packets that are not part of the stream.
    assert!(drops(link, "loss_on_link") >= first.lost, "{link}");
    let (again, _) = lab.stream("loss 5%", 7, &stream);
    assert_eq!(
        first.lost_sequences, again.lost_sequences,
        "the same seed must lose the same packets"
    );
    let (other, _) = lab.stream("loss 5%", 8, &stream);
    assert_ne!(first.lost_sequences, other.lost_sequences, "another seed must lose other packets");
}

fn gilbert_elliott(lab: &Lab) {
    // The good state loses no packet, and the bad state loses every packet. The chain enters the
    // bad state with a probability of 1 % and leaves it with 25 %.
    let stream = Stream { extra: "--list-lost", ..Stream::default() };
    let (r, _) = lab.stream("loss 0,0.01,1,0.25", 7, &stream);
    let (enter, leave) = (0.01, 0.25);
    let runs = stream.count as f64 * enter * leave / (enter + leave);
    // The length of a run is geometric. Its mean is 1 / leave and its variance
    // (1 − leave) / leave². The number of runs varies, too; its variance is close to its mean.
    let (mean, variance) = (1.0 / leave, (1.0 - leave) / (leave * leave));
    let sigma = (runs * (variance + mean * mean)).sqrt();
    let expected = runs * mean;
    assert!(
        (r.lost as f64 - expected).abs() < 4.0 * sigma,
        "lost {}, expected {expected:.0} ± {sigma:.0}",
        r.lost
    );
    let length = r.lost as f64 / r.loss_runs as f64;
    let spread = (variance / r.loss_runs as f64).sqrt();
    assert!(
        (length - mean).abs() < 4.0 * spread,
        "runs are {length:.2} long, expected {mean} ± {spread:.2}"
    );
}

fn duplication(lab: &Lab) {
    let stream = Stream::default();
    let (r, summary) = lab.stream("dup 3%", 7, &stream);
    check_count("copies", r.duplicated, stream.count, 0.03);
    assert_eq!(r.lost, 0);
    assert!(number(link_from(&summary, "left"), "duplicated") >= r.duplicated);
}

fn corruption(lab: &Lab) {
    let (load, dir, count) = (load(), lab.path("").display().to_string(), 10_000);
    let interface =
        "$(ip -o link | sed -n 's/^[0-9]*: \\([^:@]*\\).*/\\1/p' | grep -v '^lo$' | head -1)";
    let watch =
        format!("{load} capture {interface} --size 300 --idle 1 --json --out {dir}/capture.json");
    let send = format!(
        "sleep 1; {load} send --to right:9000 -4 --count {count} --pps 8000 --size 300 --json \
         --out {dir}/send.json"
    );
    let summary = lab.pair("corrupt 5%", 7, &send, &watch);
    let seen = lab.json("capture.json");
    assert_eq!(number(&seen, "packets"), count, "a damaged packet still arrives: {seen}");
    check_count("damaged", number(&seen, "damaged"), count, 0.05);
    assert_eq!(number(&seen, "several_bits"), 0, "one bit, not more: {seen}");
    // The inverted bit is chosen from the 300 bytes of the packet, of which 272 are payload.
    check_count(
        "bits in the payload",
        number(&seen, "single_bit"),
        number(&seen, "damaged"),
        272.0 / 300.0,
    );
    assert!(number(link_from(&summary, "left"), "corrupted") >= number(&seen, "damaged"));
}

fn reordering(lab: &Lab) {
    let stream = Stream { count: 4_000, pps: 2_000, ..Stream::default() };
    let (r, summary) = lab.stream("delay 20ms reorder 5%", 7, &stream);
    assert_eq!((r.lost, r.duplicated), (0, 0), "what is overtaken is late, not lost");
    check_count("overtaking", number(link_from(&summary, "left"), "reordered"), stream.count, 0.05);
    // Each overtaking packet passes the packets of the last 20 ms. At this rate these are 40
    // packets, unless they were sent in bursts.
    assert!(
        r.reordered > stream.count / 4,
        "5 % of packets pass 40 each, so most are overtaken: {}",
        r.reordered
    );
    assert!(r.reorder_depth > 1, "depth {}", r.reorder_depth);
    assert!(r.delay_ns.max >= 20_000_000, "those that do not overtake take the whole delay");
}

fn jitter(lab: &Lab) {
    let stream = Stream { count: 2_000, pps: 1_000, ..Stream::default() };
    let check_least = |r: &Reception| {
        assert!(
            r.delay_ns.min >= 10_000_000,
            "20 ms less 10 ms is the least, not {} ns",
            r.delay_ns.min
        );
    };
    let (kept, _) = lab.stream("delay 20ms jitter 10ms uniform ordered", 7, &stream);
    assert_eq!((kept.lost, kept.reordered), (0, 0));
    check_least(&kept);
    let (mixed, _) = lab.stream("delay 20ms jitter 10ms uniform reorder", 7, &stream);
    assert_eq!((mixed.lost, mixed.duplicated), (0, 0));
    check_least(&mixed);
    assert!(
        mixed.reordered > stream.count / 10,
        "neighbours 1 ms apart with ± 10 ms change places often: {}",
        mixed.reordered
    );
    assert!(
        mixed.delay_ns.max - mixed.delay_ns.min > 15_000_000,
        "uniform over 20 ms: {:?}",
        mixed.delay_ns
    );
}

fn rate(lab: &Lab) {
    let stream = Stream { count: 1_500, pps: 1_000, size: 1_000, ..Stream::default() };
    let (r, summary) = lab.stream("bw 4Mbit/s queue 50", 7, &stream);
    let link = link_from(&summary, "left");
    assert_eq!(number(link, "rate_bps"), 4_000_000);
    // The stream is sent at 8 Mbit/s. A late first packet makes the remaining ones look faster, so
    // 2 % are allowed.
    assert!(r.bits_per_second < 4_000_000.0 * 1.02, "{} bit/s through 4 Mbit/s", r.bits_per_second);
    assert!(
        drops(link, "queue_full") >= r.lost && r.lost > stream.count / 3,
        "half does not fit: lost {}, {link}",
        r.lost
    );
    // The received packets must have taken at least their total transmission time.
    assert!(
        r.span_ns as f64 >= (r.bytes - 1_000) as f64 * 8.0 / 4.0e6 * 0.98e9,
        "{} bytes in {} ns",
        r.bytes,
        r.span_ns
    );
    assert!(
        number(&link["queue_ns"], "max") > 50_000_000,
        "50 packets of 2 ms wait up to 100 ms: {link}"
    );
}

fn both_directions(lab: &Lab) {
    let (load, dir) = (load(), lab.path("").display().to_string());
    let echo = format!("{load} echo --bind [::]:9000");
    let ask = |to: &str, family: &str| {
        format!(
            "{load} ping --to {to}:9000 {family} --count 30 --json --out {dir}/ping{family}.json"
        )
    };
    let both = format!("sleep 0.8; {}; {}", ask("left", "-4"), ask("left", "-6"));
    let summary = lab.pair("bw 10Mbit/s delay 10ms", 7, &echo, &both);
    for family in ["-4", "-6"] {
        let answers = lab.json(&format!("ping{family}.json"));
        assert_eq!(
            (number(&answers, "sent"), number(&answers, "lost")),
            (30, 0),
            "{family}: {answers}"
        );
        assert!(number(&answers["rtt_ns"], "min") >= 20_000_000, "twice 10 ms: {answers}");
    }
    for from in ["left", "right"] {
        let link = link_from(&summary, from);
        assert_eq!(number(link, "delay_ns"), 10_000_000);
        assert!(number(link, "packets_out") >= 60, "{link}");
    }
    // In the reverse direction, with the echo on the right.
    let right = format!("{load} echo --bind [::]:9000 --seconds 3");
    let left = ask("right", "-6");
    lab.pair("bw 10Mbit/s delay 10ms", 7, &left, &right);
    assert_eq!(number(&lab.json("ping-6.json"), "lost"), 0);
}

fn mahimahi(lab: &Lab) {
    // The trace has one opportunity of 1504 bytes every 10 ms.
    let text: String = (1..=10).map(|i| format!("{}\n", i * 10)).collect();
    let trace = lab.file("ten.trace", &text);
    let stream = Stream { count: 150, pps: 400, size: 1_500, ..Stream::default() };
    let (r, summary) = lab.stream(&format!("trace {trace} queue 1000"), 7, &stream);
    assert_eq!((r.lost, r.reordered), (0, 0));
    // A packet of 1500 bytes leaves four bytes of an opportunity, too few for a further packet in
    // this stream. So n packets need n − 1 intervals; one interval less is allowed.
    assert!(
        r.span_ns >= (stream.count - 2) * 10_000_000,
        "{} packets in {} ns",
        r.received,
        r.span_ns
    );
    let link = link_from(&summary, "left");
    assert!(number(link, "packets_out") >= stream.count, "{link}");
    // A second trace with two opportunities at a time halves the duration.
    let trace =
        lab.file("pairs.trace", &text.lines().map(|l| format!("{l}\n{l}\n")).collect::<String>());
    let (r, _) = lab.stream(&format!("trace {trace} queue 1000"), 7, &stream);
    assert_eq!(r.lost, 0);
    let least = (stream.count / 2 - 2) * 10_000_000;
    assert!(
        r.span_ns >= least && r.gap_ns.p50 < 10_000_000,
        "{} packets in {} ns, {:?}",
        r.received,
        r.span_ns,
        r.gap_ns
    );
}

fn profile(lab: &Lab) {
    // The profile adds 4 to 8 ms of air-time. Packets with a draw in the upper fifth are lost, so
    // the packets that arrive took 4 to 7.2 ms.
    let profile = lab
        .file("air.profile", "name air\nsamples 100\nloss-level 0.8\nprob delay\n0.0 4\n1.0 8\n");
    let stream = Stream { count: 500, pps: 1_000, size: 200, ..Stream::default() };
    let (r, summary) =
        lab.stream(&format!("bw 100Mbit/s profile {profile} queue 1000"), 8, &stream);
    let link: &Value = link_from(&summary, "left");
    check_count("lost above the loss level", r.lost, stream.count, 0.2);
    assert!(drops(link, "profile") >= r.lost, "{link}");
    assert_eq!(r.reordered, 0, "air-time never reorders");
    // Lost packets also use air-time, so each packet after the first takes at least 4 ms. Only
    // received packets are counted, because the first and last packets of the stream may be lost.
    let intervals = stream.count - r.lost - 1;
    assert!(r.span_ns >= intervals * 4_000_000, "{intervals} intervals in {} ns", r.span_ns);
    assert!(r.span_ns < 20 * SECOND);
}
