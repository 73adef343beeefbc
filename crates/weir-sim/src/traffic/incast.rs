//! Incast: many servers answer one client at once.
//!
//! # Model
//! In a query, the client sends a request to all servers at the same time, and each server answers
//! with the same number of bytes. A query is complete when the last response has arrived. The next
//! query starts when this query is complete, but at least `interval` after the start of this query.
//! This is the partition and aggregate pattern of Alizadeh et al., "Data Center TCP (DCTCP)",
//! SIGCOMM 2010, section 2.

use weir_core::Nanos;

use crate::endpoint::{Context, Endpoint, Notice};
use crate::packet::{FlowId, Packet};

use super::connection::{Connections, Link};
use super::flows::complete;

/// Sends queries to all servers.
#[derive(Debug)]
pub(super) struct Incast {
    connections: Connections,
    /// The flow of requests to the first server. Queries are counted in the group of this flow.
    control: FlowId,
    /// Bytes of a response.
    size: u64,
    interval: Nanos,
    /// Number of queries that may still start.
    remaining: u64,
    /// No query starts at this time or later.
    until: Nanos,
    /// The earliest start of the next query.
    next: Nanos,
    /// Start of the current query.
    began: Nanos,
    /// Number of responses that have not arrived.
    missing: usize,
}

impl Incast {
    /// A client that sends `queries` queries, `interval` apart, for `size` bytes from each server.
    pub(super) fn new(
        connections: Connections,
        links: &[Link],
        size: u64,
        interval: Nanos,
        queries: u64,
        span: (Nanos, Nanos),
    ) -> Self {
        let (from, until) = span;
        let control = links[0].control;
        Self {
            connections,
            control,
            size,
            interval,
            remaining: queries,
            until,
            next: from,
            began: Nanos::ZERO,
            missing: 0,
        }
    }
}

impl Endpoint for Incast {
    fn start(&mut self, context: &mut Context<'_>) {
        for server in 0..self.connections.len() {
            self.connections.connect(server, context);
        }
    }

    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        self.began = context.now();
        self.next = self.began.saturating_add(self.interval);
        self.remaining -= 1;
        self.missing = self.connections.len();
        context.count(self.control).opened += 1;
        for server in 0..self.missing {
            self.connections.ask(server, self.size, context);
        }
    }

    fn next_event(&self) -> Nanos {
        if self.missing == 0 && self.remaining > 0 && self.next < self.until {
            self.next
        } else {
            Nanos::MAX
        }
    }

    fn notice(&mut self, from: FlowId, notice: Notice, context: &mut Context<'_>) {
        if self.connections.notice(from, notice, context).is_some() {
            self.missing -= 1;
            if self.missing == 0 {
                complete(self.control, self.began, context);
            }
        }
    }
}
