//! The causes of the results in the table: single changes of the testbed, and their effects.

use weir_report::finding::{Cell, Claim, Provenance, Quantity, Range, Table};

use super::bed::{BATCH, LATE, Run, cross, quantity_of, run_all, switch};
use super::published::{CALIBRATED, PUBLISHED};
use crate::experiment::{Options, Progress};
use crate::testbed::Testbed;

/// The effect of single changes of the testbed on the results, with exponential arrivals, for all
/// hosts together.
pub(super) fn causes(options: &Options, progress: &Progress<'_>) -> (Table, Vec<Claim>) {
    let mut table = Table::new(
        "what the results depend on: exponential arrivals, all hosts together, ms",
        &["changed", "FIFO mean", "FIFO p99", "FIFO+ mean", "FIFO+ p99"],
    );
    let variants = variants(options);
    let beds: Vec<Testbed> = variants.iter().flat_map(|(_, beds)| beds.clone()).collect();
    let runs = run_all(&beds, options, progress);
    let (_, plus, fifo) = PUBLISHED[2];
    let mut reference = vec![Cell::from("reference")];
    reference.extend(
        [fifo[ALL].0, fifo[ALL].1, plus[ALL].0, plus[ALL].1]
            .map(|ms| Cell::reference(ms, 0, CALIBRATED)),
    );
    table.row(reference);
    for ((name, _), systems) in variants.iter().zip(runs.chunks(2)) {
        let mut row = vec![Cell::from(*name)];
        for runs in systems {
            row.push(Cell::quantity(&quantity_of(runs, ALL, |all| all.mean), 0));
            row.push(Cell::quantity(&quantity_of(runs, ALL, |all| all.p99), 0));
        }
        table.row(row);
    }
    (table, claims(plus[ALL].0, &runs))
}

fn claims(stated: f64, runs: &[Vec<Run>]) -> Vec<Claim> {
    let mean =
        |variant: usize| -> Quantity { quantity_of(&runs[2 * variant + 1], ALL, |all| all.mean) };
    let ties = Claim::new(
        "where waits are read exactly, FIFO+'s mean is less than half of the reference: packets \
         with equal waits share one strict queue of 15 places",
        Provenance::Inferred { from: "a strict queue has 15 places, a batch 47 packets" },
    )
    .expect("FIFO+'s mean, ms", mean(EXACTLY), Range::below(stated / 2.0));
    let size = Claim::new(
        "the size of the reading error hardly matters: with an error ten or a hundred times as \
         large, FIFO+'s mean is within 20 % of the reference",
        CALIBRATED,
    );
    let size = MUCH_LATER.iter().zip(["ten times", "a hundred times"]).fold(
        size,
        |claim, (&variant, name)| {
            let far = mean(variant).difference(stated);
            claim.expect(format!("{name} as much, difference in %"), far, Range::up_to(20.0))
        },
    );
    vec![ties, size]
}

/// Variants of the testbed, each as FIFO and as FIFO+. The first is unchanged, and each later one
/// has a single change. In variants 1 to 4, the mean error of measured waits differs; [`EXACTLY`]
/// and [`MUCH_LATER`] select three of these.
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

/// The index of all hosts together, which follows those of the three hosts.
const ALL: usize = 3;
/// Index in [`variants`] of the switches that measure waits exactly.
const EXACTLY: usize = 1;
/// Indices in [`variants`] of the switches that overestimate waits by 100 us and by 1 ms on
/// average.
const MUCH_LATER: [usize; 2] = [3, 4];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_the_expected_indices() {
        let variants = variants(&Options::default());
        assert_eq!(variants[0].1[1].late, LATE);
        assert_eq!(variants[EXACTLY].1[1].late, 0);
        assert!(MUCH_LATER.iter().all(|&n| variants[n].1[1].late > LATE));
    }
}
