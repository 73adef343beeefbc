//! What a run measured: the one shape that every output format is made from.
//!
//! The driver fills these types; the formats only read them. [`RunResult::new`] checks the books:
//! for each link `packets_in + duplicated = packets_out + Σ drops + backlog_packets`, and a link
//! that breaks this is reported in the result's own warnings rather than shown as if it were right.

use std::collections::BTreeMap;

use weir_core::histogram::Histogram;
use weir_core::stats::{DropReason, LinkStats};

use crate::format;
use crate::series::Series;

/// What is known about a run besides its links.
#[derive(Clone, Debug, Default)]
pub struct RunInfo {
    /// Version of the program that measured.
    pub version: String,
    /// The command that ran, as words; empty when none did.
    pub command: Vec<String>,
    /// The command's exit code; `None` when there was no command or a signal ended it.
    pub exit_code: Option<i32>,
    /// When the run began: RFC 3339 text.
    pub started: String,
    /// How long it took, ns.
    pub duration_ns: u64,
    /// The seed that every random draw followed from.
    pub seed: u64,
    /// What the reader must know before trusting the figures.
    pub warnings: Vec<String>,
    /// What is useful to know and changes nothing.
    pub notes: Vec<String>,
}

/// What one direction of a link did.
#[derive(Clone, Debug, Default)]
pub struct LinkResult {
    /// Short name, such as `up`.
    pub name: String,
    /// Where its packets come from.
    pub from: String,
    /// Where they go to.
    pub to: String,
    /// The configuration as canonical text of the command language.
    pub spec: String,
    /// Rules decide what a packet goes through: the direction itself has neither rate nor delay,
    /// and that is not what was configured.
    pub by_rules: bool,
    /// Configured rate, bit/s; `None` when unlimited. For a trace, its mean.
    pub rate_bps: Option<u64>,
    /// Configured propagation delay, ns.
    pub delay_ns: u64,
    /// Configured random loss as a fraction (long-run mean); `None` when there is none.
    pub loss: Option<f64>,
    /// Packets submitted.
    pub packets_in: u64,
    /// Packets that left, duplicates included.
    pub packets_out: u64,
    /// Network-layer bytes submitted.
    pub bytes_in: u64,
    /// Network-layer bytes that left, duplicates included.
    pub bytes_out: u64,
    /// Packets still inside at the end.
    pub backlog_packets: u64,
    /// Most packets that ever waited in queues at once.
    pub peak_queue_packets: u64,
    /// Additional copies made.
    pub duplicated: u64,
    /// Packets that left with an inverted bit.
    pub corrupted: u64,
    /// Packets that skipped the delay line.
    pub reordered: u64,
    /// Lost packets by reason (the names of [`DropReason::name`]); reasons that did not occur are
    /// absent.
    pub drops: BTreeMap<String, u64>,
    /// Packets marked with congestion experienced, by reason.
    pub marks: BTreeMap<String, u64>,
    /// Time in the queue, ns.
    pub queue_ns: Histogram,
    /// Time from submission to intended release, ns.
    pub total_ns: Histogram,
    /// Actual minus intended release, ns. Empty where the clock is virtual.
    pub lateness_ns: Histogram,
    /// Traffic, drops and queue over time.
    pub series: Series,
}

impl LinkResult {
    /// The configured rate, in words.
    pub fn configured_rate(&self) -> String {
        let by_rate = || self.rate_bps.map_or("unlimited".to_owned(), format::exact_rate);
        if self.by_rules { BY_RULES.to_owned() } else { by_rate() }
    }

    /// The configured delay, in words.
    pub fn configured_delay(&self) -> String {
        if self.by_rules { BY_RULES.to_owned() } else { format::exact_duration(self.delay_ns) }
    }

