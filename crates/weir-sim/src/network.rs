//! The network between endpoints: packets, ports, paths through ports, and the counters of each
//! flow.
//!
//! A *port* is one direction of a link with its queue: a pipe or scheduler of the engine, or a
//! [`PlainPipe`], which gives the same departures in fewer steps. A *path* is the list of ports
//! from one endpoint to another; each packet holds its position in its path. If packets enter a
//! plain port only from one other plain port, they can pass both ports in one step.

mod hold;
mod hop;
mod path;

use std::collections::VecDeque;

use weir_core::config::{FlowsetConfig, LinkConfig, PipeConfig, SchedulerConfig};
use weir_core::key::FlowKey;
use weir_core::plain::PlainPipe;
use weir_core::stats::{DropReason, LinkStats, Reasons};
use weir_core::{Departure, Emulator, Limits, Nanos};

use crate::agenda::Agenda;
use crate::measure::Tally;
use crate::notice::{EndpointId, Notice};
use crate::packet::{Extra, Flags, FlowId, NONE, Packet, Packets};
use hop::{Held, Hop, PORT, PORT_BITS, PlainPort};

/// Number of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl PortId {
    /// The same port, entered through its queue `number` regardless of the class of a flow. For
    /// paths only.
    #[must_use]
    pub fn through(self, number: u16) -> Self {
        Self(self.0 & PORT | (u32::from(number) + 1) << PORT_BITS)
    }

    /// The port without the number of the queue, as observers see it.
    #[must_use]
    pub fn port(self) -> Self {
        Self(self.0 & PORT)
    }
}

/// The properties of a flow, except its endpoints.
#[derive(Clone, Debug, Default)]
pub struct FlowSpec {
    /// Ports from source to sink, in order.
    pub forward: Vec<PortId>,
    /// Ports from sink to source, in order.
    pub back: Vec<PortId>,
    /// Addresses and port numbers of the flow's forward packets, for masks and hashes.
    pub key: FlowKey,
    /// The queue that the flow's packets join in a port with several queues.
    pub class: u16,
    /// The group for the flow's statistics; several flows may share a group.
    pub group: u32,
}

/// Counters of the forward packets of one flow, or of a group of flows, since the end of the
/// warm-up.
#[derive(Clone, Debug, Default)]
pub struct FlowCount {
    /// Packets given to the network.
    pub sent: u64,
    /// Network-layer bytes of the packets sent.
    pub sent_bytes: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Network-layer bytes of the packets received.
    pub received_bytes: u64,
    /// Payload bytes that reached the application, without duplicates.
    pub goodput_bytes: u64,
    /// Packets lost in the network, by drop reason, and marks by mark reason.
    pub reasons: Reasons,
    /// Packets that arrived with congestion experienced.
    pub marked: u64,
    /// Retransmitted segments; for QUIC, packets that the stack found lost.
    pub retransmitted: u64,
    /// One-way delay of packets that arrived, ns.
    pub delay_ns: Tally,
    /// Sum of the absolute differences between the delays of consecutive arrivals, ns.
    pub variation_ns: u64,
    last_delay_ns: u64,
    /// Packets that were inside when counting began.
    pub carried: u64,
    /// Copies of packets that links made.
    pub duplicated: u64,
    /// Flows that were opened. Pings, requests, queries and web pages count as flows.
    pub opened: u64,
    /// Flows that were completed, of the same kinds.
    pub completed: u64,
    /// Duration of completed flows, ns.
    pub completion_ns: Tally,
    /// Time in the traffic managers of the path's switches, for packets that arrived and passed a
    /// switch with a rank program, ns.
    pub switches_ns: Tally,
}

impl FlowCount {
    /// Packets inside the network: `carried + sent + duplicated − received − lost`.
    pub fn inside(&self) -> u64 {
        (self.carried + self.sent + self.duplicated)
            .saturating_sub(self.received + self.reasons.total_drops())
    }
}

/// Counters of the packets of one class, in a port with a queue for each class.
#[derive(Clone, Debug, Default)]
pub struct ClassCount {
    /// Packets that left the port.
    pub packets: u64,
    /// Network-layer bytes of these packets.
    pub bytes: u64,
    /// Packets lost, by drop reason, and marks by mark reason.
    pub reasons: Reasons,
    /// Time in the queue of packets that left the port, ns.
    pub queue_ns: Tally,
}

/// Information about a packet for observers, in addition to the packet itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct About {
    /// The group of the packet's flow.
    pub group: u32,
    /// The packet's addresses and port numbers, in its direction.
    pub key: FlowKey,
    /// The label that the port's scheduler uses, for [`Observer::entered`]; 0 for other events.
    pub rank: u64,
}

