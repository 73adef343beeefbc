//! Tests rates, queues and delays: framing overhead, bursts, tables over time, limits, the effect
//! of losses on the rate, latencies and their distribution, and offload trains.

use libtest_mimic::Trial;
use serde_json::Value;

use crate::common::{
    Lab, Need, Stream, check_accounting, check_count, drops, link, link_from, number, trial,
};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("framing_takes_its_share_of_the_rate", &[], overhead),
        trial("after_a_pause_a_burst_leaves_at_once", &[], burst),
        trial("a_table_of_rates_repeats_exactly", &[], table),
        trial("a_schedule_changes_delay_and_then_cuts_the_line", &[], schedule),
        trial("a_queue_holds_its_packets_or_bytes_and_counts_the_rest", &[], limits),
        trial("loss_on_the_link_uses_the_rate_and_loss_before_the_queue_does_not", &[], where_lost),
        trial("latencies_in_the_result_are_those_that_a_receiver_measures", &[], latency),
        trial("delays_follow_a_distribution_file", &[], distribution),
        trial("an_offload_train_is_one_packet_or_many_as_configured", &[], trains),
        trial(
            "iperf3_between_two_programs_reaches_the_rate_in_both_directions",
            &[Need::Program("iperf3")],
            iperf,
        ),
    ]
}

fn overhead(lab: &Lab) {
    // (framing, bytes of the packet, bytes on the wire)
    let kinds = [
        // ATM adds 40 bytes to a packet. 540 bytes need 12 cells of 48 bytes, each 53 on the wire.
        ("atm", 500, 12 * 53),
        // One byte more than 11 cells hold, so 12 cells: the worst case.
        ("atm", 11 * 48 - 40 + 1, 12 * 53),
        ("ethernet", 100, 138),
        // A packet smaller than the minimum frame.
        ("ethernet", 44, 84),
    ];
    for (kind, size, wire) in kinds {
        let expected = 2.0e6 * size as f64 / f64::from(wire);
        // The stream offers twice the capacity for two seconds.
        let pps = (2.0 * expected / (8.0 * size as f64)) as u64;
        let stream = Stream { count: 2 * pps, pps, size, ..Stream::default() };
        let (r, _) = lab.stream(&format!("bw 2Mbit/s overhead {kind} queue 100"), 7, &stream);
        let off = r.bits_per_second / expected - 1.0;
        assert!(
            off.abs() < 0.01,
            "{kind}, {size} bytes: {} bit/s instead of {expected:.0}",
            r.bits_per_second
        );
    }
}

fn burst(lab: &Lab) {
    let stream = Stream {
        count: 60,
        pps: 0,
        size: 1_000,
        settle: 1,
        extra: "--list-arrivals",
        ..Stream::default()
    };
    let packet_ns = 8_000_000;
    // Without a burst, the last packet departs 59 packet times after the first; with a burst of 15
    // packets, 45.
    let (plain, _) = lab.stream("bw 1Mbit/s queue 1000", 7, &stream);
    let (burst, _) = lab.stream("bw 1Mbit/s burst 15KB queue 1000", 7, &stream);
    assert_eq!((plain.lost, burst.lost), (0, 0));
    assert!(plain.span_ns >= 58 * packet_ns, "without a burst: {} ns", plain.span_ns);
    assert!(
        burst.span_ns >= 44 * packet_ns,
        "more packets than the burst departed at once: {} ns",
        burst.span_ns
    );
    assert!(burst.span_ns < 58 * packet_ns, "no burst: {} ns", burst.span_ns);
    let at_once = |list: &[(u32, u64)]| list.iter().filter(|&&(_, at)| at < packet_ns / 2).count();
    assert!(
        at_once(&burst.arrivals) >= 10,
        "15 packets leave together: {:?}",
        &burst.arrivals[..20]
    );
    assert!(
        at_once(&plain.arrivals) <= 2,
        "one packet leaves at a time: {:?}",
        &plain.arrivals[..5]
    );
}

fn table(lab: &Lab) {
    // The rate alternates between 1 and 4 Mbit/s every second: 625,000 bytes in any two seconds.
    let csv = lab.file("rates.csv", "time,rate\n0,1Mbit/s\n1,4Mbit/s\n2,\n");
    let stream = Stream {
        count: 3_750,
        pps: 750,
        size: 1_000,
        extra: "--list-arrivals",
        ..Stream::default()
    };
    let (r, _) = lab.stream(&format!("trace {csv} queue 100"), 7, &stream);
    let arrivals: Vec<u64> = r.arrivals.iter().map(|&(_, at)| at).collect();
    let last = *arrivals.last().expect("packets arrive");
    let starts: Vec<u64> =
        arrivals.iter().copied().filter(|at| at + 2_000_000_000 <= last).collect();
    assert!(starts.len() > 100, "the stream is too short to judge: {last} ns");
    for from in starts {
        let packets =
            arrivals.iter().filter(|&&at| at > from && at <= from + 2_000_000_000).count();
        assert!(
            (600..=650).contains(&packets),
            "{packets} packets in the two seconds after {from} ns, expected 625"
        );
    }
    let (fast, slow) =
        r.arrivals.windows(2).map(|w| w[1].1 - w[0].1).fold((0u32, 0u32), |(fast, slow), gap| {
            match gap {
                0..4_000_000 => (fast + 1, slow),
                _ => (fast, slow + 1),
            }
        });
    // 500 packets depart 2 ms apart, then 125 packets 8 ms apart.
    assert!(fast > 2 * slow && slow > 50, "{fast} short gaps, {slow} long ones");
}

