//! The results of a run: the common model of every output format.
//!
//! The driver fills these types; the formats only read them. [`RunResult::new`] checks that every
//! packet of each link is accounted for ([`LinkCounters::accounts`]). For each link that fails the
//! check, it adds a warning to the result.

use weir_measure::histogram::Histogram;
use weir_measure::series::LinkSeries;
use weir_measure::stats::{DropReason, LateCauseCount, LateCauses, LinkCounters, LinkStats};

use crate::format;

/// The properties of a run that do not belong to a link.
#[derive(Clone, Debug, Default)]
pub struct RunInfo {
    /// Version of the measuring program.
    pub version: String,
    /// The command of the run, as words; empty without a command.
    pub command: Vec<String>,
    /// The command's exit code; `None` when there was no command or a signal ended it.
    pub exit_code: Option<i32>,
    /// Start of the run, as RFC 3339 text.
    pub started: String,
    /// Duration of the run, ns.
    pub duration_ns: u64,
    /// The seed of all random draws.
    pub seed: u64,
    /// Warnings about the validity of the results.
    pub warnings: Vec<String>,
    /// Useful information that does not affect the results.
    pub notes: Vec<String>,
}

/// The results of one direction of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkResult {
    /// Short name, such as `up`.
    pub name: String,
    /// The end that sends packets into the link.
    pub from: String,
    /// The end to which the link delivers packets.
    pub to: String,
    /// The configuration as canonical text of the command language.
    pub spec: String,
    /// Whether rules select the path of each packet. The direction itself then has no configured
    /// rate or delay.
    pub by_rules: bool,
    /// Configured rate, bit/s; `None` when unlimited, even for a part of the time. If it changes,
    /// its mean while packets are counted.
    pub rate_bps: Option<u64>,
    /// Whether the configured rate changes.
    pub rate_varies: bool,
    /// Configured propagation delay, ns. If it changes, its mean while packets are counted.
    pub delay_ns: u64,
    /// Whether the configured delay changes.
    pub delay_varies: bool,
    /// Configured random loss as a fraction (long-run mean); `None` when there is none.
    pub loss: Option<f64>,
    /// Whether the configured loss changes, so that it is a mean over time.
    pub loss_varies: bool,
    /// The counters.
    pub counters: LinkCounters,
    /// Queueing delay, ns.
    pub queue_ns: Histogram,
    /// Time from arrival to due time, ns.
    pub total_ns: Histogram,
    /// Lateness, ns: actual departure minus due time. Empty where the clock is virtual.
    pub lateness_ns: Histogram,
    /// Traffic, drops and backlog over time.
    pub series: LinkSeries,
}

impl LinkResult {
    /// The configured rate as readable text.
    pub fn configured_rate(&self) -> String {
        let by_rate = || format::configured_rate(self.rate_bps, self.rate_varies);
        if self.by_rules { BY_RULES.to_owned() } else { by_rate() }
    }

    /// The configured delay as readable text.
    pub fn configured_delay(&self) -> String {
        let by_delay = || match self.delay_varies {
            true => format!("{} mean", format::duration(self.delay_ns as f64)),
            false => format::exact_duration(self.delay_ns),
        };
        if self.by_rules { BY_RULES.to_owned() } else { by_delay() }
    }

    /// The configured random loss as readable text; `None` without loss.
    pub fn configured_loss(&self) -> Option<String> {
        let mean = if self.loss_varies { " mean" } else { "" };
        self.loss.map(|loss| format!("{}{mean}", format::percent(loss)))
    }

    /// A link's results from the engine's statistics. `name` identifies the link, which carries
    /// packets from the end `from` to the end `to`. The caller adds the configuration, the lateness
    /// and the series.
    pub fn from_stats(name: &str, from: &str, to: &str, stats: &LinkStats) -> Self {
        Self {
            name: name.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            counters: stats.counters.clone(),
            queue_ns: stats.queue_ns.clone(),
            total_ns: stats.total_ns.clone(),
            ..Self::default()
        }
    }

    /// The packets that reached the configured random loss, and the packets that it dropped. `None`
    /// if no packet reached the loss, for example because a full queue dropped all packets.
    pub fn measured_loss(&self) -> Option<MeasuredLoss> {
        let drawn = self.counters.loss_draws;
        let lost = self.counters.drops(DropReason::LossOnLink);
        (drawn > 0).then_some(MeasuredLoss { lost, drawn })
    }

