//! How the strict-priority queues of a switch fill up as flows of ever higher priority start.
//!
//! One switch has one link of 5 Mbit/s, and each flow sends 5.5 Mbit/s. The queues after the
//! traffic manager fill first, so congestion is not visible for a while. Then the traffic manager
//! holds 64 packets of each flow that has started. Packets of the newest flow, which has the
//! highest priority, wait only for packets of the same flow.
//!
//! The published queues do not stay at 64 packets. Their lengths vary continuously, because the
//! interface blocks all queues at once and not packet by packet. Two interfaces are compared: one
//! takes a packet as soon as another has left; the other takes batches of [`BATCH`] packets, the
//! size that was inferred for the FIFO+ table.

mod passages;

use std::sync::{Arc, Mutex, PoisonError};

use weir_core::config::{Capacity, LinkConfig};
use weir_core::key::FlowKey;
use weir_core::link::Overhead;
use weir_core::stats::DropReason;
use weir_core::{Nanos, Rate};

use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Provenance, Quantity, Range, Series, Style, Table, Unit,
};
use weir_sim::network::{FlowSpec, Network, Observer, PortId};
use weir_sim::packet::{FlowId, Packet};
use weir_sim::switch::SwitchConfig;
use weir_sim::traffic::{Cbr, Sink};
use weir_sim::world::World;

use passages::Passages;

use super::experiment::{Experiment, Options, Progress};
use super::fifo_plus::bed::BATCH;
use super::parallel::counted;
use super::sources::{PIFO_SWITCH, published};

pub(super) const QUEUES: Experiment = Experiment {
    name: "fifo-plus-queues",
    summary: "strict-priority queues fill up one after the other, and packets of the newest flow \
              wait only for each other",
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
    /// For each packet of the newest flow: the number of other packets that it found in its queue,
    /// ascending. Counting begins when the queue is first full.
    found: Vec<u64>,
}

impl Step {
    /// The quantile `q` of `found`.
    fn found(&self, q: f64) -> f64 {
        let index = ((q * self.found.len() as f64) as usize).min(self.found.len().max(1) - 1);
        self.found.get(index).map_or(f64::NAN, |&packets| packets as f64)
    }

    fn mean_found(&self) -> f64 {
        self.found.iter().sum::<u64>() as f64 / self.found.len() as f64
    }
}

/// The observations of a whole run.
#[derive(Debug, Default)]
struct Seen {
    steps: Vec<Step>,
    /// Time in s, and packets in the traffic manager.
    depth: Vec<[f64; 2]>,
    /// Time in s, and the wait of a packet of the newest flow in ns.
    delay: Vec<[f64; 2]>,
    /// When a packet of the newest flow first waited in the traffic manager for longer than one
    /// transmission time.
    began: Option<Nanos>,
    /// When packets entered and left each queue of the traffic manager, by flow, ns.
    queues: [Passages; FLOWS],
}

/// Records in [`Seen`] the packets that pass one port.
#[derive(Debug)]
struct Watch {
    port: PortId,
    /// The time from the start of a flow to the start of the next.
    step: Nanos,
    /// When the next sample of the number of packets is due.
    next: Nanos,
    /// The number of recorded waits.
    samples: u64,
    seen: Arc<Mutex<Seen>>,
}

impl Observer for Watch {
    fn entered(&mut self, now: Nanos, port: PortId, packet: &Packet) {
        if port == self.port {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.queues[packet.flow.0 as usize].entries.push(now.0);
        }
    }

    fn dropped(&mut self, _now: Nanos, port: PortId, packet: &Packet, _reason: DropReason) {
        if port == self.port {
            // A full queue drops the packet that has just entered.
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.queues[packet.flow.0 as usize].entries.pop();
        }
    }

    fn departed(&mut self, _now: Nanos, port: PortId, packet: &Packet, dequeued: Option<Nanos>) {
        let (true, Some(dequeued)) = (port == self.port, dequeued) else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.queues[packet.flow.0 as usize].exits.push(dequeued.0);
        if dequeued.0 >= self.step.0 * FLOWS as u64 {
            return;
        }
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
        if now.0 >= self.step.0 * FLOWS as u64 {
            return;
        }
        let (packets, _) = network.queue_length(self.port);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let step = &mut seen.steps[((now.0 / self.step.0) as usize).min(FLOWS - 1)];
        step.most = step.most.max(packets);
        seen.depth.push([now.0 as f64 / 1e9, packets as f64]);
    }
}

/// The time from the start of a flow to the start of the next.
fn step(options: &Options) -> Nanos {
    Nanos::from_secs(if options.quick { 30 } else { 40 })
}

