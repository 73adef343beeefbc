//! The router's queue as one method of reading observes it.

use std::collections::BTreeMap;
use std::time::Instant;

use weir_probe::{
    Method, Namespace, Plan, ProbeError, Queue, QueueId, Run, Sink, Tally, Target, Tee,
};

use weir_report::finding::Quantity;

use super::testbed::DEVICE;

/// The readings of one method, for one number of clients.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) method: Method,
    /// The rounds in which the method read, alternating with the other methods.
    pub(super) rounds: Vec<Round>,
    /// The largest number of packets that a reading showed.
    pub(super) most: u64,
    /// The first readings: time in seconds, and packets.
    pub(super) stretch: Vec<[f64; 2]>,
    /// For each number of packets, how often two consecutive samples differed by this number.
    pub(super) steps: BTreeMap<u64, u64>,
}

/// The readings of one method in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) seconds: f64,
    pub(super) samples: u64,
    /// Share of consecutive samples that are equal, and share of those that differ by one packet.
    pub(super) zero: f64,
    pub(super) one: f64,
    /// Mean difference of consecutive samples in packets.
    pub(super) step: f64,
    /// Mean length of the queue in packets.
    pub(super) mean: f64,
}

/// The readings of all methods, for one number of clients.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) clients: u16,
    pub(super) watched: Vec<Watched>,
    /// The packets that the clients sent, and those that had reached the server at the end.
    pub(super) sent: u64,
    pub(super) received: u64,
    /// The shortest time from a client to the server, ns.
    pub(super) fastest: Option<u64>,
}

impl Case {
    pub(super) fn by(&self, method: Method) -> Option<&Watched> {
        self.watched.iter().find(|watched| watched.method == method)
    }
}

impl Watched {
    /// Adds later readings by the same method.
    pub(super) fn append(&mut self, later: Self) {
        self.rounds.extend(later.rounds);
        self.most = self.most.max(later.most);
        for (packets, count) in later.steps {
            *self.steps.entry(packets).or_default() += count;
        }
    }

    /// The share of consecutive samples that differ by `from` to `until` packets, and the number of
    /// these samples.
    pub(super) fn share(&self, from: u64, until: u64) -> (f64, u64) {
        let count: u64 = self.steps.range(from..=until).map(|(_, count)| count).sum();
        (count as f64 / self.steps.values().sum::<u64>().max(1) as f64, count)
    }

    pub(super) fn values(&self, value: fn(&Round) -> f64) -> Vec<f64> {
        self.rounds.iter().map(value).collect()
    }

    pub(super) fn over_rounds(&self, value: fn(&Round) -> f64) -> Quantity {
        Quantity::of_runs(&self.values(value))
    }
}

impl Round {
    pub(super) fn per_second(&self) -> f64 {
        self.samples as f64 / self.seconds
    }
}

/// A value of one method by round; empty if the method was not tried.
pub(super) fn values(case: &Case, method: Method, value: fn(&Round) -> f64) -> Vec<f64> {
    case.by(method).map_or_else(Vec::new, |watched| watched.values(value))
}

/// Reads the router's queue by one method. The calling thread must be in the router's namespace.
pub(super) fn watch(method: Method, seconds: f64) -> Result<Watched, ProbeError> {
    let target = Target { device: DEVICE.into(), namespace: Namespace::Own };
    let plan = Plan {
        targets: vec![target],
        method: Some(method),
        rate: None,
        children: true,
        bands: false,
        packets: false,
    };
    let mut source = weir_probe::open(&plan)?.source;
    let (mut tally, mut stretch) = (Tally::new(), Stretch::default());
    let began = Instant::now();
    while began.elapsed().as_secs_f64() < seconds {
        source.turn(&mut Tee(vec![&mut tally, &mut stretch]))?;
    }
    let took = began.elapsed().as_secs_f64();
    let queue = tally.queues().iter().find(|measured| measured.queue.kind == KIND);
    let queue = queue.ok_or_else(|| {
        ProbeError::Unavailable(format!("{} does not show the router's {KIND}", method.name()))
    })?;
    let steps = queue.steps();
    let round = Round {
        seconds: took,
        samples: queue.readings,
        zero: steps.share_at(0),
        one: steps.share_at(1),
        step: steps.mean(),
        mean: queue.packets().mean(),
    };
    let most = queue.packets().max();
    let steps = steps.bins().map(|bin| (bin.low, bin.count)).collect();
    Ok(Watched { method, rounds: vec![round], most, stretch: stretch.finish(), steps })
}

