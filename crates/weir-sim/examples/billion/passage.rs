//! One flow over one link of the engine. The queue overflows, and the link loses and duplicates
//! packets.

use std::fmt;

use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, Loss, PipeConfig, QueueLimit};
use weir_core::{Nanos, Probability, Rate};
use weir_sim::network::{FlowSpec, Network, PortId};
use weir_sim::packet::FlowId;
use weir_sim::traffic::{Cbr, Sink};
use weir_sim::world::World;

/// Counters of the link and of the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accounts {
    /// Packets that entered the link.
    pub(crate) entered: u64,
    /// Copies that the link made.
    pub(crate) copied: u64,
    /// Packets that departed from the link.
    pub(crate) departed: u64,
    /// Packets that the link dropped.
    pub(crate) dropped: u64,
    /// Packets inside the link.
    pub(crate) backlog: u64,
    /// The flow's packets: sent, received, lost, and copies that have departed from the link.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) copies: u64,
}

impl Accounts {
    /// Whether the counters of the link account for every packet, and the counters of the flow
    /// agree with them. The flow counts a copy when the copy departs from the link.
    fn balanced(&self) -> bool {
        self.entered + self.copied == self.departed + self.dropped + self.backlog
            && (self.entered, self.departed, self.dropped) == (self.sent, self.received, self.lost)
            && (self.copies..=self.copies + self.backlog).contains(&self.copied)
    }
}

impl fmt::Display for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entered, copied, departed, dropped, backlog, sent, received, lost, copies } =
            self;
        write!(
            f,
            "link: {entered} in + {copied} copies = {departed} out + {dropped} drops + {backlog} \
             inside; flow: {sent} sent, {copies} copies, {received} received, {lost} lost"
        )
    }
}

/// Sends `packets` packets in 100 equal parts of the run. After each part, calls `report` with the
/// part's number, from 1, and the accounts. Returns the number of packets sent.
///
/// # Errors
/// The first accounts that do not balance.
pub(crate) fn run(packets: u64, mut report: impl FnMut(u64, &Accounts)) -> Result<u64, Accounts> {
    let mut network = Network::new(1);
    let port = network.add_engine_pipe(&link());
    let mut world = World::new(network);
    let source = Cbr::new(FlowId(0), LENGTH, 28, OFFERED, Nanos::ZERO, Nanos::MAX);
    let spec = FlowSpec { forward: vec![port], ..FlowSpec::default() };
    world.add_flow(&spec, Box::new(source), Box::new(Sink));
    let span = u128::from(packets) * u128::from(LENGTH) * 8 * 1_000_000_000 / u128::from(OFFERED);
    for part in 1..=PARTS {
        world.run(Nanos((span * u128::from(part) / u128::from(PARTS)) as u64));
        let accounts = accounts(&world, port);
        if !accounts.balanced() {
            return Err(accounts);
        }
        report(part, &accounts);
    }
    Ok(accounts(&world, port).sent)
}

/// A link of 1 Gbit/s with a short queue. The source sends a tenth more. The link loses and copies
/// few packets.
fn link() -> PipeConfig {
    let chance = |share| Probability::new(share).unwrap_or(Probability::ZERO);
    PipeConfig {
        link: LinkConfig {
            capacity: Rate::new(1_000_000_000).map_or(Capacity::Unlimited, Capacity::Constant),
            delay: Nanos::from_micros(100),
            loss: Loss::Bernoulli(chance(0.01)),
            duplicate: chance(0.01),
            ..LinkConfig::default()
        },
        queue: FlowsetConfig { limit: Some(QueueLimit::Packets(50)), ..FlowsetConfig::default() },
        scheduler: None,
    }
}

fn accounts(world: &World, port: PortId) -> Accounts {
    let network = world.network();
    let link = network.stats(port).map(|stats| stats.counters.clone()).unwrap_or_default();
    let flow = &network.counts()[0];
    Accounts {
        entered: link.packets_in,
        copied: link.duplicated,
        departed: link.packets_out,
        dropped: link.total_drops(),
        backlog: link.backlog_packets,
        sent: flow.sent,
        received: flow.received,
        lost: flow.reasons.total_drops(),
        copies: flow.duplicated,
    }
}

/// Parts of the run after which the identities are checked.
const PARTS: u64 = 100;
/// Network-layer bytes of each packet.
const LENGTH: u32 = 1000;
/// Bits per second that the source sends.
const OFFERED: u64 = 1_100_000_000;
