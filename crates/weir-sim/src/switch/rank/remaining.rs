//! Programs that spend a time budget which a packet gets at its source: FIFO+ and least slack time
//! first.
//!
//! # Model
//! A packet's label is its remaining waiting time, in nanoseconds. A packet that arrives without a
//! label gets `deadline` or `slack` at the first switch. When it leaves, the time that it waited in
//! the traffic manager is subtracted from the label, which does not go below 1.
//!
//! FIFO+ sorts by the remaining time and ignores the time of arrival: a packet that has already
//! waited longer goes first. Least slack sorts by the time at which the slack would be used up at
//! this switch, so the wait at this switch also counts.
//!
//! # Reference
//! Clark, Shenker and Zhang, "Supporting real-time applications in an integrated services packet
//! network", SIGCOMM 1992; Mittal et al., "Universal packet scheduling", NSDI 2016.
//!
//! # Guarantees
//! In the first switch of a path all packets have the same label, so FIFO+ is a FIFO there. The
//! total wait of a packet is its first label minus its last label, unless the label was used up.

use weir_core::sched::Ranking;
use weir_core::settings::Time;
use weir_core::units::NANOS_PER_SEC;
use weir_core::{Nanos, settings};

use super::{LONGEST, Row, Traits};
use crate::network::Labeller;
use crate::packet::Packet;

settings! {
    /// Settings of FIFO+.
    struct FifoPlus {
        deadline: Nanos = GIVEN,
    }
}

settings! {
    /// Settings of LSTF.
    struct Lstf {
        slack: Nanos = GIVEN,
    }
}

pub(super) const FIFO_PLUS: Row = Row {
    name: "fifo+",
    summary: "who has waited more at switches before goes first",
    source: "Clark, Shenker and Zhang 1992",
    aliases: &[],
    parameters: FifoPlus::PARAMETERS,
    traits: Traits {
        ranking: Ranking::FifoPlus,
        knows_flows: false,
        make: |choice| Some(Box::new(Remaining { given: FifoPlus::of(choice).deadline.0 })),
    },
};

pub(super) const LSTF: Row = Row {
    name: "lstf",
    summary: "the packet that may wait least from now on goes first",
    source: "Leung 1989; Mittal et al. 2016",
    aliases: &[],
    parameters: Lstf::PARAMETERS,
    traits: Traits {
        ranking: Ranking::Lstf,
        knows_flows: false,
        make: |choice| Some(Box::new(Remaining { given: Lstf::of(choice).slack.0 })),
    },
};

/// Subtracts the waiting time of packets from their labels.
#[derive(Clone, Copy, Debug)]
struct Remaining {
    /// The label of a packet that arrives without one, ns.
    given: u64,
}

impl Labeller for Remaining {
    fn enter(&mut self, _now: Nanos, packet: &Packet) -> (u64, u64) {
        let label = if packet.label == 0 { self.given } else { packet.label };
        (label, label)
    }

    fn leave(&mut self, packet: &Packet, arrived: Nanos, dequeued: Nanos) -> u64 {
        packet.label.saturating_sub(dequeued.since(arrived).0).max(1)
    }
}

const GIVEN: Time = Time::new(
    1,
    LONGEST,
    NANOS_PER_SEC,
    "what a packet may wait on its whole way, if its source does not say",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_time_is_subtracted_down_to_one() {
        let mut program = Remaining { given: 100 };
        let mut packet = Packet::default();
        assert_eq!(program.enter(Nanos(7), &packet), (100, 100));
        packet.label = 100;
        packet.label = program.leave(&packet, Nanos(7), Nanos(37));
        assert_eq!(program.enter(Nanos(50), &packet), (70, 70));
        assert_eq!(program.leave(&packet, Nanos(50), Nanos(500)), 1);
        packet.label = 1;
        assert_eq!(program.enter(Nanos(500), &packet), (1, 1));
    }
}
