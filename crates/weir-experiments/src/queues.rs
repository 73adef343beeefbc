//! How the strict-priority queues of a switch fill up as flows of ever higher priority start.
//!
//! One switch has one link of 5 Mbit/s, and each flow sends 5.5 Mbit/s. The queues after the
//! traffic manager fill first, so congestion is not visible for a while. Then the traffic manager
//! holds 64 packets of each flow that has started. Packets of the newest flow, which has the
//! highest priority, wait only for packets of the same flow.

use std::sync::{Arc, Mutex, PoisonError};

use weir_core::config::{Capacity, LinkConfig};
use weir_core::key::FlowKey;
use weir_core::link::Overhead;
use weir_core::{Nanos, Rate};

use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Provenance, Quantity, Range, Series, Style, Table, Unit,
};
use weir_sim::network::{FlowSpec, Network, Observer, PortId};
use weir_sim::packet::{FlowId, Packet};
use weir_sim::switch::SwitchConfig;
use weir_sim::traffic::{Cbr, Sink};
use weir_sim::world::World;

use super::experiment::{Experiment, Options, Progress};
use super::sources::{PIFO_SWITCH, published};

pub(super) const QUEUES: Experiment = Experiment {
    name: "fifo-plus-queues",
    summary: "strict queues fill up one after the other, and the newest flow sees its own alone",
    source: "PIFO on a P4 software switch by eight strict-priority queues, figure 4.18",
    run,
};

/// The observations of one step, from the start of a flow to the start of the next.
#[derive(Clone, Debug, Default)]
struct Step {
    /// The largest number of packets in the traffic manager.
    most: u64,
    /// The longest wait of the newest flow's packets, ns.
    longest: u64,
    /// The waits of the newest flow's packets, ns.
    waits: Vec<u64>,
}

#[derive(Debug, Default)]
struct Seen {
    steps: Vec<Step>,
    /// Time in s, and packets in the traffic manager.
    depth: Vec<[f64; 2]>,
    /// Time in s, and the wait of a packet of the newest flow in ns.
    delay: Vec<[f64; 2]>,
    /// When a packet first waited in the traffic manager for longer than one transmission time.
    began: Option<Nanos>,
}

#[derive(Debug)]
struct Watch {
    port: PortId,
    step: Nanos,
    next: Nanos,
    samples: u64,
    seen: Arc<Mutex<Seen>>,
}

impl Observer for Watch {
    fn departed(&mut self, _now: Nanos, port: PortId, packet: &Packet, dequeued: Option<Nanos>) {
        let (true, Some(dequeued)) = (port == self.port, dequeued) else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = ((dequeued.0 / self.step.0) as usize).min(FLOWS - 1);
        if packet.flow.0 as usize != newest || packet.sent < Nanos(self.step.0 * newest as u64) {
            return;
        }
        let waited = dequeued.since(packet.sent).0;
        let step = &mut seen.steps[newest];
        step.longest = step.longest.max(waited);
        step.waits.push(waited);
        self.samples += 1;
        if self.samples.is_multiple_of(SHOWN) {
            seen.delay.push([dequeued.0 as f64 / 1e9, waited as f64]);
        }
        if waited > PACKET_NS && seen.began.is_none() {
            seen.began = Some(dequeued);
        }
    }

    fn next_tick(&self) -> Nanos {
        self.next
    }

    fn tick(&mut self, now: Nanos, network: &mut Network) {
        self.next = now.saturating_add(SAMPLE);
        let (packets, _) = network.queue_length(self.port);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let step = &mut seen.steps[((now.0 / self.step.0) as usize).min(FLOWS - 1)];
        step.most = step.most.max(packets);
        seen.depth.push([now.0 as f64 / 1e9, packets as f64]);
    }
}

fn simulate(options: &Options) -> Seen {
    let step = Nanos::from_secs(if options.quick { 30 } else { 40 });
    let mut network = Network::new(options.seed);
    let config = SwitchConfig { program: Some("prio".into()), ..SwitchConfig::default() };
    let link = LinkConfig {
        capacity: Rate::new(LINK).map_or(Capacity::Unlimited, Capacity::Constant),
        overhead: Overhead::LAYER2,
        ..LinkConfig::default()
    };
    let Ok(switch) = config.build(&mut network, &[link]) else { return Seen::default() };
    let port = switch.outputs()[0];
    let mut world = World::new(network);
    for n in 0..FLOWS as u32 {
        let class = FLOWS as u16 - 1 - n as u16;
        let key = FlowKey { src: 1, src_port: 5000 + n as u16, proto: 17, ..FlowKey::default() };
        let spec =
            FlowSpec { forward: switch.path(0, 0), key, class, group: n, ..FlowSpec::default() };
        let from = Nanos(step.0 * u64::from(n) + 1);
        // The rate of a flow includes the link-layer header, as that of the link does.
        let rate = SENT * u64::from(LEN) / u64::from(LEN + 14);
        world.add_flow(
            &spec,
            Box::new(Cbr::new(FlowId(n), LEN, 28, rate, from, Nanos::MAX)),
            Box::new(Sink),
        );
    }
    let seen =
        Arc::new(Mutex::new(Seen { steps: vec![Step::default(); FLOWS], ..Seen::default() }));
    world.observe(Box::new(Watch {
        port,
        step,
        next: SAMPLE,
        samples: 0,
        seen: Arc::clone(&seen),
    }));
    world.run(Nanos(step.0 * FLOWS as u64 - 1));
    std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner))
}

