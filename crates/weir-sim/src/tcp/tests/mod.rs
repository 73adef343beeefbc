//! Tests of both ends of a connection, over a wire that the test controls.

mod flow;
mod loss;
mod marks;
mod model;
mod property;

use std::collections::BTreeMap;

use weir_core::Nanos;
use weir_core::packet::Ecn;

use super::cc::{Control, Kind};
use super::config::{Config, Data};
use super::{Receiver, Sender, State};
use crate::endpoint::{Context, Endpoint, EndpointId, Notice};
use crate::network::{FlowSpec, Network};
use crate::packet::{Flags, FlowId, Packet};

/// The fate of a packet on a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    Drop,
    Mark,
    /// Passes, this many ms late.
    Late(u64),
    Twice,
}

/// Two ends and the wire between them.
pub(super) struct Wire<F> {
    network: Network,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// Packets on the wire by arrival time and serial number, each with whether it is the last
    /// copy.
    travelling: BTreeMap<(Nanos, u64), (Packet, bool)>,
    serial: u64,
    script: F,
    /// One-way delay, in ms.
    pub(super) delay: u64,
    /// Disables the log and the checks after each event, for long runs.
    pub(super) quiet: bool,
    /// All packets sent, with their times, before the script changes them.
    pub(super) log: Vec<(Nanos, Packet)>,
    /// The sender's state after each event.
    pub(super) states: Vec<State>,
    pub(super) notices: Vec<Notice>,
}

pub(super) const FLOW: FlowId = FlowId(0);
const OWNER: EndpointId = EndpointId(2);

/// The default configuration of the tests: `segments` segments of 1000 bytes, no handshake, an
/// initial window of ten.
pub(super) fn config(segments: u64) -> Config {
    Config {
        control: Kind::NewReno.into(),
        mss: 1000,
        data: Data::Bytes(segments * 1000),
        handshake: false,
        owner: Some(OWNER),
        ..Config::default()
    }
}

