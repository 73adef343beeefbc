//! AQMs: algorithms that drop or mark packets of a queue so that the queue stays short.
//!
//! An AQM owns no queue. Its caller passes each packet to [`Aqm::arrive`] when the packet arrives
//! and to [`Aqm::leave`] when the packet reaches the head, with the state of the queue; the AQM
//! returns a [`Verdict`]. An AQM therefore works with any scheduler: the queue of every flow has
//! its own AQM. One algorithm is one file and one row of [`TABLE`]. The row drives the command
//! language, `weir algorithms`, the documentation, the rig and the tests.
//!
//! Algorithms that contain many queues, such as `fq_codel`, are schedulers (see
//! [`crate::sched`]).
//!
//! # Time
//! An AQM has no timer. An algorithm with periodic computations carries them out when a packet
//! arrives or leaves: one computation for each period that has ended, with the state that the queue
//! had at the end of that period. This is exact, because the state of the queue does not change
//! between packets.

mod added;
mod afcd;
mod ared;
mod avq;
mod blue;
pub(crate) mod cobalt;
pub(crate) mod codel;
mod droptail;
mod feng_ared;
mod headdrop;
pub(crate) mod jiffies;
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

pub use added::{AddedAqm, External, ExternalFactory};
pub use row::{Row, Traits};

use alloc::vec::Vec;

use crate::packet::Header;
use crate::rng::Stream;
use crate::settings::Chosen;
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;

/// The properties of a packet that an AQM can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The packet's length in bytes, from the network-layer header on.
    pub len: u32,
    /// The time of its arrival at the queue.
    pub arrived: Nanos,
    /// The ECN field, the DSCP and the hash of the flow.
    pub header: Header,
}

/// The state of the queue that an AQM can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// The number of packets that wait, without the current packet.
    pub packets: u32,
    /// The sum of the lengths of these packets in bytes, from the network-layer header on.
    pub bytes: u64,
    /// Whether the current packet does not fit within the queue's limit. Only set at the packet's
    /// arrival.
    pub full: bool,
}

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet continues. If it arrives at a full queue, the caller drops it as
    /// [`DropReason::QueueFull`].
    Pass,
    /// As [`Verdict::Pass`], and the packet is marked. Only for packets that are ECN-capable.
    Mark(MarkReason),
    /// The packet is dropped.
    Drop(DropReason),
    /// The packet enters the queue even if the queue is full: the AQM then drops other packets
    /// instead. Only at the packet's arrival.
    Admit,
}

/// An active queue management algorithm: state and decisions for one queue.
///
/// The times of successive calls never decrease. The caller passes every arriving packet to
/// `arrive`, even if the queue is full, and every packet that reaches the head to `leave`, with two
/// exceptions: packets that waited before the AQM existed are passed to `leave` alone, and packets
/// that a change of configuration removes are not passed to `leave`. Packets of a queue reach its
/// head in the order of their arrival.
pub trait Aqm {
    /// Decides about a packet that arrives at the queue.
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict;

    /// Decides about the packet at the head. After a drop, the caller passes the next packet at the
    /// same time.
    fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict;

    /// Internal state by name. Each value is a probability in parts of 2^32 (such as
    /// `probability`), a time in ns, or a count, length, rate, price or flag.
    fn variables(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The properties of the link and the queue for which an AQM is created.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The rate of the link in bit/s; 0 for a link without a rate.
    pub rate: u64,
    /// The queue's limit in packets; [`u32::MAX`] when it is in bytes.
    pub limit_packets: u32,
    /// The queue's limit in bytes; [`u64::MAX`] when it is in packets.
    pub limit_bytes: u64,
    /// The random stream of the AQM.
    pub stream: Stream,
}

/// A kind of AQM and the values of its settings.
pub type Policy = Chosen<Kind>;

/// Code that runs with an AQM of any type. It is compiled for each type, so that only calls of an
/// added AQM are virtual.
pub trait Visitor {
    /// The result.
    type Output;

