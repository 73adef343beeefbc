//! Finds out why packets departed late, from the accounting of the kernel and of the workers.
//!
//! The observer's thread takes a reading four times a second. A period between two readings counts
//! only if packets were late in that period. A worker that does not run cannot publish that it is
//! late. A period therefore lasts until every worker has made progress, and includes the period
//! before it if that one did not count.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use weir_core::Nanos;
use weir_core::stats::{LateCause, LateCauses};

use super::progress::Published;
use super::shared::Shared;

/// Takes readings, and adds up the causes of lateness.
#[derive(Debug)]
pub(super) struct Witness {
    shared: Arc<Shared>,
    /// The `cpu.stat` of the process's control group and of those above it.
    groups: Vec<PathBuf>,
    /// Whether the kernel limits real-time threads.
    limits_realtime: bool,
    /// The last two readings at which every worker had made progress, the older first.
    readings: Option<[Reading; 2]>,
    /// When the next reading is due.
    next: Nanos,
    causes: LateCauses,
}

/// The kernel's times, which only grow, and the numbers that the workers have published, at one
/// moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reading {
    at: Nanos,
    /// Time stolen from each processor, on average.
    stolen: Nanos,
    /// Time for which the control group was not allowed to run.
    throttled: Nanos,
    /// Time for which some program of the machine waited for a processor.
    pressure: Nanos,
    /// For each worker: time on a processor and time ready for one, if the kernel counts it, and
    /// the published numbers.
    workers: Vec<(Option<(Nanos, Nanos)>, Published)>,
}

impl Witness {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let setting = |name| fs::read_to_string(format!("/proc/sys/kernel/{name}"));
        let limits_realtime = limits_realtime(
            &setting("sched_rt_runtime_us").unwrap_or_default(),
            &setting("sched_rt_period_us").unwrap_or_default(),
        );
        Self {
            shared,
            groups: groups(&membership),
            limits_realtime,
            readings: None,
            next: Nanos::ZERO,
            causes: LateCauses::default(),
        }
    }

    /// Takes a reading if one is due.
    pub(super) fn look(&mut self, now: Nanos) {
        if now >= self.next {
            self.next = now.saturating_add(PERIOD);
            let reading = self.read(now);
            self.note(reading);
        }
    }

    /// Takes the last reading and returns the causes.
    pub(super) fn finish(mut self, now: Nanos) -> LateCauses {
        let reading = self.read(now);
        self.note(reading);
        self.causes
    }

    fn read(&self, at: Nanos) -> Reading {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let throttled = self.groups.iter().filter_map(|path| fs::read_to_string(path).ok());
        Reading {
            at,
            stolen: stolen(&text("/proc/stat")),
            throttled: throttled.map(|text| self::throttled(&text)).max().unwrap_or_default(),
            pressure: pressure(&text("/proc/pressure/cpu")),
            workers: self
                .shared
                .progress()
                .iter()
                .map(|worker| (worker.schedstat().and_then(read_schedstat), worker.take()))
                .collect(),
        }
    }

    fn note(&mut self, reading: Reading) {
        let Some([older, newer]) = &mut self.readings else {
            self.readings = Some([reading.clone(), reading]);
            return;
        };
        if !reading.has_progressed(newer) {
            // The workers have restarted the measurement of their longest turns, so the earlier
            // reading keeps the results for this period.
            newer.keep_longest(&reading);
            return;
        }
        if reading.late() > newer.late() {
            let longest = newer.longest().max(reading.longest());
            let span = reading.at.since(older.at);
            self.causes.add(span.0, judge(older, &reading, longest, self.limits_realtime));
            *older = reading.clone();
        } else {
            *older = newer.clone();
        }
        *newer = reading;
    }
}

impl Reading {
    /// Whether every worker has completed a round since an earlier reading.
    fn has_progressed(&self, earlier: &Self) -> bool {
        self.workers.iter().zip(&earlier.workers).all(|(now, then)| now.1.rounds > then.1.rounds)
    }

    fn late(&self) -> u64 {
        self.workers.iter().map(|worker| worker.1.late).sum()
    }

    fn longest(&self) -> Nanos {
        self.workers.iter().map(|worker| worker.1.longest).max().unwrap_or_default()
    }

