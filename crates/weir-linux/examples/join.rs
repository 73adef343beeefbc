//! Joins two interfaces by an emulated link, to measure with ordinary tools what the live loop
//! costs and how exact it is.
//!
//! `join PORT PORT [delay=NANOS] [rate=BITS_PER_SECOND] [gso=split|whole] [spin=adaptive|off|NANOS]
//! [realtime=on|off] [seconds=N] [workers=N] [observe=FILE] [netns=NETNS]`, where PORT is
//! `packet:INTERFACE` or `tap:NAME@NETNS`. After `seconds` it prints the report of each direction
//! and the processor time of the process. `observe` copies every frame to FILE, on arrival and on
//! departure. NETNS is a namespace of `ip netns`. The option `netns` names the namespace of ports
//! without `@NETNS`; its default is the caller's namespace.

use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::{Nanos, Rate};
use weir_linux::live::{
    ArrivalEvent, DepartureEvent, Gso, LaneConfig, LaneReport, Live, LiveConfig, Observer,
    Realtime, Spin,
};
use weir_linux::port::{AnyPort, PacketPort, TapPort};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [first, second, options @ ..] = words.as_slice() else {
        return Err(
            "usage: join PORT PORT [key=value…]; a PORT is packet:INTERFACE or tap:NAME@NETNS"
                .into(),
        );
    };
    let mut link = LinkConfig::default();
    let (mut gso, mut seconds, mut netns) = (Gso::Split, 10, None);
    let (mut workers, mut observe) = (1, None);
    let (mut spin, mut realtime) = (Spin::Adaptive, Realtime::WhenAllowed);
    for option in options {
        match option.split_once('=') {
            Some(("delay", n)) => link.delay = Nanos(n.parse()?),
            Some(("rate", n)) => {
                link.capacity = Capacity::Constant(
                    Rate::new(n.parse()?).ok_or("rate: 1 to 400,000,000,000 bit/s")?,
                );
            }
            Some(("gso", "whole")) => gso = Gso::Whole,
            Some(("gso", "split")) => gso = Gso::Split,
            Some(("spin", "adaptive")) => spin = Spin::Adaptive,
            Some(("spin", "off")) => spin = Spin::Off,
            Some(("spin", n)) => spin = Spin::Fixed(Nanos(n.parse()?)),
            Some(("realtime", on)) => {
                realtime = if on == "on" { Realtime::WhenAllowed } else { Realtime::Off }
            }
            Some(("seconds", n)) => seconds = n.parse()?,
            Some(("workers", n)) => workers = n.parse::<usize>()?,
            Some(("observe", path)) => observe = Some(path.to_owned()),
            Some(("netns", name)) => netns = Some(name.to_owned()),
            _ => return Err(format!("{option}: no such option").into()),
        }
    }
    let mut ports = vec![open(first, netns.as_deref())?, open(second, netns.as_deref())?];
    let mut more_workers = Vec::new();
    for _ in 1..workers {
        more_workers.push(ports.iter_mut().map(AnyPort::share).collect::<Result<Vec<_>, _>>()?);
    }
    let lane = |name: &str, from, to, pipe| LaneConfig {
        name: name.into(),
        from,
        to,
        pipe,
        passes: Vec::new(),
        gso,
    };
    let mut config = LiveConfig::new(ports, vec![lane("there", 0, 1, 1), lane("back", 1, 0, 2)]);
    let queue =
        FlowsetConfig { limit: Some(QueueLimit::Packets(20_000)), ..FlowsetConfig::default() };
    config.pipes = [1, 2]
        .map(|id| (id, PipeConfig { link: link.clone(), queue: queue.clone(), scheduler: None }))
        .into();
    (config.spin, config.realtime) = (spin, realtime);
    config.more_workers = more_workers;
    if let Some(path) = observe {
        config.observer = Some(Box::new(Copier::new(File::create(path)?)));
    }
    let mut live = Live::new(config)?;
    let stop = Arc::new(AtomicBool::new(false));
    let alarm = Arc::clone(&stop);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(seconds));
        alarm.store(true, Ordering::Relaxed);
    });
    let report = live.run(&stop)?;
    let used = clock_gettime(ClockId::ProcessCPUTime);
    for lane in &report.lanes {
        print(lane);
    }
    let packets: u64 = report.lanes.iter().map(|lane| lane.counters.packets_out).sum();
    let used = used.tv_sec as f64 * 1e9 + used.tv_nsec as f64;
    println!("{packets} packets, {:.0} ns of processor time each", used / packets.max(1) as f64);
    println!("{} frames were not observed", report.unobserved);
    println!(
        "realtime {} spin margin {} stopped {:?} events {:?}",
        report.realtime, report.spin_margin, report.stopped, report.events
    );
    Ok(())
}

