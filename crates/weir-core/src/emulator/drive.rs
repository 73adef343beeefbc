//! The calls of the driver: it submits packets, polls for departures, and queries the time of the
//! next event.

use alloc::vec::Vec;

use super::budget::EVENTS_PER_POLL;
use super::context::Context;
use super::engine::Emulator;
use super::traffic::{Action, Arrival, Departure, Rejected};
use crate::key::FlowKey;
use crate::sched::Scheduler;
use crate::units::Nanos;

impl Emulator {
    /// Accepts a packet or refuses it. A refusal is counted as a drop of the packet's pipe, or by
    /// [`Self::unrouted`] if there is no such pipe.
    ///
    /// # Errors
    /// [`Rejected`] with the reason. The driver keeps the frame.
    pub fn submit(
        &mut self,
        now: Nanos,
        arrival: Arrival,
        key: &FlowKey,
        action: Action,
    ) -> Result<(), Rejected> {
        let (link, flow) = match self.locate(now, key, action) {
            Ok(Some(place)) => place,
            Ok(None) => return Err(self.count_unrouted()),
            Err(rejected) => return Err(self.count_refused(action, rejected, arrival.len)),
        };
        self.steps.begin_call(now);
        let Some((state, mut context)) = self.at(link) else {
            return Err(self.count_unrouted());
        };
        state.run_wire(now, &mut context);
        let packet = context.admit(now, flow, arrival, key)?;
        state.take(now, packet, flow, arrival, &mut context);
        let next = state.next_event();
        if next != state.announced {
            state.announced = next;
            self.events.set(link, next);
        }
        Ok(())
    }

    /// Whether the queue has room for a packet that is submitted now, without the drop of another
    /// packet. Other causes of a drop do not count: an AQM, random loss, a missing link or a limit
    /// of the engine ([`crate::Limits`]). The answer is always no for schedulers without
    /// [`crate::sched::Discipline::knows_room`].
    pub fn has_room(
        &mut self,
        now: Nanos,
        arrival: &Arrival,
        key: &FlowKey,
        action: Action,
    ) -> bool {
        let Ok(Some((link, flow))) = self.locate(now, key, action) else {
            return true;
        };
        self.steps.begin_call(now);
        let Some((state, mut context)) = self.at(link) else { return true };
        state.run_wire(now, &mut context);
        let (gate, slot) = {
            let flow = context.flows.at(flow);
            (flow.gate, flow.slot)
        };
        let room = gate.admit(arrival.len).is_ok()
            && state.scheduler.has_room(now, slot, arrival.len, arrival.label);
        self.reschedule(link);
        room
    }

    /// Submits packets that have the same key and arrive at the same time, with the same effect as
    /// [`Self::submit`] for each of them. Calls `refused` with the frame and the reason for each
    /// packet that is refused.
    pub fn submit_train(
        &mut self,
        now: Nanos,
        train: impl Iterator<Item = Arrival>,
        key: &FlowKey,
        action: Action,
        mut refused: impl FnMut(u32, Rejected),
    ) {
        let mut train = train.peekable();
        let Some(&Arrival { len, frame, .. }) = train.peek() else { return };
        let (link, flow) = match self.locate(now, key, action) {
            Ok(Some(place)) => place,
            // The link does not exist, or no further link or flow may be created. The first packet
            // is counted here; each later packet is submitted, so that its refusal is counted.
            not_found => {
                let rejected = match not_found {
                    Err(rejected) => self.count_refused(action, rejected, len),
                    Ok(_) => self.count_unrouted(),
                };
                refused(frame, rejected);
                for arrival in train.skip(1) {
                    if let Err(rejected) = self.submit(now, arrival, key, action) {
                        refused(arrival.frame, rejected);
                    }
                }
                return;
            }
        };
        let mut batch = core::mem::take(&mut self.batch);
        self.steps.begin_call(now);
        let Some((state, mut context)) = self.at(link) else {
            for arrival in train {
                refused(arrival.frame, self.count_unrouted());
            }
            return;
        };
        state.run_wire(now, &mut context);
        for arrival in train {
            match context.admit(now, flow, arrival, key) {
                Err(rejected) => refused(arrival.frame, rejected),
                // The wire is busy after `now`, so no packet leaves the scheduler before the whole
                // train has entered it.
                Ok(packet) if state.only_queues() => {
                    let slot = context.enters_queue(flow, arrival.len);
                    batch.push((slot, packet));
                }
                Ok(packet) => state.take(now, packet, flow, arrival, &mut context),
            }
        }
        state.enqueue_batch(now, &batch, &mut context);
        batch.clear();
        self.batch = batch;
        self.reschedule(link);
    }

