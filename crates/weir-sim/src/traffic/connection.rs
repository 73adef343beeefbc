//! Requests and responses: a client sends requests, and a server answers over a transport.
//!
//! # Model
//! A request is one packet from the client to the server, on the flow's path back. Until it
//! arrives, the client sends it again after 1 s, 2 s, 4 s and so on, up to 60 s. The server answers
//! at once. On a new connection the response also needs the transport's handshake, so its first
//! byte arrives two round trips after the request, as when a client opens a TCP connection. On a
//! persistent connection it arrives after one round trip.

use std::collections::BTreeMap;

use weir_core::Nanos;

use crate::endpoint::{Context, Endpoint, EndpointId, Notice};
use crate::packet::{Flags, FlowId, Packet};

use super::transport::{Opener, Supply, tell_source};

/// The client's end of a flow of requests. A [`Notice::Write`] contains the number of the request
/// to send. The client sends this request until a [`Notice::Done`] reports its arrival.
#[derive(Debug)]
pub(super) struct Asking {
    packet: Packet,
    resend_at: Nanos,
    /// Time until the request is sent again if it does not arrive.
    wait: Nanos,
}

impl Asking {
    /// A client that sends requests of `len` network-layer bytes; `header` of these are headers.
    pub(super) fn new(flow: FlowId, len: u32, header: u8) -> Self {
        let packet = Packet { flow, len, header, flags: Flags::BACK, ..Packet::default() };
        Self { packet, resend_at: Nanos::MAX, wait: FIRST_WAIT }
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        context.send(self.packet);
        self.resend_at = context.now().saturating_add(self.wait);
        self.wait = Nanos(self.wait.0.saturating_mul(2).min(LONGEST_WAIT.0));
        self.packet.flags = self.packet.flags.with(Flags::RETRANSMISSION);
    }
}

impl Endpoint for Asking {
    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        self.ask(context);
    }

    fn next_event(&self) -> Nanos {
        self.resend_at
    }

    fn notice(&mut self, _from: FlowId, notice: Notice, context: &mut Context<'_>) {
        match notice {
            Notice::Write(number) => {
                self.packet.seq = number;
                self.packet.flags = Flags::BACK;
                self.wait = FIRST_WAIT;
                self.ask(context);
            }
            _ => self.resend_at = Nanos::MAX,
        }
    }
}

/// The server's end of a flow of requests. It reports which request has arrived.
#[derive(Debug)]
pub(super) struct Answering {
    /// The endpoint that gets the reports.
    pub(super) owner: EndpointId,
}

impl Endpoint for Answering {
    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        context.tell(self.owner, packet.flow, Notice::Delivered(packet.seq));
    }
}

/// The flows of requests and responses between a client and a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// The flow of requests.
    pub(super) control: FlowId,
    /// The template of flows of responses.
    pub(super) template: FlowId,
}

/// A connection, which carries one response after the other.
#[derive(Debug)]
struct Connection {
    link: Link,
    persistent: bool,
    /// The open flow of responses, if there is one.
    flow: Option<FlowId>,
    /// Number of the last request; 0 before the first.
    request: u64,
    /// Whether a request was sent that has not arrived yet.
    is_pending: bool,
    /// Bytes of the response.
    size: u64,
    /// Bytes of the response that have not arrived; 0 without a request.
    remaining: u64,
}

/// The connections of a client.
#[derive(Debug)]
pub(super) struct Connections {
    opener: Opener,
    all: Vec<Connection>,
    /// The connection of each flow of requests, and of each open flow of responses.
    by_flow: BTreeMap<FlowId, usize>,
}

impl Connections {
    pub(super) fn new(opener: Opener, links: &[Link], persistent: bool) -> Self {
        let connect = |&link| Connection {
            link,
            persistent,
            flow: None,
            request: 0,
            is_pending: false,
            size: 0,
            remaining: 0,
        };
        let all: Vec<Connection> = links.iter().map(connect).collect();
        let by_flow = links.iter().enumerate().map(|(index, link)| (link.control, index)).collect();
        Self { opener, all, by_flow }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Opens a persistent connection before its first request.
    pub(super) fn connect(&mut self, index: usize, context: &mut Context<'_>) {
        let connection = &mut self.all[index];
        if connection.persistent && connection.flow.is_none() {
            let flow = self.opener.open(connection.link.template, Supply::Written, context);
            connection.flow = Some(flow);
            self.by_flow.insert(flow, index);
        }
    }

    /// Requests a response of `size` bytes on an idle connection.
    pub(super) fn ask(&mut self, index: usize, size: u64, context: &mut Context<'_>) {
        let connection = &mut self.all[index];
        debug_assert_eq!(connection.remaining, 0);
        connection.request += 1;
        connection.is_pending = true;
        connection.size = size.max(1);
        connection.remaining = connection.size;
        let [_, client] = context.ends(connection.link.control);
        context.tell(client, connection.link.control, Notice::Write(connection.request));
    }

    /// Closes a connection; the next request opens another.
    pub(super) fn close(&mut self, index: usize, context: &mut Context<'_>) {
        let connection = &mut self.all[index];
        if let (true, Some(flow)) = (connection.persistent, connection.flow.take()) {
            tell_source(flow, Notice::Close, context);
        }
    }

    /// Handles a notice about a flow. Returns the connection with a completed response, if there is
    /// one.
    pub(super) fn notice(
        &mut self,
        from: FlowId,
        notice: Notice,
        context: &mut Context<'_>,
    ) -> Option<usize> {
        let index = *self.by_flow.get(&from)?;
        let connection = &mut self.all[index];
        if from == connection.link.control {
            self.answer(index, notice, context);
            return None;
        }
        match notice {
            Notice::Done => {
                self.by_flow.remove(&from);
                if connection.flow == Some(from) {
                    connection.flow = None;
                }
                context.retire(from);
                None
            }
            Notice::Delivered(bytes)
                if connection.flow == Some(from)
                    && connection.remaining > 0
                    && !connection.is_pending =>
            {
                connection.remaining = connection.remaining.saturating_sub(bytes);
                (connection.remaining == 0).then_some(index)
            }
            _ => None,
        }
    }

    /// Handles a request that has arrived at the server.
    fn answer(&mut self, index: usize, notice: Notice, context: &mut Context<'_>) {
        let connection = &mut self.all[index];
        if notice != Notice::Delivered(connection.request)
            || !std::mem::take(&mut connection.is_pending)
        {
            return;
        }
        let [_, client] = context.ends(connection.link.control);
        context.tell(client, connection.link.control, Notice::Done);
        let size = connection.size;
        if connection.persistent {
            self.connect(index, context);
            if let Some(flow) = self.all[index].flow {
                tell_source(flow, Notice::Write(size), context);
            }
        } else {
            let flow = self.opener.open(connection.link.template, Supply::Bytes(size), context);
            connection.flow = Some(flow);
            self.by_flow.insert(flow, index);
        }
    }
}

/// Time before a request is sent again for the first time.
const FIRST_WAIT: Nanos = Nanos::from_secs(1);
/// The longest time before a request is sent again.
const LONGEST_WAIT: Nanos = Nanos::from_secs(60);
