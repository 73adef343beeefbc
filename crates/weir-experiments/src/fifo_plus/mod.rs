//! FIFO+ over several hops on strict-priority queues: cross traffic, a single path, and deadlines
//! that depend on the path.
//!
//! The traffic manager is that of a P4 switch with eight strict-priority queues of 15 packets each,
//! with bounds that adapt to the ranks of arrivals (SP-PIFO). It is compared with a FIFO of 120
//! packets. [`bed`] holds the testbeds, including properties of the original that were not
//! published; `docs/experiments/fifo-plus.md` describes how these were inferred.

pub(super) mod bed;
mod by_switch;
mod causes;
mod path;
mod published;
mod table;

use super::experiment::Experiment;

pub(super) const TABLE: Experiment = Experiment {
    name: "fifo-plus-table",
    summary: "FIFO+ and FIFO with traffic that joins at three switches: mean and 99th percentile \
              for each host",
    source: "PIFO on a P4 software switch by eight strict-priority queues, table 4.2; calibrated",
    run: table::table,
};

pub(super) const PATH: Experiment = Experiment {
    name: "fifo-plus-path",
    summary: "FIFO+ and FIFO on one path of five bottlenecks, each narrower than the one before",
    source: "PIFO on a P4 software switch by eight strict-priority queues, section 4.4.1.2",
    run: path::path,
};

pub(super) const FAIR: Experiment = Experiment {
    name: "fifo-plus-fair",
    summary: "deadlines that account for the path give short paths back what FIFO+ takes from them",
    source: "PIFO on a P4 software switch by eight strict-priority queues, section 4.4.1.3",
    run: path::fair,
};

pub(super) const ORDER: Experiment = Experiment {
    name: "fifo-plus-order",
    summary: "at each switch FIFO+ prefers packets that have passed more switches",
    source: "PIFO on a P4 software switch by eight strict-priority queues, figure 4.20",
    run: by_switch::order,
};

pub(super) const ALONE: Experiment = Experiment {
    name: "fifo-plus-alone",
    summary: "one host on links of one rate: without consecutive congestion FIFO+ is a FIFO",
    source: "PIFO on a P4 software switch by eight strict-priority queues, section 4.4.1",
    run: by_switch::alone,
};
