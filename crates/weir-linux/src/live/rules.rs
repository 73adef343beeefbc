//! The rules at work: which way a packet takes, and again after every pipe that hands it back.
//!
//! A lane has *passes*: the places where the machine that the rules stand for looks at the packet.
//! In each, the rules let it pass, drop it or send it through the engine; what leaves the engine
//! goes on behind the rule that sent it there, or, with `one_pass`, in the next pass. After the
//! last one it is sent.
//!
//! A train of segments is judged once, unless some rule may treat its packets differently.
//!
//! **Invariant:** a packet that goes from pipe to pipe enters the next at the moment it was due to
//! leave the last, however late the loop is.

use std::ops::Range;
use std::sync::Arc;

use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::stats::{DropReason, MarkReason};
use weir_core::{Action, Arrival, Departure, Nanos};
use weir_rules::classify::{Classifier, Fate, Packet, Pass, State, Verdict};
use weir_wire::{ChecksumMode, flow_key, set_dscp};

use super::egress::{Engine, Item, Lost, materialise};
use super::ingress::ETHERNET_HEADER;
use crate::arena::{Frame, handle, unpack};
use crate::journey::Journey;

/// Rules with their state.
pub(super) struct Rules {
    pub(super) classifier: Arc<Classifier>,
    pub(super) state: State,
    /// Segments of a train may fare differently.
    each: bool,
}

impl Rules {
    pub(super) fn new(classifier: Arc<Classifier>, mut state: State) -> Self {
        state.carry_over(&classifier);
        Self { each: classifier.needs_each_segment(), classifier, state }
    }

    /// Takes other rules, keeping the counters of those that stay; gives the old ones, to be
    /// dropped where nobody waits.
    pub(super) fn replace(&mut self, classifier: Arc<Classifier>) -> Arc<Classifier> {
        self.state.carry_over(&classifier);
        self.each = classifier.needs_each_segment();
        std::mem::replace(&mut self.classifier, classifier)
    }
}

/// Packets of one frame that go the same way.
struct Group {
    slot: u32,
    run: Range<u16>,
    journey: Journey,
}

impl Engine {
    /// Lets the rules judge a stored frame of `references` packets that came in at `at`.
    pub(super) fn judge_arrival(&mut self, slot: u32, references: u16, at: Nanos) {
        let journey = Journey { began: at, ..Journey::default() };
        if references > 1 && self.rules.as_ref().is_some_and(|rules| rules.each) {
            for segment in 0..references {
                self.proceed(
                    Group { slot, run: segment..segment + 1, journey: journey.clone() },
                    at,
                );
            }
        } else {
            self.proceed(Group { slot, run: 0..references, journey }, at);
        }
    }

    /// Whether a packet that leaves the engine is to be judged again.
    pub(super) fn goes_on(&self, departure: &Departure) -> bool {
        let (slot, segment) = unpack(departure.frame);
        self.arena
            .get(slot)
            .and_then(|frame| frame.journeys.get(usize::from(segment)))
            .is_some_and(|journey| journey.hops > 0)
    }

    /// Gives an additional copy that goes on a frame of its own, since it goes its own way from
    /// here; `None` without memory.
    pub(super) fn part_from_original(&mut self, departure: &Departure) -> Option<u32> {
        let (slot, segment) = unpack(departure.frame);
        let frame = self.arena.get(slot)?;
        let mut journey = frame.journeys.get(usize::from(segment)).cloned().unwrap_or_default();
        journey.duplicate = true;
        let (lane, packets, bytes) = (frame.lane, frame.weight, frame.packet_bytes(segment));
        let copy = self.copy_out(slot, segment)?;
        if let Some(frame) = self.arena.get_exclusive(copy) {
            frame.journeys.push(journey);
        }
        self.lanes[usize::from(lane)].duplicated(packets, bytes);
        Some(copy)
    }