    /// Appends the departures that are due until `now`. They are in the order of due times over all
    /// links, except that departures which other calls have found since the last poll come first.
    /// Delivered packets of one link are always in the order of due times.
    ///
    /// A poll handles at most [`EVENTS_PER_POLL`] events. If more are due, [`Self::next_event`] is
    /// not later than `now` afterwards; the driver sends the departures and polls again.
    pub fn poll(&mut self, now: Nanos, out: &mut Vec<Departure>) {
        if !self.ready.is_empty() {
            out.append(&mut self.ready);
        }
        self.steps.refill();
        self.run_into(now, out, EVENTS_PER_POLL);
    }

    /// The time of the next departure or change of state; `None` if there is none.
    pub fn next_event(&self) -> Option<Nanos> {
        match self.ready.first() {
            Some(departure) => Some(departure.due),
            None => self.events.first().map(|(time, _)| time),
        }
    }

    /// Handles all events until `now`, in order. The departures stay in the engine until the next
    /// poll.
    pub(super) fn run(&mut self, now: Nanos) {
        let mut ready = core::mem::take(&mut self.ready);
        self.run_into(now, &mut ready, usize::MAX);
        self.ready = ready;
    }

    /// Handles at most `most` of the events until `now`, in order, and appends the departures.
    #[inline]
    fn run_into(&mut self, now: Nanos, ready: &mut Vec<Departure>, most: usize) {
        self.steps.begin_call(now);
        let Self { seed, lookup, links, flows, templates, pool, events, steps, .. } = self;
        let mut left = most;
        while let Some((time, number)) = events.first() {
            if time > now || left == 0 {
                break;
            }
            // A lower bound on the times of the other links' events, computed when first needed.
            let mut others = None;
            let link = links.at_mut(number);
            let Some(template) =
                templates.get_mut(usize::from(link.template)).and_then(Option::as_mut)
            else {
                break;
            };
            let mut context = Context { seed: *seed, lookup, template, flows, pool, ready, steps };
            let mut at = time;
            let next = loop {
                link.step(at, &mut context);
                left -= 1;
                let next = link.next_event();
                // Continue with this link while no other link has an earlier event: this usually
                // saves several operations on the event queue. At equal times the event queue
                // decides, so that links are served in the order of their numbers.
                if next > now
                    || left == 0
                    || next >= *others.get_or_insert_with(|| events.others_from())
                {
                    break next;
                }
                at = next;
            };
            link.announced = next;
            events.set(number, next);
        }
        if self.idle_links.front().is_some_and(|check| check.time <= now) {
            self.expire_links(now);
        }
        if self.idle_flows.front().is_some_and(|check| check.time <= now) {
            self.expire_flows(now);
        }
    }

    pub(super) fn reschedule(&mut self, number: u32) {
        let link = self.links.at_mut(number);
        let next = link.next_event();
        if next != link.announced {
            link.announced = next;
            self.events.set(number, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Limits;
    use super::*;
    use crate::config::PipeConfig;
    use crate::packet::Ecn;
    use crate::stats::DropReason;

    /// The public interface does not allow a link to outlive its template. If a later change
    /// violates this rule, the counters must still include the packets.
    #[test]
    fn a_packet_whose_link_has_lost_its_template_is_refused_and_counted() {
        let mut emulator = Emulator::new(1, Limits::default());
        emulator.set_pipe(Nanos::ZERO, 1, &PipeConfig::default());
        let arrival = |frame| Arrival {
            frame,
            len: 1000,
            link_header: 14,
            segments: 1,
            ecn: Ecn::NotEct,
            label: 0,
        };
        let (key, pipe) = (FlowKey::default(), Action::Pipe(1));
        assert_eq!(emulator.submit(Nanos::ZERO, arrival(0), &key, pipe), Ok(()));
        emulator.links.for_each(|link| link.template = 2);
        let rejected = Rejected { reason: DropReason::NoSuchPipe };
        assert_eq!(emulator.submit(Nanos(1), arrival(1), &key, pipe), Err(rejected));
        assert_eq!(emulator.unrouted(), 1);
        let mut refused = Vec::new();
        emulator.submit_train(Nanos(2), (2..5).map(arrival), &key, pipe, |frame, why| {
            refused.push((frame, why));
        });
        assert_eq!(refused, [2, 3, 4].map(|frame| (frame, rejected)));
        assert_eq!(emulator.unrouted(), 4);
    }
}
