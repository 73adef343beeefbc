//! Watches devices for some seconds and prints how often each queue was read, and what was in it:
//! `cargo run --release -p weir-probe --example probe -- METHOD RATE|max SECONDS DEV[@NETNS]…`

use std::time::{Duration, Instant};

use weir_probe::{Counters, Event, Plan, Queue, QueueId, Run, Sink};

#[derive(Default)]
struct Print {
    queues: Vec<(String, u64, u64, u32, u64)>,
    events: u64,
    gaps: u64,
}

impl Sink for Print {
    fn appeared(&mut self, _: u64, _: QueueId, queue: &Queue) {
        self.queues.push((queue.label(), 0, 0, 0, 0));
    }
    fn vanished(&mut self, _: u64, id: QueueId) {
        println!("gone: {}", self.queues[id as usize].0);
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
        println!("{text}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [method, rate, seconds, targets @ ..] = &arguments[..] else { return Err("METHOD RATE|max SECONDS DEV…".into()) };
    let targets = targets.iter().map(|target| target.parse()).collect::<Result<_, _>>()?;
    let rate = if rate == "max" { None } else { Some(rate.parse()?) };
    let plan = Plan { targets, method: Some(method.parse()?), rate, children: true, bands: true };
    let mut opened = weir_probe::open(&plan)?;
    opened.remarks.iter().for_each(|remark| println!("{remark}"));
    let mut print = Print::default();
    opened.source.turn(&mut print)?;
    println!("ready after {:?}", began.elapsed());
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    while Instant::now() < end {
        opened.source.turn(&mut print)?;
    }
    opened.source.finish(&mut print)?;
    let pace = opened.source.pace();
    let (p50, p99, longest) = (pace.gaps.quantile(0.5), pace.gaps.quantile(0.99), pace.gaps.longest());
    println!(
        "{} readings, {} missed, gaps {p50} / {p99} / {longest} ns; {} events, {} after gaps",
        pace.readings, pace.missed, print.events, print.gaps
    );
    for (label, count, sum, most, drops) in print.queues.iter().take(12) {
        println!("{label}: {count} readings, mean {:.3}, max {most}, drops {drops}", *sum as f64 / (*count).max(1) as f64);
    }
    Ok(())
}
