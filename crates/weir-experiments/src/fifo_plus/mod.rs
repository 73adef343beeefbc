//! FIFO+ over several hops on strict-priority queues: cross traffic, a single path, and deadlines
//! that depend on the path.
//!
//! The traffic manager is that of a P4 switch with eight strict-priority queues of 15 packets each,
//! with bounds that adapt to the ranks of arrivals (SP-PIFO). It is compared with a FIFO of 120
//! packets. [`bed`] holds the testbeds, including properties of the original that were not
//! published; `docs/experiments/fifo-plus.md` describes how these were inferred.

pub(super) mod bed;

use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Series, Style, Table, Unit, difference,
};
use weir_sim::random::Variable;

use super::experiment::{Experiment, Options};
use super::testbed::{Host, Testbed, Waits};
use bed::{
    BATCH, GAP_NS, LATE, LEN, SLOTS, Statistics, cross, run_all, run_seeds, statistics, switch,
};

pub(super) const TABLE: Experiment = Experiment {
    name: "fifo-plus-table",
    summary: "FIFO+ and FIFO with traffic that joins at three switches: mean and 99th percentile for each host",
    source: "PIFO on a P4 software switch by eight strict-priority queues, table 4.2",
    run: table,
};

pub(super) const PATH: Experiment = Experiment {
    name: "fifo-plus-path",
    summary: "FIFO+ and FIFO on one path of five bottlenecks, each narrower than the one before",
    source: "PIFO on a P4 software switch by eight strict-priority queues, section 4.4.1.2",
    run: path,
};

pub(super) const FAIR: Experiment = Experiment {
    name: "fifo-plus-fair",
    summary: "deadlines that account for the path give short paths back what FIFO+ takes from them",
    source: "PIFO on a P4 software switch by eight strict-priority queues, section 4.4.1.3",
    run: fair,
};

/// Indices of changes in [`variants`].
const EXACTLY: usize = 1;
const MUCH_LATER: [usize; 2] = [3, 4];

/// Distributions of the time between packets, each with its published results: FIFO+, FIFO.
const PUBLISHED: [(&str, Statistics, Statistics); 3] = [
    (
        "constant",
        [(58.0, 159.0), (55.0, 158.0), (57.0, 170.0), (57.0, 162.0)],
        [(400.0, 482.0), (245.0, 297.0), (168.0, 206.0), (269.0, 471.0)],
    ),
    (
        "Pareto",
        [(49.0, 166.0), (46.0, 159.0), (52.0, 171.0), (49.0, 165.0)],
        [(310.0, 456.0), (204.0, 285.0), (152.0, 203.0), (221.0, 439.0)],
    ),
    (
        "exponential",
        [(48.0, 163.0), (46.0, 154.0), (50.0, 167.0), (48.0, 162.0)],
        [(359.0, 462.0), (229.0, 287.0), (163.0, 204.0), (249.0, 447.0)],
    ),
];
const HOSTS: [&str; 4] = ["h1", "h2", "h3", "overall"];

fn table(options: &Options) -> Finding {
    let beds: Vec<Testbed> = PUBLISHED
        .iter()
        .flat_map(|&(distribution, ..)| {
            [true, false].map(|plus| cross(switch(plus, SLOTS / 8, BATCH), distribution, options))
        })
        .collect();
    let waits = run_all(&beds, options);
    let mut table = Table::new(
        "time in the traffic managers of a path, ms",
        &[
            "arrivals",
            "system",
            "host",
            "mean published",
            "measured",
            "difference",
            "p99 published",
            "measured",
            "difference",
        ],
    );
    let mut judged = Judged::default();
    for (&(distribution, plus, fifo), waits) in PUBLISHED.iter().zip(waits.chunks(2)) {
        for (name, published, waits) in [("FIFO+", plus, &waits[0]), ("FIFO", fifo, &waits[1])] {
            let measured = statistics(waits);
            for (host, (theirs, ours)) in HOSTS.iter().zip(published.iter().zip(&measured)) {
                let mut row: Vec<Cell> = vec![distribution.into(), name.into(), (*host).into()];
                row.extend(Cell::compared(theirs.0, ours.0, 0));
                row.extend(Cell::compared(theirs.1, ours.1, 0));
                table.row(row);
            }
            judged.take(name == "FIFO+", distribution, published, measured);
        }
    }
    let (difference, reasons) = causes(options);
    let mut claims = judged.claims();
    claims.extend(reasons);
    Finding {
        title: "Three hosts send 5 x 125 packets of 1000 bytes a second to the end of five links: FIFO of 120 packets against FIFO+ on 8 strict queues of 15".into(),
        tables: vec![table, difference],
        claims,
        plots: vec![distributions(&waits)],
    }
}

