//! Table 4.2: three hosts that join at three switches.

use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Quantity, Range, Series, Style, Table, Unit,
};

use super::bed::{
    BATCH, Run, SLOTS, Statistics, cross, quantity_of, run_all, spread, switch, values,
};
use super::causes::causes;
use super::published::{CALIBRATED, HOSTS, PUBLISHED};
use crate::experiment::{Options, Progress};
use crate::testbed::Testbed;

pub(super) fn table(options: &Options, progress: &Progress<'_>) -> Finding {
    let beds: Vec<Testbed> = PUBLISHED
        .iter()
        .flat_map(|&(distribution, ..)| {
            [true, false].map(|plus| cross(switch(plus, SLOTS / 8, BATCH), distribution, options))
        })
        .collect();
    let runs = run_all(&beds, options, progress);
    let mut table = Table::new(
        "time in the traffic managers of a path, ms; calibrated to the reference",
        &[
            "arrivals",
            "system",
            "host",
            "mean reference",
            "measured",
            "difference",
            "p99 reference",
            "measured",
            "difference",
        ],
    );
    for (&(distribution, plus, fifo), runs) in PUBLISHED.iter().zip(runs.chunks(2)) {
        for (name, published, runs) in [("FIFO+", plus, &runs[0]), ("FIFO", fifo, &runs[1])] {
            for (n, (host, stated)) in HOSTS.iter().zip(&published).enumerate() {
                let mut row: Vec<Cell> = vec![distribution.into(), name.into(), (*host).into()];
                let [mean, tail] =
                    [quantity_of(runs, n, |w| w.mean), quantity_of(runs, n, |w| w.p99)];
                row.extend(Cell::compared(stated.0, CALIBRATED, &mean, 0));
                row.extend(Cell::compared(stated.1, CALIBRATED, &tail, 0));
                table.row(row);
            }
        }
    }
    let (dependence, reasons) = causes(options, progress);
    let mut claims = claims(&runs);
    claims.extend(reasons);
    Finding {
        title: "Three hosts send 5 x 125 packets of 1000 bytes a second to the end of five links: \
                FIFO of 120 packets against FIFO+ on 8 strict queues of 15"
            .into(),
        tables: vec![table, dependence],
        claims,
        plots: vec![distributions(&runs)],
        notes: vec![
            "This is a calibration, not an independent reproduction: the document gives neither \
             link rates nor the interface's batches nor the error of a reading, and they were \
             chosen so that the table comes out. The values that were not used are in \
             fifo-plus-path and fifo-plus-queues."
                .into(),
        ],
        ..Finding::default()
    }
}

/// The claims, from the runs of FIFO+ and FIFO for each distribution.
fn claims(runs: &[Vec<Run>]) -> Vec<Claim> {
    let claim = |words: &str| Claim::new(words, CALIBRATED);
    let mut ordered = claim("under FIFO, packets from further away wait longer");
    let mut alike = claim(
        "FIFO+ makes the paths alike: means of the hosts within 20 % of each other (reference: \
         within 13 %)",
    );
    let mut lower = claim(
        "FIFO+ on strict queues has less than a third of FIFO's mean (reference: 0.19 to 0.22)",
    );
    let mut shorter = claim("and less than half of its 99th percentile (reference: 0.34 to 0.38)");
    for (&(law, ..), systems) in PUBLISHED.iter().zip(runs.chunks(2)) {
        let [plus, fifo] = [&systems[0], &systems[1]];
        for (far, near) in [(0, 1), (1, 2)] {
            let ratio =
                Quantity::ratio(&values(fifo, far, |w| w.mean), &values(fifo, near, |w| w.mean));
            let what = format!("{law}: mean, ratio of {} to {}", HOSTS[far], HOSTS[near]);
            ordered = ordered.expect(what, ratio, Range::above(1.0));
        }
        let what = format!("{law}: ratio of the largest to the smallest mean");
        alike = alike.expect(what, spread(plus, |w| w.mean), Range::below(1.2));
        let means = Quantity::ratio(&values(plus, 3, |w| w.mean), &values(fifo, 3, |w| w.mean));
        lower =
            lower.expect(format!("{law}: mean, ratio of FIFO+ to FIFO"), means, Range::below(0.34));
        let tails = Quantity::ratio(&values(plus, 3, |w| w.p99), &values(fifo, 3, |w| w.p99));
        shorter =
            shorter.expect(format!("{law}: p99, ratio of FIFO+ to FIFO"), tails, Range::below(0.5));
    }
    let mut claims = vec![ordered, alike, lower, shorter];
    for (name, system) in [("FIFO", 1), ("FIFO+", 0)] {
        for (what, is_mean) in [("mean", true), ("99th percentile", false)] {
            claims.push(within(name, system, what, is_mean, runs));
        }
    }
    claims
}

