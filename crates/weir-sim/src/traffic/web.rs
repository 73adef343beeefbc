//! Web pages: a document, then its objects over several connections.
//!
//! # Model
//! The document arrives over one persistent connection. After a time for parsing, the browser
//! requests the document's objects over several connections, one after the other on each, as with
//! HTTP/1.1. When the last object has arrived, the page is complete, its connections close, and the
//! user reads it. The completion time is that of the page.
//!
//! # Reference
//! IEEE 802.16m-08/004, evaluation methodology, and 3GPP2 C.R1002: sizes of documents and objects
//! log-normal within bounds, numbers of objects Pareto within bounds, times of reading and parsing
//! exponential.

use weir_core::Nanos;

use crate::endpoint::{Context, Endpoint, Notice};
use crate::packet::{FlowId, Packet};
use crate::random::{Draws, Variable};

use super::connection::{Connections, Link};
use super::flows::{bytes, complete};

/// The contents of pages, and the times of a reader.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// Bytes of a document.
    pub(super) document: Variable,
    /// The number of objects in a document is this number minus `fewer`, rounded down.
    pub(super) objects: Variable,
    pub(super) fewer: f64,
    /// Bytes of an object.
    pub(super) object: Variable,
    /// Time between the document and the requests for its objects, ns.
    pub(super) parse: Variable,
    /// Time between pages, ns.
    pub(super) read: Variable,
}

/// What the user and the browser are doing: reading a page, waiting for a document, parsing it, or
/// waiting for its objects.
#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Reading,
    Document,
    Parsing,
    Objects,
}

/// A user who reads one page after the other.
#[derive(Debug)]
pub(super) struct Reader {
    connections: Connections,
    /// The first flow of requests. Pages are counted in the group of this flow.
    control: FlowId,
    pages: Pages,
    /// No page starts at this time or later.
    until: Nanos,
    /// The random stream of the times.
    times: Draws,
    /// The random stream of the sizes and of the numbers of objects.
    draws: Draws,
    phase: Phase,
    /// When the current phase ends, if it ends by time.
    next: Nanos,
    /// When the current page was requested.
    began: Nanos,
    /// Number of objects that have not been requested.
    remaining: u32,
    /// Number of responses that have not arrived.
    missing: u32,
}

impl Reader {
    /// A user who reads from the start of `span` on, and then requests the first page.
    pub(super) fn new(
        connections: Connections,
        links: &[Link],
        pages: Pages,
        span: (Nanos, Nanos),
        draws: (Draws, Draws),
    ) -> Self {
        let ((from, until), (mut times, draws)) = (span, draws);
        let next = from.saturating_add(pages.read.span(&mut times));
        let (phase, control) = (Phase::Reading, links[0].control);
        Self {
            connections,
            control,
            pages,
            until,
            times,
            draws,
            phase,
            next,
            began: Nanos::ZERO,
            remaining: 0,
            missing: 0,
        }
    }

    fn ask_for_object(&mut self, connection: usize, context: &mut Context<'_>) {
        self.remaining -= 1;
        self.missing += 1;
        let size = bytes(self.pages.object.draw(&mut self.draws));
        self.connections.ask(connection, size, context);
    }

    fn arrived(&mut self, connection: usize, context: &mut Context<'_>) {
        self.missing -= 1;
        if self.phase == Phase::Document {
            self.remaining = (self.pages.objects.draw(&mut self.draws) - self.pages.fewer) as u32;
            self.phase = Phase::Parsing;
            self.next = context.now();
            if self.remaining > 0 {
                self.next = self.next.saturating_add(self.pages.parse.span(&mut self.times));
            }
        } else if self.remaining > 0 {
            self.ask_for_object(connection, context);
        } else if self.missing == 0 {
            self.page_complete(context);
        }
    }

    fn page_complete(&mut self, context: &mut Context<'_>) {
        complete(self.control, self.began, context);
        for connection in 0..self.connections.len() {
            self.connections.close(connection, context);
        }
        self.phase = Phase::Reading;
        self.next = context.now().saturating_add(self.pages.read.span(&mut self.times));
    }
}

impl Endpoint for Reader {
    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        self.next = Nanos::MAX;
        if self.phase == Phase::Reading {
            self.phase = Phase::Document;
            self.began = context.now();
            self.missing = 1;
            context.count(self.control).opened += 1;
            let size = bytes(self.pages.document.draw(&mut self.draws));
            self.connections.ask(0, size, context);
        } else if self.remaining == 0 {
            self.page_complete(context);
        } else {
            self.phase = Phase::Objects;
            for connection in 0..self.connections.len().min(self.remaining as usize) {
                self.ask_for_object(connection, context);
            }
        }
    }

    fn next_event(&self) -> Nanos {
        if self.phase == Phase::Reading && self.next >= self.until { Nanos::MAX } else { self.next }
    }

    fn notice(&mut self, from: FlowId, notice: Notice, context: &mut Context<'_>) {
        if let Some(connection) = self.connections.notice(from, notice, context) {
            self.arrived(connection, context);
        }
    }
}