/// Runs all steps with an interface that takes packets in batches of `batch`.
fn simulate(options: &Options, batch: u32) -> Seen {
    let step = step(options);
    let mut network = Network::new(options.seed);
    let config = SwitchConfig { program: Some("prio".into()), batch, ..SwitchConfig::default() };
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
    // The time at which a packet left the traffic manager is known once the packet is on the wire.
    world.run(Nanos(step.0 * FLOWS as u64).saturating_add(BEHIND));
    let mut seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    for (n, each) in (0u64..).zip(&mut seen.steps) {
        let until = step.0 * (n + 1);
        each.found = seen.queues[n as usize].found_on_entry(step.0 * n, until, PLACES);
    }
    seen
}

fn run(options: &Options, progress: &Progress<'_>) -> Finding {
    let mut both =
        counted(options, progress, &[1, BATCH], |&batch| simulate(options, batch)).into_iter();
    let (seen, batches) = (both.next().unwrap_or_default(), both.next().unwrap_or_default());
    let mut claims = claims(&seen);
    claims.extend(variation(&seen, &batches));
    let tables = vec![build_up(&seen.steps), depths(&seen.steps, &batches.steps)];
    let mut plots = plots(step(options), &batches);
    plots.extend(totals(seen));
    Finding {
        title: "Flows of 5.5 Mbit/s in packets of 1512 bytes on a link of 5 Mbit/s, eight strict \
                queues of 64"
            .into(),
        tables,
        claims,
        plots,
        notes: vec![
            "No random draw: one run is exact.".to_owned(),
            format!(
                "Batches of {BATCH} packets were inferred from table 4.2; figure 4.18 was not used \
                 for that choice."
            ),
        ],
        ..Finding::default()
    }
}

