//! The Fast Queue Sampler's experiment: how often a router's queue can be read, and how much of
//! what happens in it is seen.
//!
//! All methods read the same device, one after the other, while the same clients send.

mod figures;
mod testbed;

use std::io;
use std::time::{Duration, Instant};

use weir_probe::{
    Method, Namespace, Plan, ProbeError, Queue, QueueId, Run, Sink, Tally, Target, Tee,
};

use weir_report::finding::Finding;

use testbed::{DEVICE, Testbed};

/// The experiment's name.
pub const NAME: &str = "queue-sampler";
/// What it shows, in a line.
pub const SUMMARY: &str = "how often a router's pfifo_fast is read by tc, over netlink and inside the kernel, and what of its changes is seen; needs root";
/// The publication.
pub const SOURCE: &str = "M. Sanalla, Z. Jahshan, R. Mitrany, Sampling Linux packet transmission queues with Fast Queue Sampler";

/// How the experiment is run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// A rougher picture in less time: fewer numbers of clients, and less time for each method.
    pub quick: bool,
    /// Seconds that each method reads; without it as `quick` says.
    pub seconds: Option<f64>,
    /// Numbers of clients, each up to 250; without them the published ones.
    pub clients: Option<Vec<u16>>,
}

/// Why the experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// The process is not root's.
    #[error("queue-sampler makes networks in namespaces, which takes root: run it with sudo")]
    NotRoot,
    /// The network cannot be set up or entered.
    #[error("queue-sampler: cannot {what}: {source}")]
    Network {
        /// What was tried.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A method failed while it read.
    #[error("queue-sampler, {method}: {source}")]
    Read {
        /// The method's name.
        method: &'static str,
        /// The cause.
        source: ProbeError,
    },
}

/// Numbers of clients, as published.
const CLIENTS: [u16; 5] = [2, 5, 20, 50, 100];
/// Those of a quick run.
const FEW: usize = 3;
/// Seconds of each method: published are 180.
const SECONDS: f64 = 5.0;
const QUICK_SECONDS: f64 = 1.0;
/// Time for the queue to fill and for the first packets to arrive.
const WARM_UP: Duration = Duration::from_millis(1500);
/// What is read with, the slowest first.
const METHODS: [Method; 3] = [Method::Tc, Method::Netlink, Method::Loop];
/// How much of each method's readings is drawn, in ns.
const STRETCH: u64 = 20_000_000;

/// What one method saw with so many clients.
#[derive(Clone, Debug)]
struct Watched {
    method: Method,
    seconds: f64,
    samples: u64,
    /// Share of consecutive samples that are equal, and that differ by one packet.
    zero: f64,
    one: f64,
    mean: f64,
    most: u64,
    /// The first stretch: seconds and packets.
    stretch: Vec<[f64; 2]>,
}

/// All methods with so many clients.
#[derive(Clone, Debug)]
struct Case {
    clients: u16,
    watched: Vec<Watched>,
    sent: u64,
    received: u64,
    /// The least time from a client to the server, in ns.
    fastest: Option<u64>,
}

impl Case {
    fn by(&self, method: Method) -> Option<&Watched> {
        self.watched.iter().find(|watched| watched.method == method)
    }
}

impl Watched {
    fn per_second(&self) -> f64 {
        self.samples as f64 / self.seconds
    }
}

/// Runs the experiment. `begins` is called before each number of clients, with that number, the
/// seconds of each method and the methods.
///
/// # Errors
/// Without root, without the network, or where a method fails while it reads. A method that this
/// machine does not allow is left out, and the finding says so.
pub fn run(
    settings: &Settings,
    begins: &dyn Fn(u16, f64, &[Method]),
) -> Result<Finding, SamplerError> {
    if !rustix::process::geteuid().is_root() {
        return Err(SamplerError::NotRoot);
    }
    let seconds = settings.seconds.unwrap_or(if settings.quick { QUICK_SECONDS } else { SECONDS });
    let clients = settings
        .clients
        .clone()
        .unwrap_or_else(|| CLIENTS[..if settings.quick { FEW } else { CLIENTS.len() }].to_vec());
    let (mut cases, mut remarks) = (Vec::new(), Vec::new());
    for clients in clients {
        begins(clients, seconds, &METHODS);
        cases.push(case(clients, seconds, &mut remarks)?);
    }
    Ok(figures::finding(&cases, seconds, &remarks))
}

fn case(clients: u16, seconds: f64, remarks: &mut Vec<String>) -> Result<Case, SamplerError> {
    let refused =
        |what: &'static str| move |source: io::Error| SamplerError::Network { what, source };
    let testbed = Testbed::start(clients).map_err(refused("make the network"))?;
    std::thread::sleep(WARM_UP);
    let mut watched = Vec::new();
    for method in METHODS {
        match testbed
            .at_router(|| Ok(watch(method, seconds)))
            .map_err(refused("enter the router"))?
        {
            Ok(one) => watched.push(one),
            Err(
                error @ (ProbeError::Rights { .. }
                | ProbeError::Load { .. }
                | ProbeError::Unavailable(_)),
            ) => {
                let remark = format!("{} was not tried: {error}", method.name());
                if !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
            Err(error) => {
                return Err(SamplerError::Read { method: method.name(), source: error });
            }
        }
    }
    let (sent, received, fastest) = testbed.passed();
    Ok(Case { clients, watched, sent, received, fastest })
}

/// Reads the router's queue by one method. The thread is in the router's namespace.
fn watch(method: Method, seconds: f64) -> Result<Watched, ProbeError> {
    let target = Target { device: DEVICE.into(), namespace: Namespace::Own };
    let plan = Plan {
        targets: vec![target],
        method: Some(method),
        rate: None,
        children: true,
        bands: false,
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
    Ok(Watched {
        method,
        seconds: took,
        samples: queue.readings,
        zero: steps.share_at(0),
        one: steps.share_at(1),
        mean: queue.packets().mean(),
        most: queue.packets().max(),
        stretch: stretch.finish(),
    })
}

/// The first lengths of the queue that is drawn.
#[derive(Debug, Default)]
struct Stretch {
    queue: Option<QueueId>,
    since: Option<u64>,
    until: u64,
    points: Vec<[f64; 2]>,
}

impl Stretch {
    /// The points, and the last length until it was last read.
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
            // A method that reads seldom sees nothing in between: each of its readings is a point.
            if is_new || run.count == 1 {
                self.points
                    .push([run.first.saturating_sub(since) as f64 / 1e9, f64::from(run.qlen)]);
            }
        }
    }
    fn counters(&mut self, _: u64, _: QueueId, _: &weir_probe::Counters) {}
    fn remark(&mut self, _: u64, _: &str) {}
}

/// The discipline whose length is read.
const KIND: &str = "pfifo_fast";

#[cfg(test)]
mod tests {
    use super::{Queue, Run, Sink as _, Stretch};

    #[test]
    fn a_stretch_is_the_beginning_of_one_queue_without_what_stays_the_same() {
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