    /// A link's results from the engine's statistics. `name` says which, `from` and `to` where its
    /// packets come from and go to; the configuration, the lateness and the series are the caller's
    /// to add.
    pub fn from_stats(name: &str, from: &str, to: &str, stats: &LinkStats) -> Self {
        let c = &stats.counters;
        let named = |(reason, n): (DropReason, u64)| (reason.name().to_owned(), n);
        Self {
            name: name.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            packets_in: c.packets_in,
            packets_out: c.packets_out,
            bytes_in: c.bytes_in,
            bytes_out: c.bytes_out,
            backlog_packets: c.backlog_packets,
            peak_queue_packets: c.peak_queue_packets,
            duplicated: c.duplicated,
            corrupted: c.corrupted,
            reordered: c.reordered,
            drops: c.reasons().drop_counts().iter().map(named).collect(),
            marks: c
                .reasons()
                .mark_counts()
                .iter()
                .map(|(reason, n)| (reason.name().to_owned(), n))
                .collect(),
            queue_ns: stats.queue_ns.clone(),
            total_ns: stats.total_ns.clone(),
            ..Self::default()
        }
    }

    /// Lost packets, all reasons together.
    pub fn total_drops(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Marks for all reasons.
    pub fn total_marks(&self) -> u64 {
        self.marks.values().sum()
    }

    /// Fraction of the submitted packets that random loss took (queue overflow and faults not
    /// counted); `None` without packets.
    pub fn measured_loss(&self) -> Option<f64> {
        let random = RANDOM_LOSS.iter().filter_map(|r| self.drops.get(r.name())).sum::<u64>();
        (self.packets_in > 0).then(|| random as f64 / self.packets_in as f64)
    }

    /// Mean rate of what left while the link was busy, bit/s; over `duration_ns` when no series was
    /// recorded. 0 without traffic.
    pub fn mean_out_bps(&self, duration_ns: u64) -> f64 {
        let span = match self.series.busy_ns() {
            0 => duration_ns,
            busy => busy,
        };
        if span == 0 { 0.0 } else { self.bytes_out as f64 * 8e9 / span as f64 }
    }

    /// Highest rate of what left over any full second, bit/s; `None` when no full second was
    /// recorded.
    pub fn peak_out_bps(&self) -> Option<u64> {
        self.series.peak_second_out().map(|bytes| bytes.saturating_mul(8))
    }

    /// Fraction of packets that left more than [`LATE_NS`] after their intended time (to within the
    /// histogram's 3.1 % of that bound); `None` where lateness was not measured.
    pub fn late_fraction(&self) -> Option<f64> {
        let late: u64 =
            self.lateness_ns.bins().filter(|bin| bin.low >= LATE_NS).map(|bin| bin.count).sum();
        (self.lateness_ns.count() > 0).then(|| late as f64 / self.lateness_ns.count() as f64)
    }

    /// Whether every packet is accounted for.
    pub fn balanced(&self) -> bool {
        self.accounts().is_some_and(|(came, went)| came == went)
    }

    /// Both sides of the identity; `None` when a sum overflows.
    fn accounts(&self) -> Option<(u64, u64)> {
        let came = self.packets_in.checked_add(self.duplicated)?;
        let drops = self.drops.values().try_fold(0u64, |sum, &n| sum.checked_add(n))?;
        Some((came, self.packets_out.checked_add(drops)?.checked_add(self.backlog_packets)?))
    }
}

/// What a rule matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleResult {
    /// Its number.
    pub number: u16,
    /// Its text in the command language, without the number.
    pub text: String,
    /// Packets that matched.
    pub packets: u64,
    /// Their network-layer bytes.
    pub bytes: u64,
}

/// What a pipe or scheduler did, over all its instances.
#[derive(Clone, Debug, Default)]
pub struct PipeResult {
    /// Its number.
    pub number: u16,
    /// Counters and latencies. A packet that goes through twice is counted twice.
    pub stats: LinkStats,
}

/// A run's results, with the books checked.
#[derive(Clone, Debug)]
pub struct RunResult {
    info: RunInfo,
    links: Vec<LinkResult>,
    rules: Vec<RuleResult>,
    pipes: Vec<PipeResult>,
}

impl RunResult {
    /// Puts a result together. A link whose packets do not add up, or that was released late, adds
    /// a warning.
    pub fn new(mut info: RunInfo, links: Vec<LinkResult>) -> Self {
        for link in links.iter().filter(|l| !l.balanced()) {
            let (came, went) = link.accounts().unwrap_or((u64::MAX, u64::MAX));
            info.warnings.push(format!(
                "link {}: the counters do not add up: {came} packets came in or were copied, {went} left, were dropped or are \
                 still inside; do not trust this link's figures, and please report this as a bug",
                link.name
            ));
        }
        for link in &links {
            if let Some(late) = link.late_fraction().filter(|&f| f >= LATE_WARNING) {
                info.warnings.push(format!(
                    "link {}: the machine could not keep up: {} of packets left more than 1 ms late",
                    link.name,
                    crate::format::percent(late)
                ));
            }
        }
        Self { info, links, rules: Vec::new(), pipes: Vec::new() }
    }

