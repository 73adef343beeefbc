//! The link: it takes packets from a scheduler one after the other, sends one byte per unit of
//! time, and reports to an observer.
//!
//! Time is counted in whole bytes of the link, as in a [`crate::trace::Trace`]. A packet that
//! starts at `s` ends at `s` + its length. Packets that arrive in between are enqueued at their
//! arrival times. At any instant, the packet on the wire ends first, then packets arrive, then the
//! scheduler dequeues. Schedulers that use the clock see one nanosecond per byte, as on a link of 8
//! Gbit/s.

use weir_core::Nanos;
use weir_core::packet::{Header, PacketId};
use weir_core::sched::{FlowSlot, Scheduler};
use weir_core::stamped::{Released, StampedDescriptors};

use super::workload::Source;
use crate::flows::FlowSet;
use crate::trace::Arrival;

/// An observer of the link.
pub(super) trait Watch {
    /// A packet arrives.
    fn arrives(&mut self, arrival: &Arrival);

    /// The scheduler refuses the arriving packet, or drops a waiting one. `arrived` is the time at
    /// which the refused or dropped packet arrived.
    fn refuses(&mut self, arrived: u64, flow: u32, len: u32);

    /// The transmission of a packet starts.
    fn starts(&mut self, now: u64, flow: u32, len: u32);

    /// The transmission of the packet ends.
    fn ends(&mut self, now: u64, flow: u32);

    /// The arrivals or the observation has ended.
    fn rests(&mut self, now: u64);
}

/// Both observers get every call.
impl<A: Watch, B: Watch> Watch for (A, B) {
    fn arrives(&mut self, arrival: &Arrival) {
        self.0.arrives(arrival);
        self.1.arrives(arrival);
    }

    fn refuses(&mut self, arrived: u64, flow: u32, len: u32) {
        self.0.refuses(arrived, flow, len);
        self.1.refuses(arrived, flow, len);
    }

    fn starts(&mut self, now: u64, flow: u32, len: u32) {
        self.0.starts(now, flow, len);
        self.1.starts(now, flow, len);
    }

    fn ends(&mut self, now: u64, flow: u32) {
        self.0.ends(now, flow);
        self.1.ends(now, flow);
    }

    fn rests(&mut self, now: u64) {
        self.0.rests(now);
        self.1.rests(now);
    }
}

/// Runs a new scheduler on the packets of `source` until the source ends the run or all packets
/// have departed. Returns the end time in bytes of the link, and the number of packets sent.
pub(super) fn drive<S: Scheduler, W: Watch>(
    mut scheduler: S,
    flows: &FlowSet,
    source: &mut Source<'_>,
    watch: &mut W,
) -> (u64, u64) {
    let mut store = StampedDescriptors::new(2 * flows.len() as usize);
    let slots: Vec<FlowSlot> =
        flows.flows().map(|flow| scheduler.add_flow(Nanos::ZERO, &flow.spec())).collect();
    let (mut now, mut sent, mut rested) = (0, 0, false);
    loop {
        deliver(&mut scheduler, &mut store, &slots, source, watch, now);
        if !rested && (source.has_ended() || source.is_over(sent)) {
            watch.rests(now);
            rested = true;
        }
        if source.is_over(sent) {
            break;
        }
        let dequeued = scheduler.dequeue(Nanos(now), &mut store);
        // The source replaces packets that the dequeue drops, like packets that depart.
        while let Some((id, _)) = scheduler.pop_refused(&mut store) {
            let (flow, len) = refuse(&mut store, id, watch);
            source.departs(now, flow, len);
        }
        if let Some(id) = dequeued {
            let Released { len, flow, .. } = store.release(id);
            let end = now + u64::from(len);
            watch.starts(now, flow, len);
            source.departs(now, flow, len);
            deliver(&mut scheduler, &mut store, &slots, source, watch, end - 1);
            watch.ends(end, flow);
            (now, sent) = (end, sent + 1);
            continue;
        }
        // No packet may depart: time advances to the next arrival or the scheduler's next event.
        let event = scheduler.next_event().map(|Nanos(at)| at.max(now + 1));
        match source.next().into_iter().chain(event).min() {
            Some(next) => now = now.max(next),
            None => break,
        }
    }
    (now, sent)
}

/// Enqueues the packets that arrive up to `until`. The source does not replace packets that an
/// enqueue drops, since a full scheduler would drop the replacements at once.
fn deliver<S: Scheduler, W: Watch>(
    scheduler: &mut S,
    store: &mut StampedDescriptors,
    slots: &[FlowSlot],
    source: &mut Source<'_>,
    watch: &mut W,
    until: u64,
) {
    while source.next().is_some_and(|time| time <= until) {
        let Some(arrival) = source.take() else { return };
        let Arrival { time, flow, len } = arrival;
        // Schedulers that classify packets distinguish the flows by this hash.
        let header = Header { hash: flow, ..Header::default() };
        let id = store.allocate(len, flow, Nanos(time), header);
        watch.arrives(&arrival);
        if let Some(refused) = scheduler.enqueue(Nanos(time), store, slots[flow as usize], id) {
            refuse(store, refused, watch);
        }
        while let Some((id, _)) = scheduler.pop_refused(store) {
            refuse(store, id, watch);
        }
    }
}

/// Removes a packet that the scheduler has refused or dropped. Returns its flow and its length.
fn refuse(store: &mut StampedDescriptors, id: PacketId, watch: &mut impl Watch) -> (u32, u32) {
    let Released { len, flow, arrived, .. } = store.release(id);
    watch.refuses(arrived.0, flow, len);
    (flow, len)
}
