//! Replays of recordings: a FIFO gives the kernel's row again, fair queueing shares fairly, and
//! damaged files are refused.

use weir_core::config::QueueLimit;
use weir_measure::packets::{Discipline, Encoder, End, Entry, Fate, Head, Packet};
use weir_rig::Manager;
use weir_rig::replay::{Link, Recording, Replay, ReplayError, Row, replay};

const RATE: u64 = 10_000_000;

fn head() -> Head {
    let discipline = Discipline {
        kind: "tbf".into(),
        inner: Some("bfifo".into()),
        rate_bps: Some(RATE),
        ..Discipline::default()
    };
    Head { device: "eth0".into(), discipline, ..Head::default() }
}

fn bytes(packets: &[Packet]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&head(), &mut out);
    packets.iter().for_each(|packet| encoder.put(&Entry::Packet(*packet), &mut out));
    let time = packets.last().map_or(0, |packet| packet.time);
    encoder.put(&Entry::End(End { time, ..End::default() }), &mut out);
    out
}

fn packet(time: u64, flow: u32, bytes: u32) -> Packet {
    Packet {
        time,
        wait: Some(0),
        flow,
        bytes,
        fate: Fate::Departed,
        tos: 2,
        in_train: false,
        marked: false,
    }
}

/// The outcomes of `packets` at a queue of `limit` packets, computed without the code under test.
/// The link behind the queue sends one packet after the other.
fn through_a_fifo(mut packets: Vec<Packet>, limit: usize) -> Vec<Packet> {
    let mut departures: Vec<u64> = Vec::new();
    let mut free = 0;
    for packet in &mut packets {
        let inside = departures.iter().filter(|&&at| at >= packet.time).count();
        if inside >= limit {
            packet.fate = Fate::Dropped;
            continue;
        }
        // All packets have 1250 bytes, which take 1 ms at this rate.
        let at = packet.time.max(free);
        free = at + 1_000_000;
        packet.wait = Some(at - packet.time);
        departures.push(at);
    }
    packets
}

/// One flow sends at twice the link's rate, and nine flows send little.
fn load() -> Vec<Packet> {
    let mut packets: Vec<Packet> = (0..4000).map(|n| packet(n * 500_000, 7, 1250)).collect();
    for flow in 0..9u32 {
        let times = (0..50).map(|n| n * 40_000_000 + u64::from(flow) * 1_234_567 + 11);
        packets.extend(times.map(|time| packet(time, 1000 + flow, 1250)));
    }
    packets.sort_by_key(|packet| packet.time);
    packets
}

fn played(packets: &[Packet], names: &[&str]) -> Replay {
    let managers: Vec<Manager> = names
        .iter()
        .map(|name| Manager::parse(name).or_else(|_| Manager::parse_scheduler(name)).unwrap())
        .collect();
    replay::<ReplayError>(&Recording::Bytes(bytes(packets)), &managers, 1, |_| {
        Ok(Link::new(RATE, 0, QueueLimit::Packets(40)))
    })
    .unwrap()
}

#[test]
fn a_fifo_with_the_same_limit_gives_the_kernels_row_to_the_nanosecond() {
    let result = played(&through_a_fifo(load(), 40), &["none", "fifo"]);
    let kernel = &result.rows[0];
    assert!(kernel.dropped > 1000 && kernel.left == 0, "{kernel:?}");
    for row in &result.rows[1..] {
        assert_eq!(
            (row.delivered, row.dropped, row.delay_ns, row.queue_packets, row.fairness),
            (
                kernel.delivered,
                kernel.dropped,
                kernel.delay_ns,
                kernel.queue_packets,
                kernel.fairness
            ),
            "{}",
            row.name
        );
        assert_eq!(row.throughput_bps, kernel.throughput_bps);
    }
}

#[test]
fn replayed_disciplines_have_their_known_effects() {
    let result = played(&through_a_fifo(load(), 40), &["none", "codel ecn=on", "fq_codel", "drr"]);
    let [_, fifo, codel, fair, turns] = &result.rows[..] else { panic!("five rows") };
    let all = result.content.packets;
    for row in &result.rows {
        assert_eq!(row.delivered + row.dropped + row.left, all, "{}", row.name);
        let reasons = row.drops.map_or(row.dropped, |drops| drops.total());
        assert_eq!(reasons, row.dropped);
    }
    let index =
        |row: &Row| serde_json::to_value(row).unwrap()["fairness"]["index"].as_f64().unwrap();
    assert!(index(fair) > 0.99 && index(turns) > 0.99 && index(fifo) < 0.97, "{:?}", result.rows);
    // Nine of ten flows are sparse, so the median flow does not wait behind the large one.
    let flow = |row: &Row| row.fairness.flow_delay_p50_ns;
    assert!(flow(fair) < 3_000_000 && flow(fifo) > 20_000_000);
    assert!(codel.marked > 0 && codel.drops.unwrap().total() == codel.dropped);
    assert!(result.rows[1..].iter().all(|row| row.delay_ns.count == row.delivered));
}

