//! The results in table 4.2 of [`PIFO_SWITCH`], and the parameters of the testbed that were
//! calibrated with that table.

use weir_report::finding::Provenance;

use super::bed::Statistics;
use crate::sources::PIFO_SWITCH;

/// The parameters that were chosen to reproduce the table, and the published results that did not
/// affect the choice.
pub(super) const CALIBRATED: Provenance = Provenance::Calibrated {
    document: PIFO_SWITCH,
    place: "table 4.2",
    chosen: "link rates 5, 10, 15, 14 and 13 Mbit/s, batches of 47 packets at the interface, \
             switches that measure a wait 10 us too long on average",
    unused: "section 4.4.1.2 (the single path) and figure 4.18 (queues that fill up)",
};

/// The published results for each distribution of the time between packets, first with FIFO+ and
/// then with FIFO.
pub(super) const PUBLISHED: [(&str, Statistics, Statistics); 3] = [
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
/// The names of the entries of [`Statistics`].
pub(super) const HOSTS: [&str; 4] = ["h1", "h2", "h3", "overall"];
