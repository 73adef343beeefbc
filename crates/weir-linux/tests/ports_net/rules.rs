//! Tests of the live loop with rules: the path of packets, changes to the packets, and counters.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use weir_core::Nanos;
use weir_core::stats::DropReason;
use weir_linux::live::{Change, DepartureEvent, LiveReport, Observer};
use weir_rules::classify::DEFAULT_ID;
use weir_rules::ruleset::{Changes, Ruleset};
use weir_wire::IpVersion;

use super::{Kind, Net, Running, compiled, read};
use crate::{Watcher, client, receive, settle, transfer, verified, wait_for};

#[test]
fn unmatched_packets_pass_at_once_and_denied_ones_are_counted() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    let script = "add 100 deny udp from any to any dst-port 4000 out\nadd 200 count udp from any \
                  to any dst-port 4001 out";
    let running = net.start_ruled(script, |_| {});
    let sink = net.within("b", || client("10.77.0.2:4001"));
    net.within("a", || {
        let socket = client("0.0.0.0:0");
        for port in [4000, 4001].into_iter().cycle().take(40) {
            socket.send_to(&[port as u8; 100], ("10.77.0.2", port)).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    for _ in 0..20 {
        receive(&sink).unwrap();
    }
    let report = running.stop();
    let up = &report.lanes[0];
    assert_eq!((up.counters.drops(DropReason::Denied), up.counters.total_drops()), (20, 20));
    assert_eq!(up.passed, up.counters.packets_out, "no packet went through a pipe");
    assert!(up.total_ns.max() == 0 && report.pipes.is_empty());
    assert_eq!([matched(&report, 1), matched(&report, 2)], [(20, 20 * 128), (20, 20 * 128)]);
    assert!(matched(&report, DEFAULT_ID).0 >= 20, "a counted packet continues to the default rule");
}

#[test]
fn delays_add_up_without_one_pass_and_only_the_first_pipe_counts_with_it() {
    let pipes = "pipe 1 config delay 10ms\npipe 2 config bw 8Mbit/s delay 20ms";
    for (one_pass, least) in
        [("disable", Nanos::from_millis(30)), ("enable", Nanos::from_millis(10))]
    {
        let Some(mut net) = Net::new(Kind::Packet) else { return };
        let script = format!(
            "{one_pass} one_pass\n{pipes}\nadd 100 pipe 1 udp from any to any out\nadd 200 pipe 2 \
             udp from any to any out"
        );
        let (sender, spans) = channel();
        let running =
            net.start_ruled(&script, |config| config.observer = Some(Box::new(Spans(sender))));
        net.within("a", || {
            let socket = client("0.0.0.0:0");
            for size in 0..20 {
                socket.send_to(&[1; 200][size..], "10.77.0.2:4000").unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        settle(&running, 20);
        let report = running.stop();
        let mut count = 0;
        for (len, span) in spans.try_iter() {
            // At 8 Mbit/s each byte takes a microsecond. The loop's lateness between pipes must
            // make no difference.
            let transmission =
                if one_pass == "disable" { Nanos::from_micros(len) } else { Nanos::ZERO };
            assert_eq!(span, least + transmission);
            count += 1;
        }
        let of =
            |id: u16| report.pipes.iter().find(|pipe| pipe.0 == id).unwrap().1.counters.clone();
        assert!(report.pipes.iter().all(|(_, stats)| stats.counters.balanced()) && count == 20);
        assert_eq!(
            (of(1).packets_in, of(2).packets_in),
            (20, if one_pass == "disable" { 20 } else { 0 })
        );
        let up = &report.lanes[0];
        // ARP and the kernel's own packets enter no pipe.
        assert_eq!(20 + up.passed, up.counters.packets_in);
    }
}

#[test]
fn a_lane_does_not_report_the_queue_of_a_pipe_that_its_packets_never_take() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    let script = "pipe 1 config bw 1Mbit/s delay 5ms\nadd 100 pipe 1 udp from any to any in";
    // Pipe 1 is the pipe of the lane up, but the rules send the packets of the lane down into it.
    let running = net.start_ruled(script, |config| config.lanes[0].pipe = 1);
    net.within("b", || {
        let socket = client("0.0.0.0:0");
        for _ in 0..20 {
            socket.send_to(&[1; 500], "10.77.0.1:4000").unwrap();
        }
    });
    wait_for(&running, |report| report.lanes[1].counters.packets_in >= 20);
    settle(&running, 1);
    let report = running.stop();
    assert!(report.pipes[0].1.counters.peak_queue_packets > 5, "{:?}", report.pipes);
    assert_eq!(report.lanes[0].counters.peak_queue_packets, 0, "the lane up has no queue");
}

#[test]
fn the_queue_of_a_pipe_that_rules_select_is_in_the_report_of_that_pipe() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    let script = "pipe 1 config bw 100Kbit/s\npipe 2 config bw 100Kbit/s\n\
                  pipe 7 config bw 100Kbit/s\n\
                  add 100 pipe 7 udp from any to any dst-port 4000 out\n\
                  add 200 pipe 1 udp from any to any dst-port 4001 out";
    let running = net.start_ruled(script, |config| {
        (config.lanes[0].pipe, config.lanes[1].pipe) = (1, 2);
    });
    net.within("a", || {
        let socket = client("0.0.0.0:0");
        for port in [4000; 12].into_iter().chain([4001; 4]) {
            socket.send_to(&[1; 500], ("10.77.0.2", port)).unwrap();
        }
    });
    settle(&running, 16);
    let report = running.stop();
    let pipe = |id: u16| &report.pipes.iter().find(|pipe| pipe.0 == id).unwrap().1.counters;
    assert_eq!((pipe(7).packets_in, pipe(1).packets_in), (12, 4));
    assert!((6..=12).contains(&pipe(7).peak_queue_packets), "{:?}", pipe(7));
    assert!((1..=4).contains(&pipe(1).peak_queue_packets), "{:?}", pipe(1));
    // A lane with rules has no fixed pipe, so the queue of pipe 1 or 2 would be the wrong one.
    let lanes = report.lanes.iter().map(|lane| lane.counters.peak_queue_packets);
    assert_eq!(lanes.collect::<Vec<_>>(), [0, 0]);
}

/// An observer that reports each IPv4 packet on the lane up to the test: the number of the packet's
/// network-layer bytes, and the time from its arrival to its due time without the time in queues.
struct Spans(Sender<(u64, Nanos)>);

impl Observer for Spans {
    fn wants_frames(&self) -> bool {
        true
    }

    fn on_departure(&mut self, event: &DepartureEvent<'_>) {
        if let Ok(parsed) = weir_wire::parse(event.frame)
            && parsed.ip == IpVersion::V4
            && event.lane == 0
        {
            // This fails if the test no longer listens.
            let _ = self.0.send((parsed.network_len.into(), event.due.since(event.dequeued)));
        }
    }
}

#[test]
fn segments_of_trains_take_separate_paths_where_rules_draw() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    let script = "pipe 1 config delay 2ms\npipe 2 config delay 4ms\n\
                  add 100 prob 0.5 pipe 1 tcp from any to any out\n\
                  add 200 setdscp ef tcp from any to any out\n\
                  add 300 pipe 2 tcp from any to any out";
    let (sender, frames) = channel();
    let running =
        net.start_ruled(script, |config| config.observer = Some(Box::new(Watcher(sender))));
    transfer(&net, "10.77.0.2:5000", 2_000_000);
    settle(&running, 1000);
    let report = running.stop();
    let of = |id: u16| report.pipes.iter().find(|pipe| pipe.0 == id).unwrap().1.counters.packets_in;
    let share = of(1) as f64 / (of(1) + of(2)) as f64;
    assert!(of(1) + of(2) > 1000 && (0.4..0.6).contains(&share), "{} and {}", of(1), of(2));
    let mut rewritten = 0;
    for frame in frames.try_iter() {
        assert!(verified(&frame), "checksums are right whatever was rewritten");
        // B's kernel answers a segment of a closed connection with the segment's own DSCP.
        let from_a = frame[26..30] == [10, 77, 0, 1];
        rewritten += u64::from(from_a && weir_wire::parse(&frame).unwrap().dscp == 46);
    }
    // Only the packets of pipe 2 were rewritten.
    assert_eq!(rewritten, of(2));
}

#[test]
fn a_train_examined_as_one_is_counted_and_rewritten_in_all_its_packets() {
    for (address, version) in [("10.77.0.2:5000", "ip4"), ("[fd77::2]:5000", "ip6")] {
        let Some(mut net) = Net::new(Kind::Packet) else { return };
        let script = format!("add 100 setdscp af41 {version} from any to any out");
        let (sender, frames) = channel();
        let running =
            net.start_ruled(&script, |config| config.observer = Some(Box::new(Watcher(sender))));
        transfer(&net, address, 1_000_000);
        settle(&running, 600);
        let report = running.stop();
        let mut rewritten = 0;
        for frame in frames.try_iter() {
            assert!(verified(&frame), "{version}");
            rewritten += u64::from(weir_wire::parse(&frame).unwrap().dscp == 34);
        }
        assert!(rewritten > 600, "a megabyte is about 700 packets: {rewritten}");
        assert_eq!(matched(&report, 1).0, rewritten, "counted in packets, not in trains");
    }
}

#[test]
fn copies_continue_separately() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    let script = "disable one_pass\npipe 1 config dup 100% delay 1ms\n\
                  pipe 2 config delay 1ms loss 10%\n\
                  add 100 pipe 1 udp from any to any out\nadd 200 pipe 2 udp from any to any out";
    let running = net.start_ruled(script, |_| {});
    let sink = net.within("b", || client("10.77.0.2:4000"));
    let count = 100;
    net.within("a", move || {
        let socket = client("0.0.0.0:0");
        for number in 0..count {
            socket.send_to(&[number as u8; 100], "10.77.0.2:4000").unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    settle(&running, count);
    let report = running.stop();
    let up = &report.lanes[0].counters;
    let lost = up.drops(DropReason::LossOnLink);
    assert!(up.duplicated >= count && (5..40).contains(&lost), "{up:?}");
    let mut arrived = 0;
    sink.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    while sink.recv(&mut [0; 200]).is_ok() {
        arrived += 1;
    }
    assert_eq!(arrived, 2 * count - lost);
}

#[test]
fn a_packet_that_enters_pipes_too_often_is_dropped_with_its_own_reason() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    // 99 rules send the packet into the pipe, but a packet may enter pipes at most 64 times.
    let mut script = "disable one_pass\npipe 1 config delay 0\n".to_owned();
    for number in 1..100 {
        script += &format!("add {number} pipe 1 udp from any to any dst-port 4000 out\n");
    }
    let running = net.start_ruled(&script, |_| {});
    net.within("a", || {
        let socket = client("0.0.0.0:0");
        for _ in 0..10 {
            socket.send_to(&[1; 100], "10.77.0.2:4000").unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    wait_for(&running, |report| report.lanes[0].counters.drops(DropReason::RuleLoop) == 10);
    let report = running.stop();
    assert_eq!(report.pipes[0].1.counters.packets_in, 640);
}

#[test]
fn rules_are_replaced_while_packets_are_inside_and_keep_their_counters() {
    for workers in [1, 2] {
        let Some(mut net) = Net::new(Kind::Packet) else { return };
        (1..workers).for_each(|_| net.add_worker());
        let before = read(
            "disable one_pass\npipe 1 config delay 300ms\nadd 100 count udp from any to any \
             out\nadd 200 pipe 1 udp from any to any out",
        );
        let running = net.start_ruled("", |_| {});
        change(&running, &Ruleset::default(), &before);
        let sink = net.within("b", || client("10.77.0.2:4000"));
        let send = || {
            net.within("a", || {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                for _ in 0..20 {
                    socket.send_to(&[1; 100], "10.77.0.2:4000").unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        };
        send();
        wait_for(&running, |report| report.lanes[0].counters.packets_in >= 20);
        // Rule 200 is removed. Packets that it sent into the pipe continue at the first rule after
        // it.
        let mut after = before.clone();
        let script = weir_rules::script::parse(
            "delete 200\nadd 150 deny udp from any to any\nadd 300 count udp from any to any",
            "",
            &weir_rules::NoFiles,
        );
        after.apply_all(&script.commands).unwrap();
        change(&running, &before, &after);
        for _ in 0..20 {
            receive(&sink).unwrap();
        }
        send();
        wait_for(&running, |report| report.lanes[0].counters.drops(DropReason::Denied) == 20);
        let counts = running.handle.rule_counts().unwrap();
        let of =
            |id| counts.iter().find(|count| count.id == id).map(|count| count.counters.packets);
        assert_eq!(
            (of(1), of(2), of(3), of(4)),
            (Some(40), None, Some(20), Some(20)),
            "{counts:?}"
        );
        running.handle.zero_rules(Some(&[1])).unwrap();
        let counts = running.handle.rule_counts().unwrap();
        assert!(
            counts.iter().any(|count| count.id == 1 && count.counters.packets == 0),
            "{counts:?}"
        );
        running.stop();
    }
}

fn change(running: &Running, old: &Ruleset, new: &Ruleset) {
    let changes = Changes::between(old, new);
    let work: Change = Arc::new(move |engine, now| {
        changes.engine.iter().for_each(|change| change.apply(now, engine));
    });
    running.handle.set_rules(&compiled(new), &work).unwrap();
}

/// Packets and bytes that the rule with this identity has matched.
fn matched(report: &LiveReport, id: u32) -> (u64, u64) {
    let count = report.rules.iter().find(|count| count.id == id).expect("the rule exists");
    (count.counters.packets, count.counters.bytes)
}