/// An observer that copies every frame to a file, on arrival and on departure.
struct Copier {
    file: File,
    buffer: Vec<u8>,
}

impl Copier {
    fn new(file: File) -> Self {
        Self { file, buffer: Vec::new() }
    }

    fn copy(&mut self, frame: &[u8]) {
        self.buffer.extend_from_slice(frame);
        if self.buffer.len() >= 256 << 10 {
            // A full disk leaves a gap in the file; the measurement continues.
            let _ = self.file.write_all(&self.buffer);
            self.buffer.clear();
        }
    }
}

impl Observer for Copier {
    fn wants_frames(&self) -> bool {
        true
    }

    fn on_arrival(&mut self, event: &ArrivalEvent<'_>) {
        self.copy(event.frame);
    }

    fn on_departure(&mut self, event: &DepartureEvent<'_>) {
        self.copy(event.frame);
    }
}

/// Opens a port, on a thread that has entered the namespace of the port.
fn open(word: &str, netns: Option<&str>) -> Result<AnyPort, Box<dyn Error>> {
    let (kind, rest) =
        word.split_once(':').ok_or("a port is packet:INTERFACE or tap:NAME@NETNS")?;
    let (name, netns) =
        rest.split_once('@').map_or((rest, netns), |(name, netns)| (name, Some(netns)));
    let place = netns.map(|netns| File::open(format!("/run/netns/{netns}"))).transpose()?;
    let opened = std::thread::scope(|scope| {
        let work = || {
            if let Some(place) = &place {
                move_into_link_name_space(
                    std::os::fd::AsFd::as_fd(place),
                    Some(LinkNameSpaceType::Network),
                )
                .map_err(|e| e.to_string())?;
            }
            match kind {
                "packet" => PacketPort::open(name).map(AnyPort::from).map_err(|e| e.to_string()),
                "tap" => TapPort::create(name).map(AnyPort::from).map_err(|e| e.to_string()),
                _ => Err(format!("{kind}: a port is packet:INTERFACE or tap:NAME@NETNS")),
            }
        };
        scope.spawn(work).join().map_err(|_| "opening a port panicked".to_owned())?
    });
    let port = opened?;
    if let (AnyPort::Tap(tap), Some(netns)) = (&port, netns) {
        // This only sets the device up. The measuring script gives it an address.
        std::process::Command::new("ip")
            .args(["-n", netns, "link", "set", tap.name(), "up"])
            .status()?;
    }
    Ok(port)
}

fn print(lane: &LaneReport) {
    let c = &lane.counters;
    println!(
        "{} {} -> {}: in {} out {} bytes_out {} drops {:?} backlog {} dup {} balanced {} \
         kernel_drops {} unreadable {}",
        lane.name,
        lane.from,
        lane.to,
        c.packets_in,
        c.packets_out,
        c.bytes_out,
        c.reasons().drop_counts().iter().collect::<Vec<_>>(),
        c.backlog_packets,
        c.duplicated,
        c.balanced(),
        lane.rx_kernel_drops,
        lane.rx_unreadable
    );
    let us = |q| lane.lateness.quantile(q) as f64 / 1000.0;
    println!(
        "  lateness us p50 {:.1} p99 {:.1} p99.9 {:.1} max {:.1}; later than 1 ms: {}; total us \
         p50 {:.1} p99 {:.1}",
        us(0.5),
        us(0.99),
        us(0.999),
        lane.lateness.max() as f64 / 1000.0,
        lane.late_1ms,
        lane.total_ns.quantile(0.5) as f64 / 1000.0,
        lane.total_ns.quantile(0.99) as f64 / 1000.0
    );
}
