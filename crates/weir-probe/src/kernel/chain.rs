//! Whether a record of events is complete: each length must follow from the one before.
//!
//! A packet that is put in makes the queue one longer, unless it is an offload train that the
//! discipline cuts; a dequeue makes it as many shorter as it says, and what the device gave back
//! makes it longer again, which a counter knows. What else changes a length is a drop of a packet
//! that waited. A discipline that drops only what arrives has none of those, so there every other
//! difference is a gap; elsewhere as many may be missing as the counter of drops has grown by. A
//! lock-free discipline is read while other processors change it: there the sum of all steps must
//! stay near the length.

use super::records::{Kind, Record};

/// What may happen to a queue besides the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Nothing: drops are of packets that arrive.
    Strict,
    /// Packets that wait may be dropped.
    Drops,
    /// As many processors may be in the middle of a change.
    Loose(u32),
}

/// The last state of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    /// Length by the steps; of what is under a lock, as it was read.
    qlen: i64,
    drops: u32,
    requeues: u32,
    most: u32,
}

impl Chain {
    /// Begins with a queue's first event, of which nothing can be said.
    pub(super) fn begin(record: &Record) -> Chain {
        Chain {
            qlen: record.qlen.into(),
            drops: record.drops,
            requeues: record.requeues,
            most: record.packets,
        }
    }

    /// All packets were thrown away.
    pub(super) fn empty(&mut self) {
        self.qlen = 0;
    }

    /// Takes in the next event; how many packets it was about, and whether something before it is
    /// missing.
    pub(super) fn follow(&mut self, record: &Record, rule: Rule) -> (u32, bool) {
        let dropped = i64::from(record.drops.wrapping_sub(self.drops));
        let requeued = i64::from(record.requeues.wrapping_sub(self.requeues));
        let (before, now, packets) =
            (self.qlen + requeued, i64::from(record.qlen), i64::from(record.packets));
        self.drops = record.drops;
        self.requeues = record.requeues;
        self.most = self.most.max(record.packets);
        if let Rule::Loose(processors) = rule {
            let step = if record.kind == Kind::Enqueue { 1 } else { -packets };
            self.qlen = before + step;
            let gap = (now - self.qlen).unsigned_abs() > u64::from(processors + self.most);
            if gap {
                self.qlen = now;
            }
            return (step.unsigned_abs() as u32, gap);
        }
        self.qlen = now;
        let gone = if rule == Rule::Drops { dropped } else { 0 };
        let reached = |from: i64, to: i64| (from - gone..=to).contains(&now);
        if record.kind == Kind::Dequeue {
            return (record.packets, !reached(before - packets, before - packets));
        }
        // A train stays whole, or some of its packets are refused.
        let cut =
            packets > 1 && reached((before + packets - dropped).max(before + 1), before + packets);
        let came = if cut { (now - before).clamp(1, packets) } else { 1 };
        (came as u32, !cut && !reached(before + 1, before + 1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Chain, Rule};
    use crate::kernel::records::{Key, Kind, Record};

    fn record(kind: Kind, packets: u32, qlen: u32, drops: u32, requeues: u32) -> Record {
        let key = Key { address: 1, ops: 2, ifindex: 3, netns: 4, handle: 5, parent: u32::MAX };
        Record {
            time: 0,
            key,
            kind,
            packets,
            bytes: 0,
            qlen,
            backlog: 0,
            drops,
            requeues,
            flags: 0,
            cpu: 0,
        }
    }

    /// Each event's packets and gap, after a first event that left 10 packets.
    fn follow(rule: Rule, events: &[Record]) -> Vec<(u32, bool)> {
        let mut chain = Chain::begin(&record(Kind::Enqueue, 1, 10, 0, 0));
        events.iter().map(|event| chain.follow(event, rule)).collect()
    }

    #[test]
    fn steps_that_follow_are_no_gaps() {
        let events = [
            record(Kind::Enqueue, 1, 11, 0, 0),
            record(Kind::Dequeue, 3, 8, 0, 0),
            // Two came back before one was taken again.
            record(Kind::Dequeue, 1, 9, 0, 2),
            // Five were refused at the entry.
            record(Kind::Enqueue, 1, 10, 5, 2),
            // A train of 40, kept whole, and another that was cut, of which three were refused.
            record(Kind::Enqueue, 40, 11, 5, 2),
            record(Kind::Enqueue, 40, 48, 8, 2),
        ];
        let told = follow(Rule::Strict, &events);
        assert_eq!(told, [(1, false), (3, false), (1, false), (1, false), (1, false), (37, false)]);
    }

    #[test]
    fn a_missing_event_is_a_gap_and_the_next_is_none() {
        let told = follow(
            Rule::Strict,
            &[record(Kind::Enqueue, 1, 12, 0, 0), record(Kind::Enqueue, 1, 13, 0, 0)],
        );
        assert_eq!(told, [(1, true), (1, false)]);
        assert_eq!(follow(Rule::Strict, &[record(Kind::Dequeue, 1, 8, 0, 0)]), [(1, true)]);
        // Drops excuse it only where packets that wait are dropped, and only as many.
        let fewer = record(Kind::Enqueue, 1, 9, 2, 0);
        assert_eq!(follow(Rule::Strict, &[fewer]), [(1, true)]);
        assert_eq!(follow(Rule::Drops, &[fewer]), [(1, false)]);
        assert_eq!(follow(Rule::Drops, &[record(Kind::Enqueue, 1, 8, 2, 0)]), [(1, true)]);
    }

    #[test]
    fn without_a_lock_lengths_may_be_read_early_or_late_but_do_not_drift() {
        // The length is read when the other processor has already taken the packet out.
        let swapped = [record(Kind::Enqueue, 1, 10, 0, 0), record(Kind::Dequeue, 1, 10, 0, 0)];
        assert_eq!(follow(Rule::Loose(2), &swapped), [(1, false), (1, false)]);
        let drift: Vec<Record> = (1..=4).map(|_| record(Kind::Dequeue, 1, 10, 0, 0)).collect();
        assert_eq!(follow(Rule::Loose(2), &drift).iter().filter(|told| told.1).count(), 1);
    }

    proptest! {
        /// Any run of events that is complete has no gap; with one left out whose step is not
        /// undone, it has exactly one.
        #[test]
        fn exactly_what_is_left_out_is_found(steps in prop::collection::vec((any::<bool>(), 1u32..5, 0u32..3), 3..60), out in 1usize..58) {
            let (mut qlen, mut drops, mut events) = (10u32, 0u32, Vec::new());
            for (put_in, packets, refused) in steps {
                let packets = if put_in { 1 } else { packets.min(qlen) };
                if packets == 0 {
                    continue;
                }
                qlen = if put_in { qlen + 1 } else { qlen - packets };
                drops += refused;
                events.push(record(if put_in { Kind::Enqueue } else { Kind::Dequeue }, packets, qlen, drops, 0));
            }
            prop_assert!(follow(Rule::Strict, &events).iter().all(|told| !told.1));
            if out + 1 < events.len() {
                events.remove(out);
                prop_assert_eq!(follow(Rule::Strict, &events).iter().filter(|told| told.1).count(), 1);
            }
        }
    }
}
