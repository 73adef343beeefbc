//! Users request responses of random sizes, one after the other, with think times between them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_core::Nanos;

use crate::endpoint::{Context, Endpoint, Notice};
use crate::packet::{FlowId, Packet};
use crate::random::{Draws, Variable};

use super::connection::{Connections, Link};
use super::flows::{bytes, complete};

/// Sends the requests of users. A completion time is the time from a request to the end of its
/// response.
#[derive(Debug)]
pub(super) struct Users {
    connections: Connections,
    /// The flow of requests of the first user. Requests are counted in the group of this flow.
    control: FlowId,
    habits: Habits,
    from: Nanos,
    /// No request starts at this time or later.
    until: Nanos,
    /// The random stream of the times.
    times: Draws,
    /// The random stream of the sizes.
    draws: Draws,
    /// Users who are thinking, by the end of their think time.
    thinking: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Time of each user's last request.
    asked: Vec<Nanos>,
}

#[derive(Clone, Debug)]
pub(super) struct Habits {
    /// Bytes of a response.
    pub(super) sizes: Variable,
    /// Think time before a request, ns.
    pub(super) think: Variable,
}

impl Users {
    /// A client with one user for each link.
    pub(super) fn new(
        connections: Connections,
        links: &[Link],
        habits: Habits,
        span: (Nanos, Nanos),
        draws: (Draws, Draws),
    ) -> Self {
        let ((from, until), (times, draws)) = (span, draws);
        let asked = vec![Nanos::ZERO; links.len()];
        Self {
            connections,
            control: links[0].control,
            habits,
            from,
            until,
            times,
            draws,
            thinking: BinaryHeap::new(),
            asked,
        }
    }

    fn think(&mut self, user: usize, now: Nanos) {
        self.thinking
            .push(Reverse((now.saturating_add(self.habits.think.span(&mut self.times)), user)));
    }
}

impl Endpoint for Users {
    fn start(&mut self, _context: &mut Context<'_>) {
        for user in 0..self.connections.len() {
            self.think(user, self.from);
        }
    }

    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        let Some(Reverse((_, user))) = self.thinking.pop() else { return };
        context.count(self.control).opened += 1;
        self.asked[user] = context.now();
        let size = bytes(self.habits.sizes.draw(&mut self.draws));
        self.connections.ask(user, size, context);
    }

    fn next_event(&self) -> Nanos {
        match self.thinking.peek() {
            Some(&Reverse((at, _))) if at < self.until => at,
            _ => Nanos::MAX,
        }
    }

    fn notice(&mut self, from: FlowId, notice: Notice, context: &mut Context<'_>) {
        if let Some(user) = self.connections.notice(from, notice, context) {
            complete(self.control, self.asked[user], context);
            self.think(user, context.now());
        }
    }
}