    /// Runs the code with this AQM.
    fn visit<A: Aqm + core::fmt::Debug>(self, aqm: A) -> Self::Output;
}

/// Code that runs with any number of AQMs of one type. It is compiled for each type, as for
/// [`Visitor`].
pub trait Maker {
    /// The result.
    type Output;

    /// Runs the code with AQMs that `make` creates.
    fn with<A: Aqm + core::fmt::Debug>(self, make: impl Fn(&Setup) -> A) -> Self::Output;
}

/// Defines the functions that create an AQM of each type, and an enum of all types.
macro_rules! types {
    ($($kind:ident: $type:ident),+) => {
        impl Policy {
            /// Creates an AQM of this policy and passes it to `visitor`.
            pub fn visit<V: Visitor>(&self, setup: &Setup, visitor: V) -> V::Output {
                match self.kind() {
                    $(Kind::$kind => visitor.visit($type::new(self, setup)),)+
                    Kind::Added(_) => visitor.visit(AddedAqm::new(self, setup)),
                }
            }

            /// Passes a constructor of AQMs of this policy to `maker`.
            pub fn make_with<M: Maker>(&self, maker: M) -> M::Output {
                match self.kind() {
                    $(Kind::$kind => maker.with(|setup| $type::new(self, setup)),)+
                    Kind::Added(_) => maker.with(|setup| AddedAqm::new(self, setup)),
                }
            }
        }

        /// Any AQM. Only calls of an added AQM are virtual.
        #[derive(Debug)]
        pub(crate) enum AnyAqm {
            $($kind($type),)+
            Added(AddedAqm),
        }

        impl AnyAqm {
            pub(crate) fn new(policy: &Policy, setup: &Setup) -> Self {
                match policy.kind() {
                    $(Kind::$kind => Self::$kind($type::new(policy, setup)),)+
                    Kind::Added(_) => Self::Added(AddedAqm::new(policy, setup)),
                }
            }
        }

        impl Aqm for AnyAqm {
            fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
                match self {
                    $(Self::$kind(a) => a.arrive(now, packet, queue),)+
                    Self::Added(a) => a.arrive(now, packet, queue),
                }
            }

            fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
                match self {
                    $(Self::$kind(a) => a.leave(now, packet, queue),)+
                    Self::Added(a) => a.leave(now, packet, queue),
                }
            }

            fn variables(&self) -> Vec<(&'static str, u64)> {
                match self {
                    $(Self::$kind(a) => a.variables(),)+
                    Self::Added(a) => a.variables(),
                }
            }
        }
    };
}

crate::table! {
    noun "AQM", traits Traits, added dyn ExternalFactory, with types;
    /// Packets that find the queue full are dropped.
    DropTail: droptail::DropTail,
    /// A packet that finds the queue full displaces the oldest packet.
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
    /// RED that computes its parameters from the rate and a target delay.
    Ared: ared::Ared,
    /// RED with a probability that changes by factors when the average crosses a threshold.
    FengAred: feng_ared::FengAred,
    /// RED with a probability that rises with the square of the average's distance from the lower
    /// threshold.
    NlRed: nlred::NlRed,
    /// RED for several virtual queues within one, by DSCP.
    VqRed: vq_red::VqRed,
    /// A probability that rises with losses and falls while the link is idle.
    Blue: blue::Blue,
    /// BLUE in bins that flows share, with a rate limit for flows that do not respond.
    Sfb: sfb::Sfb,
    /// Drops or marks packets that overflow a virtual queue with an adaptive rate.
    Avq: avq::Avq,
    /// A price for the excess of load and backlog, and a probability exponential in the price.
    Rem: rem::Rem,
    /// Controlled delay combined with BLUE.
    Cobalt: cobalt::Cobalt,
    /// Approximated fairness and controlled delay.
    Afcd: afcd::Afcd,
}
