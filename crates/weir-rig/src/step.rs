//! A queue under a step of load: senders that react to drops and marks share a link, and an
//! unresponsive stream joins them for some time.
//!
//! # Model
//! The link has 10 Mbit/s, and each packet 1500 bytes. Eight senders start at intervals of a tenth
//! of a second. Each sender has a window of packets. The window doubles in each round-trip time
//! until the first drop or mark; from then on it grows by one packet per round-trip time. A drop or
//! a mark halves the window, at most once in a round-trip time. The feedback on a packet arrives 40
//! ms after the link has sent or the queue has dropped the packet. From 4 to 8 s, a constant stream
//! adds half of the link's rate and reacts to nothing. The eight senders are ECN-capable; the
//! stream is not.
//!
//! This is not TCP: there are no timeouts and no lost acknowledgements, and a drop is reported as
//! early as a delivery. The model suffices to show how an algorithm finds its operating point, and
//! how it handles persistent load.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use weir_core::Nanos;
use weir_core::aqm::{Aqm, Maker, Setup};
use weir_core::config::QueueLimit;
use weir_core::packet::{Ecn, Header, PacketId};
use weir_core::rng::{Purpose, Stream};
use weir_core::sched::{Fifo, FlowSpec, Scheduler, Visitor};
use weir_core::stamped::Released;
use weir_core::stats::DropReason;

use crate::managed::{Arriving, Managed, NoAqm, Watch, hash_of};
use weir_rules::manager::Manager;

/// The departures and drops at the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets that the link sent, in the order of their departures.
    pub sent: Vec<Sent>,
    /// The times of the drops, in ns.
    pub drops: Vec<u64>,
}

/// A packet that the link sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The time at which the packet left the queue, in ns.
    pub at: u64,
    /// The packet's sojourn time in ns.
    pub waited: u64,
    /// Whether the packet belongs to the unresponsive stream.
    pub stream: bool,
    /// Whether the packet was marked.
    pub marked: bool,
}

/// Runs the model with an algorithm, from 0 to [`END`].
pub fn step(manager: &Manager, seed: u64) -> Seen {
    match manager {
        Manager::None => play(Fifo::default(), NoAqm, QueueLimit::Packets(LIMIT)),
        Manager::Aqm(policy) => policy.make_with(Player { seed }),
        Manager::Scheduler(discipline) => discipline.seeded(seed).visit(Player { seed }),
    }
}

struct Player {
    seed: u64,
}

impl Maker for Player {
    type Output = Seen;

    fn with<A: Aqm + std::fmt::Debug>(self, make: impl Fn(&Setup) -> A) -> Seen {
        let stream = Stream::new(self.seed, 0, Purpose::Aqm);
        let aqm = make(&Setup { rate: RATE, limit_packets: LIMIT, limit_bytes: u64::MAX, stream });
        play(Fifo::default(), aqm, QueueLimit::Packets(LIMIT))
    }
}

impl Visitor for Player {
    type Output = Seen;

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Seen {
        play(scheduler, NoAqm, QueueLimit::Packets(u32::MAX))
    }
}

fn play<S: Scheduler, A: Aqm>(scheduler: S, aqm: A, limit: QueueLimit) -> Seen {
    let queue = Managed::new(scheduler, std::iter::once((FlowSpec::default(), aqm)), limit, 1024);
    let mut world = World {
        queue,
        link_free: 0,
        senders: vec![Sender::default(); SENDERS as usize],
        record: Record::new(),
    };
    for sender in 0..SENDERS {
        world.record.at(u64::from(sender) * 100_000_000, Event::Begin(sender));
    }
    world.record.at(STREAM.0, Event::Stream);
    while let Some((now, event)) = world.record.next().filter(|(now, _)| *now < END) {
        world.handle(now, event);
    }
    world.record.seen
}

/// An event of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A sender starts.
    Begin(u32),
    /// The unresponsive stream sends a packet.
    Stream,
    /// The link becomes free.
    Free,
    /// A sender receives feedback on a packet.
    Feedback { sender: u32, sent: u64, congestion: bool },
}

/// A sender that reacts to drops and marks.
#[derive(Clone, Copy, Debug)]
struct Sender {
    /// The window in packets.
    window: f64,
    /// Packets without feedback yet.
    in_flight: u32,
    /// Whether the sender has had no drop or mark yet.
    starting: bool,
    /// The time of the last reduction. Congestion feedback on packets sent earlier is ignored.
    reduced_at: u64,
}

impl Default for Sender {
    fn default() -> Self {
        Self { window: 2.0, in_flight: 0, starting: true, reduced_at: 0 }
    }
}

impl Sender {
    fn feedback(&mut self, now: u64, sent: u64, congestion: bool) {
        self.in_flight -= 1;
        if congestion {
            if sent >= self.reduced_at {
                self.window = (self.window / 2.0).max(1.0);
                (self.starting, self.reduced_at) = (false, now);
            }
        } else {
            self.window += if self.starting { 1.0 } else { 1.0 / self.window };
        }
    }
}

/// The model: the queue, the link and the senders.
struct World<S, A> {
    queue: Managed<S, A>,
    /// The time at which the link becomes free, ns.
    link_free: u64,
    senders: Vec<Sender>,
    record: Record,
}

impl<S: Scheduler, A: Aqm> World<S, A> {
    fn handle(&mut self, now: u64, event: Event) {
        match event {
            Event::Begin(sender) => self.send_window(now, sender),
            Event::Stream => {
                self.offer(now, SENDERS, Ecn::NotEct);
                if now + STREAM_GAP < STREAM.1 {
                    self.record.at(now + STREAM_GAP, Event::Stream);
                }
            }
            Event::Free => {}
            Event::Feedback { sender, sent, congestion } => {
                self.senders[sender as usize].feedback(now, sent, congestion);
                self.send_window(now, sender);
            }
        }
        self.serve(now);
    }

