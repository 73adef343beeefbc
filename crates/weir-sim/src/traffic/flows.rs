//! Flows of random sizes that start at random times, or after a user's think time.
//!
//! # Model
//! Open: flows arrive as a Poisson process. Its rate is given, or is the offered load divided by
//! the mean size. Flows accumulate if the offered load exceeds the capacity. Closed: each user has
//! one flow at a time, with an exponentially distributed think time before the next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use weir_core::Nanos;

use crate::endpoint::{Context, Endpoint, Notice};
use crate::packet::{FlowId, Packet};
use crate::random::{Draws, Variable};

use super::transport::{Opener, Supply};

/// When flows start.
#[derive(Clone, Debug)]
pub(super) enum Arrivals {
    /// At random intervals, ns.
    Open(Variable),
    /// After the think time that follows the user's previous flow, ns. The second field is the
    /// number of users.
    Closed(Variable, u32),
}

/// Opens flows and counts them.
#[derive(Debug)]
pub(super) struct Flows {
    opener: Opener,
    template: FlowId,
    arrivals: Arrivals,
    sizes: Variable,
    /// Number of flows that may still start.
    remaining: u64,
    from: Nanos,
    until: Nanos,
    /// The random stream of the times.
    times: Draws,
    /// The random stream of the sizes.
    draws: Draws,
    /// The start times of flows that have not started.
    begins: BinaryHeap<Reverse<Nanos>>,
    /// Start time of each open flow.
    open: BTreeMap<FlowId, Nanos>,
}

/// The sizes and start times of flows.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) arrivals: Arrivals,
    /// Bytes.
    pub(super) sizes: Variable,
    /// Maximum number of flows.
    pub(super) most: u64,
}

impl Flows {
    /// An endpoint that opens flows like `template`. `span` is the start and the end of the
    /// traffic. `draws` holds the random streams of times and of sizes.
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
            remaining: most,
            from,
            until,
            times,
            draws,
            begins,
            open,
        }
    }

    /// Draws the start of the next flow: `now` plus an interval or a think time.
    fn schedule_next(&mut self, now: Nanos) {
        let (Arrivals::Open(span) | Arrivals::Closed(span, _)) = &self.arrivals;
        self.begins.push(Reverse(now.saturating_add(span.span(&mut self.times))));
    }
}

impl Endpoint for Flows {
    fn start(&mut self, _context: &mut Context<'_>) {
        let users = if let Arrivals::Closed(_, users) = self.arrivals { users } else { 1 };
        for _ in 0..users {
            self.schedule_next(self.from);
        }
    }

    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        self.begins.pop();
        self.remaining -= 1;
        let size = bytes(self.sizes.draw(&mut self.draws));
        let flow = self.opener.open(self.template, Supply::Bytes(size), context);
        context.count(flow).opened += 1;
        self.open.insert(flow, context.now());
        if let Arrivals::Open(_) = self.arrivals {
            self.schedule_next(context.now());
        }
    }

    fn next_event(&self) -> Nanos {
        match self.begins.peek() {
            Some(&Reverse(at)) if self.remaining > 0 && at < self.until => at,
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
            self.schedule_next(context.now());
        }
    }
}

/// Counts a flow that started at `began` as completed, in the group of `flow`.
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