fn schedule(lab: &Lab) {
    let csv = lab.file("changes.csv", "time,delay,loss\n0,10ms,0\n2.5,40ms,\n4,,100%\n");
    // The sender continues for one second after the cut. The receiver waits for longer than that.
    let stream =
        Stream { count: 2_500, pps: 500, idle: 4, extra: "--list-lost", ..Stream::default() };
    let (r, summary) = lab.stream(&format!("schedule {csv}"), 7, &stream);
    assert!((10_000_000..40_000_000).contains(&r.delay_ns.min), "10 ms at first: {:?}", r.delay_ns);
    assert!(
        r.delay_ns.max >= 40_000_000 && r.delay_ns.p1 < 40_000_000,
        "40 ms later: {:?}",
        r.delay_ns
    );
    assert_eq!(
        (r.loss_runs, r.reordered),
        (1, 0),
        "nothing is lost until the line is cut, and then all: {r:?}"
    );
    assert_eq!(r.lost_sequences.last(), Some(&2_499));
    assert!(
        r.received > 1_000 && r.lost > 100,
        "the cut comes after four seconds of five: {} lost",
        r.lost
    );
    assert!(drops(link_from(&summary, "left"), "loss_on_link") >= r.lost);
}

fn limits(lab: &Lab) {
    // All packets are sent at once into a slow link. The content of the queue arrives, and so do
    // the few packets that depart in the meantime.
    for (queue, size, held) in [("20", 1_000, 20), ("20KB", 500, 40), ("30KB", 1_000, 30)] {
        let stream = Stream { count: 200, pps: 0, size, settle: 1, ..Stream::default() };
        let (r, summary) = lab.stream(&format!("bw 500Kbit/s queue {queue}"), 7, &stream);
        let link = link_from(&summary, "left");
        assert_eq!(number(link, "peak_queue_packets"), held, "queue {queue}: {link}");
        assert!((held..held + 10).contains(&r.received), "queue {queue}: {} arrived", r.received);
        let counted = drops(link, "queue_full");
        // The count may include packets that the ends send on their own.
        assert!(
            counted >= r.lost && counted <= r.lost + 3,
            "queue {queue}: {counted} drops counted, {} lost",
            r.lost
        );
    }
}

fn where_lost(lab: &Lab) {
    // 1.4 Mbit/s are offered to a link of 1 Mbit/s. With a loss of 35 % before the queue, the
    // remaining packets fit. Packets that are lost on the link have already used its rate.
    let stream = Stream { count: 1_750, pps: 350, size: 500, ..Stream::default() };
    let (before, summary) = lab.stream("bw 1Mbit/s plr 35% queue 100", 7, &stream);
    let link = link_from(&summary, "left");
    assert_eq!(drops(link, "queue_full"), 0, "the remaining packets fit: {link}");
    check_count("lost before the queue", before.lost, stream.count, 0.35);
    assert!(drops(link, "loss_before_queue") >= before.lost, "{link}");
    let (on, summary) = lab.stream("bw 1Mbit/s loss 35% queue 10", 7, &stream);
    let link = link_from(&summary, "left");
    let full = drops(link, "queue_full");
    assert!(full > stream.count / 5, "two in seven do not fit: {link}");
    check_count("lost on the link", drops(link, "loss_on_link"), stream.count - full, 0.35);
    check_count("arrived", on.received, stream.count - full, 0.65);
}

fn latency(lab: &Lab) {
    // The stream offers twice the rate. The queue fills and stays full, with 4 ms for each packet
    // in it.
    let stream = Stream { count: 2_000, pps: 500, size: 1_000, ..Stream::default() };
    let (r, summary) = lab.stream("bw 2Mbit/s delay 30ms queue 50", 7, &stream);
    let link = link_from(&summary, "left");
    let total = &link["total_ns"];
    for (what, measured) in
        [("p50", r.delay_ns.p50 as f64), ("p99", r.delay_ns.p99 as f64), ("mean", r.delay_ns.mean)]
    {
        let reported = number(total, what) as f64;
        // The histogram is exact to 3.1 %. It also includes the few packets that the ends send on
        // their own.
        assert!(
            (reported / measured - 1.0).abs() < 0.05,
            "{what}: the result has {reported} ns, the receiver {measured} ns"
        );
    }
    let (queue, total) = (number(&link["queue_ns"], "p50") as f64, number(total, "p50") as f64);
    assert!(
        ((total - queue) / 34.0e6 - 1.0).abs() < 0.25,
        "beside the queue, 4 ms on the wire and 30 ms of delay: {queue} of {total}"
    );
}