    /// Lets a packet that has left a pipe go on.
    pub(super) fn go_on(
        &mut self,
        now: Nanos,
        departure: &Departure,
        mark: Option<MarkReason>,
        corrupt: Option<u32>,
    ) {
        let Departure { arrived, dequeued, due, .. } = *departure;
        let (mut slot, mut segment) = unpack(departure.frame);
        let Some(frame) = self.arena.get_mut(slot) else { return };
        let Some(journey) = frame.journeys.get_mut(usize::from(segment)) else { return };
        let mut journey = std::mem::take(journey);
        journey.queued += dequeued.since(arrived);
        let single = frame.train.is_none();
        if corrupt.is_some() || (mark.is_some() && single) {
            let Some(changed) = self.change(slot, segment, mark.is_some(), corrupt) else {
                return self.lost(
                    slot,
                    segment,
                    Lost { reason: DropReason::NoMemory, at: now, due, arrived, dequeued },
                );
            };
            (slot, segment) = (changed, if changed == slot { segment } else { 0 });
            journey.corrupted = corrupt.or(journey.corrupted);
            if let Some(frame) = self.arena.get_exclusive(slot).filter(|_| corrupt.is_some()) {
                // What was inverted may have been in a header.
                frame.parsed = weir_wire::parse(frame.bytes()).ok();
            }
        }
        journey.mark = journey.mark.or(mark);
        self.proceed(Group { slot, run: segment..segment + 1, journey }, due);
    }

    /// Leads packets on, from where they are to the engine, to their port, or to their end.
    fn proceed(&mut self, mut group: Group, at: Nanos) {
        loop {
            let Some((pass, frame)) = self.next_pass(&group) else { return self.leave(group, at) };
            let key = if self.needs_key {
                frame.parsed.map_or_else(FlowKey::default, |p| flow_key(frame.bytes(), &p))
            } else {
                FlowKey::default()
            };
            let Verdict { fate, dscp } = self.judge(&mut group, pass, &key, at);
            if let Some(dscp) = dscp
                && !self.rewrite(&mut group, dscp)
            {
                return self.lose(&group, DropReason::NoMemory, at);
            }
            let (action, resume) = match fate {
                Fate::Allow => {
                    group.journey.pass += 1;
                    continue;
                }
                Fate::Deny => return self.lose(&group, DropReason::Denied, at),
                Fate::Pipe(number, resume) => (Action::Pipe(number), resume),
                Fate::Queue(number, resume) => (Action::Queue(number), resume),
            };
            if group.journey.hops >= MOST_HOPS {
                return self.lose(&group, DropReason::RuleLoop, at);
            }
            group.journey.hops += 1;
            group.journey.resume = resume;
            if resume.is_none() {
                group.journey.pass += 1;
            }
            let marked = group.journey.mark.is_some();
            let Group { slot, run, .. } = self.remember(group);
            return self.enter(slot, run, marked, &key, action, at);
        }
    }

    /// The pass in which packets are judged next; `None` when they have been through all.
    fn next_pass(&self, group: &Group) -> Option<(Pass, &Frame)> {
        let frame = self.arena.get(group.slot)?;
        let pass = *self.lanes[usize::from(frame.lane)]
            .config
            .passes
            .get(usize::from(group.journey.pass))?;
        Some((pass, frame))
    }

    fn judge(&mut self, group: &mut Group, pass: Pass, key: &FlowKey, now: Nanos) -> Verdict {
        let allowed = Verdict { fate: Fate::Allow, dscp: None };
        let (Some(rules), Some(frame)) = (&mut self.rules, self.arena.get(group.slot)) else {
            return allowed;
        };
        let Journey { resume, tags, .. } = &mut group.journey;
        let from = resume.take();
        let (mut bytes, mut parsed) = (frame.bytes(), frame.parsed);
        let len = match &frame.train {
            Some(train) if rules.each => {
                // Rules look at what a wire would carry.
                if materialise(frame, group.run.start, ChecksumMode::Partial, &mut self.sketch)
                    .is_some()
                {
                    bytes = &self.sketch;
                    parsed = weir_wire::parse(bytes).ok();
                }
                train.segment_len(group.run.start)
            }
            Some(train) => train.segment_len(group.run.start),
            None => frame.wire_len / u32::from(frame.weight.max(1)),
        };
        let mut packet =
            Packet { frame: bytes, parsed: parsed.as_ref(), key, len, pass, tags, now };
        let packets = u64::from(frame.weight) * group.run.len() as u64;
        let bytes = group.run.clone().map(|segment| u64::from(frame.packet_bytes(segment))).sum();
        rules.classifier.classify_train(&mut rules.state, &mut packet, from, packets, bytes)
    }

