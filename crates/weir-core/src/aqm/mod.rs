//! AQMs: which packets of a queue are dropped or marked, so that it stays short.
//!
//! An AQM owns no queue. It sees each packet when it arrives ([`Aqm::arrive`]) and when it reaches
//! the head ([`Aqm::leave`]), with the state of the queue, and decides about it. An AQM therefore
//! works in front of any scheduler: every flow has an AQM of its own. One algorithm is one file and
//! one row of [`TABLE`]. The row drives the command language, `weir algorithms`, the documentation,
//! the rig and the tests.
//!
//! Algorithms with many queues of their own, such as `fq_codel`, are schedulers (see
//! [`crate::sched`]).
//!
//! # Time
//! An AQM has no timer. Where its definition has periodic computations, it makes them when a packet
//! arrives or leaves, one for each period that has ended, with the state of the queue at that time:
//! between two packets that state does not change.

mod afcd;
mod ared;
mod avq;
mod blue;
pub(crate) mod cobalt;
pub(crate) mod codel;
mod droptail;
mod feng_ared;
mod headdrop;
mod nlred;
mod pace;
mod pi;
pub(crate) mod pi2;
mod pie;
pub(crate) mod pie_law;
pub(crate) mod pie_settings;
mod power;
pub(crate) mod proportional;
mod red;
mod rem;
mod row;
mod sfb;
mod vq_red;

pub use row::{Row, Traits};

use alloc::vec::Vec;

use crate::packet::Header;
use crate::rng::Stream;
use crate::settings::Chosen;
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;

/// What an AQM sees of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Length in bytes from the network-layer header on.
    pub len: u32,
    /// When it arrived.
    pub arrived: Nanos,
    /// ECN field, DSCP and hash.
    pub header: Header,
}

/// What an AQM sees of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Packets that wait, without the current one.
    pub packets: u32,
    /// Their network-layer bytes.
    pub bytes: u64,
    /// The current packet does not fit within the queue's limit. Only at its arrival.
    pub full: bool,
}

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet continues. One that arrives at a full queue is dropped nevertheless, as
    /// [`DropReason::QueueFull`].
    Pass,
    /// The packet continues, and carries a mark when it leaves. Only for packets whose ECN field
    /// allows it.
    Mark(MarkReason),
    /// The packet is dropped.
    Drop(DropReason),
    /// The packet continues although the queue is full: the AQM drops others for it. Only at its
    /// arrival.
    Admit,
}

/// An active queue management algorithm: state and decisions for one queue.
///
/// Calls have times that never decrease. `arrive` sees every packet that enters the queue, and
/// `leave` sees it when it reaches the head. There are two exceptions: `leave` alone sees packets
/// that waited before the AQM existed, and neither sees packets that a change of configuration
/// removes. A scheduler may serve the packets of a queue late, but in order.
pub trait Aqm {
    /// Decides about a packet that arrives at the queue.
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict;

    /// Decides about the packet at the head. After a drop, the queue asks for the next packet at
    /// the same time.
    fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict;

    /// Internal state by name: a probability in parts of 2^32 (`probability`), a count, a time in
    /// ns.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// What an AQM is created with, besides its settings.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Rate of the link in bit/s; 0 when it has none.
    pub rate: u64,
    /// The queue's limit in packets; [`u32::MAX`] when it is in bytes.
    pub limit_packets: u32,
    /// The queue's limit in bytes; [`u64::MAX`] when it is in packets.
    pub limit_bytes: u64,
    /// The source of its draws.
    pub stream: Stream,
}

/// An AQM and the values of its parameters.
pub type Policy = Chosen<Kind>;

/// Code for an AQM of any type, compiled for each of them without virtual calls.
pub trait Visitor {
    /// The result.
    type Output;

    /// Runs the code.
    fn visit<A: Aqm + core::fmt::Debug>(self, aqm: A) -> Self::Output;
}

/// Code for any number of AQMs of one type; `make` creates one.
pub trait Maker {
    /// The result.
    type Output;

    /// Runs the code.
    fn with<A: Aqm + core::fmt::Debug>(self, make: impl Fn(&Setup) -> A) -> Self::Output;
}

/// The types of the table: how to create an AQM, and any of them without a virtual call.
macro_rules! types {
    ($($kind:ident: $type:ident),+) => {
        impl Policy {
            /// Creates an AQM of this policy and passes it to `visitor`, which is compiled for each
            /// type.
            pub fn visit<V: Visitor>(&self, setup: &Setup, visitor: V) -> V::Output {
                match self.kind() {
                    $(Kind::$kind => visitor.visit($type::new(self, setup)),)+
                }
            }

            /// Passes a constructor of AQMs of this policy to `maker`, which is compiled for each
            /// type.
            pub fn make_with<M: Maker>(&self, maker: M) -> M::Output {
                match self.kind() {
                    $(Kind::$kind => maker.with(|setup| $type::new(self, setup)),)+
                }
            }
        }

        /// Any AQM of the table, without a virtual call.
        #[derive(Debug)]
        pub(crate) enum AnyAqm {
            $($kind($type),)+
        }

        impl AnyAqm {
            pub(crate) fn new(policy: &Policy, setup: &Setup) -> Self {
                match policy.kind() {
                    $(Kind::$kind => Self::$kind($type::new(policy, setup)),)+
                }
            }
        }

        impl Aqm for AnyAqm {
            fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
                match self {
                    $(Self::$kind(a) => a.arrive(now, packet, queue),)+
                }
            }

            fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
                match self {
                    $(Self::$kind(a) => a.leave(now, packet, queue),)+
                }
            }

            fn figures(&self) -> Vec<(&'static str, u64)> {
                match self {
                    $(Self::$kind(a) => a.figures(),)+
                }
            }
        }
    };
}

crate::table! {
    noun "AQM", traits Traits, with types;
    /// Packets that find the queue full are dropped.
    DropTail: droptail::DropTail,
    /// The oldest packet makes room for one that finds the queue full.
    HeadDrop: headdrop::HeadDrop,
    /// A proportional-integral controller of the queue's length.
    Pi: pi::Pi,
    /// A proportional-integral controller of the delay, with heuristics.
    Pie: pie::Pie,
    /// A proportional-integral controller of the delay with a squared output.
    Pi2: pi2::Pi2,
    /// Controlled delay.
    Codel: codel::Codel,
    /// Random early drops or marks by the average length of the queue.
    Red: red::Red,
    /// RED that finds its parameters from the rate and a target delay.
    Ared: ared::Ared,
    /// RED with a probability that changes by factors when the average crosses a threshold.
    FengAred: feng_ared::FengAred,
    /// RED with a probability that rises with the square.
    NlRed: nlred::NlRed,
    /// RED for several virtual queues within one, by DSCP.
    VqRed: vq_red::VqRed,
    /// A probability that rises with losses and falls while the link is idle.
    Blue: blue::Blue,
    /// BLUE in bins that flows share, with a rate for those that do not respond.
    Sfb: sfb::Sfb,
    /// Drops or marks packets that overflow a virtual queue with an adaptive rate.
    Avq: avq::Avq,
    /// A price for the excess of load and queue, and a probability exponential in it.
    Rem: rem::Rem,
    /// Controlled delay, with BLUE beside it.
    Cobalt: cobalt::Cobalt,
    /// Approximated fairness and controlled delay.
    Afcd: afcd::Afcd,
}
