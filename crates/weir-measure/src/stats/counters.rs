//! Counters of a link: a row for each counter, and the rules for merging the counters of several
//! workers.
//!
//! A row holds the counter's name, its merging rule and its meaning. Documents, their schema,
//! metrics and the documentation are generated from these rows. A new counter needs a row here and
//! the code that counts it.
//!
//! # Peaks
//! A peak is the largest number of packets that waited in the queues of a link at one time. An
//! engine that has all instances of a link counts the exact peak. If several workers each have some
//! of the instances, their peaks may have occurred at different times: the sum of the peaks is an
//! upper bound of the true peak, and the greatest of them is a lower bound. [`LinkCounters::merge`]
//! keeps the greatest. A link with a single instance lives on one worker, so its peak is exact.

use super::reasons::{DropCounts, DropReason, MarkCounts, MarkReason, Reasons};

/// How a counter changes over time, and how the counters of several workers are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// The counter only grows. Counters of several workers are added.
    Sum,
    /// A number of packets at one moment. Counters of several workers are added, and the addition
    /// wraps: a worker that sends packets which another worker received counts down from zero.
    Level,
    /// The greatest value so far. A merge of several workers keeps the greatest.
    Peak,
}

/// The description of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterRow {
    /// The counter's name in results. The end of the name is the unit; a counter without a unit
    /// counts packets.
    pub name: &'static str,
    /// How the counter changes and how it is merged.
    pub kind: CounterKind,
    /// The counter's meaning in a sentence.
    pub meaning: &'static str,
}

/// Defines the counters of a link from rows.
macro_rules! counters {
    ($(#[$doc:meta])* $type:ident; $($name:ident, $kind:ident, $meaning:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $type {
            $(
                #[doc = $meaning]
                #[cfg_attr(feature = "serde", serde(default))]
                pub $name: u64,
            )*
            /// Drops and marks by reason.
            #[cfg_attr(feature = "serde", serde(flatten))]
            pub reasons: Reasons,
        }

        impl $type {
            /// Every counter, in the order of [`Self::values`].
            pub const ROWS: [CounterRow; [$($meaning),*].len()] = [$(
                CounterRow {
                    name: stringify!($name),
                    kind: CounterKind::$kind,
                    meaning: $meaning,
                }
            ),*];

            /// The value of every counter, in the order of [`Self::ROWS`].
            pub fn values(&self) -> [u64; Self::ROWS.len()] {
                [$(self.$name),*]
            }

            /// Adds the counters of another part of the same link. Sums and levels are added; of
            /// peaks the greater one is kept (see the module's documentation).
            pub fn merge(&mut self, other: &Self) {
                $(CounterKind::$kind.merge(&mut self.$name, other.$name);)*
                self.reasons.merge(&other.reasons);
            }
        }
    };
}

counters! {
    /// Counters of one link.
    LinkCounters;
    packets_in, Sum, "Packets submitted.";
    bytes_in, Sum, "Network-layer bytes submitted.";
    packets_out, Sum, "Packets that departed towards their destination, duplicates included.";
    bytes_out, Sum, "Network-layer bytes of the packets that departed, duplicates included.";
    duplicated, Sum, "Additional copies that the link made.";
    corrupted, Sum, "Packets that departed with an inverted bit.";
    reordered, Sum, "Packets that skipped the delay line.";
    backlog_packets, Level, "Packets inside: in a queue, on the wire, in the delay line.";
    peak_queue_packets, Peak,
        "Most packets that waited in queues at once; with several workers, the most at one worker.";
    carried, Level, "Packets that were inside when counting began anew; 0 if it never began anew.";
    loss_draws, Sum,
        "Packets for which the random loss on the link (`loss`) was drawn, lost or not.";
}

impl CounterKind {
    fn merge(self, mine: &mut u64, other: u64) {
        match self {
            Self::Sum => *mine += other,
            Self::Level => *mine = mine.wrapping_add(other),
            Self::Peak => *mine = (*mine).max(other),
        }
    }
}

impl LinkCounters {
    /// Drops and marks by reason.
    #[inline]
    pub fn reasons(&self) -> &Reasons {
        &self.reasons
    }