/// The measured values that support the claims.
#[derive(Default)]
struct Judged {
    /// The largest differences of means and of percentiles from the published ones, in percent:
    /// FIFO, FIFO+.
    worst: [[f64; 2]; 2],
    spread: [Vec<f64>; 2],
    overall: Vec<(f64, f64)>,
    tails: Vec<(f64, f64)>,
    /// Whether packets on longer paths wait longer under FIFO.
    ordered: bool,
}

impl Judged {
    fn take(&mut self, plus: bool, _law: &str, published: Statistics, measured: Statistics) {
        let system = usize::from(plus);
        for (theirs, ours) in published.iter().zip(&measured) {
            for (worst, (theirs, ours)) in
                self.worst[system].iter_mut().zip([(theirs.0, ours.0), (theirs.1, ours.1)])
            {
                let far = difference(theirs, ours);
                if far.abs() > worst.abs() {
                    *worst = far;
                }
            }
        }
        let means = [measured[0].0, measured[1].0, measured[2].0];
        let most = means.iter().copied().fold(f64::MIN, f64::max);
        let least = means.iter().copied().fold(f64::MAX, f64::min);
        self.spread[system].push(most / least);
        if plus {
            self.overall.push((measured[3].0, 0.0));
            self.tails.push((measured[3].1, 0.0));
        } else {
            if let (Some(overall), Some(tail)) = (self.overall.last_mut(), self.tails.last_mut()) {
                (overall.1, tail.1) = (measured[3].0, measured[3].1);
            }
            self.ordered = (self.ordered || self.spread[system].len() == 1)
                && means[0] > means[1]
                && means[1] > means[2];
        }
    }

    fn claims(&self) -> Vec<Claim> {
        let most = |list: &[f64]| list.iter().copied().fold(f64::MIN, f64::max);
        let least = |list: &[f64]| list.iter().copied().fold(f64::MAX, f64::min);
        let ratios: Vec<f64> = self.overall.iter().map(|(plus, fifo)| plus / fifo).collect();
        let tails: Vec<f64> = self.tails.iter().map(|(plus, fifo)| plus / fifo).collect();
        let [fifo, plus] = self.worst;
        vec![
            Claim::tried(
                "under FIFO who comes from further away waits longer",
                self.ordered,
                format!("most to least mean: {:.2} at least", least(&self.spread[0])),
            ),
            Claim::tried(
                "FIFO+ makes the paths alike: means of the hosts within 20 % of each other (published: within 13 %)",
                most(&self.spread[1]) < 1.2,
                format!("most to least mean: {:.2} at most", most(&self.spread[1])),
            ),
            Claim::tried(
                "FIFO+ on strict queues has less than a third of FIFO's mean (published: 0.19 to 0.22)",
                most(&ratios) < 0.34,
                format!("{:.2} to {:.2}", least(&ratios), most(&ratios)),
            ),
            Claim::tried(
                "and less than half of its 99th percentile (published: 0.34 to 0.38)",
                most(&tails) < 0.5,
                format!("{:.2} to {:.2}", least(&tails), most(&tails)),
            ),
            within("FIFO: every mean", fifo[0]),
            within("FIFO: every 99th percentile", fifo[1]),
            within("FIFO+: every 99th percentile", plus[1]),
            within("FIFO+: every mean", plus[0]),
        ]
    }
}

fn within(what: &str, worst: f64) -> Claim {
    Claim::tried(
        format!("{what} within 20 % of the published"),
        worst.abs() <= 20.0,
        format!("furthest: {worst:+.1} %"),
    )
}

