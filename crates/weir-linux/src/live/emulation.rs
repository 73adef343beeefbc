//! One step of the emulation: accept received frames, and hand packets to their ports when the
//! packets are due.

use std::sync::Arc;

use weir_core::stats::{DropReason, MarkReason};
use weir_core::{Action, Departure, Emulator, Fate, Nanos};
use weir_rules::classify::{Classifier, State};

use super::entry::{Batch, Entry};
use super::exchange::Exchange;
use super::item::{Item, Lost};
use super::packets::{Packets, Stored};
use super::passes::{Passes, is_examined_again, separate_copy};
use super::ports::Ports;
use super::rules::Rules;
use super::wire::network_bytes;
use crate::arena::{handle, unpack};
use crate::port::Ingress;

/// A worker's emulator with its packets, rules and rings.
pub(super) struct Emulation {
    packets: Packets,
    entry: Entry,
    /// The rules that decide each packet's path in place of the lane's pipe; `None` without rules.
    passes: Option<Passes>,
    /// The departures of one poll. Empty between two polls; a field only to reuse the memory.
    departures: Vec<Departure>,
}

impl Emulation {
    pub(super) fn new(packets: Packets, entry: Entry, rules: Option<Rules>) -> Self {
        Self { packets, entry, passes: rules.map(Passes::new), departures: Vec::new() }
    }

    pub(super) fn emulator(&self) -> &Emulator {
        self.entry.emulator()
    }

    pub(super) fn emulator_mut(&mut self) -> &mut Emulator {
        self.entry.emulator_mut()
    }

    /// Makes every following packet carry its flow key.
    pub(super) fn need_keys(&mut self) {
        self.entry.need_keys();
    }

    pub(super) fn exchange(&self) -> Option<&Exchange> {
        self.entry.exchange()
    }

    pub(super) fn packets(&self) -> &Packets {
        &self.packets
    }

    pub(super) fn packets_mut(&mut self) -> &mut Packets {
        &mut self.packets
    }

    pub(super) fn parts(&mut self) -> (&mut Emulator, &mut Packets) {
        (self.entry.emulator_mut(), &mut self.packets)
    }

    pub(super) fn rules(&self) -> Option<&Rules> {
        self.passes.as_ref().map(Passes::rules)
    }

    pub(super) fn rules_mut(&mut self) -> Option<&mut Rules> {
        self.passes.as_mut().map(Passes::rules_mut)
    }

    /// Puts rules in force and returns the previous rules. If there were none, `state` creates the
    /// state of the rules.
    pub(super) fn set_rules(
        &mut self,
        classifier: Arc<Classifier>,
        state: impl FnOnce() -> State,
    ) -> Option<Arc<Classifier>> {
        if let Some(rules) = self.rules_mut() {
            return Some(rules.replace(classifier));
        }
        self.passes = Some(Passes::new(Rules::new(classifier, state())));
        None
    }

    /// Accepts a frame on lane `lane` that arrived at `now`; returns its number of packets.
    pub(super) fn accept(&mut self, now: Nanos, lane: u16, ingress: Ingress) -> u16 {
        let (count, stored) = self.packets.accept(now, lane, ingress);
        let Some(stored) = stored else { return count };
        if let Some(passes) = &mut self.passes {
            passes.examine_arrival(&mut self.packets, &mut self.entry, stored, now);
            return count;
        }
        let Stored { slot, references } = stored;
        let key = self.packets.frame(slot).map(|frame| self.entry.key(frame)).unwrap_or_default();
        let action = Action::Pipe(self.packets.lane(lane).config().pipe);
        let batch = Batch { slot, segments: 0..references, marked: false, key, action, at: now };
        self.entry.enter(&mut self.packets, batch);
        count
    }

    /// Accepts parcels from other workers; returns whether there were any.
    pub(super) fn collect(&mut self) -> bool {
        self.entry.collect(&mut self.packets)
    }

    /// Sends the packets that are due at `now`.
    pub(super) fn release(&mut self, now: Nanos, ports: &mut Ports) {
        self.send_outgoing(ports);
        let mut departures = std::mem::take(&mut self.departures);
        loop {
            self.entry.emulator_mut().poll(now, &mut departures);
            // A packet that continues through another pipe may already be due there.
            if !self.dispatch(now, &mut departures, ports) {
                break;
            }
        }
        self.departures = departures;
        if let Some(exchange) = self.entry.exchange_mut() {
            exchange.wake_peers();
        }
        ports.flush(&mut self.packets);
    }

