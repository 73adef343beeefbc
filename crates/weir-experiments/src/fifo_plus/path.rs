//! A single path, and deadlines that account for the path.

use weir_report::finding::{Cell, Claim, Finding, Provenance, Quantity, Range, Table};
use weir_sim::random::Variable;

use super::bed::{
    BATCH, GAP_NS, LATE, LEN, Run, SLOTS, cross, quantity_of, run_all, spread, switch, values,
};
use crate::experiment::{Options, Progress};
use crate::sources::{PIFO_SWITCH, published};
use crate::testbed::{Host, Testbed};

/// The experiment `fifo-plus-path`: one host on a path of ever slower links.
pub(super) fn path(options: &Options, progress: &Progress<'_>) -> Finding {
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
    let runs = run_all(&[bed(false), bed(true)], options, progress);
    let mut table = Table::new(
        "time in the traffic managers of the path, ms",
        &[
            "system",
            "mean reference",
            "measured",
            "difference",
            "p99.9 reference",
            "measured",
            "difference",
        ],
    );
    let mut all = Claim::new("all four values within 20 %", SINGLE);
    for ((name, mean, tail), runs) in SINGLE_PATH.into_iter().zip(&runs) {
        let ours = [quantity_of(runs, ALL, |w| w.mean), quantity_of(runs, ALL, |w| w.p999)];
        let mut row = vec![Cell::from(name)];
        for (stated, ours, what) in [(mean, ours[0], "mean"), (tail, ours[1], "p99.9")] {
            row.extend(Cell::compared(stated, SINGLE, &ours, 0));
            let what = format!("{name}, {what}: difference in %");
            all = all.expect(what, ours.difference(stated), Range::up_to(20.0));
        }
        table.row(row);
    }
    let [fifo, plus] = [&runs[0], &runs[1]];
    let means = Quantity::ratio(&values(plus, ALL, |w| w.mean), &values(fifo, ALL, |w| w.mean));
    let tails = Quantity::ratio(&values(plus, ALL, |w| w.p999), &values(fifo, ALL, |w| w.p999));
    let claims = vec![
        Claim::new("not only the tail but also the mean is smaller with FIFO+ (0.22)", SINGLE)
            .expect("mean, ratio of FIFO+ to FIFO", means, Range::below(0.4)),
        Claim::new("the 99.9th percentile is about half (0.47)", SINGLE).expect(
            "p99.9, ratio of FIFO+ to FIFO",
            tails,
            Range::within(0.25, 0.75),
        ),
        all,
    ];
    Finding {
        title: "Five flows of 1 Mbit/s over links of 5, 4.9, 4.8, 4.7 and 4.6 Mbit/s".into(),
        tables: vec![table],
        claims,
        plots: Vec::new(),
        notes: vec![
            "The document states these link rates. The batches of the interface and the error of a \
             reading are those of fifo-plus-table; they were not chosen for these values."
                .into(),
        ],
        ..Finding::default()
    }
}

/// The experiment `fifo-plus-fair`: deadlines that depend on the path.
pub(super) fn fair(options: &Options, progress: &Progress<'_>) -> Finding {
    let manager = |words: String| {
        let mut bed = cross(switch(true, SLOTS / 8, BATCH), "constant", options);
        (bed.switch.manager, bed.warmup) = (words, 60);
        if options.quick {
            // Shorter queues after the traffic manager fill up sooner. These queues delay all
            // packets alike, and the waits in them are not counted.
            (bed.switch.egress, bed.switch.interface) = (1, 2 * BATCH);
            (bed.seconds, bed.warmup) = (60, 20);
        }
        bed
    };
    let beds = [
        manager(format!("sp-pifo queues 8 depth {}", SLOTS / 8)),
        manager(format!("pifo limit {SLOTS}")),
    ];
    let equal = run_all(&beds, options, progress);
    // The additional time that a packet of a host may wait is the mean wait of the host's packets
    // before they meet packets of the third host, over all seeds.
    let aware: Vec<Testbed> = beds
        .iter()
        .zip(&equal)
        .map(|(bed, runs)| {
            let mut aware = bed.clone();
            for (n, host) in aware.hosts.iter_mut().enumerate() {
                host.ahead =
                    (quantity_of(runs, n, |w| w.before).mean().unwrap_or(0.0) * 1e6) as u64;
            }
            aware
        })
        .collect();
    let aware = run_all(&aware, options, progress);
    let mut table = Table::new(
        "mean time in the traffic managers that all three hosts share (s3 to s5), ms",
        &["traffic manager", "deadlines", "h1", "h2", "h3", "most to least"],
    );
    for (n, name) in MANAGERS.into_iter().enumerate() {
        for (deadlines, runs) in [("equal", &equal[n]), ("by path", &aware[n])] {
            let mut row = vec![Cell::from(name), deadlines.into()];
            row.extend(
                (0..3).map(|host| Cell::quantity(&quantity_of(runs, host, |w| w.behind), 1)),
            );
            row.push(Cell::quantity(&spread(runs, |w| w.behind), 2));
            table.row(row);
        }
    }
    let title = "FIFO+ with equal deadlines for all hosts, and with deadlines that allow for the \
                 time that packets wait before the common path";
    Finding {
        title: title.into(),
        tables: vec![table],
        claims: fair_claims(&equal, &aware),
        plots: Vec::new(),
        notes: vec![
            "The document states the effect and the remedy, without values; the limit of 1.5 is \
             ours."
                .into(),
        ],
        ..Finding::default()
    }
}