/// The effect of single changes of the testbed on the results, with exponential arrivals, for all
/// hosts together.
fn causes(options: &Options) -> (Table, Vec<Claim>) {
    let mut table = Table::new(
        "what the results depend on: exponential arrivals, all hosts together, ms",
        &["changed", "FIFO mean", "FIFO p99", "FIFO+ mean", "FIFO+ p99"],
    );
    let variants = variants(options);
    let beds: Vec<Testbed> = variants.iter().flat_map(|(_, beds)| beds.clone()).collect();
    let waits = run_seeds(&beds, options, 1);
    let published = PUBLISHED[2];
    let row = |name: &str, [fifo, plus]: [(f64, f64); 2]| {
        let mut row = vec![Cell::from(name)];
        row.extend([fifo.0, fifo.1, plus.0, plus.1].map(|ms| Cell::number(ms, 0)));
        row
    };
    table.row(row("published", [published.2[3], published.1[3]]));
    let measured: Vec<[(f64, f64); 2]> = waits
        .chunks(2)
        .map(|waits| [0, 1].map(|system: usize| statistics(&waits[system])[3]))
        .collect();
    for ((name, _), statistics) in variants.iter().zip(&measured) {
        table.row(row(name, *statistics));
    }
    let theirs = published.1[3].0;
    let mean = |n: usize| measured[n][1].0;
    let far = [mean(MUCH_LATER[0]), mean(MUCH_LATER[1])]
        .map(|ours| difference(theirs, ours).abs())
        .into_iter()
        .fold(0.0, f64::max);
    let claims = vec![
        Claim::tried(
            "where waits are read exactly, FIFO+'s mean is less than half of the published: ties have one strict queue of 15 places",
            mean(EXACTLY) < theirs / 2.0,
            format!(
                "{:.0} ms; read {} us too long {:.0} ms (published: {theirs:.0})",
                mean(EXACTLY),
                LATE / 1000,
                mean(0)
            ),
        ),
        Claim::tried(
            "how much too long hardly matters: with ten and a hundred times as much FIFO+'s mean is within 20 % of the published",
            far <= 20.0,
            format!("furthest: {far:.1} %"),
        ),
    ];
    (table, claims)
}

/// The testbed with one change each, as FIFO and FIFO+. The first variant is unchanged; the next
/// two read waits differently ([`EXACTLY`] and [`MUCH_LATER`]).
fn variants(options: &Options) -> Vec<(&'static str, [Testbed; 2])> {
    let both = |depth: u32, batch: u32, change: fn(&mut Testbed)| {
        [false, true].map(|plus| {
            let mut switch = switch(plus, depth, batch);
            switch.queue = depth * 8;
            let mut bed = cross(switch, "exponential", options);
            change(&mut bed);
            bed
        })
    };
    let same = |change| both(15, BATCH, change);
    vec![
        ("nothing", same(|_| {})),
        ("waits are read exactly", same(|bed| bed.late = 0)),
        ("waits are read 1 us too long on average, not 10", same(|bed| bed.late = LATE / 10)),
        ("100 us", same(|bed| bed.late = LATE * 10)),
        ("1 ms", same(|bed| bed.late = LATE * 100)),
        ("the interface takes packets one by one", both(15, 1, |_| {})),
        ("batches of 20", both(15, 20, |_| {})),
        ("the interface has 93 places: the send buffer", same(|bed| bed.switch.interface = 93)),
        ("16 packets in each queue, FIFO 128", both(16, BATCH, |_| {})),
        ("20 packets in each queue, FIFO 160", both(20, BATCH, |_| {})),
        (
            "links of 15, 14.5, 14 Mbit/s at the end",
            same(|bed| bed.rates[3..].copy_from_slice(&[14_500, 14_000])),
        ),
        (
            "all links 5 Mbit/s, the last two 4.9 and 4.8",
            same(|bed| bed.rates.copy_from_slice(&[5_000, 5_000, 5_000, 4_900, 4_800])),
        ),
        (
            "the interface drops what it has no room for (20)",
            both(15, 1, |bed| (bed.switch.interface, bed.switch.interface_blocks) = (20, false)),
        ),
    ]
}