    /// Mean output rate, bit/s: over the time for which the link was busy, or over `duration_ns` if
    /// no series was recorded. 0 without traffic, and at most [`Self::peak_out_bps`].
    pub fn mean_out_bps(&self, duration_ns: u64) -> f64 {
        let span = match self.series.busy_ns() {
            0 => duration_ns,
            busy => busy,
        };
        let mean = if span == 0 { 0.0 } else { self.counters.bytes_out as f64 * 8e9 / span as f64 };
        self.peak_out_bps().map_or(mean, |peak| mean.min(peak as f64))
    }

    /// Highest output rate over any full second, bit/s; `None` if no full second was recorded.
    pub fn peak_out_bps(&self) -> Option<u64> {
        self.series.peak_second_out().map(|bytes| bytes.saturating_mul(8))
    }

    /// The number of packets that departed more than [`LATE_NS`] after their due time; `None` if
    /// lateness was not measured. The histogram's bins make the bound inexact by up to 3.1 %.
    pub fn late(&self) -> Option<Late> {
        let late: u64 =
            self.lateness_ns.bins().filter(|bin| bin.low >= LATE_NS).map(|bin| bin.count).sum();
        let departed = self.lateness_ns.count();
        (departed > 0).then_some(Late { packets: late, departed })
    }
}

/// The packets that reached the random loss on a link, and those that the loss dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredLoss {
    /// Packets that random loss dropped.
    pub lost: u64,
    /// All packets that reached the random loss, lost or not; at least 1.
    pub drawn: u64,
}

impl MeasuredLoss {
    /// The fraction of packets that were lost.
    pub fn fraction(self) -> f64 {
        self.lost as f64 / self.drawn as f64
    }

    /// The counts, such as `38 of 284`.
    pub fn counts(self) -> String {
        format!("{} of {}", format::count(self.lost), format::count(self.drawn))
    }
}

/// The number of packets that departed late, among all departures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// Packets that departed more than [`LATE_NS`] after their due time.
    pub packets: u64,
    /// All packets that departed; at least 1.
    pub departed: u64,
}

impl Late {
    /// The fraction of packets that were late.
    pub fn fraction(self) -> f64 {
        self.packets as f64 / self.departed as f64
    }

    /// Whether the timing of the link is not reliable: at least [`LATE_WARNING`] of the packets and
    /// at least [`LATE_PACKETS_WARNING`] packets were late.
    pub fn is_too_much(self) -> bool {
        self.packets >= LATE_PACKETS_WARNING && self.fraction() >= LATE_WARNING
    }

    /// The count and its share, such as `31 of 1,000 packets (3.1 %)`.
    pub fn in_words(self) -> String {
        let (late, all) = (format::count(self.packets), format::count(self.departed));
        format!("{late} of {all} packets ({})", format::percent(self.fraction()))
    }
}

/// The counters of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleResult {
    /// The rule's number.
    pub number: u16,
    /// The rule's text in the command language, without the number.
    pub text: String,
    /// Packets that matched.
    pub packets: u64,
    /// Network-layer bytes of these packets.
    pub bytes: u64,
}

/// The results of a pipe or scheduler, over all its instances.
#[derive(Clone, Debug, Default)]
pub struct PipeResult {
    /// The number of the pipe or scheduler.
    pub number: u16,
    /// Counters and delays. A packet that passes twice is counted twice.
    pub stats: LinkStats,
}

/// The results of a run, with checked accounting.
#[derive(Clone, Debug)]
pub struct RunResult {
    info: RunInfo,
    links: Vec<LinkResult>,
    rules: Vec<RuleResult>,
    pipes: Vec<PipeResult>,
    late_causes: LateCauses,
}

