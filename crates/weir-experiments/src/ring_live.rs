//! Transmission rings with real frames and in the simulator: the delay of a probe depending on the
//! ring's size, the size of packets, the load of the processor and a service time that varies.
//!
//! The kernel sends real datagrams through namespaces. The live engine has the link: FQ-CoDel, a
//! ring and a wire of 20 Mbit/s. The simulator runs the same link with the same packets. The ring
//! is emulated in both arms, because no network card with an adjustable ring was available. The
//! live arm adds real time, real frames and the kernel's path.

use std::io;
use std::sync::Arc;

use weir_core::Nanos;
use weir_core::key::FlowKey;
use weir_core::link::Profile;
use weir_core::{Probability, config::PipeConfig};
use weir_linux::live::Realtime;
use weir_live::{Emulation, Link, LiveSession, Observation, OpenPorts, SessionConfig, Tuning};
use weir_rules::{LinkSpec, NoFiles, parse_spec};
use weir_sim::network::{FlowSpec, Network};
use weir_sim::packet::FlowId;
use weir_sim::traffic::{Cbr, Sink};
use weir_sim::world::World;
use weir_traffic::clock::SECOND;
use weir_traffic::recv::{Listen, collect};
use weir_traffic::schedule::Pace;
use weir_traffic::send::{Plan, send};
use weir_traffic::stats::Known;

use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Provenance, Quantity, Range, Series, Style, Table, Unit,
};

use super::experiment::{Options, Progress};
use super::live_bed::{Bed, PROBE_PORT, RECEIVER, TRAFFIC_PORT};
use super::parallel::over_seeds;
use super::sources::{RINGS as DOCUMENT, published};

/// The experiment's name.
pub const NAME: &str = "ring-live";
/// One line that says what the experiment shows.
pub const SUMMARY: &str = "delay behind an emulated ring, with real frames and in the simulator; \
                           real frames need root";
/// The publication.
pub const SOURCE: &str =
    "Imputato and Avallone, Simulation Modelling Practice and Theory 80 (2018)";

/// A case: its name, the device in the link's specification, bytes of the bulk's packets, and
/// whether the device needs additional time that varies.
type Case = (&'static str, &'static str, u32, bool);

/// The delays of the probes of one run, ms.
#[derive(Clone, Copy, Debug)]
struct Delays {
    mean: f64,
    p50: f64,
    p99: f64,
}

/// Runs the experiment. Without root, the finding has the simulated results alone.
pub fn run(options: &Options, progress: &Progress<'_>) -> Finding {
    let simulated = over_seeds(options, &|_, _| {}, &CASES, simulate);
    let live = live_runs(options, progress).map_err(|error| error.to_string());
    finding(&simulated, &live)
}

fn live_runs(options: &Options, progress: &Progress<'_>) -> io::Result<Vec<Vec<Delays>>> {
    if !rustix::process::geteuid().is_root() {
        return Err(io::Error::other("namespaces need root"));
    }
    let bed = Bed::make()?;
    let mut runs = vec![Vec::new(); CASES.len()];
    let (seeds, all) = (options.seeds(), CASES.len() * options.seeds() as usize);
    for n in 0..seeds {
        let seed = options.seed.wrapping_add(n);
        for (case, runs) in CASES.iter().zip(&mut runs) {
            runs.push(measure(&bed, case, seed)?);
        }
        progress((n + 1) as usize * CASES.len(), all);
    }
    Ok(runs)
}

fn link(&(_, device, _, varies): &Case) -> LinkSpec {
    let words = format!("bw 20Mbit/s delay 5ms {device} sched fq_codel limit=100");
    let mut spec = parse_spec(&words, &NoFiles).unwrap_or_default();
    if varies {
        // 2 ms for one packet in ten.
        let points = [(0.0, 0), (0.9, 0), (0.9, 2_000_000), (1.0, 2_000_000)];
        let points = points.iter().filter_map(|&(p, ns)| Some((Probability::new(p)?, Nanos(ns))));
        let profile = Profile::new("varies".into(), points.collect(), 1000, Probability::ONE);
        spec.pipe.link.profile = profile.ok().map(Arc::new);
    }
    spec
}

fn delays(mut ns: Vec<u64>) -> io::Result<Delays> {
    ns.sort_unstable();
    let ms = |q: f64| {
        let index = ((ns.len() as f64 * q) as usize).min(ns.len().saturating_sub(1));
        ns.get(index).map(|&ns| ns as f64 / 1e6)
    };
    let (Some(p50), Some(p99)) = (ms(0.5), ms(0.99)) else {
        return Err(io::Error::other("no probe arrived"));
    };
    let mean = ns.iter().sum::<u64>() as f64 / ns.len() as f64 / 1e6;
    Ok(Delays { mean, p50, p99 })
}

