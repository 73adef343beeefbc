//! Endpoints, which send and receive at the edge of the network.
//!
//! An endpoint has no clock and no thread. The world calls it with packets, times and notices from
//! other endpoints, and the endpoint sends packets through its [`Context`]. Each endpoint draws
//! random numbers from a separate stream.

use std::fmt::Debug;

use weir_core::Nanos;

use crate::network::Network;
use crate::packet::{Extra, FlowId, NONE, Packet};

pub use crate::notice::{EndpointId, Notice};

/// One end of a flow, or a generator of flows.
pub trait Endpoint: Debug + Send {
    /// Called at the start of the simulation, or, for an endpoint that is made during the
    /// simulation, as soon as it exists.
    fn start(&mut self, _context: &mut Context<'_>) {}

    /// Called when a packet has arrived.
    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>);

    /// Called at the time of [`Self::next_event`].
    fn wake(&mut self, _context: &mut Context<'_>) {}

    /// When to call [`Self::wake`]; [`Nanos::MAX`] for never. The world calls this method after
    /// each of the other methods. The time may be earlier than necessary.
    fn next_event(&self) -> Nanos {
        Nanos::MAX
    }

    /// Called when a packet with [`crate::packet::Flags::TELL`] has left its host's queue and
    /// device, which are the first port of its path, or was lost there.
    fn left_host(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    /// Called when a notice from another endpoint has arrived.
    fn notice(&mut self, _from: FlowId, _notice: Notice, _context: &mut Context<'_>) {}
}

/// The operations that an endpoint may use while it is called.
#[derive(Debug)]
pub struct Context<'a> {
    /// The network: endpoints read its clock and send packets into it.
    pub(crate) network: &'a mut Network,
    /// Endpoints of flows that were opened during the call.
    pub(crate) born: &'a mut Vec<Newborn>,
    /// The endpoint that is called.
    pub(crate) me: EndpointId,
}

/// The number of a new endpoint, and the endpoint.
pub(crate) type Newborn = (EndpointId, Box<dyn Endpoint>);

impl Context<'_> {
    /// The present time.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.network.now()
    }

    /// The endpoint that is called.
    pub fn me(&self) -> EndpointId {
        self.me
    }

    /// Sends a packet from the flow's source to its destination, or back if the packet has
    /// [`crate::packet::Flags::BACK`]. Sets the packet's `sent`.
    #[inline(always)] // Measured: see `network::path`.
    pub fn send(&mut self, packet: Packet) {
        self.network.send(packet, NONE);
    }

    /// Sends a packet with an [`Extra`]: contents that only some packets carry.
    #[inline]
    pub fn send_with(&mut self, packet: Packet, extra: Extra) {
        let extra = self.network.insert_extra(extra);
        self.network.send(packet, extra);
    }

    /// The extra of the packet that is being received.
    #[inline]
    pub fn extra(&self, packet: &Packet) -> Option<&Extra> {
        self.network.packets().extra(packet)
    }

    /// Sends a notice to an endpoint, which gets it after this call.
    pub fn tell(&mut self, to: EndpointId, flow: FlowId, notice: Notice) {
        self.network.tell(to, flow, notice);
    }

    /// The number of the next flow to be opened. The endpoints of this flow need the number.
    pub fn next_flow(&self) -> FlowId {
        self.network.next_flow()
    }

    /// The endpoints of a flow: source, sink.
    pub fn ends(&self, flow: FlowId) -> [EndpointId; 2] {
        self.network.ends(flow)
    }

    /// Opens a flow like `flow`, a template of [`crate::world::World::add_template`]. The flow's
    /// endpoints start after this call. If the flow is to be counted, the calling endpoint must
    /// count it as opened and as completed in the flow's group.
    pub fn open(
        &mut self,
        flow: FlowId,
        source: Box<dyn Endpoint>,
        sink: Box<dyn Endpoint>,
    ) -> FlowId {
        let (flow, [of_source, of_sink]) = self.network.open_like(flow);
        self.born.push((of_source, source));
        self.born.push((of_sink, sink));
        flow
    }

    /// Retires a flow. Its number may be reused when none of its packets is inside the network. Its
    /// statistics remain with its group.
    pub fn retire(&mut self, flow: FlowId) {
        self.network.retire(flow);
    }

    /// Counters of a flow's group.
    #[inline]
    pub fn count(&mut self, flow: FlowId) -> &mut crate::network::FlowCount {
        self.network.count(flow)
    }
}
