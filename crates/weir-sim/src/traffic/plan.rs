//! Traffic with checked settings, and its installation in a world.

use std::borrow::Cow;
use std::sync::Arc;

use weir_core::Nanos;

use crate::endpoint::Endpoint;
use crate::network::FlowSpec;
use crate::packet::{FlowId, Packet};
use crate::random::Draws;
use crate::world::World;

use super::cbr::Constant;
use super::modulated::Modulated;
use super::ping::{Echo, Ping};
use super::placement::{Begin, Placement};
use super::renewal::{Mix, Renewal};
use super::replay::Replay;
use super::site::{Site, TransportTraffic, uncount};
use super::source::{Process, Sending, Sink, Source};
use super::transport::Transport;

/// Traffic with checked settings, which can be installed any number of times.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) begin: Begin,
    pub(super) work: Work,
}

/// Traffic without or with a transport.
#[derive(Clone, Debug)]
pub(super) enum Work {
    OpenLoop(OpenLoop),
    OverTransport(TransportTraffic, Arc<dyn Transport>),
}

/// Traffic without feedback from the network.
#[derive(Clone, Debug)]
pub(super) enum OpenLoop {
    Constant(Constant),
    Renewal(Renewal),
    Mix(Mix),
    /// `header` is the number of header bytes, if it exceeds the length of the IP and UDP headers.
    Modulated {
        modulated: Modulated,
        header: u8,
    },
    Replay(Replay),
    Ping {
        len: u32,
        interval: Nanos,
    },
    /// Traffic that is not simulated.
    Nothing,
}

impl Plan {
    /// Whether several sources send together to one destination and must be installed together.
    pub fn joint(&self) -> bool {
        matches!(self.work, Work::OverTransport(TransportTraffic::Incast { .. }, _))
    }

    /// IP protocol of the packets.
    pub fn protocol(&self) -> u8 {
        match &self.work {
            Work::OverTransport(_, transport) => transport.protocol(),
            Work::OpenLoop(OpenLoop::Ping { .. }) => 1,
            Work::OpenLoop(_) => 17,
        }
    }

    /// The same traffic over another transport. Traffic without a transport does not change.
    #[must_use]
    pub fn with_transport(self, transport: Arc<dyn Transport>) -> Self {
        match self.work {
            Work::OverTransport(what, _) => {
                Self { work: Work::OverTransport(what, transport), ..self }
            }
            Work::OpenLoop(_) => self,
        }
    }

    /// The same traffic on a path with this number of switches that have rank programs: each adds
    /// its share to the deadline.
    #[must_use]
    pub fn through(&self, switches: u32) -> Cow<'_, Self> {
        let more = self.begin.per_switch.saturating_mul(switches.into());
        if more == 0 {
            return Cow::Borrowed(self);
        }
        let label = self.begin.label.saturating_add(more);
        Cow::Owned(Self { begin: Begin { label, ..self.begin }, ..self.clone() })
    }

    /// When the flow or group of flows with this number begins in a run with this seed: `start`
    /// plus the random part of `start_jitter`. The number is that of [`Placement::number`].
    pub fn begins(&self, seed: u64, number: u64) -> Nanos {
        let random = 1.0 - Draws::new(seed, number, 0).unit();
        self.begin.start.saturating_add(Nanos((self.begin.jitter.0 as f64 * random) as u64))
    }

    /// Puts the traffic's endpoints into a world. Returns the flow that sends, or the templates of
    /// the flows that are opened during the run. Random draws depend only on the seed and the
    /// number of the traffic.
    pub fn install(&self, world: &mut World, at: &Placement<'_>) -> Vec<FlowId> {
        let from = self.begins(at.seed, at.number);
        let mut specs = at.flows.to_vec();
        specs.truncate(if self.joint() { usize::MAX } else { 1 });
        for spec in &mut specs {
            spec.key.proto = self.protocol();
            spec.key.dscp = self.begin.dscp;
        }
        match &self.work {
            Work::OverTransport(what, transport) => {
                Site { begin: &self.begin, what, transport, world, specs: &specs, from, at }
                    .install()
            }
            Work::OpenLoop(open) => {
                specs.iter().map(|spec| self.place(open, world, spec, from, at)).collect()
            }
        }
    }

    fn place(
        &self,
        open: &OpenLoop,
        world: &mut World,
        spec: &FlowSpec,
        from: Nanos,
        at: &Placement<'_>,
    ) -> FlowId {
        let Begin { until, ecn, label, .. } = self.begin;
        let flow = world.next_flow();
        let header = if spec.key.ipv6 { 48 } else { 28 };
        let sending = Sending {
            packet: Packet { flow, header, ecn, label, ..Packet::default() },
            from,
            until,
        };
        let draws = Draws::new(at.seed, at.number, 1);
        let (source, sink): (Box<dyn Endpoint>, Box<dyn Endpoint>) = match open {
            OpenLoop::Constant(process) => (source(process, draws, sending), Box::new(Sink)),
            OpenLoop::Renewal(process) => (source(process, draws, sending), Box::new(Sink)),
            OpenLoop::Mix(process) => (source(process, draws, sending), Box::new(Sink)),
            OpenLoop::Replay(process) => (source(process, draws, sending), Box::new(Sink)),
            OpenLoop::Modulated { modulated, header } => {
                let mut sending = sending;
                sending.packet.header = sending.packet.header.max(*header);
                (source(modulated, draws, sending), Box::new(Sink))
            }
            OpenLoop::Ping { len, interval } => {
                (Box::new(Ping::new(*len, *interval, sending)), Box::new(Echo))
            }
            OpenLoop::Nothing => (Box::new(Sink), Box::new(Sink)),
        };
        let added = world.add_flow(spec, source, sink);
        if let OpenLoop::Ping { .. } = open {
            uncount(world, added);
        }
        added
    }
}

fn source<P: Process>(process: &P, draws: Draws, sending: Sending) -> Box<dyn Endpoint> {
    Box::new(Source::of(process.clone(), draws, sending))
}