/// The cumulative distributions of the waits of all hosts.
fn distributions(waits: &[Vec<Waits>]) -> Plot {
    let names = PUBLISHED.iter().flat_map(|&(distribution, ..)| {
        [("FIFO+", Style::Line), ("FIFO", Style::Dashes)]
            .map(|(name, style)| (format!("{name}, {distribution}"), style))
    });
    let series = names
        .zip(waits)
        .map(|((name, style), waits)| {
            let points = (0..=100).map(|percent| {
                let q = f64::from(percent) / 100.0;
                [waits.last().map_or(0.0, |all| all.quantile_ms(q)) * 1e6, q]
            });
            Series { name, style, points: points.collect() }
        })
        .collect();
    Plot {
        name: "waits".into(),
        title: "Time in the traffic managers of a path".into(),
        description: "The share of packets that waited no longer than a time, under FIFO and FIFO+, for three laws of arrivals.".into(),
        x: Axis::new("waited", Unit::Nanoseconds),
        y: Axis::new("share of packets", Unit::Fraction),
        series,
    }
}

fn path(options: &Options) -> Finding {
    let bed = |plus| {
        let host = Host { joins: 0, flows: 5, len: LEN, gap: Variable::Fixed(GAP_NS), ahead: 0 };
        let (seconds, warmup) = if options.quick { (240, 180) } else { (500, 150) };
        Testbed {
            rates: vec![5_000, 4_900, 4_800, 4_700, 4_600],
            switch: switch(plus, SLOTS / 8, BATCH),
            late: LATE,
            hosts: vec![host],
            seconds,
            warmup,
            middle: usize::MAX,
        }
    };
    let waits = run_all(&[bed(false), bed(true)], options);
    let measured = [0, 1].map(|n| (waits[n][1].mean_ms(), waits[n][1].quantile_ms(0.999)));
    let published = [("FIFO, 120 packets", 815.0, 997.0), ("FIFO+, 8 x 15", 177.0, 465.0)];
    let mut table = Table::new(
        "time in the traffic managers of the path, ms",
        &[
            "system",
            "mean published",
            "measured",
            "difference",
            "p99.9 published",
            "measured",
            "difference",
        ],
    );
    for ((name, mean, tail), ours) in published.into_iter().zip(measured) {
        let mut row = vec![Cell::from(name)];
        row.extend(Cell::compared(mean, ours.0, 0));
        row.extend(Cell::compared(tail, ours.1, 0));
        table.row(row);
    }
    let [fifo, plus] = measured;
    let far = [(815.0, fifo.0), (997.0, fifo.1), (177.0, plus.0), (465.0, plus.1)]
        .map(|(theirs, ours)| difference(theirs, ours));
    let worst = far
        .into_iter()
        .fold(0.0, |worst: f64, far| if far.abs() > worst.abs() { far } else { worst });
    let claims = vec![
        Claim::tried(
            "not only the tail but also the mean is smaller with FIFO+ (published: 0.22)",
            plus.0 < fifo.0 * 0.4,
            format!("{:.2} of FIFO's", plus.0 / fifo.0),
        ),
        Claim::tried(
            "the 99.9th percentile is about half (published: 0.47)",
            (0.25..0.75).contains(&(plus.1 / fifo.1)),
            format!("{:.2} of FIFO's", plus.1 / fifo.1),
        ),
        Claim::tried(
            "all four values within 20 %",
            worst.abs() <= 20.0,
            format!("furthest: {worst:+.1} %"),
        ),
    ];
    let title = "Five flows of 1 Mbit/s over links of 5, 4.9, 4.8, 4.7 and 4.6 Mbit/s";
    Finding { title: title.into(), tables: vec![table], claims, plots: Vec::new() }
}