#[test]
fn the_same_seed_gives_the_same_rows() {
    let packets = through_a_fifo(load(), 40);
    let text = || serde_json::to_string(&played(&packets, &["pie", "sfq", "fq_codel"])).unwrap();
    assert_eq!(text(), text());
}

#[test]
fn losses_and_unknown_outcomes_are_counted() {
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(&head(), &mut out);
    let unknown = Packet { fate: Fate::Unknown, wait: None, ..packet(5, 1, 100) };
    let inside = Packet { fate: Fate::Inside, wait: None, ..packet(9, 2, 100) };
    for entry in [
        Entry::Packet(unknown),
        Entry::Lost { time: 6, events: 30 },
        Entry::Lost { time: 7, events: 12 },
        Entry::Changed(8),
        Entry::Packet(inside),
        Entry::End(End { time: 20, strays: 3, kernel_drops: 4, ..End::default() }),
    ] {
        encoder.put(&entry, &mut out);
    }
    let link = |_: &Head| Ok::<_, ReplayError>(Link::new(RATE, 0, QueueLimit::Packets(9)));
    let result = replay(&Recording::Bytes(out), &[Manager::None], 1, link).unwrap();
    let content = result.content;
    assert_eq!((content.packets, content.unknown, content.lost_events), (2, 1, 42));
    assert_eq!((content.strays, content.kernel_drops, content.changes), (3, 4, 1));
    assert_eq!((result.rows[0].unknown, result.rows[0].left), (1, 1));
    assert_eq!(result.rows[1].delivered, 2);
}

#[test]
fn hostile_recordings_end_in_a_clear_error() {
    let whole = bytes(&load());
    let fails = |bytes: Vec<u8>, word: &str| {
        let link = |_: &Head| Ok::<_, ReplayError>(Link::new(RATE, 0, QueueLimit::Packets(9)));
        let error = replay(&Recording::Bytes(bytes), &[Manager::None], 1, link).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    };
    fails(Vec::new(), "no recording of packets");
    fails(vec![0; 100_000], "no recording of packets");
    fails(vec![b'{'; 100_000], "no end within 4096 bytes");
    fails(whole[..whole.len() - 32].to_vec(), "without its end");
    fails(whole[..whole.len() - 1].to_vec(), "without its end");
    fails([&whole[..], &[0]].concat(), "after the end");
    fails(bytes(&[]), "has no packets");
    let many = |count, time: fn(u64) -> u64, wait| {
        let one = |n| Packet { wait: Some(wait), ..packet(time(n), n as u32, 100) };
        bytes(&(0..count).map(one).collect::<Vec<_>>())
    };
    fails(many(300_000, |n| n, 0), "more than 262144 flows");
    let crowd: Vec<Packet> = (0..1 << 20)
        .map(|n| Packet { wait: Some(1 << 40), ..packet(n, 1, 100) })
        .chain([Packet { wait: Some(1 << 40), ..packet(1 << 21, 1, 100) }])
        .collect();
    fails(bytes(&crowd), "in the kernel's queue at a time");
}

#[test]
fn a_file_that_is_not_regular_is_refused() {
    let link = |_: &Head| Ok::<_, ReplayError>(Link::new(RATE, 0, QueueLimit::Packets(9)));
    for (path, word) in [("/dev/zero", "not a regular file"), ("/nowhere", "cannot read /nowhere")]
    {
        let error = replay(&Recording::File(path.into()), &[], 1, link).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_discipline_with_a_rate_of_its_own_is_refused() {
    let recording = Recording::Bytes(bytes(&load()));
    let htb = [Manager::parse_scheduler("htb").unwrap()];
    let link = |_: &Head| Ok::<_, ReplayError>(Link::new(RATE, 0, QueueLimit::Packets(9)));
    let error = replay(&recording, &htb, 1, link).unwrap_err();
    assert!(error.to_string().contains("leave htb out"), "{error}");
}

#[test]
fn every_discipline_replays_a_year_of_silence_in_finite_time() {
    let packets = [packet(0, 1, 1500), packet(1, 2, 1500), packet(360 * 86_400_000_000_000, 1, 60)];
    for manager in Manager::all() {
        let link = |_: &Head| Ok::<_, ReplayError>(Link::new(1000, 0, QueueLimit::Packets(9)));
        let result = replay(&Recording::Bytes(bytes(&packets)), &[manager], 1, link).unwrap();
        let row = &result.rows[1];
        assert_eq!(row.delivered + row.dropped + row.left, 3, "{row:?}");
    }
}