    /// Adds what rules, and the pipes and schedulers that they send packets to, have counted.
    #[must_use]
    pub fn with_rules(self, rules: Vec<RuleResult>, pipes: Vec<PipeResult>) -> Self {
        Self { rules, pipes, ..self }
    }

    /// The rules in their order; empty where there were none.
    pub fn rules(&self) -> &[RuleResult] {
        &self.rules
    }

    /// The rules' pipes and schedulers in the order of their numbers; empty where there were no
    /// rules.
    pub fn pipes(&self) -> &[PipeResult] {
        &self.pipes
    }

    /// What is known besides the links, with the warnings that the check added.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// The links, in the order given.
    pub fn links(&self) -> &[LinkResult] {
        &self.links
    }
}

/// A packet that leaves this much after its intended time counts as late: no emulated path of
/// interest is finer.
pub const LATE_NS: u64 = 1_000_000;
/// Fraction of late packets from which a run's timing is not to be trusted: the 99th percentile is
/// then late.
pub const LATE_WARNING: f64 = 0.01;
/// What is configured where rules decide.
const BY_RULES: &str = "by rules";
/// The reasons that mean configured random loss.
const RANDOM_LOSS: [DropReason; 3] =
    [DropReason::LossBeforeQueue, DropReason::LossOnLink, DropReason::Profile];

#[cfg(test)]
mod tests {
    use weir_core::stats::MarkReason;

    use super::*;

    fn link(packets_in: u64, packets_out: u64) -> LinkResult {
        LinkResult { name: "up".into(), packets_in, packets_out, ..LinkResult::default() }
    }

    #[test]
    fn books_that_balance_add_no_warning() {
        let mut l = link(10, 9);
        l.duplicated = 2;
        l.backlog_packets = 1;
        l.drops.insert("queue_full".into(), 2);
        assert!(RunResult::new(RunInfo::default(), vec![l]).info().warnings.is_empty());
    }

    #[test]
    fn books_that_do_not_balance_are_said_loudly() {
        let run = RunResult::new(RunInfo::default(), vec![link(10, 9)]);
        assert_eq!(run.info().warnings.len(), 1);
        assert!(
            run.info().warnings[0].contains("10 packets came in or were copied, 9 left"),
            "{:?}",
            run.info().warnings
        );
        let run = RunResult::new(
            RunInfo::default(),
            vec![LinkResult { duplicated: 1, ..link(u64::MAX, 0) }],
        );
        assert_eq!(run.info().warnings.len(), 1, "an overflow must not pass for balance");
    }

    #[test]
    fn lateness_becomes_a_warning_at_one_percent() {
        for (late, warns) in [(0, false), (5, false), (10, true), (31, true)] {
            let mut l = link(1000, 1000);
            (0..1000).for_each(|i| l.lateness_ns.record(if i < late { 5_000_000 } else { 20_000 }));
            assert_eq!(
                RunResult::new(RunInfo::default(), vec![l]).info().warnings.len(),
                usize::from(warns),
                "{late}"
            );
        }
    }

    #[test]
    fn engine_statistics_convert_with_reasons_by_name() {
        let mut stats = LinkStats::default();
        stats.counters.packets_in = 3;
        stats.counters.packets_out = 1;
        stats.counters.count_drop(DropReason::QueueFull);
        stats.counters.count_drop(DropReason::LossOnLink);
        stats.counters.count_mark(MarkReason::Early);
        let l = LinkResult::from_stats("up", "a", "b", &stats);
        assert!(l.balanced());
        assert_eq!(l.drops, [("loss_on_link".to_owned(), 1), ("queue_full".to_owned(), 1)].into());
        assert_eq!(l.marks, [("early".to_owned(), 1)].into());
        assert_eq!(l.measured_loss(), Some(1.0 / 3.0));
    }
}