    fn send_window(&mut self, now: u64, number: u32) {
        let Sender { window, in_flight, .. } = self.senders[number as usize];
        for _ in in_flight..window as u32 {
            self.senders[number as usize].in_flight += 1;
            self.offer(now, number, Ecn::Ect0);
            self.serve(now);
        }
    }

    fn offer(&mut self, now: u64, sender: u32, ecn: Ecn) {
        let header = Header { ecn, dscp: 0, hash: hash_of(sender) };
        if self
            .queue
            .offer(Nanos(now), &Arriving { queue: 0, len: LEN, header }, &mut self.record)
            .is_err()
        {
            self.record.lost(now, sender, now);
        }
    }

    fn serve(&mut self, now: u64) {
        if now < self.link_free {
            return;
        }
        if let Some((_, packet)) = self.queue.take(Nanos(now), &mut self.record) {
            self.link_free = now + PACKET_TIME;
            let sender = self.record.sender(&packet);
            let (sent, marked) = (packet.arrived.0, packet.mark.is_some());
            self.record.seen.sent.push(Sent {
                at: now,
                waited: now - sent,
                stream: sender == SENDERS,
                marked,
            });
            self.record.at(self.link_free, Event::Free);
            self.record.send_feedback(self.link_free + ROUND_TRIP, sender, sent, marked);
        }
    }
}

/// The pending events, and the observations.
struct Record {
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// The number of events so far. It orders events of equal time.
    number: u64,
    /// The number of each sender by the hash of its packets.
    senders: BTreeMap<u32, u32>,
    seen: Seen,
}

impl Record {
    fn new() -> Self {
        let senders = (0..=SENDERS).map(|sender| (hash_of(sender), sender)).collect();
        Self { events: BinaryHeap::new(), number: 0, senders, seen: Seen::default() }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    fn next(&mut self) -> Option<(u64, Event)> {
        self.events.pop().map(|Reverse((time, _, event))| (time, event))
    }

    fn sender(&self, packet: &Released) -> u32 {
        self.senders.get(&packet.header.hash).copied().unwrap_or(SENDERS)
    }

    fn send_feedback(&mut self, time: u64, sender: u32, sent: u64, congestion: bool) {
        if sender < SENDERS {
            self.at(time, Event::Feedback { sender, sent, congestion });
        }
    }

    fn lost(&mut self, now: u64, sender: u32, sent: u64) {
        self.seen.drops.push(now);
        self.send_feedback(now + ROUND_TRIP, sender, sent, true);
    }
}

impl Watch for Record {
    fn dropped(&mut self, now: Nanos, _id: PacketId, packet: &Released, _reason: DropReason) {
        self.lost(now.0, self.sender(packet), packet.arrived.0);
    }
}

/// The end of the run in ns.
pub const END: u64 = 12_000_000_000;
/// The start and the end of the stream in ns.
pub const STREAM: (u64, u64) = (4_000_000_000, 8_000_000_000);
/// The limit of the queue in packets, which take 240 ms on the link. A scheduler has its own limits
/// instead.
pub const LIMIT: u32 = 200;
/// The rate of the link in bit/s.
const RATE: u64 = 10_000_000;
/// The length of every packet in bytes.
const LEN: u32 = 1500;
/// The transmission time of a packet, ns.
const PACKET_TIME: u64 = LEN as u64 * 8_000_000_000 / RATE;
/// The time between two packets of the stream, ns; it sends at half of the link's rate.
const STREAM_GAP: u64 = 2 * PACKET_TIME;
/// The time until the feedback on a packet arrives, ns.
const ROUND_TRIP: u64 = 40_000_000;
/// The number of senders. They are numbered from 0, so this number stands for the stream where a
/// sender's number is expected.
const SENDERS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_use_the_link_and_runs_are_repeatable() {
        for manager in Manager::all().chain([Manager::None]) {
            let seen = step(&manager, 1);
            let share = seen.sent.len() as f64 * PACKET_TIME as f64 / END as f64;
            assert!((0.3..=1.0).contains(&share), "{manager}: {share}");
            assert!(
                seen.drops.len() + seen.sent.iter().filter(|sent| sent.marked).count() > 0,
                "{manager}"
            );
            assert_eq!(step(&manager, 1), seen, "{manager}");
        }
    }

    #[test]
    fn without_an_aqm_the_stream_fills_the_queue() {
        let seen = step(&Manager::None, 1);
        let during =
            seen.sent.iter().filter(|sent| (STREAM.0 + 1_000_000_000..STREAM.1).contains(&sent.at));
        let (packets, waited) = during.fold((0, 0), |sum, sent| (sum.0 + 1, sum.1 + sent.waited));
        assert!(waited / packets > u64::from(LIMIT) * PACKET_TIME * 3 / 4);
        let streams = seen.sent.iter().filter(|sent| sent.stream).count() as u64;
        assert!(streams * STREAM_GAP > (STREAM.1 - STREAM.0) / 2, "the stream does not yield");
    }

    #[test]
    fn a_window_is_halved_once_for_all_packets_sent_before() {
        let mut sender = Sender { window: 16.0, in_flight: 16, ..Sender::default() };
        sender.feedback(100, 10, true);
        sender.feedback(100, 50, true);
        assert_eq!((sender.window, sender.starting), (8.0, false));
        sender.feedback(120, 60, false);
        assert_eq!(sender.window, 8.125);
        sender.feedback(200, 100, true);
        assert_eq!((sender.window, sender.in_flight), (4.0625, 12));
    }
}
