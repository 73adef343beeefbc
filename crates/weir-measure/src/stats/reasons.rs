//! The reasons of drops and marks: a row for each reason, and counts by reason.
//!
//! A row holds the variant, its name in results, its name in words, and its meaning. JSON, its
//! schema, summaries, metrics and the documentation are generated from these rows. A new reason
//! needs a row here and the code that counts it.

/// Defines an enum of reasons and counts by reason from rows.
macro_rules! reasons {
    (
        $(#[$doc:meta])* $name:ident;
        $(#[$counts_doc:meta])* $counts:ident;
        $($variant:ident, $text:literal, $words:literal, $meaning:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = $meaning] $variant,)*
        }

        impl $name {
            /// All reasons, in the order of their counters.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// The reason's name in results.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// The reason in words, for summaries and reports.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$variant => $words,)*
                }
            }

            /// The reason in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                }
            }

            /// The reason with this name; `None` if the name is unknown.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|reason| reason.name() == name)
            }
        }

        $(#[$counts_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $counts([u64; $name::ALL.len()]);

        impl $counts {
            /// Packets counted for one reason.
            #[inline]
            pub fn get(&self, reason: $name) -> u64 {
                self.0[reason as usize]
            }

            /// Packets counted for all reasons.
            pub fn total(&self) -> u64 {
                self.0.iter().sum()
            }

            /// Whether no packet was counted.
            pub fn is_empty(&self) -> bool {
                self.0.iter().all(|&count| count == 0)
            }

            /// Counts packets for a reason.
            #[inline]
            pub fn add(&mut self, reason: $name, packets: u64) {
                self.0[reason as usize] += packets;
            }

            /// Adds the counts of another part of the same link.
            pub fn merge(&mut self, other: &Self) {
                for (count, more) in self.0.iter_mut().zip(other.0) {
                    *count += more;
                }
            }

            fn map_both(&self, other: &Self, mut count: impl FnMut(u64, u64) -> u64) -> Self {
                Self(core::array::from_fn(|at| count(self.0[at], other.0[at])))
            }

            /// The reasons that occurred, with their counts, in the order of [`Self::of_all`].
            pub fn iter(&self) -> impl Iterator<Item = ($name, u64)> + '_ {
                self.of_all().filter(|&(_, count)| count > 0)
            }

            /// The reasons that occurred, in words, with their counts.
            pub fn in_words(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                self.iter().map(|(reason, count)| (reason.words(), count))
            }

            /// Every reason with its count.
            pub fn of_all(&self) -> impl Iterator<Item = ($name, u64)> + '_ {
                $name::ALL.into_iter().zip(self.0)
            }
        }

        impl FromIterator<($name, u64)> for $counts {
            fn from_iter<I: IntoIterator<Item = ($name, u64)>>(counts: I) -> Self {
                let mut all = Self::default();
                counts.into_iter().for_each(|(reason, packets)| all.add(reason, packets));
                all
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = alloc::string::String::deserialize(deserializer)?;
                Self::from_name(&name).ok_or_else(|| {
                    serde::de::Error::custom(alloc::format!("{name} is no reason"))
                })
            }
        }

        /// Serializes as an object with a key for each reason that occurred, in the order of the
        /// names.
        #[cfg(feature = "serde")]
        impl serde::Serialize for $counts {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let named = self.iter().map(|(reason, count)| (reason.name(), count));
                named.collect::<BTreeMap<_, _>>().serialize(serializer)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $counts {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(BTreeMap::<$name, u64>::deserialize(deserializer)?.into_iter().collect())
            }
        }
    };
}

#[cfg(feature = "serde")]
use alloc::collections::BTreeMap;

reasons! {
    /// Why a packet did not arrive.
    DropReason;
    /// Dropped packets by reason.
    DropCounts;
    QueueFull, "queue_full", "queue full", "The queue was full.";
    LossBeforeQueue, "loss_before_queue", "random loss before the queue",
        "Random loss before the queue (`plr`).";
    LossOnLink, "loss_on_link", "random loss on the link", "Random loss on the link (`loss`).";
    Profile, "profile", "loss level of the profile", "The air-time profile's loss level.";
    NoMemory, "no_memory", "out of memory",
        "The engine or the driver had no room for another packet.";
    TooManyFlows, "too_many_flows", "too many flows",
        "The limit on queues or links that are made on demand was reached.";
    NoSuchPipe, "no_such_pipe", "no such pipe",
        "The pipe or queue is not configured, or was deleted.";
    SendFailed, "send_failed", "could not be sent",
        "The driver could not write the frame to its destination.";
    BadFrame, "bad_frame", "bad frame", "The frame was malformed.";
    Denied, "denied", "denied", "A rule denied the packet.";
    RuleLoop, "rule_loop", "rule loop", "Rules sent the packet in a loop.";
    HandOver, "hand_over", "no room at the worker that owns the queue",
        "The ring to the worker that owns the packet's queue was full.";
    Scheduler, "scheduler", "no room in the scheduler",
        "The scheduler has a bound of its own and had no room for the packet.";
    Early, "early", "early, by a random decision of the AQM",
        "A random decision of an AQM before the queue was full.";
    Forced, "forced", "forced by the AQM",
        "In the present state of the queue, the AQM drops every packet.";
    Target, "target", "waited above the AQM's target",
        "The sojourn time had exceeded the target for too long.";
    Overlimit, "overlimit", "from the fattest flow at the common limit",
        "The queues of a scheduler were full together, and the packet's queue was the fattest.";
    Penalty, "penalty", "from a flow that does not respond",
        "The flow does not respond to drops, and the AQM limits it to a small rate.";
    AckFilter, "ack_filter", "needless acknowledgement",
        "A later acknowledgement makes this one needless.";
    DeviceFull, "device_full", "no room in the device behind the scheduler",
        "A stage of the device behind the scheduler was full.";
    RetryLimit, "retry_limit", "given up after the last retry",
        "A station of a shared medium gave the packet up after the last permitted retry.";
    TooLong, "too_long", "too long for the outgoing interface",
        "The frame is longer than the MTU of the interface that would send it.";
}