fn fair(options: &Options) -> Finding {
    let manager = |words: String| {
        let mut bed = cross(switch(true, SLOTS / 8, BATCH), "constant", options);
        (bed.switch.manager, bed.warmup) = (words, 60);
        bed
    };
    let beds = [
        manager(format!("sp-pifo queues 8 depth {}", SLOTS / 8)),
        manager(format!("pifo limit {SLOTS}")),
    ];
    let equal = run_all(&beds, options);
    // The additional time that a packet may wait: as long as it waits before it meets packets of
    // the third host.
    let aware: Vec<Testbed> = beds
        .iter()
        .zip(&equal)
        .map(|(bed, waits)| {
            let mut aware = bed.clone();
            for (host, waits) in aware.hosts.iter_mut().zip(waits) {
                host.ahead = (waits.before_ms() * 1e6) as u64;
            }
            aware
        })
        .collect();
    let aware = run_all(&aware, options);
    let mut table = Table::new(
        "mean time in the traffic managers that all three hosts share (s3 to s5), ms",
        &["traffic manager", "deadlines", "h1", "h2", "h3", "most to least"],
    );
    let mut shared = Vec::new();
    for (n, name) in ["8 strict queues", "exact PIFO"].into_iter().enumerate() {
        for (deadlines, waits) in [("equal", &equal[n]), ("by path", &aware[n])] {
            let means: [f64; 3] = std::array::from_fn(|host| waits[host].behind_ms());
            let ratio = means.iter().copied().fold(f64::MIN, f64::max)
                / means.iter().copied().fold(f64::MAX, f64::min);
            let mut row = vec![Cell::from(name), deadlines.into()];
            row.extend(means.iter().map(|&ms| Cell::number(ms, 1)));
            row.push(Cell::number(ratio, 2));
            table.row(row);
            shared.push((means, ratio));
        }
    }
    let [strict, strict_aware, exact, exact_aware] = [0, 1, 2, 3].map(|n| shared[n]);
    let claims = vec![
        Claim::tried(
            "with equal deadlines who comes from far is preferred on the common path: h1 waits less than h3",
            strict.0[0] < strict.0[2] && exact.0[0] < exact.0[1] && exact.0[1] < exact.0[2],
            format!(
                "{:.1} to {:.1} ms; with an exact PIFO {:.1} to {:.1} ms",
                strict.0[0], strict.0[2], exact.0[0], exact.0[2]
            ),
        ),
        Claim::tried(
            "with deadlines by path the hosts come nearer to each other",
            strict_aware.1 < strict.1,
            format!("most to least: {:.2}, was {:.2}", strict_aware.1, strict.1),
        ),
        Claim::tried(
            "the same with an exact PIFO",
            exact_aware.1 < exact.1,
            format!("most to least: {:.2}, was {:.2}", exact_aware.1, exact.1),
        ),
    ];
    let title = "FIFO+ with equal deadlines for all hosts, and with deadlines that allow for what packets wait before the common path";
    Finding { title: title.into(), tables: vec![table], claims, plots: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_exponential_arrivals_are_within_a_fifth_of_the_published() {
        let options = Options { quick: true, ..Options::default() };
        let beds = [true, false]
            .map(|plus| cross(switch(plus, SLOTS / 8, BATCH), "exponential", &options));
        let (distribution, plus, fifo) = PUBLISHED[2];
        assert_eq!(distribution, "exponential");
        for (waits, published) in run_all(&beds, &options).iter().zip([plus, fifo]) {
            for (theirs, ours) in published.iter().zip(statistics(waits)) {
                assert!(difference(theirs.0, ours.0).abs() < 20.0, "{ours:?} for {theirs:?}");
                assert!(difference(theirs.1, ours.1).abs() < 20.0, "{ours:?} for {theirs:?}");
            }
        }
    }

    #[test]
    fn variants_have_the_expected_indices() {
        let variants = variants(&Options::default());
        assert_eq!(variants[0].1[1].late, LATE);
        assert_eq!(variants[EXACTLY].1[1].late, 0);
        assert!(MUCH_LATER.iter().all(|&n| variants[n].1[1].late > LATE));
    }

    #[test]
    fn claims_about_the_path_and_fair_deadlines_hold() {
        let options = Options { quick: true, ..Options::default() };
        for claim in [path(&options), fair(&options)].into_iter().flat_map(|finding| finding.claims)
        {
            assert_eq!(claim.holds, Some(true), "{}: {}", claim.words, claim.detail);
        }
    }
}
