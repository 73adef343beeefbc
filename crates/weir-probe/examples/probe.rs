//! Watches devices for some seconds and prints the number of readings and the lengths of up to
//! twelve queues. With `--json`, prints numbers for all queues together, and no lengths. Usage:
//! `cargo run --release -p weir-probe --example probe -- [--json] METHOD|auto RATE|max SECONDS
//! DEV[@NETNS]…`. Messages go to standard error.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use weir_probe::{Counters, Event, Plan, Queue, QueueId, Run, Sink};

#[derive(Default)]
struct Print {
    /// For each queue: its label, the number of readings, the sum and the maximum of the lengths in
    /// packets, and the number of drops.
    queues: Vec<(String, u64, u64, u32, u64)>,
    events: u64,
    /// Number of events after a gap in the record.
    gaps: u64,
}

impl Sink for Print {
    fn appeared(&mut self, _: u64, _: QueueId, queue: &Queue) {
        self.queues.push((queue.label(), 0, 0, 0, 0));
    }
    fn vanished(&mut self, _: u64, id: QueueId) {
        eprintln!("gone: {}", self.queues[id as usize].0);
    }
    fn runs(&mut self, runs: &[Run]) {
        for run in runs {
            let queue = &mut self.queues[run.queue as usize];
            queue.1 += u64::from(run.count);
            queue.2 += u64::from(run.count) * u64::from(run.qlen);
            queue.3 = queue.3.max(run.qlen);
        }
    }
    fn events(&mut self, events: &[Event]) {
        self.events += events.len() as u64;
        self.gaps += events.iter().filter(|event| event.after_gap).count() as u64;
    }
    fn counters(&mut self, _: u64, id: QueueId, counters: &Counters) {
        self.queues[id as usize].4 = counters.drops;
    }
    fn remark(&mut self, _: u64, text: &str) {
        eprintln!("{text}");
    }
}

fn watch(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    let (json, arguments) = match arguments {
        [first, rest @ ..] if first == "--json" => (true, rest),
        all => (false, all),
    };
    let [method, rate, seconds, targets @ ..] = arguments else {
        return Err("[--json] METHOD|auto RATE|max SECONDS DEV[@NETNS]…".into());
    };
    let targets = targets.iter().map(|target| target.parse()).collect::<Result<_, _>>()?;
    let method = if method == "auto" { None } else { Some(method.parse()?) };
    let rate = if rate == "max" { None } else { Some(rate.parse()?) };
    let seconds = Duration::from_secs_f64(seconds.parse()?);
    let mut opened = weir_probe::open(&Plan {
        targets,
        method,
        rate,
        children: true,
        bands: true,
        packets: false,
    })?;
    opened.remarks.iter().for_each(|remark| eprintln!("{remark}"));
    let mut print = Print::default();
    opened.source.turn(&mut print)?;
    let ready = began.elapsed();
    eprintln!("ready after {ready:?}");
    let (start, processor, before) =
        (Instant::now(), processor_seconds(), opened.source.pace().readings);
    while start.elapsed() < seconds {
        opened.source.turn(&mut print)?;
    }
    let (took, processor, pace) =
        (start.elapsed().as_secs_f64(), processor_seconds() - processor, opened.source.pace());
    opened.source.finish(&mut print)?;
    let (p50, p99, longest) =
        (pace.gaps.quantile(0.5), pace.gaps.quantile(0.99), pace.gaps.longest());
    if json {
        let value = serde_json::json!({
            "method": opened.source.method(), "ready_ms": ready.as_secs_f64() * 1e3, "seconds": took, "readings": pace.readings - before,
            "readings_per_s": (pace.readings - before) as f64 / took, "missed": pace.missed, "processor": processor / took,
            "gap_ns": {"p50": p50, "p99": p99, "max": longest}, "events": print.events, "after_gap": print.gaps,
        });
        println!("{value}");
        return Ok(());
    }
    println!(
        "{} readings, {} missed, gaps {p50} / {p99} / {longest} ns; {} events, {} after gaps",
        pace.readings, pace.missed, print.events, print.gaps
    );
    for (label, count, sum, most, drops) in print.queues.iter().take(12) {
        println!(
            "{label}: {count} readings, mean {:.3}, max {most}, drops {drops}",
            *sum as f64 / (*count).max(1) as f64
        );
    }
    Ok(())
}

fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match watch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
