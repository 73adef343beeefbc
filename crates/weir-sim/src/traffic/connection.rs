//! Requests and responses: a client asks, a server answers over a transport.
//!
//! # Model
//! A request is one packet from the client to the server, on the flow's path back; until it
//! arrives, it is sent again after 1 s, 2 s, 4 s and so on. The server answers at once. On a new
//! connection the response also takes the transport's handshake, so that the first byte arrives two
//! round trips after the request, as when a client opens a TCP connection; on a persistent
//! connection it arrives after one.

use std::collections::BTreeMap;

use weir_core::Nanos;

use crate::endpoint::{Context, Endpoint, EndpointId, Notice};
use crate::packet::{Flags, FlowId, Packet};

use super::transport::{Opener, Supply, tell_source};

/// The client's end of a flow of requests: sends the request with the number of a [`Notice::Write`]
/// until a [`Notice::Done`] says that it has arrived.
#[derive(Debug)]
pub(super) struct Asking {
    packet: Packet,
    again: Nanos,
    wait: Nanos,
}

impl Asking {
    /// Requests of `len` network-layer bytes, of which `header` are headers.
    pub(super) fn new(flow: FlowId, len: u32, header: u8) -> Self {
        let packet = Packet { flow, len, header, flags: Flags::BACK, ..Packet::default() };
        Self { packet, again: Nanos::MAX, wait: FIRST_WAIT }
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        context.send(self.packet);
        self.again = context.now().saturating_add(self.wait);
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
        self.again
    }

    fn notice(&mut self, _from: FlowId, notice: Notice, context: &mut Context<'_>) {
        match notice {
            Notice::Write(number) => {
                self.packet.seq = number;
                self.packet.flags = Flags::BACK;
                self.wait = FIRST_WAIT;
                self.ask(context);
            }
            _ => self.again = Nanos::MAX,
        }
    }
}

/// The server's end: reports which request has arrived.
#[derive(Debug)]
pub(super) struct Answering {
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

/// A connection: one response after the other.
#[derive(Debug)]
struct Connection {
    link: Link,
    persistent: bool,
    flow: Option<FlowId>,
    /// Number of the last request; 0: none yet.
    request: u64,
    /// The request has not arrived yet.
    asked: bool,
    size: u64,
    /// Bytes of the response that have not arrived; 0: there is no request.
    left: u64,
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
            asked: false,
            size: 0,
            left: 0,
        };
        let all: Vec<Connection> = links.iter().map(connect).collect();
        let by_flow = links.iter().enumerate().map(|(index, link)| (link.control, index)).collect();
        Self { opener, all, by_flow }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Opens a persistent connection ahead of its first request.
    pub(super) fn connect(&mut self, index: usize, context: &mut Context<'_>) {
        let connection = &mut self.all[index];
        if connection.persistent && connection.flow.is_none() {
            let flow = self.opener.open(connection.link.template, Supply::Written, context);
            connection.flow = Some(flow);
            self.by_flow.insert(flow, index);
        }
    }

    /// Asks for a response of `size` bytes on a connection that waits for none.
    pub(super) fn ask(&mut self, index: usize, size: u64, context: &mut Context<'_>) {
        let connection = &mut self.all[index];
        debug_assert_eq!(connection.left, 0);
        connection.request += 1;
        connection.asked = true;
        connection.size = size.max(1);
        connection.left = connection.size;
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
                if connection.flow == Some(from) && connection.left > 0 && !connection.asked =>
            {
                connection.left = connection.left.saturating_sub(bytes);
                (connection.left == 0).then_some(index)
            }
            _ => None,
        }
    }

    /// The server has received a request.
    fn answer(&mut self, index: usize, notice: Notice, context: &mut Context<'_>) {
        let connection = &mut self.all[index];
        if notice != Notice::Delivered(connection.request) || !std::mem::take(&mut connection.asked)
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

/// Time before a request is sent again the first time.
const FIRST_WAIT: Nanos = Nanos::from_secs(1);
/// The longest such time.
const LONGEST_WAIT: Nanos = Nanos::from_secs(60);
