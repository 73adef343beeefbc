//! Why packets departed late: a row for each cause, and the time that each cause took in the
//! periods in which packets were late.
//!
//! A row holds the variant, its name in results, its effect as a phrase, the remedy, and its
//! meaning. Summaries, reports, results documents and their schema are generated from the rows. The
//! live loop measures the times.

use alloc::vec::Vec;

/// Defines the causes from rows.
macro_rules! causes {
    ($($variant:ident, $name:literal, $words:literal, $remedy:literal, $meaning:literal;)*) => {
        /// A cause that kept a live loop from sending packets on time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum LateCause {
            $(#[doc = $meaning] $variant,)*
        }

        impl LateCause {
            /// All causes.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The cause's name in results.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The effect of the cause as a phrase. A message continues the phrase with the time
            /// that the cause took.
            pub const fn words(self) -> &'static str {
                match self { $(Self::$variant => $words,)* }
            }

            /// The remedy.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }

            /// The cause and its measurement, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

causes! {
    Hypervisor, "hypervisor", "the hypervisor took each processor away for",
        "a machine with processors of its own",
        "The hypervisor ran something else: stolen time of `/proc/stat`, for each processor.";
    GroupLimit, "group_limit", "the limit of the control group stopped Weir for",
        "a higher `cpu.max` of the control group or container",
        "The control group had used its share of the processors: `cpu.stat`.";
    RealtimeLimit, "realtime_limit",
        "the kernel's limit for real-time threads, or another real-time thread, held the loop for",
        "`sysctl kernel.sched_rt_runtime_us=-1`, and less traffic",
        "The loop had real-time priority and was ready, but waited for at least 10 ms: `schedstat`.";
    Overload, "overload", "other programs had the processor while the loop was ready for",
        "fewer busy programs, real-time priority (`weir doctor`), or `--cpu` with a free processor",
        "The loop was ready and waited for a processor: `schedstat`, or `/proc/pressure/cpu`.";
    OwnWork, "own_work", "the loop itself was busy for",
        "less traffic, `gso whole`, or `--workers`",
        "The loop was busy at least 85 % of the time, or for 1 ms without reading the clock.";
    Unknown, "unknown", "no cause was found for",
        "a look at the machine: suspended, stopped by a signal, or a hypervisor that hides its steal",
        "None of the other causes took 1 ms.";
}

/// The time that each cause took while packets were late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateCauses {
    periods: u64,
    span_ns: u64,
    /// For each cause, the number of periods in which it occurred, and its time in ns.
    counts: [(u64, u64); LateCause::ALL.len()],
}

/// A cause with its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateCauseCount {
    /// The cause.
    pub cause: LateCause,
    /// The number of periods in which the cause took at least 1 ms.
    pub periods: u64,
    /// The time that the cause took in these periods, ns.
    pub time_ns: u64,
}

impl LateCauses {
    /// Adds a period of `span_ns` in which packets were late. `took_ns` has the time that each
    /// cause took, 0 for a cause that took none or too little to matter.
    pub fn add(&mut self, span_ns: u64, took_ns: impl IntoIterator<Item = (LateCause, u64)>) {
        self.periods += 1;
        self.span_ns += span_ns;
        let mut any = false;
        for (cause, time_ns) in took_ns.into_iter().filter(|&(_, time_ns)| time_ns > 0) {
            any = true;
            self.count(cause, time_ns);
        }
        if !any {
            self.count(LateCause::Unknown, span_ns);
        }
    }

    fn count(&mut self, cause: LateCause, time_ns: u64) {
        let (periods, total) = &mut self.counts[cause as usize];
        *periods += 1;
        *total += time_ns;
    }

    /// The number of periods in which packets were late.
    pub fn periods(&self) -> u64 {
        self.periods
    }

    /// The total length of the periods in which packets were late, ns.
    pub fn span_ns(&self) -> u64 {
        self.span_ns
    }

    /// The causes that occurred, the one that took most time first.
    pub fn ranked(&self) -> Vec<LateCauseCount> {
        let count = |cause: LateCause| {
            let (periods, time_ns) = self.counts[cause as usize];
            LateCauseCount { cause, periods, time_ns }
        };
        let mut all: Vec<_> =
            LateCause::ALL.map(count).into_iter().filter(|count| count.periods > 0).collect();
        all.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then(a.cause.cmp(&b.cause)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_that_took_most_time_is_first() {
        let mut causes = LateCauses::default();
        causes.add(100, [(LateCause::Overload, 30), (LateCause::Hypervisor, 0)]);
        causes.add(100, [(LateCause::Hypervisor, 80), (LateCause::Overload, 10)]);
        causes.add(50, []);
        assert_eq!((causes.periods(), causes.span_ns()), (3, 250));
        let ranked: Vec<_> =
            causes.ranked().iter().map(|c| (c.cause, c.periods, c.time_ns)).collect();
        assert_eq!(
            ranked,
            [
                (LateCause::Hypervisor, 1, 80),
                (LateCause::Unknown, 1, 50),
                (LateCause::Overload, 2, 40)
            ]
        );
    }
}