impl RunResult {
    /// Combines the parts of a result. Adds a warning for each link that does not account for all
    /// packets, and for each link with too many late packets ([`Late::is_too_much`]).
    pub fn new(mut info: RunInfo, links: Vec<LinkResult>) -> Self {
        for link in &links {
            let (arrived, accounted) = link.counters.accounts().unwrap_or((u64::MAX, u64::MIN));
            if arrived == accounted {
                continue;
            }
            info.warnings.push(format!(
                "link {}: the counters do not add up: {arrived} packets arrived or were copied, \
                 {accounted} departed, were dropped or are still inside; do not trust this link's \
                 statistics, and please report this as a bug",
                link.name
            ));
        }
        for link in &links {
            if let Some(late) = link.late().filter(|late| late.is_too_much()) {
                info.warnings.push(format!(
                    "link {}: the machine could not keep up: {} left more than 1 ms late",
                    link.name,
                    late.in_words()
                ));
            }
        }
        let (rules, pipes) = (Vec::new(), Vec::new());
        Self { info, links, rules, pipes, late_causes: LateCauses::default() }
    }

    /// Adds the causes of lateness. If the timing of a link is not reliable, a warning names the
    /// causes, and the remedy for the greatest of them.
    #[must_use]
    pub fn with_late_causes(mut self, late_causes: LateCauses) -> Self {
        let too_late =
            self.links.iter().filter_map(LinkResult::late).any(|late| late.is_too_much());
        if let Some(why) = why_late(&late_causes).filter(|_| too_late) {
            self.info.warnings.push(why);
        }
        Self { late_causes, ..self }
    }

    /// Why packets departed late; empty if no packet was late, or if causes were not measured.
    pub fn late_causes(&self) -> &LateCauses {
        &self.late_causes
    }

    /// Adds the counters of the rules, and of the pipes and schedulers to which rules send packets.
    #[must_use]
    pub fn with_rules(self, rules: Vec<RuleResult>, pipes: Vec<PipeResult>) -> Self {
        Self { rules, pipes, ..self }
    }

    /// The rules in their order; empty without rules.
    pub fn rules(&self) -> &[RuleResult] {
        &self.rules
    }

    /// The rules' pipes and schedulers in the order of their numbers; empty without rules.
    pub fn pipes(&self) -> &[PipeResult] {
        &self.pipes
    }

    /// The properties of the run, including the warnings of [`RunResult::new`].
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// The links, in the order given.
    pub fn links(&self) -> &[LinkResult] {
        &self.links
    }
}

/// The causes of lateness in a sentence, and the remedy for the greatest; `None` without a cause.
pub fn why_late(causes: &LateCauses) -> Option<String> {
    let ranked = causes.ranked();
    let greatest = ranked.first()?.cause;
    let of_each = |count: &LateCauseCount| {
        format!("{} {}", count.cause.words(), format::duration(count.time_ns as f64))
    };
    let list: Vec<String> = ranked.iter().map(of_each).collect();
    let span = format::duration(causes.span_ns() as f64);
    Some(format!(
        "why packets left late: in the {span} in which some did, {}; what helps: {}",
        list.join(", "),
        greatest.remedy()
    ))
}

/// The lateness above which a packet counts as late: 1 ms is short against the delays of the paths
/// that are usually emulated.
pub const LATE_NS: u64 = 1_000_000;
/// The timing of a link is not reliable if at least this fraction of its packets is late.
pub const LATE_WARNING: f64 = 0.01;
/// With fewer late packets than this, the timing of a link counts as reliable. A single pause of
/// the machine may delay a few packets; in a run of a few hundred packets, these exceed
/// [`LATE_WARNING`].
pub const LATE_PACKETS_WARNING: u64 = 5;
/// The text that is shown in place of the configured rate and delay if rules select the path.
const BY_RULES: &str = "by rules";

#[cfg(test)]
mod tests {
    use weir_measure::stats::LateCause;

    use super::*;

    fn link(packets_in: u64, packets_out: u64) -> LinkResult {
        let mut link = LinkResult { name: "up".into(), ..LinkResult::default() };
        (link.counters.packets_in, link.counters.packets_out) = (packets_in, packets_out);
        link
    }

    #[test]
    fn accounts_that_balance_add_no_warning() {
        let mut l = link(10, 9);
        l.counters.duplicated = 2;
        l.counters.backlog_packets = 1;
        (0..2).for_each(|_| l.counters.count_drop(DropReason::QueueFull));
        assert!(RunResult::new(RunInfo::default(), vec![l]).info().warnings.is_empty());
    }