/// Observes events; the default methods do nothing.
pub trait Observer: std::fmt::Debug + Send {
    /// Called before [`Self::entered`], [`Self::departed`], [`Self::dropped`] and
    /// [`Self::arrived`], with more information about the same packet.
    fn about(&mut self, _about: &About) {}
    /// Called when a port accepts a packet.
    fn entered(&mut self, _now: Nanos, _port: PortId, _packet: &Packet) {}
    /// Called when a packet leaves a port. `dequeued` is the time at which it left the queue, if
    /// known.
    fn departed(&mut self, _now: Nanos, _port: PortId, _packet: &Packet, _dequeued: Option<Nanos>) {
    }
    /// Called when a packet is lost in a port.
    fn dropped(&mut self, _now: Nanos, _port: PortId, _packet: &Packet, _reason: DropReason) {}
    /// Called when a packet arrives at its endpoint.
    fn arrived(&mut self, _now: Nanos, _packet: &Packet) {}
    /// Called when the counters are set to zero.
    fn zero(&mut self) {}
    /// Called when the run is over.
    fn finish(&mut self) {}
    /// The number of inverted pairs at the port, the number of inverted services, and the sum of
    /// the differences of labels over all pairs; `None` if inversions were not counted.
    fn inversions(&self, _port: PortId) -> Option<[u64; 3]> {
        None
    }
    /// When to call [`Self::tick`] next; [`Nanos::MAX`] for never.
    fn next_tick(&self) -> Nanos {
        Nanos::MAX
    }
    /// Called at the time of [`Self::next_tick`], to read queues.
    fn tick(&mut self, _now: Nanos, _network: &mut Network) {}
}

/// Changes the labels of packets that pass a port: the rank program of a switch.
pub trait Labeller: std::fmt::Debug + Send {
    /// Returns the label that the port's scheduler uses, and the label that the packet keeps.
    fn enter(&mut self, now: Nanos, packet: &Packet) -> (u64, u64);
    /// Returns the new label of a packet that waited from `arrived` to `dequeued`.
    fn leave(&mut self, packet: &Packet, arrived: Nanos, dequeued: Nanos) -> u64 {
        let _ = (arrived, dequeued);
        packet.label
    }
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most ports are plain, and a packet is to find them in one step"
)]
enum Port {
    Plain(PlainPort),
    Engine(EnginePort),
}

/// A port that is a pipe or scheduler of the engine.
#[derive(Debug)]
struct EnginePort {
    id: u16,
    /// The queues by class; empty for a pipe, and for a scheduler without queues by class.
    queues: Vec<u16>,
    /// Counters by the class of the flow, as many as `queues`; the last takes all higher classes.
    classes: Vec<ClassCount>,
    labeller: Option<Box<dyn Labeller>>,
    /// The number of the last packet, if each packet is a separate flow to the scheduler; `None` if
    /// the scheduler sees the packets' own flows.
    separate: Option<u32>,
    /// Whether a packet that leaves must wait until the next port has room for it, and holds this
    /// port back until then.
    gated: bool,
}

impl EnginePort {
    fn new(id: u16, queues: Vec<u16>) -> Self {
        let classes = vec![ClassCount::default(); queues.len()];
        Self { id, queues, classes, labeller: None, separate: None, gated: false }
    }

    /// The queue for packets of a class.
    #[inline]
    fn queue_of(&self, class: u16) -> usize {
        usize::from(class).min(self.queues.len().saturating_sub(1))
    }
}

#[derive(Debug)]
struct Flow {
    source: EndpointId,
    sink: EndpointId,
    /// Index of the first hop of each path.
    forward: u32,
    back: u32,
    class: u16,
    group: u32,
    /// Number of packets of the flow inside the network.
    inside: u32,
    retired: bool,
}

