//! An invented watch: a `tbf` that a sender fills in a saw-tooth pattern, with its hidden leaf, and
//! the bands of a `pfifo_fast` on another device.

use weir_measure::watch::Summary;
use weir_measure::watch::{Counters, Handle, Method, Pace, Queue, Run, Sink, Transmission};

/// The queue length in the single highest reading, in packets.
pub(crate) const PEAK: u32 = 187;

/// Reports `seconds` of readings, 5 us apart, to a sink.
pub(crate) fn play(seconds: u64, sink: &mut dyn Sink) {
    let start = 7_000_000_000;
    let queue = |device: &str, kind: &str, handle, parent, band, root| Queue {
        device: device.into(),
        netns: Some("router".into()),
        kind: kind.into(),
        handle: Handle(handle),
        parent: Handle(parent),
        band,
        root,
    };
    sink.appeared(start, 0, &queue("eth0", "tbf", 0x8001_0000, u32::MAX, None, true));
    sink.appeared(start, 1, &queue("eth0", "bfifo", 0, 0x8001_0001, None, false));
    sink.appeared(start, 2, &queue("eth1", "pfifo_fast", 0, u32::MAX, None, true));
    for band in 0..3 {
        sink.appeared(
            start,
            3 + u32::from(band),
            &queue("eth1", "band", 0, u32::MAX, Some(band), false),
        );
    }
    let (mut drops, mut state) = (40, 1u64);
    for step in 0..seconds * 4000 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (state >> 60) as u32;
        let (time, phase) = (start + step * 250_000, step % 5200);
        let qlen = ((phase as f64).sqrt() * 1.6) as u32 + noise / 4;
        drops += u64::from(phase == 5199) * 12;
        let run = |queue, qlen: u32, backlog| Run {
            queue,
            first: time,
            last: time + 245_000,
            count: 50,
            qlen,
            backlog,
        };
        sink.runs(&[run(0, qlen, qlen * 1514), run(1, qlen, qlen * 1514)]);
        let burst = if phase > 5000 { noise } else { 0 };
        sink.runs(&[run(2, burst, burst * 120), run(3, 0, 0), run(4, burst, 0), run(5, 0, 0)]);
        if step == seconds * 1234 {
            let peak = Run {
                queue: 0,
                first: time + 247_000,
                last: time + 247_000,
                count: 1,
                qlen: PEAK,
                backlog: PEAK * 1514,
            };
            sink.runs(&[peak]);
        }
        if step % 80 == 0 {
            sink.counters(
                time,
                0,
                &Counters {
                    packets: step * 2,
                    bytes: step * 3028,
                    drops,
                    requeues: 0,
                    overlimits: step,
                },
            );
            sink.counters(
                time,
                2,
                &Counters { packets: step, bytes: step * 120, ..Counters::default() },
            );
            let (device, netns) = ("eth1".to_owned(), Some("router".to_owned()));
            sink.transmission(
                time,
                &[Transmission {
                    device,
                    netns,
                    queue: 0,
                    limit: 7570,
                    inflight: u64::from(noise) * 300,
                }],
            );
        }
    }
    let end = start + seconds * 1_000_000_000;
    sink.remark(start + 1_230_000_000, "eth2 is gone");
    sink.vanished(end - 200_000_000, 1);
    sink.remark(end, "read by an invented method");
}

/// The statistics of the watch.
pub(crate) fn summary(tally: &weir_measure::watch::Tally, seconds: u64) -> Summary {
    let mut pace =
        Pace { asked: Some(200_000), readings: seconds * 200_000, missed: 17, ..Pace::default() };
    (0..1000u64).for_each(|n| pace.gaps.record(4990 + n % 20));
    pace.gaps.record(900_000);
    Summary::of(tally, Method::Loop, seconds as f64, &pace)
}