reasons! {
    /// Why a packet was marked with congestion experienced.
    MarkReason;
    /// Marked packets by reason.
    MarkCounts;
    Early, "early", "early, by a random decision of the AQM",
        "A random decision of an AQM before the queue was full.";
    Forced, "forced", "forced by the AQM",
        "In the present state of the queue, the AQM would drop every packet.";
    Target, "target", "waited above the AQM's target",
        "The sojourn time had exceeded the target for too long.";
    CeThreshold, "ce_threshold", "waited above the threshold for marks",
        "The sojourn time had exceeded the threshold for marks.";
    Step, "step", "above the step of L4S", "The queue of the L4S service was above its step.";
    Coupled, "coupled", "coupled, for L4S", "The coupled probability of the L4S service.";
}

/// Drops and marks by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reasons {
    /// Dropped packets by reason; reasons that did not occur are absent.
    #[cfg_attr(feature = "serde", serde(default))]
    drops: DropCounts,
    /// Packets marked with congestion experienced, by reason.
    #[cfg_attr(feature = "serde", serde(default))]
    marks: MarkCounts,
}

impl Reasons {
    /// Drops for one reason.
    #[inline]
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops.get(reason)
    }

    /// Marks for one reason.
    #[inline]
    pub fn marks(&self, reason: MarkReason) -> u64 {
        self.marks.get(reason)
    }

    /// Drops for all reasons.
    pub fn total_drops(&self) -> u64 {
        self.drops.total()
    }

    /// Marks for all reasons.
    pub fn total_marks(&self) -> u64 {
        self.marks.total()
    }

    /// Counts a drop.
    #[inline]
    pub fn count_drop(&mut self, reason: DropReason) {
        self.drops.add(reason, 1);
    }

    /// Counts a mark.
    #[inline]
    pub fn count_mark(&mut self, reason: MarkReason) {
        self.marks.add(reason, 1);
    }

    /// Adds the counts of another part of the same link.
    pub fn merge(&mut self, other: &Self) {
        self.drops.merge(&other.drops);
        self.marks.merge(&other.marks);
    }

    /// Applies `count` to the two counts of each reason.
    #[must_use]
    pub fn map_both(&self, other: &Self, count: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            drops: self.drops.map_both(&other.drops, &count),
            marks: self.marks.map_both(&other.marks, &count),
        }
    }

    /// Drops by reason.
    pub fn drop_counts(&self) -> &DropCounts {
        &self.drops
    }

    /// Marks by reason.
    pub fn mark_counts(&self) -> &MarkCounts {
        &self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_words_are_readable() {
        let drops = DropReason::ALL.map(|reason| (reason.name(), reason.words()));
        let marks = MarkReason::ALL.map(|reason| (reason.name(), reason.words()));
        for rows in [&drops[..], &marks[..]] {
            for (at, (name, words)) in rows.iter().enumerate() {
                assert!(rows[..at].iter().all(|(other, _)| other != name), "{name}");
                assert!(!words.contains('_') && words.len() > 5, "{name}: {words}");
            }
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn counts_are_written_by_name_and_read_back() {
        let mut reasons = Reasons::default();
        reasons.count_drop(DropReason::QueueFull);
        reasons.count_drop(DropReason::Denied);
        reasons.count_mark(MarkReason::Step);
        let text = serde_json::to_string(&reasons).unwrap();
        assert_eq!(text, r#"{"drops":{"denied":1,"queue_full":1},"marks":{"step":1}}"#);
        assert_eq!(serde_json::from_str::<Reasons>(&text).unwrap(), reasons);
        assert!(serde_json::from_str::<Reasons>(r#"{"drops":{"bad_luck":1}}"#).is_err());
    }
}
