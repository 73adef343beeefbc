//! Plays a case with a pipe of the engine: a queue, a link and its impairments, as the command
//! language describes them.
//!
//! The pipe decides when a packet departs. A dequeue takes the earliest departed packet that has
//! not been taken yet; without dequeues, packets are taken when they depart. At equal times,
//! departures happen before arrivals.

use std::collections::VecDeque;

use weir_core::key::FlowKey;
use weir_core::stats::MarkReason;
use weir_core::{Action, Arrival as Submitted, Departure, Emulator, Fate, Limits, Nanos};
use weir_rules::LinkSpec;

use super::case::{Arrival, Case, Service};
use super::record::{Play, Record};

/// Plays a case with one seed.
pub(super) fn play(case: &Case, spec: &LinkSpec, seed: u64) -> Play {
    let mut emulator = Emulator::new(seed, Limits::default());
    emulator.set_pipe(Nanos::ZERO, PIPE, &spec.pipe);
    let mut player = Player {
        emulator,
        record: Record::new(&case.arrivals, seed),
        departed: VecDeque::new(),
        departures: Vec::new(),
        taken: vec![false; case.arrivals.len()],
        next: 0,
    };
    match &case.service {
        Service::Times(times) if !times.is_empty() => {
            for &at in times {
                player.arrivals_until(at);
                player.poll(at);
                player.dequeue(at);
            }
        }
        // `Case::read` refuses a link together with a pipe.
        Service::Times(_) | Service::Link { .. } => player.run(),
    }
    player.arrivals_until(u64::MAX);
    player.record.play
}

struct Player<'a> {
    emulator: Emulator,
    record: Record<'a>,
    /// Packets that departed and were not yet taken.
    departed: VecDeque<Departed>,
    departures: Vec<Departure>,
    /// Whether each packet has been taken, by its number.
    taken: Vec<bool>,
    /// The index of the next arrival.
    next: usize,
}

struct Departed {
    due: u64,
    number: u32,
    mark: Option<MarkReason>,
    corrupted: bool,
}

impl Player<'_> {
    /// Performs the arrivals until `end`, inclusive.
    fn arrivals_until(&mut self, end: u64) {
        while let Some(&Arrival { at, len, header, flow, .. }) =
            self.record.arrivals.get(self.next).filter(|arrival| arrival.at <= end)
        {
            self.poll(at);
            let frame = self.next as u32;
            self.record.count(flow, |counts| counts.arrived += 1);
            self.next += 1;
            let packet =
                Submitted { frame, len, link_header: 0, segments: 1, ecn: header.ecn, label: 0 };
            let submitted =
                self.emulator.submit(Nanos(at), packet, &FlowKey::default(), Action::Pipe(PIPE));
            if let Err(rejected) = submitted {
                self.record.drop(at, frame, rejected.reason);
            }
        }
    }

    /// Collects the departures until `at`.
    fn poll(&mut self, at: u64) {
        let until = Nanos(at);
        while self.emulator.next_event().is_some_and(|next| next <= until) {
            self.emulator.poll(until, &mut self.departures);
        }
        for departure in self.departures.drain(..) {
            match departure.fate {
                Fate::Drop(reason) => {
                    self.record.drop(departure.started.0, departure.frame, reason);
                }
                Fate::Deliver { mark, corrupt, .. } => self.departed.push_back(Departed {
                    due: departure.due.0,
                    number: departure.frame,
                    mark,
                    corrupted: corrupt.is_some(),
                }),
            }
        }
    }

    /// Takes the packet that departed first.
    fn dequeue(&mut self, at: u64) {
        match self.departed.pop_front() {
            Some(packet) => self.take(at, &packet),
            None => self.record.empty(at),
        }
        let (packets, _) = self.emulator.queue_length(PIPE);
        self.record.after(packets, Vec::new());
    }

    /// Takes every packet when it departs.
    fn run(&mut self) {
        loop {
            let arrival = self.record.arrivals.get(self.next).map(|arrival| arrival.at);
            let event = self.emulator.next_event().map(|time| time.0);
            match (arrival, event) {
                (Some(arrival), event) if event.is_none_or(|event| arrival < event) => {
                    self.arrivals_until(arrival);
                }
                (_, Some(event)) => self.poll(event),
                (_, None) => return,
            }
            while let Some(packet) = self.departed.pop_front() {
                self.take(packet.due, &packet);
            }
        }
    }

    fn take(&mut self, at: u64, packet: &Departed) {
        let number = packet.number;
        self.record.departed(at, number, packet.mark);
        let again = std::mem::replace(&mut self.taken[number as usize], true);
        let flow = self.record.arrivals[number as usize].flow;
        self.record.count(flow, |counts| {
            counts.duplicates += u64::from(again);
            counts.corrupted += u64::from(packet.corrupted);
        });
    }
}

const PIPE: u16 = 1;