    /// Writes a DSCP into packets, in a frame of their own where they share it with others. `false`
    /// without memory.
    fn rewrite(&mut self, group: &mut Group, dscp: u8) -> bool {
        let whole = self.arena.references(group.slot) == group.run.len() as u32;
        if !whole {
            // More than one packet are judged together only while they are all there is.
            let Some(copy) = self.move_out(group.slot, group.run.start) else { return false };
            (group.slot, group.run) = (copy, 0..1);
        }
        let Some(frame) = self.arena.get_mut(group.slot) else { return false };
        if let Some(mut parsed) = frame.parsed {
            set_dscp(frame.bytes_mut(), &mut parsed, dscp);
            frame.parsed = Some(parsed);
        }
        true
    }

    /// Keeps the journey of packets that will be judged again.
    fn remember(&mut self, group: Group) -> Group {
        let Group { slot, run, journey } = &group;
        let Some(frame) = self.arena.get_mut(*slot) else { return group };
        let passes = self.lanes[usize::from(frame.lane)].config.passes.len();
        // One that was judged again must be again for its books, even where no rule is left to look
        // at it.
        if journey.resume.is_none() && usize::from(journey.pass) >= passes && journey.hops == 1 {
            return group;
        }
        let segments = frame.train.as_ref().map_or(1, |train| train.segments());
        frame.journeys.resize(usize::from(segments), Journey::default());
        for segment in run.clone() {
            frame.journeys[usize::from(segment)] = journey.clone();
        }
        group
    }

    /// Submits packets of a stored frame, or hands them to the worker that has their queue.
    pub(super) fn enter(
        &mut self,
        slot: u32,
        run: Range<u16>,
        marked: bool,
        key: &FlowKey,
        action: Action,
        at: Nanos,
    ) {
        if self.exchange.is_some()
            && let Some(hash) = self.emulator.instance_hash(key, action)
            && self.hand_over(hash, slot, &run, key, action, at)
        {
            return;
        }
        let Some(frame) = self.arena.get(slot) else { return };
        let train = frame.train;
        let whole = frame.wire_len;
        let arrival = Arrival {
            frame: 0,
            len: whole,
            link_header: frame.parsed.map_or(ETHERNET_HEADER as u8, |p| p.link_header),
            segments: frame.weight,
            ecn: if marked { Ecn::Ce } else { frame.parsed.map_or(Ecn::NotEct, |p| p.ecn) },
            label: 0,
        };
        let arrival_of = |segment| {
            let len = train.as_ref().map_or(whole, |t| t.segment_len(segment));
            Arrival { frame: handle(slot, segment), len, ..arrival }
        };
        if run.len() == 1 {
            if let Err(rejected) = self.emulator.submit(at, arrival_of(run.start), key, action) {
                self.lost(
                    slot,
                    run.start,
                    Lost { reason: rejected.reason, at, due: at, arrived: at, dequeued: at },
                );
            }
            return;
        }
        let mut refused = std::mem::take(&mut self.refused);
        self.emulator.submit_train(at, run.map(arrival_of), key, action, |frame, rejected| {
            refused.push((frame, rejected.reason))
        });
        for (frame, reason) in refused.drain(..) {
            self.lost(
                slot,
                unpack(frame).1,
                Lost { reason, at, due: at, arrived: at, dequeued: at },
            );
        }
        self.refused = refused;
    }

    /// Puts packets that have been through all passes in the way out.
    fn leave(&mut self, group: Group, at: Nanos) {
        let Group { slot, run, journey } = group;
        let Some(frame) = self.arena.get(slot) else { return };
        let count = run.len() as u16;
        let bytes = run.clone().map(|segment| frame.packet_bytes(segment)).sum();
        let (lane, packets) = (frame.lane, frame.weight * count);
        let Journey { hops, mark, duplicate, corrupted, began, queued, .. } = journey;
        let books = &mut self.lanes[usize::from(lane)];
        books.released(queued, at.since(began), count);
        if hops == 0 {
            books.passed += u64::from(packets);
        }
        self.way_out.push(Item {
            slot,
            first: run.start,
            count,
            lane,
            packets,
            bytes,
            due: at,
            arrived: began,
            dequeued: began + queued,
            ready: at,
            mark,
            corrupted,
            duplicate,
        });
    }

    fn lose(&mut self, group: &Group, reason: DropReason, at: Nanos) {
        let began = group.journey.began;
        for segment in group.run.clone() {
            self.lost(
                group.slot,
                segment,
                Lost {
                    reason,
                    at,
                    due: at,
                    arrived: began,
                    dequeued: began + group.journey.queued,
                },
            );
        }
    }
}

/// How often the engine takes one packet. Rules that send it round and round would keep it for
/// ever.
const MOST_HOPS: u8 = 64;