    /// Hands departures to their ports or to further rules. Returns whether some of them entered
    /// the engine again.
    fn dispatch(&mut self, now: Nanos, departures: &mut Vec<Departure>, ports: &mut Ports) -> bool {
        // A duplicate and its original depart together, in either order. Before the
        // original is sent and its frame released, the duplicate needs a reference to this frame,
        // or a frame of its own.
        departures.retain_mut(|departure| self.admit_copy(departure));
        let mut again = false;
        for departure in &*departures {
            match departure.fate {
                Fate::Drop(reason) => {
                    let Departure { arrived, dequeued, due, .. } = *departure;
                    let (slot, segment) = unpack(departure.frame);
                    let lost = Lost { reason, at: now, due, arrived, dequeued };
                    self.packets.lost(slot, segment, lost);
                }
                Fate::Deliver { mark, corrupt, .. } if self.is_examined_again(departure) => {
                    again = true;
                    self.continue_passes(now, departure, (mark, corrupt), ports);
                }
                Fate::Deliver { mark, corrupt, duplicate } => {
                    let item =
                        prepare(&mut self.packets, now, departure, (mark, corrupt, duplicate));
                    if let Some(item) = item {
                        ports.enqueue(item, &mut self.packets);
                    }
                }
            }
        }
        departures.clear();
        again
    }

    /// Gives an additional copy its own reference, or its own frame if it continues its passes.
    /// Returns `false` when there is no memory for the copy, which then does not exist. Returns
    /// `true` for departures other than copies.
    #[inline]
    fn admit_copy(&mut self, departure: &mut Departure) -> bool {
        let Fate::Deliver { duplicate: true, .. } = departure.fate else { return true };
        if !self.is_examined_again(departure) {
            self.packets.retain(unpack(departure.frame).0);
            return true;
        }
        let copy = separate_copy(&mut self.packets, departure);
        departure.frame = copy.map_or(departure.frame, |slot| handle(slot, 0));
        copy.is_some()
    }

    #[inline]
    fn is_examined_again(&self, departure: &Departure) -> bool {
        self.passes.is_some() && is_examined_again(&self.packets, departure)
    }

    fn continue_passes(
        &mut self,
        now: Nanos,
        departure: &Departure,
        changes: (Option<MarkReason>, Option<u32>),
        ports: &mut Ports,
    ) {
        if let Some(passes) = &mut self.passes {
            passes.continue_passes(&mut self.packets, &mut self.entry, now, departure, changes);
        }
        self.send_outgoing(ports);
    }

    /// Hands packets that have completed all passes to their ports.
    fn send_outgoing(&mut self, ports: &mut Ports) {
        let Some(passes) = &mut self.passes else { return };
        for item in passes.outgoing().drain(..) {
            ports.enqueue(item, &mut self.packets);
        }
    }
}

/// Prepares a departure for sending; `None` when the packet was lost for lack of memory.
fn prepare(
    packets: &mut Packets,
    now: Nanos,
    departure: &Departure,
    (mark, corrupt, duplicate): (Option<MarkReason>, Option<u32>, bool),
) -> Option<Item> {
    let (mut slot, mut first) = unpack(departure.frame);
    let Some(frame) = packets.frame(slot) else {
        debug_assert!(false, "a departure names a frame that is gone");
        return None;
    };
    let (lane, weight, single) = (frame.lane, frame.weight, frame.train.is_none());
    // The counters of a train kept whole use the bytes of its wire packets. The position of a
    // corrupted bit is a position in the whole frame.
    let bytes = frame.packet_bytes(first);
    let frame_bytes = if single { network_bytes(frame) } else { bytes };
    let Departure { arrived, dequeued, due, .. } = *departure;
    if duplicate {
        packets.lane_mut(lane).duplicated(weight, bytes);
    }
    if corrupt.is_some() || (mark.is_some() && single) {
        let Some(changed) = packets.change(slot, first, mark.is_some(), corrupt) else {
            let lost = Lost { reason: DropReason::NoMemory, at: now, due, arrived, dequeued };
            packets.lost(slot, first, lost);
            return None;
        };
        (slot, first) = (changed, if changed == slot { first } else { 0 });
    }
    packets.lane_mut(lane).released(dequeued.since(arrived), due.since(arrived), 1);
    Some(Item {
        slot,
        first,
        count: 1,
        lane,
        packets: weight,
        bytes,
        due,
        arrived,
        dequeued,
        ready: now,
        mark,
        corrupted: corrupt.map(|bit| bit % (frame_bytes * 8).max(1)),
        duplicate,
    })
}

#[cfg(test)]
mod tests {
    use weir_core::Limits;
    use weir_core::config::{FlowsetConfig, LinkConfig, PipeConfig};
    use weir_core::key::FlowMask;
    use weir_core::packet::Ecn;
    use weir_core::stats::LinkCounters;
    use weir_wire::VnetHeader;

    use super::*;
    use crate::live::exchange::{PARCELS, connect};
    use crate::live::testing;

    fn emulation(exchange: Exchange) -> Emulation {
        let mut emulator = Emulator::new(1, Limits::default());
        let mask = FlowMask { dst_ip: u32::MAX, ..FlowMask::default() };
        let link = LinkConfig { delay: Nanos::from_millis(1), ..LinkConfig::default() };
        emulator.set_pipe(
            Nanos::ZERO,
            1,
            &PipeConfig {
                link,
                queue: FlowsetConfig { mask, ..FlowsetConfig::default() },
                scheduler: None,
            },
        );
        Emulation::new(testing::packets(), Entry::new(emulator, Some(exchange), true), None)
    }