/// The claim that every mean, or every percentile, of one system is near the reference.
fn within(name: &str, system: usize, what: &str, is_mean: bool, runs: &[Vec<Run>]) -> Claim {
    let words = format!("{name}: every {what} within 20 % of the reference");
    let mut claim = Claim::new(words, CALIBRATED);
    for (&(law, plus, fifo), systems) in PUBLISHED.iter().zip(runs.chunks(2)) {
        let published: Statistics = if system == 0 { plus } else { fifo };
        for (n, (host, (mean, tail))) in HOSTS.iter().zip(published).enumerate() {
            let far = if is_mean {
                quantity_of(&systems[system], n, |w| w.mean).difference(mean)
            } else {
                quantity_of(&systems[system], n, |w| w.p99).difference(tail)
            };
            claim =
                claim.expect(format!("{law}, {host}: difference in %"), far, Range::up_to(20.0));
        }
    }
    claim
}

/// The cumulative distributions of the waits of all hosts, averaged over the seeds.
fn distributions(runs: &[Vec<Run>]) -> Plot {
    let names = PUBLISHED.iter().flat_map(|&(distribution, ..)| {
        [("FIFO+", Style::Line), ("FIFO", Style::Dashes)]
            .map(|(name, style)| (format!("{name}, {distribution}"), style))
    });
    let series = names
        .zip(runs)
        .map(|((name, style), runs)| {
            let points = (0..=100usize).map(|percent| {
                let sum: f64 =
                    runs.iter().filter_map(|run| run.last()?.percentiles.get(percent)).sum();
                [sum / runs.len().max(1) as f64 * 1e6, percent as f64 / 100.0]
            });
            Series { name, style, points: points.collect(), ..Series::default() }
        })
        .collect();
    Plot {
        name: "waits".into(),
        title: "Time in the traffic managers of a path".into(),
        description: "The share of packets that waited no longer than a time, under FIFO and \
                      FIFO+, for three laws of arrivals."
            .into(),
        x: Axis::new("waited", Unit::Nanoseconds),
        y: Axis::new("share of packets", Unit::Fraction),
        series,
    }
}

#[cfg(test)]
mod tests {
    use weir_report::finding::difference;

    use super::super::bed::run;
    use super::*;

    #[test]
    fn results_of_exponential_arrivals_are_within_a_fifth_of_the_published() {
        let options = Options { quick: true, ..Options::default() };
        let beds = [true, false]
            .map(|plus| cross(switch(plus, SLOTS / 8, BATCH), "exponential", &options));
        let (distribution, plus, fifo) = PUBLISHED[2];
        assert_eq!(distribution, "exponential");
        for (bed, published) in beds.iter().zip([plus, fifo]) {
            for (stated, ours) in published.iter().zip(&run(bed, options.seed)) {
                assert!(difference(stated.0, ours.mean).abs() < 20.0, "{stated:?} {ours:?}");
                assert!(difference(stated.1, ours.p99).abs() < 20.0, "{stated:?} {ours:?}");
            }
        }
    }
}
