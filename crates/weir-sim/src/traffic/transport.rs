//! What traffic needs of a transport protocol: two ends for a flow, and words between them and who
//! has opened it.

use std::fmt::Debug;

use weir_core::Nanos;

use crate::endpoint::{Context, Endpoint, EndpointId, Notice};
use crate::packet::FlowId;

/// What a flow has to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// More than it ever can.
    Unlimited,
    /// This many bytes; then it closes by itself.
    Bytes(u64),
    /// What [`Notice::Write`] says, until [`Notice::Close`].
    Written,
}

/// What a flow is opened with.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// What it carries.
    pub supply: Supply,
    /// Who hears of it: [`Notice::Delivered`] from the sink for bytes that arrive in order,
    /// [`Notice::Done`] from the source when it is closed and all of it is acknowledged. Who hears
    /// that retires the flow and counts it. Without an owner the transport counts.
    pub owner: Option<EndpointId>,
    /// When it begins, where that is later than its making.
    pub start: Nanos,
    /// When it takes nothing new from its supply any more.
    pub stop: Nanos,
    /// Label of its packets.
    pub label: u64,
    /// Seed of whatever it draws.
    pub seed: u64,
}

/// A transport protocol.
pub trait Transport: Debug + Send + Sync {
    /// Source and sink of `flow`.
    fn ends(&self, flow: FlowId, opening: &Opening) -> (Box<dyn Endpoint>, Box<dyn Endpoint>);

    /// IP protocol of its packets.
    fn protocol(&self) -> u8;
}

/// Opens flows for an owner.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) transport: std::sync::Arc<dyn Transport>,
    pub(super) opening: Opening,
}

impl Opener {
    /// Opens a flow like `template`, owned by who is called.
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

/// Tells the sending end of a flow.
pub(super) fn tell_source(flow: FlowId, notice: Notice, context: &mut Context<'_>) {
    let [source, _] = context.ends(flow);
    context.tell(source, flow, notice);
}