    fn keep_longest(&mut self, other: &Self) {
        for (worker, other) in self.workers.iter_mut().zip(&other.workers) {
            worker.1.longest = worker.1.longest.max(other.1.longest);
        }
    }
}

/// The time that each cause took between two readings; 0 for a cause that took too little time to
/// make packets late.
fn judge(
    before: &Reading,
    after: &Reading,
    longest: Nanos,
    limits_realtime: bool,
) -> [(LateCause, u64); 5] {
    let span = after.at.since(before.at);
    let hypervisor = after.stolen.since(before.stolen);
    let group = after.throttled.since(before.throttled);
    let (mut waited, mut ran, mut known, mut realtime) = (Nanos::ZERO, Nanos::ZERO, false, false);
    // For each of these times, the largest of any worker counts.
    for ((now, published), (then, earlier)) in after.workers.iter().zip(&before.workers) {
        realtime |= published.realtime;
        if let (Some((ran_now, waited_now)), Some((ran_then, waited_then))) = (now, then) {
            known = true;
            waited = waited.max(waited_now.since(*waited_then));
            let spun = published.spun.since(earlier.spun);
            ran = ran.max(Nanos(ran_now.since(*ran_then).0.saturating_sub(spun.0)));
        }
    }
    if !known {
        waited = after.pressure.since(before.pressure);
    }
    // A worker also counts as waiting while its control group may not run. That time is subtracted.
    let waited = Nanos(waited.0.saturating_sub(group.0));
    let by_limit = realtime && limits_realtime && known && waited >= REALTIME_WAIT;
    let elsewhere = hypervisor.0 + group.0 + waited.0;
    let own = ran.0.saturating_sub(hypervisor.0);
    let turn = longest.0.min(ran.0).saturating_sub(elsewhere);
    let own = if own * 100 >= span.0 * BUSY_PERCENT { own } else { turn };
    let took = |cause, time: Nanos| (cause, if time >= SHORTEST { time.0 } else { 0 });
    [
        took(LateCause::Hypervisor, hypervisor),
        took(LateCause::GroupLimit, group),
        took(LateCause::RealtimeLimit, if by_limit { waited } else { Nanos::ZERO }),
        took(LateCause::Overload, if by_limit { Nanos::ZERO } else { waited }),
        took(LateCause::OwnWork, Nanos(own)),
    ]
}

/// The stolen time per processor, from `/proc/stat`: the eighth number of the line of all
/// processors, in hundredths of a second, divided by their number.
fn stolen(stat: &str) -> Nanos {
    let processor = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let processors = stat.lines().filter(processor).count().max(1) as u64;
    let all = stat.lines().find(|line| line.starts_with("cpu "));
    let ticks = all.and_then(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok());
    Nanos(ticks.unwrap_or(0).saturating_mul(TICK.0) / processors)
}

/// The time for which a control group was not allowed to run: `cpu.stat` of version 2 or 1.
fn throttled(stat: &str) -> Nanos {
    let value = |key: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
        line.trim().parse::<u64>().ok()
    };
    let micros = value("throttled_usec").map(|us| us.saturating_mul(1000));
    Nanos(micros.or(value("throttled_time")).unwrap_or(0))
}

/// The time for which some program waited for a processor, from `/proc/pressure/cpu`.
fn pressure(text: &str) -> Nanos {
    let some = text.lines().find(|line| line.starts_with("some "));
    let total = some.and_then(|line| line.split("total=").nth(1)?.trim().parse::<u64>().ok());
    Nanos(total.unwrap_or(0).saturating_mul(1000))
}

/// The time that a thread spent on a processor, and ready for one.
fn schedstat(text: &str) -> Option<(Nanos, Nanos)> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (ran, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((Nanos(ran), Nanos(waited)))
}

fn read_schedstat(file: &File) -> Option<(Nanos, Nanos)> {
    let mut text = [0; 96];
    let read = file.read_at(&mut text, 0).ok()?;
    schedstat(std::str::from_utf8(&text[..read]).ok()?)
}

/// Whether the kernel takes the processor away from real-time threads, by `sched_rt_runtime_us` and
/// `sched_rt_period_us`. A runtime of -1 lifts the limit.
fn limits_realtime(runtime: &str, period: &str) -> bool {
    match (runtime.trim().parse::<i64>(), period.trim().parse::<i64>()) {
        (Ok(runtime), Ok(period)) => runtime >= 0 && runtime < period,
        _ => false,
    }
}