fn run(options: &Options, progress: &Progress<'_>) -> Finding {
    let seen = simulate(options);
    progress(1, 1);
    let mut table = Table::new(
        "one flow more at each step, of higher priority than those before",
        &[
            "flows",
            "packets waiting, reference",
            "measured",
            "newest flow's wait, ms: mean",
            "longest",
        ],
    );
    for (n, step) in seen.steps.iter().enumerate() {
        let mean = step.waits.iter().sum::<u64>() as f64 / step.waits.len() as f64 / 1e6;
        let mut row: Vec<Cell> = vec![
            Cell::number(n as f64 + 1.0, 0),
            Cell::reference(64.0 * (n + 1) as f64, 0, BUILD_UP),
        ];
        row.extend([
            Cell::number(step.most as f64, 0),
            Cell::number(mean, 1),
            Cell::number(step.longest as f64 / 1e6, 1),
        ]);
        table.row(row);
    }
    let longest = seen.steps.iter().map(|step| step.longest).max().unwrap_or(0) as f64 / 1e6;
    let began = seen.began.map(|began| began.0 as f64 / 1e9);
    // The time in which 1128 packets accumulate after the traffic manager, at 0.5 Mbit/s above the
    // rate of the link.
    let expected = 1128.0 * 1512.0 * 8.0 / (SENT - LINK) as f64;
    let filled = seen.steps.iter().enumerate().fold(
        Claim::new("each flow that comes fills one queue more, of 64 packets", BUILD_UP),
        |claim, (n, step)| {
            let flows = n as f64 + 1.0;
            claim.expect(
                format!("packets with {flows} flows"),
                Quantity::exact(step.most as f64),
                Range::within(64.0 * flows - 1.0, 64.0 * flows + 1.0),
            )
        },
    );
    let claims = vec![
        Claim::new(
            "the queues behind the traffic manager fill first: 1128 packets",
            Provenance::Inferred {
                from: "the stated queues of 128 and 1000 packets, which take 27 s to fill at 0.5 \
                       Mbit/s",
            },
        )
        .expect(
            "first wait over the time to fill them",
            Quantity::exact(began.map(|began| began / expected)),
            Range::within(0.9, 1.1),
        ),
        filled,
        Claim::new("the newest flow waits for its own 64 packets alone: about 160 ms", BUILD_UP)
            .expect("longest wait, ms", Quantity::exact(longest), Range::within(140.0, 172.0)),
    ];
    Finding {
        title: "Flows of 5.5 Mbit/s in packets of 1512 bytes on a link of 5 Mbit/s, eight strict \
                queues of 64"
            .into(),
        tables: vec![table],
        claims,
        plots: plots(seen),
        notes: vec!["No random draw: one run is exact.".to_owned()],
    }
}

fn plots(seen: Seen) -> Vec<Plot> {
    let depth = Plot {
        name: "depth".into(),
        title: "Packets in the traffic manager".into(),
        description: "The number of packets that wait in the eight strict queues over time, one \
                      flow more at each step."
            .into(),
        x: Axis::new("time", Unit::Seconds),
        y: Axis::new("packets", Unit::Count),
        series: vec![Series {
            name: "all queues".into(),
            style: Style::Steps,
            points: seen.depth,
            ..Series::default()
        }],
    };
    let delay = Plot {
        name: "delay".into(),
        title: "What the newest flow waits".into(),
        description:
            "Time in the traffic manager of packets of the flow that came last, over time.".into(),
        x: Axis::new("time", Unit::Seconds),
        y: Axis::new("waited", Unit::Nanoseconds),
        series: vec![Series {
            name: "newest flow".into(),
            style: Style::Dots,
            points: seen.delay,
            ..Series::default()
        }],
    };
    vec![depth, delay]
}

/// The published figure and its text.
const BUILD_UP: Provenance = published(PIFO_SWITCH, "figure 4.18 and its text");
const FLOWS: usize = 8;
/// Rate of the link in bit/s.
const LINK: u64 = 5_000_000;
const SENT: u64 = 5_500_000;
/// Network-layer bytes of a packet. With the link-layer header these are 1512 bytes: a payload of
/// 1470, the default of the original traffic generator, and UDP, IP and link-layer headers.
const LEN: u32 = 1498;
/// Transmission time of a packet on the link, ns.
const PACKET_NS: u64 = 2_419_200;
const SAMPLE: Nanos = Nanos::from_millis(200);
/// One in this many delays is plotted.
const SHOWN: u64 = 50;