/// Ports, paths, flows and packets.
#[derive(Debug)]
pub struct Network {
    seed: u64,
    now: Nanos,
    packets: Packets,
    paths: Vec<Hop>,
    /// Whether paths were added since the network last determined which ports are joined.
    new_paths: bool,
    /// Nothing reads counters and queues before this time.
    horizon: Nanos,
    flows: Vec<Flow>,
    free_flows: Vec<u32>,
    /// Forward and backward key of each flow.
    keys: Vec<[FlowKey; 2]>,
    counts: Vec<FlowCount>,
    ports: Vec<Port>,
    engine: Emulator,
    /// Port of each pipe or scheduler of the engine.
    engine_ports: Vec<u32>,
    next_queue: u16,
    /// Number of flows opened from templates.
    opened: u64,
    /// Packets that have left a gated port and wait for room in the next one.
    held: Vec<Held>,
    /// The time that each packet has spent in traffic managers, by the packet's number, ns; empty
    /// in a network without rank programs.
    waited: Vec<u64>,
    departures: Vec<Departure>,
    /// The next event of each plain port and of each endpoint. The endpoints have the numbers after
    /// those of the ports.
    pub(crate) agenda: Agenda,
    /// The time of the engine's next event.
    engine_event: Nanos,
    /// Whether packets, notices or new flows wait for [`crate::world::World`] to deliver them.
    pub(crate) unsettled: bool,
    /// Packets that have reached the end of their path.
    arrived: VecDeque<u32>,
    pub(crate) notices: VecDeque<(EndpointId, FlowId, Notice)>,
    /// Packets with [`Flags::TELL`] that left the first port of their path, which belongs to the
    /// host, or were lost there.
    pub(crate) left_host: VecDeque<(EndpointId, Packet)>,
    pub(crate) free_endpoints: Vec<EndpointId>,
    endpoints: u32,
    pub(crate) observer: Option<Box<dyn Observer>>,
    /// Number of events handled.
    pub(crate) handled: u64,
}

