//! Checks that a record of events is complete: each length must follow from the previous one.
//!
//! An enqueue makes the queue one packet longer, unless the discipline cuts the packet, an offload
//! train, into several. A dequeue makes the queue shorter by the number of packets that it reports.
//! A requeue by the device makes the queue longer again, and a counter reports requeues. A reset
//! empties the queue, and has a record of its own. The only other cause of a change is the drop of
//! a waiting packet. A discipline that drops only arrivals never drops a waiting packet, so any
//! other difference is a gap. In other disciplines, the queue may be shorter by as many packets as
//! the drop counter has grown. A lock-free discipline is read while other processors change it. For
//! such a discipline, the sum of all steps must stay close to the length.

use super::records::{Kind, Record};

/// Changes of a queue that are allowed between events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// No change: only arrivals are dropped.
    Strict,
    /// Waiting packets may be dropped.
    Drops,
    /// Up to this many processors may be in the middle of a change.
    Loose(u32),
}

/// The last state of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    /// For a lock-free discipline, the sum of the steps. For any other discipline, the length as it
    /// was read.
    qlen: i64,
    /// The discipline's counters of drops and of requeues.
    drops: u32,
    requeues: u32,
    /// The largest number of packets in one event so far.
    most: u32,
}

impl Chain {
    /// Starts with a queue's first event, which cannot be checked.
    pub(super) fn begin(record: &Record) -> Chain {
        Chain {
            qlen: record.qlen.into(),
            drops: record.drops,
            requeues: record.requeues,
            most: record.packets,
        }
    }

    /// Records that all packets were discarded.
    pub(super) fn empty(&mut self) {
        self.qlen = 0;
    }

    /// Processes the next event. Returns the number of its packets, and whether an event before it
    /// is missing.
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
        let dropped_waiting = if rule == Rule::Drops { dropped } else { 0 };
        let reached = |from: i64, to: i64| (from - dropped_waiting..=to).contains(&now);
        if record.kind == Kind::Dequeue {
            return (record.packets, !reached(before - packets, before - packets));
        }
        // A train stays whole and counts as one packet, or it is cut into `packets`. Of these, at
        // most `dropped` were refused.
        let cut =
            packets > 1 && reached((before + packets - dropped).max(before + 1), before + packets);
        let added = if cut { (now - before).clamp(1, packets) } else { 1 };
        (added as u32, !cut && !reached(before + 1, before + 1))
    }
}

