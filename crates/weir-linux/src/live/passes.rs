//! The *passes* of a lane: the points on its path at which the rules examine a packet, such as `in`
//! and `out` of a bridge.
//!
//! In each pass, the rules let the packet pass, drop it or send it through the engine. A packet
//! that leaves the engine continues after the rule that sent it there, or, with `one_pass`, in the
//! next pass. After the last pass it is sent.
//!
//! The rules examine an arriving train once, unless some rule may treat its packets differently.
//!
//! **Invariant:** a packet that goes from pipe to pipe enters the next pipe at the time at which
//! its departure from the previous pipe was due, however late the loop is.

use std::ops::Range;

use weir_core::stats::{DropReason, MarkReason};
use weir_core::{Action, Departure, Nanos};
use weir_rules::classify::{Fate, Pass, Verdict};
use weir_wire::set_dscp;

use super::entry::{Batch, Entry};
use super::item::{Item, Lost};
use super::packets::{Packets, Stored};
use super::rules::{Lookup, Rules};
use crate::arena::unpack;
use crate::journey::Journey;

#[derive(Debug)]
pub(super) struct Passes {
    rules: Rules,
    /// Packets that have completed all passes, in the order of sending.
    outgoing: Vec<Item>,
}

/// Packets of one frame that take the same path.
struct Group {
    slot: u32,
    segments: Range<u16>,
    journey: Journey,
}

impl Passes {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, outgoing: Vec::new() }
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(super) fn rules_mut(&mut self) -> &mut Rules {
        &mut self.rules
    }

    /// The outgoing packets. The caller drains the list.
    pub(super) fn outgoing(&mut self) -> &mut Vec<Item> {
        &mut self.outgoing
    }

    /// Starts the first pass of a frame that arrived at `at`.
    pub(super) fn examine_arrival(
        &mut self,
        packets: &mut Packets,
        entry: &mut Entry,
        stored: Stored,
        at: Nanos,
    ) {
        let Stored { slot, references } = stored;
        let journey = Journey { arrived: at, ..Journey::default() };
        if references > 1 && self.rules.examines_each_segment() {
            for segment in 0..references {
                let (segments, journey) = (segment..segment + 1, journey.clone());
                self.proceed(packets, entry, Group { slot, segments, journey }, at);
            }
        } else {
            self.proceed(packets, entry, Group { slot, segments: 0..references, journey }, at);
        }
    }

    /// Continues the passes of a packet that has left a pipe.
    pub(super) fn continue_passes(
        &mut self,
        packets: &mut Packets,
        entry: &mut Entry,
        now: Nanos,
        departure: &Departure,
        (mark, corrupt): (Option<MarkReason>, Option<u32>),
    ) {
        let Departure { arrived, dequeued, due, .. } = *departure;
        let (mut slot, mut segment) = unpack(departure.frame);
        let Some(frame) = packets.frame_mut(slot) else { return };
        let Some(journey) = frame.journeys.get_mut(usize::from(segment)) else { return };
        let mut journey = std::mem::take(journey);
        journey.queued += dequeued.since(arrived);
        let single = frame.train.is_none();
        if corrupt.is_some() || (mark.is_some() && single) {
            // A segment that moves out of its train takes an earlier mark with it.
            let marked = mark.or(journey.mark).is_some();
            let Some(changed) = packets.change(slot, segment, marked, corrupt) else {
                let lost = Lost { reason: DropReason::NoMemory, at: now, due, arrived, dequeued };
                return packets.lost(slot, segment, lost);
            };
            (slot, segment) = (changed, if changed == slot { segment } else { 0 });
            journey.corrupted = corrupt.or(journey.corrupted);
            if let Some(frame) = packets.exclusive(slot).filter(|_| corrupt.is_some()) {
                // The inverted bit may be in a header, so the headers are parsed again.
                frame.parsed = weir_wire::parse(frame.bytes()).ok();
            }
        }
        journey.mark = journey.mark.or(mark);
        let segments = segment..segment + 1;
        self.proceed(packets, entry, Group { slot, segments, journey }, due);
    }

    /// Examines packets, from their current pass on. Then submits them to the engine, appends them
    /// to the outgoing packets, or drops them.
    fn proceed(&mut self, packets: &mut Packets, entry: &mut Entry, mut group: Group, at: Nanos) {
        loop {
            let Some(pass) = next_pass(packets, &group) else {
                return self.leave(packets, group, at);
            };
            let Some(frame) = packets.frame(group.slot) else { return };
            let key = entry.key(frame);
            let segments = group.segments.clone();
            let lookup = Lookup { frame, segments, key: &key, pass, now: at };
            let Verdict { fate, dscp } = self.rules.examine(lookup, &mut group.journey);
            if let Some(dscp) = dscp
                && !rewrite(packets, &mut group, dscp)
            {
                return lose(packets, &group, DropReason::NoMemory, at);
            }
            let (action, resume) = match fate {
                Fate::Allow => {
                    group.journey.pass += 1;
                    continue;
                }
                Fate::Deny => return lose(packets, &group, DropReason::Denied, at),
                Fate::Pipe(number, resume) => (Action::Pipe(number), resume),
                Fate::Queue(number, resume) => (Action::Queue(number), resume),
            };
            if group.journey.hops >= MAX_HOPS {
                return lose(packets, &group, DropReason::RuleLoop, at);
            }
            group.journey.hops += 1;
            group.journey.resume = resume;
            if resume.is_none() {
                group.journey.pass += 1;
            }
            let marked = group.journey.mark.is_some();
            let Group { slot, segments, .. } = remember(packets, group);
            return entry.enter(packets, Batch { slot, segments, marked, key, action, at });
        }
    }

    /// Appends packets that have completed all passes to the outgoing packets.
    fn leave(&mut self, packets: &mut Packets, group: Group, at: Nanos) {
        let Group { slot, segments, journey } = group;
        let Some(frame) = packets.frame(slot) else { return };
        let count = segments.len() as u16;
        let bytes = segments.clone().map(|segment| frame.packet_bytes(segment)).sum();
        let (lane, wire_packets) = (frame.lane, frame.weight * count);
        let Journey { hops, mark, duplicate, corrupted, arrived, queued, .. } = journey;
        let accounting = packets.lane_mut(lane);
        accounting.released(queued, at.since(arrived), count);
        if hops == 0 {
            accounting.passed(wire_packets);
        }
        self.outgoing.push(Item {
            slot,
            first: segments.start,
            count,
            lane,
            packets: wire_packets,
            bytes,
            due: at,
            arrived,
            dequeued: arrived + queued,
            ready: at,
            mark,
            corrupted,
            duplicate,
        });
    }
}

