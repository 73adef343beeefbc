//! The memory that the engine uses for an idle link and for a packet, as reported by the operating
//! system.
//!
//! Memory is measured rather than computed, so that no part is forgotten. Each test makes so many
//! links or packets that other allocations of the process do not matter.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_core::config::{
    Capacity, FlowsetConfig, Jitter, LinkConfig, Loss, PipeConfig, QueueLimit, Reorder,
    SchedulerConfig,
};
use weir_core::dist::Distribution;
use weir_core::key::{FlowKey, FlowMask};
use weir_core::link::Trace;
use weir_core::packet::Ecn;
use weir_core::{Action, Arrival, Emulator, Limits, Nanos, Probability, Rate};

const LINKS: u32 = 20_000;
const PACKETS: u32 = 1 << 19;

/// Ensures that only one test at a time measures memory.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of anonymous memory in use; `None` if the system does not provide the number.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|k| k * 1024)
}

fn submit(emulator: &mut Emulator, now: Nanos, customer: u32, action: Action) {
    let key = FlowKey { dst: customer.into(), src_port: 80, ..FlowKey::default() };
    let arrival = Arrival {
        frame: customer,
        len: 1000,
        link_header: 14,
        segments: 1,
        ecn: Ecn::NotEct,
        label: 0,
    };
    emulator.submit(now, arrival, &key, action).unwrap();
}

/// Bytes that a link uses after its packet has left; the mean over [`LINKS`] links.
fn idle_link(link: LinkConfig, action: Action) -> Option<u64> {
    let limits = Limits { idle: Nanos::from_secs(1_000_000), ..Limits::default() };
    let mut emulator = Emulator::new(1, limits);
    let mask = FlowMask { dst_ip: u32::MAX, ..FlowMask::default() };
    let queue = FlowsetConfig {
        mask,
        loss: Loss::Bernoulli(Probability::new(1e-9).unwrap()),
        ..FlowsetConfig::default()
    };
    match action {
        Action::Pipe(id) => {
            emulator.set_pipe(Nanos::ZERO, id, &PipeConfig { link, queue, scheduler: None });
        }
        Action::Queue(id) => {
            emulator.set_scheduler(
                Nanos::ZERO,
                1,
                &SchedulerConfig { mask, ..SchedulerConfig::default() },
                &link,
            );
            emulator.set_queue(Nanos::ZERO, id, 1, &queue);
        }
    }
    let before = resident()?;
    let mut out = Vec::new();
    for customer in 0..LINKS {
        let now = Nanos::from_secs(u64::from(customer) * 10);
        submit(&mut emulator, now, customer, action);
        while let Some(next) = emulator.next_event() {
            emulator.poll(next, &mut out);
        }
        out.clear();
    }
    assert_eq!(emulator.instances(), LINKS as usize);
    let bytes = resident()?.saturating_sub(before) / u64::from(LINKS);
    // The emulator is not freed, so that the next measurement does not reuse its memory.
    std::mem::forget(emulator);
    Some(bytes)
}

#[test]
fn an_idle_link_takes_at_most_2_kib() {
    let _alone = alone();
    let p = |x| Probability::new(x).unwrap();
    let delay = Nanos::from_millis(10);
    let plain = LinkConfig {
        capacity: Capacity::Constant(Rate::new(1_000_000).unwrap()),
        delay,
        ..LinkConfig::default()
    };
    let jitter = Jitter {
        amount: Nanos::from_millis(1),
        distribution: Arc::new(Distribution::normal()),
        correlation: p(0.1),
        may_reorder: true,
    };
    let everything = LinkConfig {
        capacity: Capacity::Trace(Arc::new(Trace::new(vec![Nanos::from_millis(1)]).unwrap())),
        loss: Loss::Bernoulli(p(1e-9)),
        duplicate: p(0.5),
        corrupt: p(0.5),
        jitter: Some(jitter),
        reorder: Some(Reorder { probability: p(0.5), gap: 1, correlation: p(0.1) }),
        ..plain.clone()
    };
    for (name, link) in [("plain", plain), ("with everything", everything)] {
        for action in [Action::Pipe(1), Action::Queue(1)] {
            let Some(bytes) = idle_link(link.clone(), action) else {
                eprintln!("SKIPPED: the system does not say how much memory a process has");
                return;
            };
            eprintln!("{bytes} bytes for an idle link, {name}, {action:?}");
            // With less than 256 bytes, the measurement would have missed a part of the link.
            assert!(
                (256..=2048).contains(&bytes),
                "{bytes} bytes for an idle link, {name}, {action:?}"
            );
        }
    }
}

#[test]
fn a_packet_inside_takes_one_cache_line() {
    let _alone = alone();
    let slow = Capacity::Constant(Rate::new(1).unwrap());
    let fast = Capacity::Constant(Rate::MAX);
    // Packets are measured in the delay line, and then in the queue.
    for (place, capacity, delay) in
        [("delay line", fast, Nanos::from_secs(1_000)), ("queue", slow, Nanos::ZERO)]
    {
        let mut emulator = Emulator::new(1, Limits::default());
        let link = LinkConfig { capacity, delay, ..LinkConfig::default() };
        let queue =
            FlowsetConfig { limit: Some(QueueLimit::Packets(PACKETS)), ..FlowsetConfig::default() };
        emulator.set_pipe(Nanos::ZERO, 1, &PipeConfig { link, queue, scheduler: None });
        let Some(before) = resident() else {
            eprintln!("SKIPPED: the system does not say how much memory a process has");
            return;
        };
        for n in 0..PACKETS {
            submit(&mut emulator, Nanos(u64::from(n) * 1_000), 1, Action::Pipe(1));
        }
        let bytes = resident().unwrap().saturating_sub(before) / u64::from(PACKETS);
        eprintln!("{bytes} bytes for a packet in the {place}");
        // While the pool grows, its contents may exist twice.
        assert!((60..=130).contains(&bytes), "{bytes} bytes for a packet in the {place}");
        assert_eq!(emulator.stats(1).unwrap().counters.backlog_packets, u64::from(PACKETS));
        std::mem::forget(emulator);
    }
}