/// The `cpu.stat` files of the control groups that contain the process, from `/proc/self/cgroup`,
/// the innermost first.
fn groups(membership: &str) -> Vec<PathBuf> {
    let of_processor = |line: &&str| {
        let controllers = line.split(':').nth(1).unwrap_or("-");
        controllers.is_empty() || controllers.split(',').any(|name| name == "cpu")
    };
    let mut files = Vec::new();
    for line in membership.lines().filter(of_processor) {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let root = PathBuf::from("/sys/fs/cgroup").join(controllers);
        let mut path = path.trim_start_matches('/');
        for _ in 0..MAX_LEVELS {
            files.push(root.join(path).join("cpu.stat"));
            if path.is_empty() {
                break;
            }
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    files
}

/// Time between two readings.
const PERIOD: Nanos = Nanos::from_millis(250);
/// A cause that took less time made no packet 1 ms late.
const SHORTEST: Nanos = Nanos::from_millis(1);
/// A real-time thread waits less than this, unless the kernel's limit or another real-time thread
/// holds it back.
const REALTIME_WAIT: Nanos = Nanos::from_millis(10);
/// A loop that is busy for this share of the time cannot keep up, because it rests for up to a
/// tenth of the time.
const BUSY_PERCENT: u64 = 85;
/// The unit of `/proc/stat`: `USER_HZ` is 100 on every machine that Weir runs on.
const TICK: Nanos = Nanos::from_millis(10);
/// Maximum number of levels of control groups at which limits are read.
const MAX_LEVELS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  3945074 2507687 895001 2109542 27026 0 51714 3931 0 0\n\
        cpu0 1983814 1237709 429566 1086351 7416 0 23376 1974 0 0\n\
        cpu1 1961260 1269977 465434 1023190 19609 0 28338 1957 0 0\n\
        intr 1 2 3\nctxt 9\nbtime 1\n";
    const PRESSURE: &str = "some avg10=6.79 avg60=4.01 avg300=4.10 total=27804424110\n\
        full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";

    #[test]
    fn recorded_files_are_read() {
        assert_eq!(stolen(STAT), Nanos::from_millis(39_310 / 2));
        assert_eq!(pressure(PRESSURE), Nanos::from_micros(27_804_424_110));
        assert_eq!(schedstat("1103329 64007 3\n"), Some((Nanos(1_103_329), Nanos(64_007))));
        let v2 = "usage_usec 9\nnr_periods 40\nnr_throttled 7\nthrottled_usec 612345\n";
        assert_eq!(throttled(v2), Nanos::from_micros(612_345));
        assert_eq!(
            throttled("nr_periods 4\nnr_throttled 1\nthrottled_time 77000\n"),
            Nanos(77_000)
        );
        assert!(limits_realtime("950000\n", "1000000\n"));
        assert!(!limits_realtime("-1\n", "1000000\n") && !limits_realtime("", ""));
    }

    #[test]
    fn files_that_are_missing_or_damaged_read_as_nothing() {
        for text in ["", "cpu", "cpu \ncpu0", "some total=", "some", "\0", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!((stolen(text), pressure(text)), (Nanos::ZERO, Nanos::ZERO), "{text:?}");
            assert_eq!((throttled(text), schedstat(text)), (Nanos::ZERO, None), "{text:?}");
        }
        let huge = format!("cpu  0 0 0 0 0 0 0 {}\ncpu0 1\n", u64::MAX);
        assert_eq!(stolen(&huge), Nanos::MAX);
    }

    #[test]
    fn the_groups_of_both_versions_are_found_with_those_above() {
        let names = |membership| -> Vec<String> {
            groups(membership).iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(
            names("0::/user.slice/run-1.scope\n"),
            [
                "/sys/fs/cgroup/user.slice/run-1.scope/cpu.stat",
                "/sys/fs/cgroup/user.slice/cpu.stat",
                "/sys/fs/cgroup/cpu.stat"
            ]
        );
        assert_eq!(
            names("4:memory:/a\n2:cpu,cpuacct:/docker/7\n"),
            [
                "/sys/fs/cgroup/cpu,cpuacct/docker/7/cpu.stat",
                "/sys/fs/cgroup/cpu,cpuacct/docker/cpu.stat",
                "/sys/fs/cgroup/cpu,cpuacct/cpu.stat"
            ]
        );
        assert!(names(&format!("0::{}", "/a".repeat(1000))).len() <= MAX_LEVELS);
    }

    /// A reading after a quarter of a second in which one worker ran for `ran` and waited for
    /// `waited` ms.
    fn reading(ran: u64, waited: u64) -> Reading {
        let accounting = Some((Nanos::from_millis(ran), Nanos::from_millis(waited)));
        Reading {
            at: Nanos::from_millis(250),
            workers: vec![(accounting, Published::default())],
            ..Reading::default()
        }
    }

    fn zero() -> Reading {
        Reading { at: Nanos::ZERO, ..reading(0, 0) }
    }

    /// The causes, with their times in ms.
    fn causes(after: &Reading, longest: u64) -> Vec<(LateCause, u64)> {
        judge(&zero(), after, Nanos::from_millis(longest), true)
            .into_iter()
            .filter(|&(_, time)| time > 0)
            .map(|(cause, time)| (cause, time / 1_000_000))
            .collect()
    }

    #[test]
    fn each_cause_is_told_apart() {
        assert_eq!(causes(&reading(20, 0), 0), []);
        let stolen = Reading { stolen: Nanos::from_millis(40), ..reading(20, 0) };
        assert_eq!(causes(&stolen, 40), [(LateCause::Hypervisor, 40)]);
        let group = Reading { throttled: Nanos::from_millis(60), ..reading(20, 60) };
        assert_eq!(causes(&group, 0), [(LateCause::GroupLimit, 60)]);
        assert_eq!(causes(&reading(20, 120), 110), [(LateCause::Overload, 120)]);
        let mut limited = reading(20, 50);
        limited.workers[0].1.realtime = true;
        assert_eq!(causes(&limited, 50), [(LateCause::RealtimeLimit, 50)]);
        // A real-time loop that waits less than `REALTIME_WAIT` waits for other work of the kernel.
        let mut other = reading(20, 5);
        other.workers[0].1.realtime = true;
        assert_eq!(causes(&other, 0), [(LateCause::Overload, 5)]);
        assert_eq!(causes(&reading(230, 0), 0), [(LateCause::OwnWork, 230)]);
        assert_eq!(causes(&reading(40, 0), 7), [(LateCause::OwnWork, 7)]);
        let mut spins = reading(230, 0);
        spins.workers[0].1.spun = Nanos::from_millis(200);
        assert_eq!(causes(&spins, 0), []);
        // A process that was stopped neither ran nor was ready.
        assert_eq!(causes(&reading(0, 0), 240), []);
    }

    #[test]
    fn without_accounting_of_threads_the_pressure_shows_an_overload() {
        let mut after = reading(0, 0);
        (after.workers[0].0, after.pressure) = (None, Nanos::from_millis(90));
        assert_eq!(causes(&after, 0), [(LateCause::Overload, 90)]);
    }

    #[test]
    fn only_periods_with_late_packets_count_and_a_stall_belongs_to_one() {
        let mut witness = Witness::new(Arc::new(Shared::new(1, 1)));
        let mut note = |ms: u64, rounds, late, waited| {
            let mut reading = reading(0, waited);
            reading.at = Nanos::from_millis(ms);
            (reading.workers[0].1.rounds, reading.workers[0].1.late) = (rounds, late);
            witness.note(reading);
        };
        note(0, 1, 0, 0);
        note(250, 9, 0, 70);
        note(500, 18, 0, 70);
        // The worker waits from here on; nothing is published before it runs.
        note(750, 18, 0, 70);
        note(1000, 18, 0, 70);
        note(1250, 30, 12, 670);
        note(1500, 40, 12, 900);
        let causes = witness.causes;
        assert_eq!((causes.periods(), causes.span_ns()), (1, 1_000_000_000));
        let ranked = causes.ranked();
        assert_eq!(
            (ranked.len(), ranked[0].cause, ranked[0].time_ns),
            (1, LateCause::Overload, 600_000_000)
        );
    }
}
