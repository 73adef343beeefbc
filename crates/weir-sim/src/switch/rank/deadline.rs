//! Earliest deadline first.
//!
//! # Model
//! A packet's label is the time at which the packet must be at its destination, in nanoseconds. The
//! label is the same at every switch. A packet that arrives without a label gets the time of its
//! arrival at the first switch plus `deadline`, and keeps that label.
//!
//! # Reference
//! Liu and Layland, "Scheduling algorithms for multiprogramming in a hard-real-time environment",
//! JACM 20(1), 1973.

use weir_core::sched::Ranking;
use weir_core::settings::Time;
use weir_core::{Nanos, settings};

use super::{LONGEST, Row, Traits};
use crate::network::Labeller;
use crate::packet::Packet;

settings! {
    /// Settings of EDF.
    struct Settings {
        deadline: Nanos = Time::new(
            1,
            LONGEST,
            100_000_000,
            "from arrival at the first switch, if its source does not say",
        ),
    }
}

pub(super) const EDF: Row = Row {
    name: "edf",
    summary: "earliest deadline first",
    source: "Liu and Layland 1973",
    aliases: &[],
    parameters: Settings::PARAMETERS,
    traits: Traits {
        ranking: Ranking::Edf,
        knows_flows: false,
        make: |choice, _| Some(Box::new(Earliest { within: Settings::of(choice).deadline.0 })),
    },
};

/// Assigns deadlines to packets that have none.
#[derive(Clone, Copy, Debug)]
struct Earliest {
    /// Time from arrival to deadline, ns.
    within: u64,
}

impl Labeller for Earliest {
    fn enter(&mut self, now: Nanos, packet: &Packet) -> (u64, u64) {
        let label =
            if packet.label == 0 { now.0.saturating_add(self.within) } else { packet.label };
        (label, label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_assigned_once() {
        let mut program = Earliest { within: 50 };
        let mut packet = Packet::default();
        assert_eq!(program.enter(Nanos(10), &packet), (60, 60));
        packet.label = 60;
        assert_eq!(program.leave(&packet, Nanos(10), Nanos(30)), 60);
        assert_eq!(program.enter(Nanos(40), &packet), (60, 60));
    }
}
