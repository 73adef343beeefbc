//! An invented run: a download over a slow link with a small queue. The sender receives
//! acknowledgements, and halves its window when the queue is full, but not more than once in 150
//! ms. Equal arguments give an equal run. The code imitates the engine and does not use it.

use std::collections::VecDeque;

use weir_core::stats::{DropReason, LinkStats};
use weir_measure::series::{LinkRecorder, QueueState};
use weir_report::{LinkResult, RunInfo, RunResult};

/// The results of a download that takes `seconds`.
pub(crate) fn run(seconds: u64) -> RunResult {
    let mut down = Link::new(4_000_000, 20 * MS, 50, 500);
    let mut up = Link::new(256_000, 20 * MS, 20, 0);
    let (mut window, mut in_flight, mut cut_at) = (10.0f64, 0u64, 0);
    let mut acks: VecDeque<u64> = VecDeque::new();
    let mut rng = 1u64;
    for ms in 0..seconds * 1000 {
        let now = ms * MS;
        // In a run longer than 10 s, the server pauses once, for 1.5 s.
        let pause = seconds > 10 && (seconds * 400..seconds * 400 + 1500).contains(&ms);
        for _ in 0..down.poll(now, &mut rng) {
            up.submit(now, 52, &mut rng);
            in_flight -= 1;
        }
        (0..up.poll(now, &mut rng)).for_each(|_| acks.push_back(now));
        while acks.pop_front().is_some() {
            window += if window < 40.0 && cut_at == 0 { 1.0 } else { 1.0 / window };
        }
        while !pause && in_flight < window as u64 {
            if down.submit(now, 1500, &mut rng) {
                in_flight += 1;
            } else if now > cut_at + 150 * MS {
                (window, cut_at) = ((window / 2.0).max(2.0), now);
            } else {
                break;
            }
        }
    }
    let info = RunInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: [
            "curl",
            "-o",
            "/dev/null",
            "http://10.0.0.1/big file.iso",
            "-H",
            "X-Test: </script><b>&\"'",
        ]
        .map(str::to_owned)
        .to_vec(),
        exit_code: Some(0),
        started: "2026-03-14T09:26:53Z".to_owned(),
        duration_ns: seconds * 1000 * MS,
        seed: 42,
        ..RunInfo::default()
    };
    let down =
        down.result("down", "network", "program", "bw 4Mbit/s delay 20ms queue 50 loss 0.005");
    let up = up.result("up", "program", "network", "bw 256Kbit/s delay 20ms queue 20");
    RunResult::new(info, vec![down, up])
}

/// One direction of the invented link. Times are in ns.
struct Link {
    /// The rate in bit/s.
    rate: u64,
    delay: u64,
    /// The limit of the queue, in packets.
    limit: usize,
    /// Random loss in parts per hundred thousand.
    loss: u64,
    /// Arrival and length of each packet in the queue.
    queue: VecDeque<(u64, u64)>,
    /// Arrival, due time and length of each packet on the wire.
    wire: VecDeque<(u64, u64, u64)>,
    /// The time at which the last transmission ends.
    free_at: u64,
    stats: LinkStats,
    lateness: weir_core::histogram::Histogram,
    recorder: LinkRecorder,
    /// Maximum numbers of packets and of bytes in the queue since the last observation.
    peak: (u64, u64),
}

impl Link {
    fn new(rate: u64, delay: u64, limit: usize, loss: u64) -> Self {
        Self {
            rate,
            delay,
            limit,
            loss,
            queue: VecDeque::new(),
            wire: VecDeque::new(),
            free_at: 0,
            stats: LinkStats::default(),
            lateness: weir_core::histogram::Histogram::default(),
            recorder: LinkRecorder::new(0),
            peak: (0, 0),
        }
    }

    /// Submits a packet of this length. Returns whether the queue has room for it.
    fn submit(&mut self, now: u64, bytes: u64, rng: &mut u64) -> bool {
        let now = now + draw(rng) % MS;
        let c = &mut self.stats.counters;
        c.packets_in += 1;
        c.bytes_in += bytes;
        if self.queue.len() >= self.limit {
            c.count_drop(DropReason::QueueFull);
            return false;
        }
        self.queue.push_back((now, bytes));
        c.peak_queue_packets = c.peak_queue_packets.max(self.queue.len() as u64);
        let waiting = self.queue.iter().map(|p| p.1).sum();
        self.peak = (self.peak.0.max(self.queue.len() as u64), self.peak.1.max(waiting));
        true
    }

    /// Advances the packets to the time `now`; returns the number of departures.
    fn poll(&mut self, now: u64, rng: &mut u64) -> u64 {
        while let Some(&(arrived, bytes)) = self.queue.front()
            && self.free_at.max(arrived) <= now
        {
            self.queue.pop_front();
            let start = self.free_at.max(arrived);
            self.stats.queue_ns.record(start - arrived);
            self.free_at = start + bytes * 8 * 1_000_000_000 / self.rate;
            if draw(rng) % 100_000 < self.loss {
                self.stats.counters.count_drop(DropReason::LossOnLink);
            }
            self.wire.push_back((arrived, self.free_at + self.delay, bytes));
        }
        let mut left = 0;
        while let Some(&(arrived, due, bytes)) = self.wire.front()
            && due <= now
        {
            self.wire.pop_front();
            self.stats.total_ns.record(due - arrived);
            // The lateness is usually a few microseconds and rarely much more.
            let r = draw(rng);
            self.lateness.record(
                40 + r % 9000
                    + if r.is_multiple_of(97) { r % 180_000 } else { 0 }
                    + if r.is_multiple_of(4001) { 2 * MS } else { 0 },
            );
            left += 1;
            self.stats.counters.packets_out += 1;
            self.stats.counters.bytes_out += bytes;
        }
        let queue = QueueState {
            packets: self.queue.len() as u64,
            bytes: self.queue.iter().map(|p| p.1).sum(),
            peak_packets: std::mem::take(&mut self.peak.0),
            peak_bytes: std::mem::take(&mut self.peak.1),
        };
        self.recorder.observe(now, &self.stats.counters, queue);
        left
    }

    fn result(mut self, name: &str, from: &str, to: &str, spec: &str) -> LinkResult {
        // To keep the sender simple, lost packets are transmitted too. The counters count each of
        // them once, as lost.
        let lost = self.stats.counters.drops(DropReason::LossOnLink);
        self.stats.counters.packets_out -= lost;
        self.stats.counters.backlog_packets = (self.queue.len() + self.wire.len()) as u64;
        LinkResult {
            spec: spec.to_owned(),
            rate_bps: Some(self.rate),
            delay_ns: self.delay,
            loss: (self.loss > 0).then_some(self.loss as f64 / 100_000.0),
            lateness_ns: self.lateness,
            series: self.recorder.series(),
            ..LinkResult::from_stats(name, from, to, &self.stats)
        }
    }
}

fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

const MS: u64 = 1_000_000;