/// Runs a case on real frames.
fn measure(bed: &Bed, case: &Case, seed: u64) -> io::Result<Delays> {
    let back = LinkSpec { pipe: PipeConfig::default(), ..LinkSpec::default() };
    let links = [Link::new("there", link(case)), Link::new("back", back)];
    let surroundings = OpenPorts::new(vec![bed.ports()?]);
    let tuning = Tuning { realtime: Realtime::WhenAllowed, ..Tuning::default() };
    let config = SessionConfig::new(surroundings, Emulation::Links(Box::new(links)))
        .observation(Observation::Nothing)
        .tuning(tuning)
        .seed(seed);
    let session = LiveSession::build(config).map_err(io::Error::other)?;
    let session = session.start().map_err(io::Error::other)?;
    let (probe, _bulk) = (bed.inlet(PROBE_PORT)?, bed.inlet(TRAFFIC_PORT)?);
    let plan = |port, size: u32, pace, span_ns| Plan {
        to: (RECEIVER, port).into(),
        size: size as usize,
        pace,
        count: u64::MAX,
        span_ns,
        train: 1,
        after_ns: SECOND / 20,
        tos: 0,
    };
    let bulk = plan(TRAFFIC_PORT, case.2, Pace::Bits(BULK), WARM_UP + SPAN + WARM_UP);
    let probes = plan(PROBE_PORT, PROBE, Pace::Packets(PROBES), WARM_UP + SPAN);
    let listen = Listen {
        bind: (RECEIVER, PROBE_PORT).into(),
        count: u64::MAX,
        span_ns: u64::MAX,
        idle_ns: SECOND / 2,
        wait_ns: 3 * SECOND,
        known: Known::default(),
    };
    let received = std::thread::scope(|scope| {
        let from = |plan: Plan| bed.sender.enter(move || send(&plan).map_err(io::Error::other));
        let senders = [bulk, probes].map(|plan| scope.spawn(move || from(plan)));
        let received = collect(&probe, &listen);
        for sender in senders {
            sender.join().unwrap_or_else(|_| Err(io::Error::other("a sender panicked")))?;
        }
        received.map_err(io::Error::other)
    });
    let (arrivals, _) = received?;
    session.stop().map_err(io::Error::other)?;
    let begin = arrivals.first().map_or(0, |first| first.stamp.sent_ns) + WARM_UP;
    let later = arrivals.iter().filter(|arrival| arrival.stamp.sent_ns >= begin);
    delays(later.map(|arrival| arrival.at_ns.saturating_sub(arrival.stamp.sent_ns)).collect())
}

/// Runs a case in the simulator.
fn simulate(case: &Case, seed: u64) -> Delays {
    let mut network = Network::new(seed);
    let there = network.add_pipe(&link(case).pipe);
    let mut world = World::new(network);
    let flows = [(case.2, BULK), (PROBE, u64::from(PROBE) * 8 * PROBES)];
    for (n, (len, bps)) in (0u32..).zip(flows) {
        let ports = [TRAFFIC_PORT, PROBE_PORT];
        let key = FlowKey {
            src_port: 1024 + n as u16,
            dst_port: ports[n as usize],
            proto: 17,
            ethertype: 0x0800,
            ..FlowKey::default()
        };
        let spec = FlowSpec { forward: vec![there], key, group: n, ..FlowSpec::default() };
        // Both flows start at the same time, which depends on the seed.
        let from = Nanos(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 41);
        let source = Cbr::new(FlowId(n), len, 28, bps, from, Nanos::MAX);
        world.add_flow(&spec, Box::new(source), Box::new(Sink));
    }
    world.run(Nanos(WARM_UP));
    world.network_mut().zero();
    world.run(Nanos(WARM_UP + SPAN));
    let delay = world.network().counts().last().map(|count| count.delay_ns.clone());
    let delay = delay.unwrap_or_default();
    let ms = |q: f64| delay.quantile(q) as f64 / 1e6;
    Delays { mean: delay.mean() / 1e6, p50: ms(0.5), p99: ms(0.99) }
}

/// The delays of the live runs by case, or the reason why there are none.
type Live = Result<Vec<Vec<Delays>>, String>;

fn finding(simulated: &[Vec<Delays>], live: &Live) -> Finding {
    let none = vec![Vec::new(); CASES.len()];
    let real = live.as_ref().unwrap_or(&none);
    let mut notes = vec![
        "The ring is emulated in both arms, because no network card with an adjustable ring was \
         available. The frames, the time and the kernel's path are real. We chose the rate of \
         20 Mbit/s and all sizes."
            .to_owned(),
    ];
    if let Err(reason) = live {
        notes.push(format!("Real frames were not sent: {reason}."));
    }
    let columns = ["case", "real frames: mean", "p50", "p99", "simulator: mean", "p50", "p99"];
    let mut table = Table::new("one-way delay of the probe, ms", &columns);
    let values: [fn(&Delays) -> f64; 3] = [|d| d.mean, |d| d.p50, |d| d.p99];
    for (n, case) in CASES.iter().enumerate() {
        let mut row = vec![Cell::from(case.0)];
        for runs in [&real[n], &simulated[n]] {
            row.extend(values.map(|value| Cell::quantity(&quantity(runs, value), 2)));
        }
        table.row(row);
    }
    Finding {
        title: "A probe beside 24 Mbit/s behind FQ-CoDel, a ring and a wire of 20 Mbit/s, 5 ms"
            .into(),
        tables: vec![table],
        claims: claims(simulated, real),
        plots: vec![plot(simulated, real)],
        notes,
        ..Finding::default()
    }
}

