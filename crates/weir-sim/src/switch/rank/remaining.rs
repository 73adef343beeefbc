//! Programs that subtract waiting times from a packet's time budget: FIFO+ and least slack time
//! first.
//!
//! # Model
//! A packet's label is its remaining waiting time, in nanoseconds. A packet that arrives without a
//! label gets `deadline` or `slack` at the first switch. When it leaves, the time that it waited in
//! the traffic manager is subtracted from the label, which does not go below 1.
//!
//! FIFO+ sorts by the remaining time and ignores the time of arrival: the packet that waited
//! longest at earlier switches goes first. Least slack sorts by the time at which the slack would
//! be used up at this switch, so the wait at this switch also counts.
//!
//! # Reading errors
//! A software switch stamps a packet when it is queued, and again when a thread has woken up and
//! taken the packet. Its clock has a resolution (`clock`), and the second stamp is too late by a
//! varying time (`late`, the mean of an exponential distribution). With exact readings, all packets
//! that pass an idle switch keep the same rank, and strict queues that sort by this rank have many
//! ties.
//!
//! # Reference
//! Clark, Shenker and Zhang, "Supporting real-time applications in an integrated services packet
//! network", SIGCOMM 1992; Mittal et al., "Universal packet scheduling", NSDI 2016.
//!
//! # Guarantees
//! If the sources set no labels, all packets have the same label in the first switch of a path, so
//! FIFO+ is a FIFO there. With exact readings, the total wait of a packet is its first label minus
//! its last label, unless the label was used up.

use weir_core::sched::Ranking;
use weir_core::settings::Time;
use weir_core::units::NANOS_PER_SEC;
use weir_core::{Nanos, settings};

use super::{LONGEST, Row, Traits};
use crate::network::Labeller;
use crate::packet::Packet;
use crate::random::Draws;

settings! {
    /// Settings of FIFO+.
    struct FifoPlus {
        deadline: Nanos = GIVEN,
        late: Nanos = ERROR,
        clock: Nanos = CLOCK,
    }
}

settings! {
    /// Settings of LSTF.
    struct Lstf {
        slack: Nanos = GIVEN,
        late: Nanos = ERROR,
        clock: Nanos = CLOCK,
    }
}

pub(super) const FIFO_PLUS: Row = Row {
    name: "fifo+",
    summary: "the packet that waited longest at earlier switches goes first",
    source: "Clark, Shenker and Zhang 1992",
    aliases: &[],
    parameters: FifoPlus::PARAMETERS,
    traits: Traits {
        ranking: Ranking::FifoPlus,
        knows_flows: false,
        make: |choice, draws| {
            let FifoPlus { deadline, late, clock } = FifoPlus::of(choice);
            Some(Box::new(Remaining::new(deadline, Reading { late, clock, draws })))
        },
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
        make: |choice, draws| {
            let Lstf { slack, late, clock } = Lstf::of(choice);
            Some(Box::new(Remaining::new(slack, Reading { late, clock, draws })))
        },
    },
};

/// Subtracts the waiting time of packets from their labels.
#[derive(Debug)]
struct Remaining {
    /// The label of a packet that arrives without one, ns.
    given: u64,
    reading: Reading,
}

/// How a switch reads the time that a packet waited.
#[derive(Debug)]
struct Reading {
    /// Mean overestimate; 0 for none.
    late: Nanos,
    /// Resolution of the clock.
    clock: Nanos,
    draws: Draws,
}

impl Remaining {
    fn new(given: Nanos, reading: Reading) -> Self {
        Self { given: given.0, reading }
    }
}

impl Reading {
    /// The reading, in ns, of a wait of `time` ns.
    fn read(&mut self, time: u64) -> u64 {
        let late = match self.late {
            Nanos::ZERO => 0,
            late => self.draws.exponential(late.0 as f64) as u64,
        };
        time.saturating_add(late) / self.clock.0 * self.clock.0
    }
}

impl Labeller for Remaining {
    fn enter(&mut self, _now: Nanos, packet: &Packet) -> (u64, u64) {
        let label = if packet.label == 0 { self.given } else { packet.label };
        (label, label)
    }

    fn leave(&mut self, packet: &Packet, arrived: Nanos, dequeued: Nanos) -> u64 {
        let read = self.reading.read(dequeued.since(arrived).0);
        packet.label.saturating_sub(read).max(1)
    }
}

const ERROR: Time = Time::new(
    0,
    1_000_000_000,
    0,
    "mean of the exponentially distributed time by which the switch reads a wait too long",
);

const CLOCK: Time =
    Time::new(1, 1_000_000_000, 1, "resolution of the clock with which the switch reads waits");

const GIVEN: Time = Time::new(
    1,
    LONGEST,
    NANOS_PER_SEC,
    "time that a packet may wait on its whole path, if its source does not say",
);

#[cfg(test)]
mod tests {
    use super::*;

    fn exact() -> Reading {
        Reading { late: Nanos::ZERO, clock: Nanos(1), draws: Draws::new(1, 0, 0) }
    }

    #[test]
    fn a_wait_is_read_late_and_in_steps_of_the_clock() {
        let mut reading =
            Reading { late: Nanos(10_000), clock: Nanos(1000), draws: Draws::new(1, 0, 0) };
        let read: Vec<u64> = (0..1000).map(|_| reading.read(2_000_000)).collect();
        assert!(read.iter().all(|ns| ns % 1000 == 0 && *ns >= 2_000_000));
        let mean = read.iter().sum::<u64>() / 1000;
        assert!((2_008_000..2_011_000).contains(&mean), "{mean}");
        assert_eq!(exact().read(1234), 1234);
    }

    #[test]
    fn waiting_time_is_subtracted_down_to_one() {
        let mut program = Remaining::new(Nanos(100), exact());
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
