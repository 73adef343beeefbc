//! The cost of a packet in the emulator: in the classifier by number of rules, and in the engine by
//! number of pipes.
//!
//! [`Work`](work::Work) passes packets, without ports, through the same classifier and engine as
//! live traffic. The engine's simulated time advances with each packet. Cost is processor time. The
//! cases alternate. The caller may also count instructions in a separate process that calls
//! [`drive`].

mod finding;
mod work;

use weir_report::finding::Finding;

use super::experiment::Progress;

pub use work::{Case, Part};
use work::{Row, Work};

/// The experiment's name.
pub const NAME: &str = "emulation-cost";
/// One line that says what the experiment shows.
pub const SUMMARY: &str =
    "cost of a packet in the classifier by number of rules, and in the engine by number of pipes";
/// The publication.
pub const SOURCE: &str = "L. Rizzo, Google Tech Talk, April 2010";

/// Counts the instructions of a process that calls [`drive`] with a case and a number of packets;
/// `None` if the machine cannot count.
pub type Count<'a> = dyn Fn(&Case, u64) -> Option<u64> + 'a;

/// Measures every case.
pub fn run(quick: bool, count: &Count<'_>, progress: &Progress<'_>) -> Finding {
    let (runs, packets) = if quick { (QUICK_RUNS, QUICK_PACKETS) } else { (RUNS, PACKETS) };
    let mut rows: Vec<Row> =
        work::cases().map(|case| Row { case, times: Vec::new(), instructions: None }).collect();
    let all = rows.len() * (runs + 1);
    for run in 0..runs {
        for (n, row) in rows.iter_mut().enumerate() {
            let mut work = Work::new(&row.case);
            work.run(warm_up(&row.case));
            let begin = thread_time();
            work.run(packets);
            let took = thread_time().saturating_sub(begin);
            std::hint::black_box(&work);
            row.times.push(took as f64 / packets as f64);
            progress(run * work::CASES + n + 1, all);
        }
    }
    for (n, row) in rows.iter_mut().enumerate() {
        // The difference of two counts leaves out the start of the process and the warm-up.
        let counted = count(&row.case, 0).zip(count(&row.case, COUNTED));
        row.instructions =
            counted.map(|(none, some)| some.saturating_sub(none) as f64 / COUNTED as f64);
        progress(runs * work::CASES + n + 1, all);
    }
    finding::finding(&rows)
}

/// Passes `packets` packets, after a warm-up, while another program counts instructions.
pub fn drive(case: &Case, packets: u64) {
    let mut work = Work::new(case);
    work.run(warm_up(case));
    work.run(packets);
    std::hint::black_box(&work);
}

/// Number of packets before a measurement: each frame at least once, and with an engine enough
/// packets to reach every pipe of the largest case.
fn warm_up(case: &Case) -> u64 {
    if matches!(case.part, Part::Pipes | Part::Whole) { 40_000 } else { 4_096 }
}

/// Processor time of this thread in ns.
fn thread_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Number of runs of each case.
const RUNS: usize = 10;
const QUICK_RUNS: usize = 3;
/// Packets of a run.
const PACKETS: u64 = 400_000;
const QUICK_PACKETS: u64 = 100_000;
/// Number of packets for which instructions are counted: each frame at least once. Counting is slow
/// and needs no repetition.
const COUNTED: u64 = 5_000;