/// Collects the first lengths of the queue, for a plot.
#[derive(Debug, Default)]
struct Stretch {
    queue: Option<QueueId>,
    /// The time of the first reading, ns.
    since: Option<u64>,
    /// The time from the first reading to the last, at most [`STRETCH`], ns.
    until: u64,
    points: Vec<[f64; 2]>,
}

impl Stretch {
    /// Returns the points. The last length continues until the time of the last reading.
    fn finish(mut self) -> Vec<[f64; 2]> {
        if let Some(&[time, length]) = self.points.last() {
            let until = self.until as f64 / 1e9;
            self.points.extend((until > time).then_some([until, length]));
        }
        self.points
    }
}

impl Sink for Stretch {
    fn appeared(&mut self, _: u64, id: QueueId, queue: &Queue) {
        if queue.kind == KIND {
            self.queue = Some(id);
        }
    }
    fn vanished(&mut self, _: u64, _: QueueId) {}
    fn runs(&mut self, runs: &[Run]) {
        for run in runs.iter().filter(|run| Some(run.queue) == self.queue) {
            let since = *self.since.get_or_insert(run.first);
            if run.first.saturating_sub(since) > STRETCH {
                return;
            }
            self.until = run.last.saturating_sub(since).min(STRETCH);
            let is_new = self.points.last().is_none_or(|last| last[1] != f64::from(run.qlen));
            // A run of only one reading is always a point, because the queue may have changed
            // between rare readings.
            if is_new || run.count == 1 {
                self.points
                    .push([run.first.saturating_sub(since) as f64 / 1e9, f64::from(run.qlen)]);
            }
        }
    }
    fn counters(&mut self, _: u64, _: QueueId, _: &weir_probe::Counters) {}
    fn remark(&mut self, _: u64, _: &str) {}
}

/// The queueing discipline that is read.
const KIND: &str = "pfifo_fast";
/// The methods, from the slowest to the fastest.
pub(super) const METHODS: [Method; 3] = [Method::Tc, Method::Netlink, Method::Loop];
/// The time for which each method's readings are plotted, ns.
const STRETCH: u64 = 20_000_000;

#[cfg(test)]
mod tests {
    use super::{Queue, Run, Sink as _, Stretch};

    #[test]
    fn a_stretch_omits_readings_without_a_change() {
        let mut stretch = Stretch::default();
        let queue = |kind: &str| Queue {
            device: "out".into(),
            netns: None,
            kind: kind.into(),
            handle: weir_probe::Handle(0),
            parent: weir_probe::Handle::ROOT,
            band: None,
            root: false,
        };
        stretch.appeared(0, 0, &queue("tbf"));
        stretch.appeared(0, 1, &queue("pfifo_fast"));
        let run =
            |queue, first, count, qlen| Run { queue, first, last: first, count, qlen, backlog: 0 };
        stretch.runs(&[
            run(0, 5, 9, 9),
            run(1, 5, 9, 1),
            run(1, 6, 9, 1),
            run(1, 1_000_000_005, 9, 2),
        ]);
        stretch.runs(&[run(1, 500_005, 9, 3), run(1, 700_005, 9, 3)]);
        assert_eq!(stretch.finish(), [[0.0, 1.0], [0.0005, 3.0], [0.0007, 3.0]]);
    }
}
