//! The interface between traffic and a transport protocol: two endpoints for a flow, and notices to
//! the owner of the flow.

use std::fmt::Debug;

use weir_core::Nanos;

use crate::endpoint::{Context, Endpoint, EndpointId, Notice};
use crate::packet::FlowId;

/// The payload of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// Unlimited.
    Unlimited,
    /// This many bytes, after which the flow closes.
    Bytes(u64),
    /// The bytes of each [`Notice::Write`], until [`Notice::Close`].
    Written,
}

/// The settings of a new flow.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Payload of the flow.
    pub supply: Supply,
    /// The endpoint that gets the flow's notices: [`Notice::Delivered`] from the sink for bytes
    /// that arrive in order, and [`Notice::Done`] from the source when the flow is closed and all
    /// data is acknowledged. The owner then retires and counts the flow. Without an owner, the
    /// transport counts the flow.
    pub owner: Option<EndpointId>,
    /// Start time, if later than now.
    pub start: Nanos,
    /// When the flow stops accepting new payload.
    pub stop: Nanos,
    /// Label of the packets.
    pub label: u64,
    /// Seed of the flow's random draws.
    pub seed: u64,
}

/// A transport protocol.
pub trait Transport: Debug + Send + Sync {
    /// Source and sink of `flow`.
    fn ends(&self, flow: FlowId, opening: &Opening) -> (Box<dyn Endpoint>, Box<dyn Endpoint>);

    /// IP protocol of the packets.
    fn protocol(&self) -> u8;
}

/// Opens flows for an owner.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) transport: std::sync::Arc<dyn Transport>,
    pub(super) opening: Opening,
}

impl Opener {
    /// Opens a flow like `template`, owned by the endpoint of `context`.
    pub(super) fn open(
        &mut self,
        template: FlowId,
        supply: Supply,
        context: &mut Context<'_>,
    ) -> FlowId {
        let flow = context.next_flow();
        self.opening.seed = self.opening.seed.wrapping_add(1);
        let opening =
            Opening { supply, owner: Some(context.me()), start: Nanos::ZERO, ..self.opening };
        let (source, sink) = self.transport.ends(flow, &opening);
        let opened = context.open(template, source, sink);
        debug_assert_eq!(flow, opened);
        opened
    }
}

/// Sends a notice to the sending end of a flow.
pub(super) fn tell_source(flow: FlowId, notice: Notice, context: &mut Context<'_>) {
    let [source, _] = context.ends(flow);
    context.tell(source, flow, notice);
}
