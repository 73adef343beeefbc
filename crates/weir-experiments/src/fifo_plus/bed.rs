//! The testbeds of the FIFO+ experiments, and their runs with several seeds.

use weir_sim::random::Variable;
use weir_sim::switch::SwitchConfig;

use crate::experiment::Options;
use crate::parallel::parallel;
use crate::testbed::{Host, Testbed, Waits};

/// Mean and 99th percentile in ms for each of three hosts, and overall.
pub(crate) type Statistics = [(f64, f64); 4];

/// The distribution with this name, as the time between packets.
pub(super) fn gap(distribution: &str) -> Variable {
    match distribution {
        "exponential" => Variable::Exponential { mean: GAP_NS },
        // Shape 2 and scale 4 ms: a mean of 8 ms.
        "Pareto" => Variable::Pareto { shape: 2.0, scale: GAP_NS / 2.0 },
        _ => Variable::Fixed(GAP_NS),
    }
}

/// A switch of the testbed: FIFO, or FIFO+ on strict queues of `depth` packets.
pub(crate) fn switch(plus: bool, depth: u32, batch: u32) -> SwitchConfig {
    let manager = if plus { format!("sp-pifo queues 8 depth {depth}") } else { "fifo".to_owned() };
    SwitchConfig {
        manager,
        program: Some("fifo+".to_owned()),
        queue: SLOTS,
        batch,
        ..SwitchConfig::default()
    }
}

/// A testbed in which three hosts with five flows each join at the first three switches.
pub(crate) fn cross(switch: SwitchConfig, distribution: &str, options: &Options) -> Testbed {
    let host = |joins| Host { joins, flows: 5, len: LEN, gap: gap(distribution), ahead: 0 };
    // The whole run counts, as in the publication, including the time in which the queues after the
    // traffic managers fill up. In a shorter run that time has more weight, so its means are lower.
    let seconds = if options.quick { 200 } else { 300 };
    Testbed {
        rates: RATES.to_vec(),
        switch,
        late: LATE,
        hosts: (0..3).map(host).collect(),
        seconds,
        warmup: 0,
        middle: 2,
    }
}

/// Runs testbeds with several seeds each. Returns, for each testbed, the waits of each host's
/// packets and then those of all hosts.
pub(crate) fn run_all(beds: &[Testbed], options: &Options) -> Vec<Vec<Waits>> {
    run_seeds(beds, options, if options.quick { 1 } else { SEEDS })
}

pub(super) fn run_seeds(beds: &[Testbed], options: &Options, seeds: u64) -> Vec<Vec<Waits>> {
    let jobs: Vec<(usize, u64)> =
        (0..beds.len()).flat_map(|bed| (0..seeds).map(move |seed| (bed, seed))).collect();
    let results =
        parallel(options.threads, &jobs, |&(bed, seed)| beds[bed].run(options.seed + seed));
    let mut all: Vec<Vec<Waits>> =
        beds.iter().map(|bed| vec![Waits::default(); bed.hosts.len() + 1]).collect();
    for ((bed, _), waits) in jobs.into_iter().zip(results) {
        let (whole, hosts) =
            all[bed].split_last_mut().expect("there is a place for all hosts together");
        for (host, waits) in hosts.iter_mut().zip(&waits) {
            host.merge(waits);
            whole.merge(waits);
        }
    }
    all
}

/// The mean and the 99th percentile for each host.
pub(crate) fn statistics(waits: &[Waits]) -> Statistics {
    std::array::from_fn(|n| {
        waits.get(n).map_or((f64::NAN, f64::NAN), |w| (w.mean_ms(), w.quantile_ms(0.99)))
    })
}

/// Capacity of the traffic manager in packets.
pub(crate) const SLOTS: u32 = 120;
/// Rates of the links between the switches in kbit/s. The first three follow the payload that has
/// joined, 5 Mbit/s from each host; the last two are slower.
pub(super) const RATES: [u64; 5] = [5_000, 10_000, 15_000, 14_000, 13_000];
/// Number of packets that must leave a full interface before it accepts more. Linux's default send
/// buffer holds 93 packets and wakes a waiting sender when this many have left.
pub(crate) const BATCH: u32 = 47;
/// Mean overestimate of a wait by a switch, ns: the time that a thread takes to wake up.
pub(super) const LATE: u64 = 10_000;
/// Bytes of a packet: 1000 plus the UDP and IP headers.
pub(super) const LEN: u32 = 1028;
/// Mean time between two packets of a flow, ns: 125 packets per second.
pub(super) const GAP_NS: f64 = 8e6;
/// Number of runs of each testbed, each with a different seed.
const SEEDS: u64 = 3;
