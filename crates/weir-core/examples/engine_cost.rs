//! Passes packets through one or many links, to count instructions:
//! `valgrind --tool=callgrind engine_cost LINKS PACKETS`.
//!
//! The instructions per packet are the difference between two runs divided by the difference in
//! their numbers of packets. The program prints the number of departures, and the time per packet
//! in ns: the mean of the run, and the minimum over its [`PARTS`] parts, which excludes most
//! disturbances by other programs. It also creates another engine, and prints how many links this
//! engine creates per second.
//!
//! Options: `impaired` gives each link loss and jitter. `ring` gives each link a device with a ring
//! of 256 packets and dynamic queue limits. `batch=N` submits N packets at one time, like a driver
//! that receives batches. With `same` the packets of a batch are of one flow; with `train` they are
//! submitted together, like an offload train that was split.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use weir_core::config::{
    Capacity, FlowsetConfig, Jitter, LinkConfig, Loss, PipeConfig, QueueLimit,
};
use weir_core::device::{DeviceConfig, DqlConfig};
use weir_core::dist::Distribution;
use weir_core::key::{FlowKey, FlowMask};
use weir_core::packet::Ecn;
use weir_core::{
    Action, Arrival, Departure, Emulator, Limits, LookupKey, Nanos, Probability, Rate,
};

/// Number of parts of a run that are timed separately.
const PARTS: u32 = 20;
/// Time between two packets, ns. With 1000 bytes per packet this is 800 Mbit/s.
const GAP: u64 = 10_000;

/// The arguments of the program; the documentation of the module describes them.
struct Options {
    links: u32,
    packets: u32,
    impaired: bool,
    ring: bool,
    batch: u32,
    same: bool,
    train: bool,
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("usage: engine_cost LINKS PACKETS [impaired] [ring] [batch=N [same|train]]");
        return ExitCode::from(2);
    };
    let mut driver = Driver::new(&options);
    let (mut first, mut fastest) = (0, f64::INFINITY);
    let start = Instant::now();
    for part in 1..=PARTS {
        let start = Instant::now();
        let end = (u64::from(options.packets) * u64::from(part) / u64::from(PARTS)) as u32;
        driver.pass(first, end);
        fastest = fastest.min(start.elapsed().as_nanos() as f64 / f64::from(end - first));
        first = end;
    }
    let mean = start.elapsed().as_nanos() as f64 / f64::from(options.packets);
    println!(
        "{} packets departed, {mean:.1} ns each, {fastest:.1} ns in the fastest part, {:.0} links \
         created per second",
        driver.departed,
        links_per_second(&options)
    );
    ExitCode::SUCCESS
}

/// The options of the command line, or `None` if they are invalid.
fn options() -> Option<Options> {
    let mut words = std::env::args().skip(1);
    let mut number = || words.next().and_then(|word| word.parse::<u32>().ok()).filter(|&n| n > 0);
    let mut options = Options {
        links: number()?,
        packets: number()?,
        impaired: false,
        ring: false,
        batch: 1,
        same: false,
        train: false,
    };
    for word in words {
        match word.split_once('=') {
            None if word == "impaired" => options.impaired = true,
            None if word == "ring" => options.ring = true,
            None if word == "same" => options.same = true,
            None if word == "train" => options.train = true,
            Some(("batch", n)) => options.batch = n.parse().ok().filter(|&n| n > 0)?,
            _ => return None,
        }
    }
    Some(options)
}

/// An engine and the state of its driver.
struct Driver {
    emulator: Emulator,
    links: u32,
    batch: u32,
    same: bool,
    train: bool,
    now: u64,
    departed: usize,
    out: Vec<Departure>,
}

impl Driver {
    fn new(options: &Options) -> Self {
        let mask = if options.links == 1 {
            FlowMask::default()
        } else {
            FlowMask { dst_ip: u32::MAX, ..FlowMask::default() }
        };
        let queue = FlowsetConfig {
            mask,
            limit: Some(QueueLimit::Packets(100)),
            ..FlowsetConfig::default()
        };
        let limits = Limits { instances: u32::MAX / 2, ..Limits::default() };
        // Live drivers use a secret key.
        let mut emulator = Emulator::new(1, limits).with_lookup_key(LookupKey::secret([1, 2]));
        emulator.set_pipe(
            Nanos::ZERO,
            1,
            &PipeConfig { link: link(options), queue, scheduler: None },
        );
        Self {
            emulator,
            links: options.links,
            batch: options.batch,
            same: options.same,
            train: options.train,
            now: 0,
            departed: 0,
            out: Vec::new(),
        }
    }

    /// Passes packets `from..to` through the engine.
    fn pass(&mut self, from: u32, to: u32) {
        let mut next = from;
        while next < to {
            let until = next.saturating_add(self.batch).min(to);
            self.now += GAP * u64::from(until - next);
            let now = Nanos(self.now);
            self.emulator.poll(now, &mut self.out);
            let arrival = |n| Arrival {
                frame: n,
                len: 1000,
                link_header: 14,
                segments: 1,
                ecn: Ecn::NotEct,
                label: 0,
            };
            // Consecutive packets use links that are far apart in memory.
            let links = self.links;
            let key = |n: u32| FlowKey {
                dst: (n.wrapping_mul(2_654_435_761) % links).into(),
                ..FlowKey::default()
            };
            if self.train {
                self.emulator.submit_train(
                    now,
                    (next..until).map(arrival),
                    &key(next),
                    Action::Pipe(1),
                    |_, _| (),
                );
            } else {
                for n in next..until {
                    let _ = self.emulator.submit(
                        now,
                        arrival(n),
                        &key(if self.same { next } else { n }),
                        Action::Pipe(1),
                    );
                }
            }
            self.departed += self.out.len();
            self.out.clear();
            next = until;
        }
    }
}

/// The number of links that an engine creates per second, if each packet goes to a new link.
fn links_per_second(options: &Options) -> f64 {
    let mut driver = Driver::new(options);
    driver.links = u32::MAX;
    let start = Instant::now();
    driver.pass(0, options.links.max(10_000));
    f64::from(options.links.max(10_000)) / start.elapsed().as_secs_f64()
}

/// The configuration of each link. All links together have 1 Gbit/s; each has a delay of 10 ms.
fn link(options: &Options) -> LinkConfig {
    let capacity = Rate::new(1_000_000_000 / u64::from(options.links))
        .map_or(Capacity::Unlimited, Capacity::Constant);
    let device = options.ring.then(|| {
        Arc::new(DeviceConfig { dql: Some(DqlConfig::default()), ..DeviceConfig::default() })
    });
    let plain =
        LinkConfig { capacity, delay: Nanos::from_millis(10), device, ..LinkConfig::default() };
    if !options.impaired {
        return plain;
    }
    let distribution = Arc::new(Distribution::normal());
    let jitter = Jitter {
        amount: Nanos::from_millis(1),
        distribution,
        correlation: Probability::ZERO,
        may_reorder: false,
    };
    LinkConfig {
        jitter: Some(jitter),
        loss: Probability::new(0.01).map_or(Loss::None, Loss::Bernoulli),
        ..plain
    }
}