/// The claims about deadlines, from the runs of both traffic managers with equal deadlines and with
/// deadlines by path.
fn fair_claims(equal: &[Vec<Run>], aware: &[Vec<Run>]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (n, name) in MANAGERS.into_iter().enumerate() {
        let (equal, aware) = (&equal[n], &aware[n]);
        let over_host = |far: usize, near: usize| {
            Quantity::ratio(&values(equal, far, |w| w.behind), &values(equal, near, |w| w.behind))
        };
        claims.push(
            Claim::new(
                format!(
                    "{name}: with equal deadlines, packets from further away are preferred on \
                         the common path"
                ),
                PATHS,
            )
            .expect("wait, ratio of h1 to h2", over_host(0, 1), Range::below(1.0))
            .expect("wait, ratio of h2 to h3", over_host(1, 2), Range::below(1.0)),
        );
        claims.push(
            Claim::new(
                format!(
                    "{name}: with deadlines by path no host is preferred (most to least below 1.5)"
                ),
                PATHS,
            )
            .expect(
                "ratio of most to least",
                spread(aware, |w| w.behind),
                Range::below(1.5),
            ),
        );
        let nearer = spread_ratio(aware, equal);
        claims.push(
            Claim::new(
                format!(
                    "{name}: with deadlines by path the hosts come at least nearer to each other"
                ),
                PATHS,
            )
            .expect(
                "ratio of most to least, deadlines by path relative to equal ones",
                nearer,
                Range::below(1.0),
            ),
        );
    }
    claims
}

/// The spread of the hosts in `runs` divided by the spread in `others`, by seed.
fn spread_ratio(runs: &[Run], others: &[Run]) -> Quantity {
    let of = |runs: &[Run]| -> Vec<f64> {
        runs.iter()
            .map(|run| spread(std::slice::from_ref(run), |w| w.behind).mean().unwrap_or(f64::NAN))
            .collect()
    };
    Quantity::ratio(&of(runs), &of(others))
}

/// Each system with its published mean and 99.9th percentile, ms.
const SINGLE_PATH: [(&str, f64, f64); 2] =
    [("FIFO, 120 packets", 815.0, 997.0), ("FIFO+, 8 x 15", 177.0, 465.0)];
const SINGLE: Provenance = published(PIFO_SWITCH, "section 4.4.1.2");
const PATHS: Provenance = published(PIFO_SWITCH, "section 4.4.1.3, stated without values");
const MANAGERS: [&str; 2] = ["8 strict queues", "exact PIFO"];
/// The index of all hosts together, which follows that of the only host.
const ALL: usize = 1;

#[cfg(test)]
mod tests {
    use weir_report::finding::Verdict;

    use super::*;

    #[test]
    fn claims_about_the_path_hold() {
        let options = Options { quick: true, ..Options::default() };
        for claim in path(&options, &|_, _| {}).claims {
            assert_eq!(claim.verdict(), Verdict::Holds, "{claim:?}");
        }
    }

    #[test]
    fn the_strict_claim_about_fair_deadlines_is_judged_beside_the_weak_one() {
        let options = Options { quick: true, ..Options::default() };
        let finding = fair(&options, &|_, _| {});
        for name in MANAGERS {
            let of = |words: &str| {
                let wanted = |c: &&Claim| c.words().starts_with(name) && c.words().contains(words);
                finding.claims.iter().find(wanted).expect("a claim").verdict()
            };
            assert_eq!(of("nearer"), Verdict::Holds, "{name}");
            assert_ne!(of("no host is preferred"), Verdict::CannotBeJudged, "{name}");
        }
    }
}