/// Whether [`Passes::continue_passes`] handles this departure. After the last pass, that function
/// only completes the packet's accounting.
pub(super) fn is_examined_again(packets: &Packets, departure: &Departure) -> bool {
    let (slot, segment) = unpack(departure.frame);
    packets
        .frame(slot)
        .and_then(|frame| frame.journeys.get(usize::from(segment)))
        .is_some_and(|journey| journey.hops > 0)
}

/// Gives an additional copy that continues its passes a separate frame, since the path of the copy
/// may differ from that of the original. Returns `None` if there is no memory for the frame.
pub(super) fn separate_copy(packets: &mut Packets, departure: &Departure) -> Option<u32> {
    let (slot, segment) = unpack(departure.frame);
    let frame = packets.frame(slot)?;
    let mut journey = frame.journeys.get(usize::from(segment)).cloned().unwrap_or_default();
    journey.duplicate = true;
    let (lane, weight, bytes) = (frame.lane, frame.weight, frame.packet_bytes(segment));
    let copy = packets.copy_out(slot, segment, journey.mark.is_some())?;
    if let Some(frame) = packets.exclusive(copy) {
        frame.journeys.push(journey);
    }
    packets.lane_mut(lane).duplicated(weight, bytes);
    Some(copy)
}

/// The next pass of the packets; `None` after the last one.
fn next_pass(packets: &Packets, group: &Group) -> Option<Pass> {
    let lane = packets.lane(packets.frame(group.slot)?.lane);
    lane.config().passes.get(usize::from(group.journey.pass)).copied()
}

/// Writes a DSCP into packets. They first move to a separate frame if other packets share their
/// frame. Returns `false` if there is no memory for the separate frame.
fn rewrite(packets: &mut Packets, group: &mut Group, dscp: u8) -> bool {
    if packets.references(group.slot) != group.segments.len() as u32 {
        // A group of several packets always has the whole frame, so only a single packet is moved.
        let marked = group.journey.mark.is_some();
        let moved = packets.move_out(group.slot, group.segments.start, marked);
        let Some(copy) = moved else { return false };
        (group.slot, group.segments) = (copy, 0..1);
    }
    let Some(frame) = packets.frame_mut(group.slot) else { return false };
    if let Some(mut parsed) = frame.parsed {
        set_dscp(frame.bytes_mut(), &mut parsed, dscp);
        frame.parsed = Some(parsed);
    }
    true
}