impl<F: FnMut(&Packet) -> Fate> Wire<F> {
    /// Two ends with 10 ms of wire between them. The script decides the fate of every packet.
    pub(super) fn new(config: &Config, script: F) -> Self {
        let mut network = Network::new(1);
        let ids = [network.next_endpoint(), network.next_endpoint()];
        network.next_endpoint();
        network.add_flow(&FlowSpec::default(), ids[0], ids[1]);
        Self {
            network,
            sender: Sender::new(FLOW, config),
            receiver: Receiver::new(FLOW, config),
            travelling: BTreeMap::new(),
            serial: 0,
            script,
            delay: 10,
            quiet: false,
            log: Vec::new(),
            states: Vec::new(),
            notices: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Nanos {
        self.network.now()
    }

    pub(super) fn ms(&self) -> u64 {
        self.now().0 / 1_000_000
    }

    pub(super) fn with_sender(&mut self, what: impl FnOnce(&mut Sender, &mut Context<'_>)) {
        what(
            &mut self.sender,
            &mut Context { network: &mut self.network, born: &mut Vec::new(), me: EndpointId(0) },
        );
        self.collect();
    }

    fn collect(&mut self) {
        if !self.quiet {
            self.sender.board.check();
            self.states.push(self.sender.state());
        }
        while let Some((to, _, notice)) = self.network.notices.pop_front() {
            assert_eq!(to, OWNER);
            self.notices.push(notice);
        }
        while let Some(number) = self.network.next_arrived() {
            let packet = self.network.take(number);
            self.network.count_arrived(&packet);
            let now = self.now();
            if !self.quiet {
                self.log.push((now, packet));
            }
            let fate = (self.script)(&packet);
            let mut packet = packet;
            let late = match fate {
                Fate::Drop => {
                    self.network.finish(&packet);
                    continue;
                }
                Fate::Late(ms) => ms,
                Fate::Mark => {
                    assert_ne!(packet.ecn, Ecn::NotEct, "only ECN-capable packets may be marked");
                    packet.ecn = Ecn::Ce;
                    0
                }
                Fate::Pass | Fate::Twice => 0,
            };
            let at = now.saturating_add(Nanos::from_millis(self.delay + late));
            self.serial += 1;
            self.travelling.insert((at, self.serial), (packet, fate != Fate::Twice));
            if fate == Fate::Twice {
                self.serial += 1;
                self.travelling.insert((at, self.serial), (packet, true));
            }
        }
    }

    /// Runs until `ms`.
    pub(super) fn run(&mut self, ms: u64) {
        let end = Nanos::from_millis(ms);
        if self.now() == Nanos::ZERO && self.serial == 0 {
            self.with_sender(|sender, context| sender.start(context));
        }
        loop {
            let wakes = [self.sender.next_event(), self.receiver.next_event()];
            let packet = self.travelling.keys().next().map_or(Nanos::MAX, |key| key.0);
            let at = wakes[0].min(wakes[1]).min(packet);
            if at > end || at == Nanos::MAX {
                break;
            }
            self.network.set_now(at.max(self.now()));
            if packet == at {
                let (_, (packet, last)) = self.travelling.pop_first().unwrap();
                let back = packet.flags.has(Flags::BACK);
                let (mut born, me) = (Vec::new(), EndpointId(back.into()));
                let mut context = Context { network: &mut self.network, born: &mut born, me };
                let endpoint: &mut dyn Endpoint =
                    if back { &mut self.sender } else { &mut self.receiver };
                endpoint.receive(&packet, &mut context);
                if last {
                    self.network.finish(&packet);
                }
            } else {
                let mut born = Vec::new();
                let mut context =
                    Context { network: &mut self.network, born: &mut born, me: EndpointId(0) };
                let endpoint: &mut dyn Endpoint =
                    if wakes[0] == at { &mut self.sender } else { &mut self.receiver };
                endpoint.wake(&mut context);
                assert!(endpoint.next_event() > at, "the endpoint was woken and did nothing");
            }
            self.collect();
        }
        self.network.set_now(end);
    }

    /// The index of each segment sent, including retransmissions, and the time of sending in ms.
    pub(super) fn segments(&self) -> Vec<(u64, u64)> {
        self.sent(|_| true)
    }

    /// The retransmissions among [`Self::segments`].
    pub(super) fn retransmissions(&self) -> Vec<(u64, u64)> {
        self.sent(|packet| packet.flags.has(Flags::RETRANSMISSION))
    }

    fn sent(&self, wanted: fn(&Packet) -> bool) -> Vec<(u64, u64)> {
        let data = self.log.iter().filter(|(_, p)| !p.flags.has(Flags::BACK) && p.payload() > 0);
        let wanted = data.filter(|(_, p)| wanted(p));
        wanted.map(|(at, p)| (p.seq / 1000, at.0 / 1_000_000)).collect()
    }

    /// The acknowledgement number and the time in ms of each acknowledgement sent.
    pub(super) fn acks(&self) -> Vec<(u64, u64)> {
        let acks = self.log.iter().filter(|(_, p)| p.flags.has(Flags::BACK));
        acks.map(|(at, p)| (p.ack, at.0 / 1_000_000)).collect()
    }

    /// The congestion window in segments.
    pub(super) fn window(&self) -> u64 {
        self.sender.control().window() / 1000
    }

    /// Asserts that all data has arrived once and that the owner has been notified.
    #[track_caller]
    pub(super) fn assert_done(&mut self, segments: u64) {
        assert_eq!(self.receiver.delivered(), segments * 1000);
        assert_eq!(self.network.count(FLOW).goodput_bytes, segments * 1000);
        assert_eq!(self.notices.iter().filter(|notice| **notice == Notice::Done).count(), 1);
        let delivered = self
            .notices
            .iter()
            .map(|notice| if let Notice::Delivered(bytes) = notice { *bytes } else { 0 })
            .sum::<u64>();
        assert_eq!(delivered, segments * 1000);
        assert_eq!(self.sender.next_event(), Nanos::MAX);
        assert_eq!(self.network.count(FLOW).completed, 1);
        assert!(
            self.travelling.values().all(|(packet, _)| packet.flags.has(Flags::BACK)),
            "data is sent after all is acknowledged"
        );
    }
}

/// A script with `fate` for the first packet that satisfies `what`. All others pass.
pub(super) fn once(fate: Fate, what: impl Fn(&Packet) -> bool) -> impl FnMut(&Packet) -> Fate {
    let mut done = false;
    move |packet| {
        if !done && what(packet) {
            done = true;
            return fate;
        }
        Fate::Pass
    }
}

/// Whether a packet is data and begins with this segment.
pub(super) fn is(packet: &Packet, segment: u64) -> bool {
    !packet.flags.has(Flags::BACK) && packet.payload() > 0 && packet.seq == segment * 1000
}