/// The table of figure 4.18: packets and waits, one row for each step.
fn build_up(steps: &[Step]) -> Table {
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
    for (n, step) in steps.iter().enumerate() {
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
    table
}

/// The table of the queue depth that packets of the newest flow find.
fn depths(single: &[Step], batches: &[Step]) -> Table {
    let batch = format!("batches of {BATCH}: mean");
    let mut table = Table::new(
        "other packets that a packet of the newest flow finds in its queue, from when that queue \
         was first full",
        &[
            "flows",
            "most, reference",
            "one by one: mean",
            "5 % of packets find at most",
            "most",
            &batch,
            "5 % of packets find at most",
            "most",
            "longest wait, ms",
        ],
    );
    for (n, (one, many)) in single.iter().zip(batches).enumerate() {
        let mut row = vec![Cell::number(n as f64 + 1.0, 0), Cell::reference(64.0, 0, BUILD_UP)];
        for step in [one, many] {
            row.push(Cell::number(step.mean_found(), 1));
            row.extend([0.05, 1.0].map(|q| Cell::number(step.found(q), 0)));
        }
        row.push(Cell::number(many.longest as f64 / 1e6, 1));
        table.row(row);
    }
    table
}

/// The claims about the interface that takes packets one by one.
fn claims(seen: &Seen) -> Vec<Claim> {
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
    vec![
        Claim::new(
            "the queues behind the traffic manager fill first: 1128 packets",
            Provenance::Inferred {
                from: "the stated queues of 128 and 1000 packets, which take 27 s to fill at 0.5 \
                       Mbit/s",
            },
        )
        .expect(
            "time of the first wait, ratio to the time to fill them",
            Quantity::exact(began.map(|began| began / expected)),
            Range::within(0.9, 1.1),
        ),
        filled,
        Claim::new("the newest flow waits for its own 64 packets alone: about 160 ms", BUILD_UP)
            .expect("longest wait, ms", Quantity::exact(longest), Range::within(140.0, 172.0)),
    ]
}

/// The claims about the depth of the newest flow's queue, from the runs with both interfaces.
fn variation(single: &Seen, batches: &Seen) -> Vec<Claim> {
    let mut most = Claim::new(
        "a packet finds at most the 64 packets of its own queue, whatever waits below",
        BUILD_UP,
    );
    let varies = "the depth varies continuously instead of staying at 64";
    let mut one = Claim::new(
        format!("{varies} (5th percentile below 58): interface that takes packets one by one"),
        BUILD_UP,
    );
    let mut many = Claim::new(
        format!("{varies} (5th percentile below 58): interface that takes batches of {BATCH}"),
        BUILD_UP,
    );
    for (n, (single, batches)) in single.steps.iter().zip(&batches.steps).enumerate() {
        let flows = format!("{} flows", n + 1);
        for (name, step) in [("one by one", single), ("batches", batches)] {
            most = most.expect(
                format!("{flows}, {name}: most packets found"),
                Quantity::exact(step.found(1.0)),
                Range::within(62.0, 64.0),
            );
        }
        let low = |step: &Step| Quantity::exact(step.found(0.05));
        let what = format!("{flows}: 5th percentile");
        one = one.expect(what.clone(), low(single), Range::below(VARIES));
        many = many.expect(what, low(batches), Range::below(VARIES));
    }
    let longest = batches.steps.iter().map(|step| step.longest).max().unwrap_or(0) as f64 / 1e6;
    let waits = Claim::new(
        format!("with batches of {BATCH} the longest wait is about 160 ms, too"),
        BUILD_UP,
    )
    .expect("longest wait, ms", Quantity::exact(longest), Range::within(140.0, 172.0));
    vec![most, one, many, waits]
}

/// The plots of figure 4.18 with an interface that takes packets one by one.
fn totals(seen: Seen) -> Vec<Plot> {
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

/// The plots of each queue's depth with batches: over the whole run, and over a second of it.
fn plots(step: Nanos, seen: &Seen) -> Vec<Plot> {
    let end = step.0 * FLOWS as u64;
    let series = |from: u64, until: u64, every: Nanos, flows: std::ops::Range<usize>| {
        flows
            .map(|flow| {
                let times = || (from..until).step_by(every.0 as usize);
                let depths = seen.queues[flow].depths(times());
                let points = times()
                    .zip(depths)
                    .map(|(time, packets)| [time as f64 / 1e9, packets as f64])
                    .collect();
                let name = format!("flow {}", flow + 1);
                Series { name, style: Style::Steps, points, ..Series::default() }
            })
            .collect()
    };
    let last = end - 2 * SECOND_NS;
    let axes = |plot: Plot| Plot {
        x: Axis::new("time", Unit::Seconds),
        y: Axis::new("packets in the queue", Unit::Count),
        ..plot
    };
    vec![
        axes(Plot {
            name: "queues".into(),
            title: format!("Each strict queue, batches of {BATCH}"),
            description: "Packets in each of the eight strict queues over time, one flow more at \
                          each step."
                .into(),
            series: series(0, end, EACH_QUEUE, 0..FLOWS),
            ..Plot::default()
        }),
        axes(Plot {
            name: "variation".into(),
            title: format!("One second of the newest flow's queue, batches of {BATCH}"),
            description: "Packets in the queue of the highest priority during one second.".into(),
            series: series(last, last + SECOND_NS, Nanos::from_micros(2_500), FLOWS - 1..FLOWS),
            ..Plot::default()
        }),
    ]
}

/// The published figure and its text.
const BUILD_UP: Provenance = published(PIFO_SWITCH, "figure 4.18 and its text");
const FLOWS: usize = 8;
/// Rate of the link in bit/s.
const LINK: u64 = 5_000_000;
/// Rate of each flow in bit/s.
const SENT: u64 = 5_500_000;
/// Network-layer bytes of a packet. With the link-layer header these are 1512 bytes: a payload of
/// 1470, the default of the original traffic generator, and UDP, IP and link-layer headers.
const LEN: u32 = 1498;
/// Transmission time of a packet on the link, ns.
const PACKET_NS: u64 = 2_419_200;
/// Time between two samples of the number of packets in the traffic manager.
const SAMPLE: Nanos = Nanos::from_millis(200);
/// One in this many delays is plotted.
const SHOWN: u64 = 50;
/// Time between two points of a queue's depth in a plot.
const EACH_QUEUE: Nanos = Nanos::from_millis(400);
/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;
/// Packets in a full strict queue.
const PLACES: u64 = 64;
/// The depth of a queue varies if at least 5 % of the packets find less than nine tenths of its
/// places occupied.
const VARIES: f64 = 57.6;
/// Longer than a packet spends in the queues after the traffic manager: 1128 packets, 2.7 s.
const BEHIND: Nanos = Nanos::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_varies_only_if_the_interface_takes_batches() {
        let options = Options { quick: true, ..Options::default() };
        let finding = run(&options, &|_, _| {});
        for (words, holds) in
            [("one by one", false), ("takes batches", true), ("at most the 64", true)]
        {
            let found = finding.claims.iter().find(|claim| claim.words().contains(words));
            let claim = found.expect(words);
            assert_eq!(claim.holds(), Some(holds), "{words}: {:?}", claim.conditions());
        }
        assert_eq!(finding.plots.len(), 4);
    }
}