/// The bytes of an event. `packets` is the number of its packets. `before` is the backlog in bytes
/// before the event; `None` if it is unknown.
///
/// The kernel reports an enqueue when the discipline has accepted the packet. A discipline that
/// cuts an offload train has then freed the train, so the length in the record means nothing. In
/// this case, the result is the growth of the backlog: the length of the accepted packets. The
/// result is too small if waiting packets were dropped since the previous event.
pub(super) fn accepted_bytes(record: &Record, packets: u32, before: Option<u32>) -> u32 {
    if record.kind == Kind::Dequeue || packets <= 1 {
        return record.bytes;
    }
    match before {
        Some(before) => record.backlog.saturating_sub(before),
        None if record.qlen == packets => record.backlog,
        // The backlog includes the accepted packets.
        None => record.bytes.min(record.backlog),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Chain, Rule, accepted_bytes};
    use crate::kernel::records::{Key, Kind, Record};

    #[test]
    fn a_cut_train_has_the_bytes_by_which_the_backlog_grew() {
        let event = |kind, packets, backlog| Record {
            bytes: 3_163_392_639,
            backlog,
            ..record(kind, packets, 12, 0, 0)
        };
        let train = event(Kind::Enqueue, 10, 12_504);
        assert_eq!(accepted_bytes(&train, 10, Some(2084)), 10_420);
        // Two other packets were there, or the queue was empty.
        assert_eq!(accepted_bytes(&train, 10, None), 12_504);
        assert_eq!(accepted_bytes(&Record { qlen: 10, ..train }, 10, None), 12_504);
        let whole = Record { bytes: 10_042, ..train };
        assert_eq!(accepted_bytes(&whole, 1, Some(0)), 10_042);
        let sent = Record { bytes: 2084, ..event(Kind::Dequeue, 2, 0) };
        assert_eq!(accepted_bytes(&sent, 2, Some(2084)), 2084);
    }

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

    /// The packets and the gap of each event, after a first event that left 10 packets.
    fn follow(rule: Rule, events: &[Record]) -> Vec<(u32, bool)> {
        let mut chain = Chain::begin(&record(Kind::Enqueue, 1, 10, 0, 0));
        events.iter().map(|event| chain.follow(event, rule)).collect()
    }

    #[test]
    fn consistent_steps_have_no_gap() {
        let events = [
            record(Kind::Enqueue, 1, 11, 0, 0),
            record(Kind::Dequeue, 3, 8, 0, 0),
            // Two packets were requeued before one was dequeued again.
            record(Kind::Dequeue, 1, 9, 0, 2),
            // Five packets were refused on arrival.
            record(Kind::Enqueue, 1, 10, 5, 2),
            // A train of 40 that was kept whole, and one that was cut, with three of its packets
            // refused.
            record(Kind::Enqueue, 40, 11, 5, 2),
            record(Kind::Enqueue, 40, 48, 8, 2),
        ];
        let checked = follow(Rule::Strict, &events);
        assert_eq!(
            checked,
            [(1, false), (3, false), (1, false), (1, false), (1, false), (37, false)]
        );
    }

    #[test]
    fn a_missing_event_causes_exactly_one_gap() {
        let checked = follow(
            Rule::Strict,
            &[record(Kind::Enqueue, 1, 12, 0, 0), record(Kind::Enqueue, 1, 13, 0, 0)],
        );
        assert_eq!(checked, [(1, true), (1, false)]);
        assert_eq!(follow(Rule::Strict, &[record(Kind::Dequeue, 1, 8, 0, 0)]), [(1, true)]);
        // Drops explain missing packets only if the discipline drops waiting packets. They explain
        // at most as many as were dropped.
        let fewer = record(Kind::Enqueue, 1, 9, 2, 0);
        assert_eq!(follow(Rule::Strict, &[fewer]), [(1, true)]);
        assert_eq!(follow(Rule::Drops, &[fewer]), [(1, false)]);
        assert_eq!(follow(Rule::Drops, &[record(Kind::Enqueue, 1, 8, 2, 0)]), [(1, true)]);
    }

    #[test]
    fn lock_free_lengths_may_be_early_or_late_but_do_not_drift() {
        // The length is read after the other processor has already dequeued the packet.
        let swapped = [record(Kind::Enqueue, 1, 10, 0, 0), record(Kind::Dequeue, 1, 10, 0, 0)];
        assert_eq!(follow(Rule::Loose(2), &swapped), [(1, false), (1, false)]);
        let drift: Vec<Record> = (1..=4).map(|_| record(Kind::Dequeue, 1, 10, 0, 0)).collect();
        assert_eq!(follow(Rule::Loose(2), &drift).iter().filter(|(_, gap)| *gap).count(), 1);
    }

    proptest! {
        /// Any complete sequence of events has no gap. If one event between the first and the last
        /// is left out, the sequence has exactly one gap.
        #[test]
        fn omitted_events_are_found_exactly(
            steps in prop::collection::vec((any::<bool>(), 1u32..5, 0u32..3), 3..60),
            out in 1usize..58,
        ) {
            let (mut qlen, mut drops, mut events) = (10u32, 0u32, Vec::new());
            for (is_enqueue, packets, refused) in steps {
                let packets = if is_enqueue { 1 } else { packets.min(qlen) };
                if packets == 0 {
                    continue;
                }
                qlen = if is_enqueue { qlen + 1 } else { qlen - packets };
                drops += refused;
                events.push(record(
                    if is_enqueue { Kind::Enqueue } else { Kind::Dequeue },
                    packets,
                    qlen,
                    drops,
                    0,
                ));
            }
            prop_assert!(follow(Rule::Strict, &events).iter().all(|(_, gap)| !gap));
            if out + 1 < events.len() {
                events.remove(out);
                prop_assert_eq!(
                    follow(Rule::Strict, &events).iter().filter(|(_, gap)| *gap).count(),
                    1
                );
            }
        }
    }
}
