//! Flows of random sizes that begin at random times, or when a user has thought.
//!
//! # Model
//! Open: flows arrive as a Poisson process, whose rate is the offered load divided by the mean
//! size. What is offered does not depend on what the network does, so that flows pile up where it
//! is more than fits. Closed: each of some users has one flow at a time and thinks, for an
//! exponentially distributed span, before the next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use weir_core::Nanos;

use crate::endpoint::{Context, Endpoint, Notice};
use crate::packet::{FlowId, Packet};
use crate::random::{Draws, Variable};

use super::transport::{Opener, Supply};

/// When flows begin.
#[derive(Clone, Debug)]
pub(super) enum Arrivals {
    /// At random distances, ns.
    Open(Variable),
    /// A span after the last flow of a user has ended, ns; so many users.
    Closed(Variable, u32),
}

/// Opens flows and counts them.
#[derive(Debug)]
pub(super) struct Flows {
    opener: Opener,
    template: FlowId,
    arrivals: Arrivals,
    sizes: Variable,
    /// Flows that may still begin.
    left: u64,
    from: Nanos,
    until: Nanos,
    times: Draws,
    draws: Draws,
    /// When flows begin.
    begins: BinaryHeap<Reverse<Nanos>>,
    /// When each open flow began.
    open: BTreeMap<FlowId, Nanos>,
}

/// What flows are like, and when they begin.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) arrivals: Arrivals,
    /// Bytes.
    pub(super) sizes: Variable,
    /// Most flows.
    pub(super) most: u64,
}

impl Flows {
    /// `times` and `draws` are the streams of times and of sizes.
    pub(super) fn new(
        opener: Opener,
        template: FlowId,
        workload: Workload,
        span: (Nanos, Nanos),
        draws: (Draws, Draws),
    ) -> Self {
        let Workload { arrivals, sizes, most } = workload;
        let ((from, until), (times, draws)) = (span, draws);
        let (begins, open) = (BinaryHeap::new(), BTreeMap::new());
        Self {
            opener,
            template,
            arrivals,
            sizes,
            left: most,
            from,
            until,
            times,
            draws,
            begins,
            open,
        }
    }

    fn think(&mut self, now: Nanos) {
        let (Arrivals::Open(span) | Arrivals::Closed(span, _)) = &self.arrivals;
        self.begins.push(Reverse(now.saturating_add(span.span(&mut self.times))));
    }
}

impl Endpoint for Flows {
    fn start(&mut self, _context: &mut Context<'_>) {
        let users = if let Arrivals::Closed(_, users) = self.arrivals { users } else { 1 };
        for _ in 0..users {
            self.think(self.from);
        }
    }

    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        self.begins.pop();
        self.left -= 1;
        let size = bytes(self.sizes.draw(&mut self.draws));
        let flow = self.opener.open(self.template, Supply::Bytes(size), context);
        context.count(flow).opened += 1;
        self.open.insert(flow, context.now());
        if let Arrivals::Open(_) = self.arrivals {
            self.think(context.now());
        }
    }

    fn next_event(&self) -> Nanos {
        match self.begins.peek() {
            Some(&Reverse(at)) if self.left > 0 && at < self.until => at,
            _ => Nanos::MAX,
        }
    }

    fn notice(&mut self, from: FlowId, notice: Notice, context: &mut Context<'_>) {
        if notice != Notice::Done {
            return;
        }
        let Some(began) = self.open.remove(&from) else { return };
        complete(from, began, context);
        context.retire(from);
        if let Arrivals::Closed(..) = self.arrivals {
            self.think(context.now());
        }
    }
}

/// Counts what began at `began` as complete, in the group of `flow`.
pub(super) fn complete(flow: FlowId, began: Nanos, context: &mut Context<'_>) {
    let took = context.now().since(began);
    let count = context.count(flow);
    count.completed += 1;
    count.completion_ns.record(took.0);
}

/// A drawn number of bytes: at least one.
pub(super) fn bytes(drawn: f64) -> u64 {
    (libm::round(drawn).clamp(1.0, 1e15)) as u64
}
