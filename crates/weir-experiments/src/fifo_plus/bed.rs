//! The testbeds of the FIFO+ experiments, and their runs with several seeds.

use weir_sim::random::Variable;
use weir_sim::switch::SwitchConfig;

use weir_report::finding::Quantity;

use crate::experiment::{Options, Progress};
use crate::parallel::over_seeds;
use crate::testbed::{Host, Testbed, Waits};

/// Mean and 99th percentile of the waits, ms: for each of three hosts, and for all together.
pub(crate) type Statistics = [(f64, f64); 4];

/// The waits of one group of packets in one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// The mean, the 99th and 99.9th percentiles and the maximum of the wait on the whole path, ms.
    pub(crate) mean: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) most: f64,
    /// Mean wait before the middle switch, and mean wait from that switch on, ms.
    pub(crate) before: f64,
    pub(crate) behind: f64,
    /// The percentiles of the wait from the 0th to the 100th, ms.
    pub(crate) percentiles: Vec<f64>,
}

/// The waits in one run: a summary for each host, then one for all hosts together.
pub(crate) type Run = Vec<Summary>;

impl Summary {
    fn of(waits: &Waits) -> Self {
        Self {
            mean: waits.mean_ms(),
            p99: waits.quantile_ms(0.99),
            p999: waits.quantile_ms(0.999),
            most: waits.quantile_ms(1.0),
            before: waits.before_ms(),
            behind: waits.behind_ms(),
            percentiles: (0..=100).map(|n| waits.quantile_ms(f64::from(n) / 100.0)).collect(),
        }
    }
}

/// The time between packets under a distribution: `exponential`, `Pareto`, or constant for any
/// other name.
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

/// A testbed with three hosts, one at each of the first three switches, with five flows each.
pub(crate) fn cross(switch: SwitchConfig, distribution: &str, options: &Options) -> Testbed {
    let host = |joins| Host { joins, flows: 5, len: LEN, gap: gap(distribution), ahead: 0 };
    // The whole run counts, as in the publication. While the queues after the traffic managers fill
    // up, waits are short, so a shorter run has lower means.
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

/// Runs testbeds, each with every seed.
pub(crate) fn run_all(
    beds: &[Testbed],
    options: &Options,
    progress: &Progress<'_>,
) -> Vec<Vec<Run>> {
    over_seeds(options, progress, beds, run)
}

pub(super) fn run(bed: &Testbed, seed: u64) -> Run {
    let waits = bed.run(seed);
    let mut whole = Waits::default();
    waits.iter().for_each(|host| whole.merge(host));
    waits.iter().chain([&whole]).map(Summary::of).collect()
}

/// A statistic of one host over the seeds. The index after the last host selects all hosts
/// together.
pub(crate) fn quantity_of(runs: &[Run], host: usize, value: fn(&Summary) -> f64) -> Quantity {
    Quantity::of_runs(&values(runs, host, value))
}

/// A statistic of one host, by seed.
pub(crate) fn values(runs: &[Run], host: usize, value: fn(&Summary) -> f64) -> Vec<f64> {
    runs.iter().map(|run| run.get(host).map_or(f64::NAN, value)).collect()
}

/// The quotient of the greatest and the least value of the hosts, by seed.
pub(crate) fn spread(runs: &[Run], value: fn(&Summary) -> f64) -> Quantity {
    let of_run = |run: &Run| {
        let hosts = || run[..run.len() - 1].iter().map(value);
        hosts().fold(f64::MIN, f64::max) / hosts().fold(f64::MAX, f64::min)
    };
    Quantity::of_runs(&runs.iter().map(of_run).collect::<Vec<_>>())
}

/// Capacity of the traffic manager in packets.
pub(crate) const SLOTS: u32 = 120;
/// Rates of the links after the switches in kbit/s. The first three equal the payload rate of the
/// hosts that have joined, 5 Mbit/s for each; the last two are slower than the third.
pub(super) const RATES: [u64; 5] = [5_000, 10_000, 15_000, 14_000, 13_000];
/// Number of packets that must leave a full interface before it accepts more. Linux's default send
/// buffer holds 93 packets, and the kernel wakes a waiting sender when 47 of them have left.
pub(crate) const BATCH: u32 = 47;
/// Mean time by which a switch overestimates a wait, ns: the time that a thread takes to wake up.
pub(super) const LATE: u64 = 10_000;
/// Bytes of a packet: 1000 plus the UDP and IP headers.
pub(super) const LEN: u32 = 1028;
/// Mean time between two packets of a flow, ns: 125 packets per second.
pub(super) const GAP_NS: f64 = 8e6;
