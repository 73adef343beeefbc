//! Notices when the machine pauses while a test runs. Such a pause delays packets, whatever Weir
//! does, so a failure of a measurement during a pause says nothing about Weir.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The pauses of the machine while a test ran.
pub(crate) struct Pauses {
    /// The longest delay with which a sleeping thread woke up.
    longest: Duration,
    /// Percentage of the processors' time that the hypervisor gave to other machines.
    stolen: f64,
}

impl Pauses {
    /// Whether packets were delayed so much that a measurement can fail.
    pub(crate) fn matter(&self) -> bool {
        self.longest > LONGEST || self.stolen > MAX_STOLEN
    }
}

impl std::fmt::Display for Pauses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a pause of {:?}, {:.1} % of the processors stolen", self.longest, self.stolen)
    }
}

/// A thread that sleeps repeatedly, and notes how late it wakes up.
pub(crate) struct PauseWatch {
    over: Arc<AtomicBool>,
    sleeper: JoinHandle<Duration>,
    /// The clock ticks at the start; `None` if they could not be read.
    began: Option<Ticks>,
}

impl PauseWatch {
    pub(crate) fn start() -> Self {
        let over = Arc::<AtomicBool>::default();
        let is_over = Arc::clone(&over);
        let sleeper = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let before = Instant::now();
                std::thread::sleep(STEP);
                longest = longest.max(before.elapsed().saturating_sub(STEP));
            }
            longest
        });
        Self { over, sleeper, began: Ticks::now() }
    }

    /// Ends the thread and returns the pauses since the start.
    pub(crate) fn end(self) -> Pauses {
        self.over.store(true, Ordering::Relaxed);
        let longest = self.sleeper.join().expect("the thread only sleeps");
        let stolen = match (self.began, Ticks::now()) {
            (Some(began), Some(ended)) => ended.stolen_since(began),
            _ => 0.0,
        };
        Pauses { longest, stolen }
    }
}

/// Clock ticks of all processors since the machine started.
#[derive(Clone, Copy)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(text: &str) -> Option<Self> {
        let words = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).take(8).collect();
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    fn stolen_since(self, began: Self) -> f64 {
        let all = self.all.saturating_sub(began.all).max(1);
        100.0 * self.stolen.saturating_sub(began.stolen) as f64 / all as f64
    }
}

/// The length of one sleep: short, because a pause that lies within a sleep is not noticed.
const STEP: Duration = Duration::from_millis(2);
/// The longest pause at which measurements still count: less than the 60 ms that a queue of 100
/// packets at 20 Mbit/s lasts.
const LONGEST: Duration = Duration::from_millis(50);
/// The largest percentage of stolen time at which measurements still count.
const MAX_STOLEN: f64 = 3.0;