    #[test]
    fn accounts_that_do_not_balance_are_a_warning() {
        let run = RunResult::new(RunInfo::default(), vec![link(10, 9)]);
        assert_eq!(run.info().warnings.len(), 1);
        assert!(
            run.info().warnings[0].contains("10 packets arrived or were copied, 9 departed"),
            "{:?}",
            run.info().warnings
        );
        let mut overflown = link(u64::MAX, 0);
        overflown.counters.duplicated = 1;
        let run = RunResult::new(RunInfo::default(), vec![overflown]);
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
    fn the_causes_of_lateness_are_named_where_the_timing_is_not_reliable() {
        let mut causes = LateCauses::default();
        causes.add(500_000_000, [(LateCause::Hypervisor, 40_000_000)]);
        causes.add(500_000_000, [(LateCause::Overload, 320_000_000)]);
        for (late, warns) in [(0, false), (1, false), (31, true)] {
            let mut l = link(1000, 1000);
            (0..1000).for_each(|i| l.lateness_ns.record(if i < late { 5_000_000 } else { 20_000 }));
            let run = RunResult::new(RunInfo::default(), vec![l]).with_late_causes(causes.clone());
            let why = run.info().warnings.iter().find(|warning| warning.starts_with("why"));
            assert_eq!(why.is_some(), warns, "{late}");
            assert_eq!(run.late_causes(), &causes);
            let Some(why) = why else { continue };
            assert_eq!(
                why,
                "why packets left late: in the 1 s in which some did, other programs had the \
                 processor while the loop was ready for 320 ms, the hypervisor took each processor \
                 away for 40 ms; what helps: fewer busy programs, real-time priority (`weir \
                 doctor`), or `--cpu` with a free processor"
            );
        }
        assert_eq!(why_late(&LateCauses::default()), None);
    }

    #[test]
    fn a_few_late_packets_of_a_small_sample_give_no_warning() {
        for (late, warns) in [(0, false), (1, false), (4, false), (5, true), (61, true)] {
            let mut l = link(61, 61);
            (0..61).for_each(|i| l.lateness_ns.record(if i < late { 5_000_000 } else { 20_000 }));
            let counted = l.late().expect("lateness was measured");
            assert_eq!((counted.packets, counted.departed), (late, 61));
            let run = RunResult::new(RunInfo::default(), vec![l]);
            let words = format!("{late} of 61 packets");
            assert_eq!(run.info().warnings.iter().any(|w| w.contains(&words)), warns, "{late}");
            assert_eq!(run.info().warnings.len(), usize::from(warns), "{late}");
        }
    }

    #[test]
    fn the_mean_rate_is_at_most_the_peak() {
        use weir_measure::series::{LinkRecorder, QueueState};
        let second = 1_000_000_000u64;
        // The departure times of packets of 1000 bytes, and the length of the recording, in ms.
        for (times, end) in [
            (&[0][..], 10_000),
            (&[0, 1, 2, 3], 30_000),
            (&[0, 1, 2, 1050], 5_000),
            (&[100, 101, 6000, 6001, 12_000, 12_001], 20_000),
            (&[1003, 1004], 1_005),
            (&[0, 995], 996),
        ] {
            let mut recorder = LinkRecorder::with_period(0, second / 100, 1000);
            let mut l = link(0, 0);
            for ms in 0..=end {
                let now = times.iter().filter(|&&time| time == ms).count() as u64;
                l.counters.packets_out += now;
                l.counters.bytes_out += 1000 * now;
                recorder.observe(ms * 1_000_000, &l.counters, QueueState::default());
            }
            l.series = recorder.series();
            let (mean, peak) = (l.mean_out_bps(end * 1_000_000), l.peak_out_bps());
            assert!(mean > 0.0, "{times:?}");
            assert_eq!(peak.is_some(), end >= 1000, "{times:?}");
            assert!(peak.is_none_or(|peak| mean <= peak as f64), "{times:?}: {mean} {peak:?}");
        }
    }

    #[test]
    fn random_loss_is_a_share_of_the_packets_that_reach_it() {
        let mut l = link(2303, 246);
        (0..2019).for_each(|_| l.counters.count_drop(DropReason::QueueFull));
        (0..38).for_each(|_| l.counters.count_drop(DropReason::LossOnLink));
        l.counters.loss_draws = 284;
        assert!(l.counters.balanced());
        let measured = l.measured_loss().expect("packets reached the loss");
        assert_eq!((measured.fraction(), measured.counts()), (38.0 / 284.0, "38 of 284".into()));
        assert_eq!(link(3, 3).measured_loss(), None);
    }
}