/// Stores the journey of packets that still need it.
fn remember(packets: &mut Packets, group: Group) -> Group {
    let Group { slot, segments, journey } = &group;
    let Some(lane) = packets.frame(*slot).map(|frame| frame.lane) else { return group };
    let passes = packets.lane(lane).config().passes.len();
    // A packet that has re-entered the engine keeps its journey for the accounting, even if no pass
    // follows.
    if journey.resume.is_none() && usize::from(journey.pass) >= passes && journey.hops == 1 {
        return group;
    }
    let Some(frame) = packets.frame_mut(*slot) else { return group };
    let count = frame.train.as_ref().map_or(1, |train| train.segments());
    frame.journeys.resize(usize::from(count), Journey::default());
    for segment in segments.clone() {
        frame.journeys[usize::from(segment)] = journey.clone();
    }
    group
}

fn lose(packets: &mut Packets, group: &Group, reason: DropReason, at: Nanos) {
    let arrived = group.journey.arrived;
    let dequeued = arrived + group.journey.queued;
    for segment in group.segments.clone() {
        packets.lost(group.slot, segment, Lost { reason, at, due: at, arrived, dequeued });
    }
}

/// Maximum number of times that one packet may enter the engine. This limit ends loops among rules.
const MAX_HOPS: u8 = 64;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_core::packet::Ecn;
    use weir_core::{Emulator, Limits};
    use weir_rules::classify::{Classifier, Place, State};
    use weir_rules::ruleset::Ruleset;

    use super::*;
    use crate::arena::handle;
    use crate::live::testing;

    /// A train of 3 packets whose segment 1 an earlier pipe has marked.
    fn marked_train() -> (Packets, u32, Journey) {
        let mut packets = testing::packets();
        let slot = testing::train(&mut packets, 1, 3).slot;
        let journey = Journey { mark: Some(MarkReason::Early), hops: 1, ..Journey::default() };
        if let Some(frame) = packets.frame_mut(slot) {
            frame.journeys.resize(3, Journey::default());
            frame.journeys[1] = journey.clone();
        }
        (packets, slot, journey)
    }

    /// The departure of segment 1 from its next pipe.
    fn departure(slot: u32, corrupt: Option<u32>, duplicate: bool) -> Departure {
        Departure {
            frame: handle(slot, 1),
            link: 2,
            fate: weir_core::Fate::Deliver { mark: None, corrupt, duplicate },
            arrived: Nanos::ZERO,
            dequeued: Nanos::ZERO,
            started: Nanos::ZERO,
            due: Nanos::ZERO,
        }
    }

    #[test]
    fn a_segment_that_leaves_its_train_takes_its_mark_with_it() {
        let (mut packets, slot, journey) = marked_train();
        let copy = separate_copy(&mut packets, &departure(slot, None, true));
        assert_eq!(testing::ecn(&packets, copy.unwrap()), Ecn::Ce, "a copy of the link");

        let mut group = Group { slot, segments: 1..2, journey };
        assert!(rewrite(&mut packets, &mut group, 10));
        assert_ne!(group.slot, slot);
        assert_eq!(testing::ecn(&packets, group.slot), Ecn::Ce, "a packet with another DSCP");

        let (mut packets, slot, _) = marked_train();
        let classifier = Arc::new(Classifier::compile(&Ruleset::default(), &Place::default()));
        let mut passes = Passes::new(Rules::new(classifier, State::new(1)));
        let mut entry = Entry::new(Emulator::new(1, Limits::default()), None, true);
        // The last bit is in the payload.
        let corrupt = Some(128 * 8 - 1);
        let departure = departure(slot, corrupt, false);
        let now = Nanos::ZERO;
        passes.continue_passes(&mut packets, &mut entry, now, &departure, (None, corrupt));
        let [item] = passes.outgoing()[..] else { panic!("the packet is to be sent") };
        assert_eq!((item.mark, item.corrupted), (Some(MarkReason::Early), corrupt));
        assert_eq!(testing::ecn(&packets, item.slot), Ecn::Ce, "a corrupted packet");
    }
}