fn distribution(lab: &Lab) {
    // One in four packets is 20 ms early, the others are 20 ms late. A table value of 8192 is the
    // configured jitter.
    let table = lab.file("two.dist", "# early and late\n-8192 8192\n8192 8192\n");
    let stream = Stream { count: 4_000, pps: 2_000, ..Stream::default() };
    let (r, _) = lab.stream(&format!("delay 50ms jitter 20ms {table} reorder"), 7, &stream);
    assert_eq!((r.lost, r.duplicated), (0, 0));
    let d = r.delay_ns;
    assert!(
        (30_000_000..70_000_000).contains(&d.min) && d.p1 < 70_000_000,
        "the early ones take 30 ms: {d:?}"
    );
    assert!(d.p50 >= 70_000_000, "most take 70 ms: {d:?}");
    // The mean is 60 ms. Four standard deviations of the mean of all draws are 1.1 ms, and the
    // machine adds some delay.
    assert!((58_900_000.0..65_000_000.0).contains(&d.mean), "{d:?}");
    assert!(r.reordered > 500, "the early ones overtake: {}", r.reordered);
}

fn trains(lab: &Lab) {
    let stream = Stream {
        count: 6_400,
        pps: 0,
        size: 500,
        train: 10,
        extra: "--list-lost",
        ..Stream::default()
    };
    // The numbers of trains that are lost in part, and as a whole.
    let lost_trains = |lost: &[u32]| {
        let mut blocks = vec![0u32; 640];
        lost.iter().for_each(|n| blocks[*n as usize / 10] += 1);
        (
            blocks.iter().filter(|n| (1..10).contains(*n)).count(),
            blocks.iter().filter(|n| **n == 10).count(),
        )
    };
    let spec = "delay 5ms loss 10%";
    let (split, _) = lab.stream(spec, 7, &stream);
    check_count("packets lost", split.lost, stream.count, 0.1);
    assert!(
        lost_trains(&split.lost_sequences).0 > 300,
        "packets are lost one by one: {:?}",
        lost_trains(&split.lost_sequences)
    );
    let (whole, summary) = lab.stream(&format!("{spec} gso whole"), 7, &stream);
    let (some, all) = lost_trains(&whole.lost_sequences);
    assert_eq!(some, 0, "a train is lost as a whole or not at all");
    check_count("trains lost", all as u64, 640, 0.1);
    // With `gso whole`, too, the counters count each packet of a train.
    assert!(number(link_from(&summary, "left"), "packets_in") >= stream.count);
    assert!(drops(link_from(&summary, "left"), "loss_on_link") >= whole.lost);
    // The rate counts the headers of each packet in a train. A train takes 20 ms, and 39 trains
    // follow the first.
    let slow = Stream { count: 400, ..stream };
    let (r, summary) = lab.stream("bw 2Mbit/s queue 1000 gso whole", 7, &slow);
    assert_eq!(r.lost, 0);
    assert!(r.span_ns >= 38 * 20_000_000, "{} ns", r.span_ns);
    let link = link_from(&summary, "left");
    assert!(
        number(link, "bytes_out") >= 400 * 500
            && number(link, "bytes_out") == number(link, "bytes_in"),
        "{link}"
    );
}

fn iperf(lab: &Lab) {
    let dir = lab.path("").display().to_string();
    for (reverse, limit) in [("", 8.0e6), ("-R", 20.0e6)] {
        let client = format!(
            "until iperf3 -c left -t 2 -J {reverse} > {dir}/iperf.json; do sleep 0.1; done"
        );
        let json = format!("{dir}/weir.json");
        let specs = ["--to-left", "bw 8Mbit/s delay 5ms", "--to-right", "bw 20Mbit/s delay 5ms"];
        let ends = ["--json", &json, "--left", "exec iperf3 -s", "--right", &client];
        let done = lab.weir(["pair"].into_iter().chain(specs).chain(ends));
        assert_eq!(done.code, 0, "{done:?}");
        let result = lab.document("weir.json");
        check_accounting(&result);
        judge_iperf(&lab.json("iperf.json"), limit, reverse);
        let busy = link(&result, if reverse.is_empty() { "to-left" } else { "to-right" });
        assert!(
            number(busy, "bytes_out") as f64 * 8.0 > 1.5 * limit,
            "the other direction was used: {result}"
        );
    }
}

/// Checks iperf3's rate against the link's limit. TCP carries 1448 of 1500 bytes. A rate below four
/// fifths of that would have a cause other than the link.
pub(crate) fn judge_iperf(measured: &Value, limit: f64, reverse: &str) {
    let goodput = measured["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
    let most = limit * 1448.0 / 1500.0;
    // The interval that iperf3 measures may be slightly short.
    assert!(
        goodput > 0.8 * most && goodput < 1.05 * most,
        "{goodput} bit/s, at most {most} {reverse}"
    );
}