fn quantity(runs: &[Delays], value: fn(&Delays) -> f64) -> Quantity {
    Quantity::of_runs(&runs.iter().map(value).collect::<Vec<_>>())
}

/// The words of a claim, the indices of the two cases that it compares (the first should have the
/// larger value), and the compared value.
type Effect = (&'static str, usize, usize, fn(&Delays) -> f64);

fn claims(simulated: &[Vec<Delays>], real: &[Vec<Delays>]) -> Vec<Claim> {
    let mut agree = Claim::new(
        "simulation agrees with experiment (mean delays within 10 %; the limit is ours)",
        AGREES,
    );
    for ((case, simulated), real) in CASES.iter().zip(simulated).zip(real) {
        let expected = quantity(simulated, |d| d.mean).mean();
        let far = expected
            .map_or(Quantity::exact(None), |mean| quantity(real, |d| d.mean).difference(mean));
        agree = agree.expect(format!("{}: difference in %", case.0), far, Range::up_to(10.0));
    }
    let mut claims = vec![agree];
    let effects: [Effect; 5] = [
        ("the delay grows with the ring", 1, 0, |d| d.mean),
        ("the delay depends on the size of packets", 1, 2, |d| d.mean),
        ("the delay is longer without DQL", 1, 3, |d| d.mean),
        ("the delay depends on the load of the processor", 1, 4, |d| d.mean),
        ("a service time that varies makes the delay vary", 5, 1, |d| d.p99 - d.p50),
    ];
    for (words, over, under, value) in effects {
        let mut claim = Claim::new(format!("{words}, in both arms"), FACTORS);
        for (name, arm) in [("real frames", real), ("simulator", simulated)] {
            let of = |case: usize| arm[case].iter().map(value).collect::<Vec<_>>();
            claim = claim.expect(
                format!("{name}: ratio of {} to {}", CASES[over].0, CASES[under].0),
                Quantity::ratio(&of(over), &of(under)),
                Range::above(1.0),
            );
        }
        claims.push(claim);
    }
    claims
}

fn plot(simulated: &[Vec<Delays>], real: &[Vec<Delays>]) -> Plot {
    let arms = [("simulator", simulated, Style::Dashes), ("real frames", real, Style::Dots)];
    let series = arms.map(|(name, arm, style)| Series {
        name: name.to_owned(),
        style,
        points: (1..)
            .zip(arm)
            .filter_map(|(n, runs)| Some([f64::from(n), quantity(runs, |d| d.mean).mean()? * 1e6]))
            .collect(),
        ..Series::default()
    });
    Plot {
        name: "delay".into(),
        title: "Mean delay of the probe".into(),
        description: "Mean one-way delay for each row of the table, with real frames and in \
                      the simulator."
            .into(),
        x: Axis::new("row of the table", Unit::Count),
        y: Axis::new("mean one-way delay", Unit::Nanoseconds),
        series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
    }
}

const AGREES: Provenance =
    published(DOCUMENT, "abstract: simulations accurately reproduce experiments");
const FACTORS: Provenance = published(DOCUMENT, "introduction, stated without values");
const CASES: [Case; 6] = [
    ("ring of 16", "ring 16", 1500, false),
    ("ring of 64", "ring 64", 1500, false),
    ("ring of 64, packets of 500 bytes", "ring 64", 500, false),
    ("ring of 64 with DQL", "ring 64 dql", 1500, false),
    ("ring of 64, processor 700 us a packet", "ring 64 cpu 700us", 1500, false),
    ("ring of 64, 2 ms more for one packet in ten", "ring 64", 1500, true),
];
/// Rate of the bulk in network-layer bit/s.
const BULK: u64 = 24_000_000;
/// Network-layer bytes of a probe, and probes per second.
const PROBE: u32 = 100;
const PROBES: u64 = 97;
/// The time before the measurement, in which the ring fills, and the time of the measurement, ns.
const WARM_UP: u64 = SECOND / 2;
const SPAN: u64 = SECOND;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespaces::may_make;

    #[test]
    fn simulated_delays_follow_the_ring() {
        let mean = |case: usize| simulate(&CASES[case], 1).mean;
        // 64 packets of 0.6 ms, and 5 ms of propagation.
        assert!((35.0..45.0).contains(&mean(1)), "{}", mean(1));
        assert!(mean(0) < mean(1) && mean(3) < mean(1) && mean(4) < mean(1) / 3.0);
        let varies = simulate(&CASES[5], 1);
        assert!(varies.p99 - varies.p50 > 1.0, "{varies:?}");
    }

    #[test]
    fn real_frames_wait_for_the_propagation_delay_at_least() {
        if !may_make("a ring under real frames") {
            return;
        }
        let bed = Bed::make().expect("the network");
        let measured = measure(&bed, &CASES[0], 1).expect("a run");
        assert!(measured.p50 > 5.0 && measured.p99 >= measured.p50, "{measured:?}");
    }
}