    /// Drops for one reason.
    #[inline]
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.reasons.drops(reason)
    }

    /// Drops for all reasons.
    pub fn total_drops(&self) -> u64 {
        self.reasons.total_drops()
    }

    /// Counts a drop.
    #[inline]
    pub fn count_drop(&mut self, reason: DropReason) {
        self.reasons.count_drop(reason);
    }

    /// Marks for one reason.
    #[inline]
    pub fn marks(&self, reason: MarkReason) -> u64 {
        self.reasons.marks(reason)
    }

    /// Marks for all reasons.
    pub fn total_marks(&self) -> u64 {
        self.reasons.total_marks()
    }

    /// Counts a mark.
    #[inline]
    pub fn count_mark(&mut self, reason: MarkReason) {
        self.reasons.count_mark(reason);
    }

    /// Drops by reason.
    pub fn drop_counts(&self) -> &DropCounts {
        self.reasons.drop_counts()
    }

    /// Marks by reason.
    pub fn mark_counts(&self) -> &MarkCounts {
        self.reasons.mark_counts()
    }

    /// Whether every packet is accounted for (see [the identities](super)). The counters of a part
    /// of a link may have wrapped, so the sums wrap too.
    pub fn balanced(&self) -> bool {
        let arrivals = self.carried.wrapping_add(self.packets_in).wrapping_add(self.duplicated);
        let departures = self.packets_out.wrapping_add(self.total_drops());
        arrivals == departures.wrapping_add(self.backlog_packets)
    }

    /// Both sides of the identity, arrivals first. `None` if a sum overflows, as it does with the
    /// wrapped counters of a part of a link.
    pub fn accounts(&self) -> Option<(u64, u64)> {
        let sum = |parts: &[u64]| parts.iter().try_fold(0u64, |sum, &part| sum.checked_add(part));
        let mut drops = self.reasons.drop_counts().of_all();
        let drops = drops.try_fold(0u64, |sum, (_, count)| sum.checked_add(count))?;
        Some((
            sum(&[self.carried, self.packets_in, self.duplicated])?,
            sum(&[self.packets_out, drops, self.backlog_packets])?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_of_two_workers_are_not_added() {
        let worker = |peak_queue_packets, packets_in| LinkCounters {
            packets_in,
            backlog_packets: packets_in,
            peak_queue_packets,
            ..LinkCounters::default()
        };
        let mut link = worker(60, 100);
        link.merge(&worker(50, 7));
        assert_eq!(
            (link.packets_in, link.backlog_packets, link.peak_queue_packets),
            (107, 107, 60)
        );
        // The instance lives on one worker; the other workers received none of its packets.
        link.merge(&worker(0, 0));
        assert_eq!(link.peak_queue_packets, 60);
    }

    #[test]
    fn a_worker_that_sends_packets_of_another_counts_down_from_zero() {
        let mut taken = LinkCounters { packets_in: 3, backlog_packets: 3, ..Default::default() };
        let sent = LinkCounters {
            packets_out: 2,
            backlog_packets: 0u64.wrapping_sub(2),
            ..Default::default()
        };
        assert!(taken.balanced() && sent.balanced());
        taken.merge(&sent);
        assert!(taken.balanced() && taken.backlog_packets == 1);
        assert_eq!(taken.accounts(), Some((3, 3)));
    }

    #[test]
    fn a_sum_that_overflows_gives_no_accounts() {
        let counters =
            LinkCounters { packets_in: u64::MAX, duplicated: 1, ..LinkCounters::default() };
        assert_eq!(counters.accounts(), None);
    }

    #[test]
    fn rows_and_values_are_in_one_order() {
        let counters = LinkCounters { packets_in: 1, carried: 10, ..LinkCounters::default() };
        let value = |name| {
            let at = LinkCounters::ROWS.iter().position(|row| row.name == name).unwrap();
            counters.values()[at]
        };
        assert_eq!((value("packets_in"), value("carried"), value("bytes_out")), (1, 10, 0));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn counters_and_reasons_are_one_object() {
        let mut counters = LinkCounters { packets_in: 2, ..LinkCounters::default() };
        counters.count_drop(DropReason::Denied);
        let value = serde_json::to_value(&counters).unwrap();
        assert_eq!((&value["packets_in"], &value["drops"]["denied"]), (&2.into(), &1.into()));
        assert_eq!(serde_json::from_value::<LinkCounters>(value).unwrap(), counters);
    }
}