impl Network {
    /// A network without ports.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Nanos::ZERO,
            packets: Packets::default(),
            paths: vec![Hop::END],
            new_paths: false,
            horizon: Nanos::ZERO,
            flows: Vec::new(),
            free_flows: Vec::new(),
            keys: Vec::new(),
            counts: Vec::new(),
            ports: Vec::new(),
            engine: Emulator::new(seed, Limits { idle: Nanos(u64::MAX / 4), ..Limits::default() }),
            engine_ports: Vec::new(),
            next_queue: 1,
            opened: 0,
            held: Vec::new(),
            waited: Vec::new(),
            departures: Vec::new(),
            agenda: Agenda::default(),
            engine_event: Nanos::MAX,
            unsettled: false,
            arrived: VecDeque::new(),
            notices: VecDeque::new(),
            left_host: VecDeque::new(),
            free_endpoints: Vec::new(),
            endpoints: 0,
            observer: None,
            handled: 0,
        }
    }

    /// Adds a port that is a pipe. It is a plain pipe if the configuration permits that.
    pub fn add_pipe(&mut self, config: &PipeConfig) -> PortId {
        if let Some(plain) = PlainPipe::new(config) {
            return self.add_port(Port::Plain(PlainPort { pipe: plain, exits: VecDeque::new() }));
        }
        self.add_engine_pipe(config)
    }

    /// Adds a port that is a pipe of the engine, even if a plain pipe would suffice.
    pub fn add_engine_pipe(&mut self, config: &PipeConfig) -> PortId {
        let id = self.next_engine_id();
        self.engine.set_pipe(self.now, id, config);
        self.add_port(Port::Engine(EnginePort::new(id, Vec::new())))
    }

    /// Adds a port with a scheduler. `queues` are its queues by class; if empty, the port has the
    /// single queue `own`.
    pub fn add_scheduler(
        &mut self,
        config: &SchedulerConfig,
        link: &LinkConfig,
        own: &FlowsetConfig,
        queues: &[FlowsetConfig],
    ) -> PortId {
        let id = self.next_engine_id();
        self.engine.set_link(self.now, id, config, link, own);
        let first = self.next_queue;
        for (queue, number) in queues.iter().zip(first..) {
            self.engine.set_queue(self.now, number, id, queue);
        }
        self.next_queue += queues.len() as u16;
        let queues = (first..self.next_queue).collect();
        self.add_port(Port::Engine(EnginePort::new(id, queues)))
    }

    /// Sets the rank program of a port of the engine. Plain ports ignore labels.
    pub fn set_labeller(&mut self, port: PortId, program: Box<dyn Labeller>) {
        if let Port::Engine(port) = &mut self.ports[port.0 as usize] {
            port.labeller = Some(program);
        }
    }

    /// Makes packets that leave a port of the engine wait until the next port has room for them
    /// (see [`hold`]). The port's device must be gated
    /// ([`weir_core::device::DeviceConfig::gated`]), and the next ports must know their room
    /// ([`weir_core::sched::Discipline::knows_room`]).
    pub fn gate(&mut self, port: PortId) {
        if let Port::Engine(port) = &mut self.ports[port.0 as usize] {
            port.gated = true;
        }
    }

    /// The seed of the network's random draws.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Makes each packet a separate flow to the scheduler of a port, up to the number of flow
    /// labels that the mask of its queue keeps. Ranks alone then order the packets, as in a switch
    /// without flows.
    pub fn separate_packets(&mut self, port: PortId) {
        if let Port::Engine(port) = &mut self.ports[port.0 as usize] {
            port.separate = Some(0);
        }
    }

    fn next_engine_id(&mut self) -> u16 {
        let id = self.engine_ports.len().max(1) as u16;
        self.engine_ports.resize(usize::from(id), NONE);
        self.engine_ports.push(self.ports.len() as u32);
        id
    }

    /// # Panics
    /// An endpoint was already added.
    fn add_port(&mut self, port: Port) -> PortId {
        assert_eq!(self.endpoints, 0, "ports must be added before endpoints");
        self.ports.push(port);
        PortId(self.ports.len() as u32 - 1)
    }

    /// Allocates the statistics of `groups` groups of flows.
    pub fn set_groups(&mut self, groups: u32) {
        self.counts.resize_with(groups as usize, FlowCount::default);
    }

    pub(crate) fn add_flow(
        &mut self,
        spec: &FlowSpec,
        source: EndpointId,
        sink: EndpointId,
    ) -> FlowId {
        let forward = self.add_path(&spec.forward);
        let back = self.add_path(&spec.back);
        let FlowKey { src, dst, src_mac, dst_mac, src_port, dst_port, .. } = spec.key;
        let reverse = FlowKey {
            src: dst,
            dst: src,
            src_mac: dst_mac,
            dst_mac: src_mac,
            src_port: dst_port,
            dst_port: src_port,
            ..spec.key
        };
        let flow = Flow {
            source,
            sink,
            forward,
            back,
            class: spec.class,
            group: spec.group,
            inside: 0,
            retired: false,
        };
        if self.counts.len() <= spec.group as usize {
            self.set_groups(spec.group + 1);
        }
        self.counts[spec.group as usize].opened += 1;
        self.place_flow(flow, [spec.key, reverse])
    }

    /// Stores a flow under a free number.
    fn place_flow(&mut self, flow: Flow, keys: [FlowKey; 2]) -> FlowId {
        match self.free_flows.pop() {
            Some(number) => {
                self.flows[number as usize] = flow;
                self.keys[number as usize] = keys;
                FlowId(number)
            }
            None => {
                self.flows.push(flow);
                self.keys.push(keys);
                FlowId(self.flows.len() as u32 - 1)
            }
        }
    }

    /// The number of the next flow to be added.
    pub(crate) fn next_flow(&self) -> FlowId {
        FlowId(self.free_flows.last().copied().unwrap_or(self.flows.len() as u32))
    }

    fn add_path(&mut self, ports: &[PortId]) -> u32 {
        let start = self.paths.len() as u32;
        self.paths.extend(ports.iter().map(|port| Hop { port: port.0, joined: false }));
        self.paths.push(Hop::END);
        self.new_paths = true;
        start
    }

    pub(crate) fn next_endpoint(&mut self) -> EndpointId {
        self.free_endpoints.pop().unwrap_or_else(|| {
            self.endpoints += 1;
            EndpointId(self.endpoints - 1)
        })
    }

    /// Adds a flow like `like`, and reserves numbers for its source and its sink.
    pub(crate) fn open_like(&mut self, like: FlowId) -> (FlowId, [EndpointId; 2]) {
        let ids = [self.next_endpoint(), self.next_endpoint()];
        let Flow { forward, back, class, group, .. } = self.flows[like.0 as usize];
        let mut keys = self.keys[like.0 as usize];
        // The port number distinguishes this flow from earlier flows like it.
        let port = 1024 + (self.opened % 64_000) as u16;
        self.opened += 1;
        keys[0].src_port = port;
        keys[1].dst_port = port;
        let flow = Flow {
            source: ids[0],
            sink: ids[1],
            forward,
            back,
            class,
            group,
            inside: 0,
            retired: false,
        };
        let id = self.place_flow(flow, keys);
        self.unsettled = true;
        (id, ids)
    }

    pub(crate) fn retire(&mut self, flow: FlowId) {
        let state = &mut self.flows[flow.0 as usize];
        if state.source != NO_ENDPOINT
            && !std::mem::replace(&mut state.retired, true)
            && state.inside == 0
        {
            self.free_flow(flow);
        }
    }

    /// Frees the numbers of a flow and its endpoints. The endpoints are not woken any more, and the
    /// flow cannot be retired again.
    fn free_flow(&mut self, flow: FlowId) {
        let state = &mut self.flows[flow.0 as usize];
        let ends = [state.source, state.sink];
        (state.source, state.sink, state.retired) = (NO_ENDPOINT, NO_ENDPOINT, false);
        let ports = self.ports();
        for end in ends {
            self.agenda.set(ports + end.0, Nanos::MAX);
        }
        self.free_endpoints.extend(ends);
        self.free_flows.push(flow.0);
    }

    /// The present time.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.now
    }

    pub(crate) fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// The packets inside the network.
    #[inline]
    pub fn packets(&self) -> &Packets {
        &self.packets
    }

    pub(crate) fn insert_extra(&mut self, extra: Extra) -> u32 {
        self.packets.insert_extra(extra)
    }

    /// The endpoints of a flow: source, sink.
    pub fn ends(&self, flow: FlowId) -> [EndpointId; 2] {
        let Flow { source, sink, .. } = self.flows[flow.0 as usize];
        [source, sink]
    }

    /// The group for the flow's statistics.
    pub fn group(&self, flow: FlowId) -> u32 {
        self.flows[flow.0 as usize].group
    }

    /// Addresses of a flow's forward packets.
    pub fn key(&self, flow: FlowId) -> &FlowKey {
        &self.keys[flow.0 as usize][0]
    }

    /// Addresses of the flow's packets in the direction of `packet`.
    pub fn key_of(&self, packet: &Packet) -> &FlowKey {
        &self.keys[packet.flow.0 as usize][usize::from(packet.flags.has(Flags::BACK))]
    }

    /// Counters of a flow's group.
    #[inline]
    pub fn count(&mut self, flow: FlowId) -> &mut FlowCount {
        &mut self.counts[self.flows[flow.0 as usize].group as usize]
    }

    /// Counters of all groups.
    pub fn counts(&self) -> &[FlowCount] {
        &self.counts
    }

    /// Number of ports.
    pub fn ports(&self) -> u32 {
        self.ports.len() as u32
    }

    /// Counters and latencies of a port.
    pub fn stats(&self, port: PortId) -> Option<&LinkStats> {
        match self.ports.get(port.0 as usize)? {
            Port::Plain(plain) => Some(plain.pipe.stats()),
            Port::Engine(port) => self.engine.stats(port.id),
        }
    }

    /// Packets and bytes in a port's queues.
    pub fn queue_length(&mut self, port: PortId) -> (u64, u64) {
        match &mut self.ports[port.0 as usize] {
            Port::Plain(plain) => plain.pipe.queue_length(self.now),
            Port::Engine(port) => self.engine.queue_length(port.id),
        }
    }

    /// The largest number of packets in a port's queues since the last call, or since the counters
    /// were set to zero.
    pub(crate) fn take_peak(&mut self, port: PortId) -> u64 {
        match &mut self.ports[port.0 as usize] {
            Port::Plain(plain) => plain.pipe.take_peak(self.now),
            Port::Engine(port) => {
                let (packets, _) = self.engine.queue_peak(port.id);
                self.engine.restart_peak(port.id);
                packets
            }
        }
    }

    /// Counters of each class of a port that has a queue for each class; empty for other ports.
    pub fn classes(&self, port: PortId) -> &[ClassCount] {
        match self.ports.get(port.0 as usize) {
            Some(Port::Engine(port)) => &port.classes,
            _ => &[],
        }
    }

    /// The engine and the engine's number of a port; `None` for a plain port.
    pub fn engine(&self, port: PortId) -> (&Emulator, Option<u16>) {
        let id = match self.ports.get(port.0 as usize) {
            Some(Port::Engine(port)) => Some(port.id),
            _ => None,
        };
        (&self.engine, id)
    }

    /// Sets all counters to zero, at the end of the warm-up.
    pub fn zero(&mut self) {
        for count in &mut self.counts {
            *count = FlowCount { carried: count.inside(), ..FlowCount::default() };
        }
        for port in &mut self.ports {
            match port {
                Port::Plain(plain) => plain.pipe.zero(self.now),
                Port::Engine(port) => {
                    self.engine.zero(port.id);
                    port.classes.fill_with(ClassCount::default);
                }
            }
        }
    }

    /// Counters of the queue for a class, in a port with several queues.
    #[inline]
    fn class_count(&mut self, port: u32, class: u16) -> Option<&mut ClassCount> {
        let Port::Engine(port) = &mut self.ports[port as usize] else { return None };
        let queue = port.queue_of(class);
        port.classes.get_mut(queue)
    }

    pub(crate) fn tell(&mut self, to: EndpointId, flow: FlowId, notice: Notice) {
        self.notices.push_back((to, flow, notice));
        self.unsettled = true;
    }
}

/// The endpoint of templates, which send no packets, and of freed flows.
pub(crate) const NO_ENDPOINT: EndpointId = EndpointId(u32::MAX);