    fn pair() -> [Emulation; 2] {
        let wakes: Vec<_> = (0..2)
            .map(|_| {
                Arc::new(rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap())
            })
            .collect();
        let mut ends = connect(&wakes).into_iter();
        std::array::from_fn(|_| emulation(ends.next().unwrap()))
    }

    /// Lets a packet to address number `n` arrive at a worker.
    fn arrive(emulation: &mut Emulation, n: u32) {
        let bytes = testing::to_address(n).frame();
        let ingress = testing::ingress(&mut emulation.packets, VnetHeader::default(), &bytes);
        emulation.accept(Nanos::ZERO, 0, ingress);
    }

    /// Lets packets arrive at worker 0 until one of them is for worker 1, which takes it. Returns
    /// the number of its address.
    fn of_the_other(workers: &mut [Emulation; 2]) -> u32 {
        let theirs = (0..).find(|&n| {
            arrive(&mut workers[0], n);
            workers[1].collect()
        });
        theirs.unwrap()
    }

    fn counted(workers: &[Emulation; 2]) -> LinkCounters {
        let mut sum = workers[0].packets.lane(0).counters().clone();
        sum.merge(workers[1].packets.lane(0).counters());
        sum
    }

    #[test]
    fn each_instance_is_created_once_on_whichever_worker_its_packets_arrive() {
        let mut workers = pair();
        for n in 0..1000 {
            arrive(&mut workers[0], n % 100);
            arrive(&mut workers[1], n % 100);
            workers.iter_mut().for_each(|worker| {
                worker.collect();
            });
        }
        let made = workers.each_ref().map(|worker| worker.emulator().instances());
        assert!(
            made.iter().sum::<usize>() == 100 && made.iter().all(|&n| (30..=70).contains(&n)),
            "{made:?}"
        );
        assert_eq!((counted(&workers).backlog_packets, counted(&workers).balanced()), (2000, true));
    }

    #[test]
    fn packets_of_a_train_move_to_another_worker_one_by_one_with_their_marks() {
        let mut workers = pair();
        let theirs = of_the_other(&mut workers);
        let Emulation { packets, entry, .. } = &mut workers[0];
        let Stored { slot, references } = testing::train(packets, theirs, 5);
        assert_eq!(references, 5);
        let key = entry.key(packets.frame(slot).unwrap());
        for segment in 0..references {
            let (segments, marked) = (segment..segment + 1, segment % 2 == 0);
            let action = Action::Pipe(1);
            entry.enter(packets, Batch { slot, segments, marked, key, action, at: Nanos::ZERO });
        }
        assert!(packets.frame(slot).is_none(), "nothing of the train is left here");
        workers[1].collect();
        let mut out = Vec::new();
        workers[1].emulator_mut().poll(Nanos::from_secs(1), &mut out);
        let ecn: Vec<Ecn> =
            out.iter().map(|d| testing::ecn(&workers[1].packets, unpack(d.frame).0)).collect();
        assert_eq!(ecn, [Ecn::NotEct, Ecn::Ce, Ecn::Ect0, Ecn::Ce, Ecn::Ect0, Ecn::Ce]);
        let arrived = u64::from(theirs) + 1 + 5;
        assert_eq!((counted(&workers).packets_in, counted(&workers).balanced()), (arrived, true));
        assert_eq!(counted(&workers).backlog_packets, arrived);
    }

    #[test]
    fn a_full_ring_drops_with_a_count_and_buffers_are_returned() {
        let mut workers = pair();
        let theirs = of_the_other(&mut workers);
        let arrived = u64::from(theirs) + 1;
        (0..3000).for_each(|_| arrive(&mut workers[0], theirs));
        let full = counted(&workers);
        assert_eq!(
            (full.drops(DropReason::HandOver), full.total_drops()),
            (3000 - PARCELS as u64, 3000 - PARCELS as u64)
        );
        assert!(full.balanced() && full.packets_in == arrived + 3000, "{full:?}");
        let held = workers[0].packets.held();
        while workers[1].collect() {}
        assert!(workers[0].packets.held() == held && counted(&workers).balanced());
        // Worker 1 gives a free buffer back for each parcel. The pool of worker 0 then has free
        // buffers again.
        let mut out = Vec::new();
        workers[1].emulator_mut().poll(Nanos::from_secs(1), &mut out);
        out.iter().for_each(|departure| workers[1].packets.release(unpack(departure.frame).0));
        (0..100).for_each(|_| arrive(&mut workers[0], theirs));
        workers[1].collect();
        workers[1].collect();
        workers[0].collect();
        assert!(workers[0].packets.pool().take_used(64).is_some());
    }
}
