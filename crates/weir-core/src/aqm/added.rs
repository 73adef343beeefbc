//! AQMs that the program adds to the table while it runs.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Debug;

use super::{Aqm, Kind, Policy, QueueState, Seen, Setup, Traits, Verdict};
use crate::settings::Factory;
use crate::units::Nanos;

/// The factory of an AQM that is added to [`super::ADDED`].
pub trait ExternalFactory: Factory<Traits = Traits> {
    /// Creates an AQM for one queue.
    fn make(&self, policy: &Policy, setup: &Setup) -> Box<dyn External>;
}

/// An AQM behind a pointer.
pub trait External: Aqm + Debug + Send {}

impl<A: Aqm + Debug + Send> External for A {}

/// An AQM that the program has added.
#[derive(Debug)]
pub struct AddedAqm(Box<dyn External>);

impl AddedAqm {
    /// The AQM of a policy of the kind [`Kind::Added`].
    ///
    /// # Panics
    /// The policy is of another kind.
    pub fn new(policy: &Policy, setup: &Setup) -> Self {
        match policy.kind() {
            Kind::Added(added) => Self(added.0.make(policy, setup)),
            kind => unreachable!("{kind:?} is in the table"),
        }
    }
}

impl Aqm for AddedAqm {
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        self.0.arrive(now, packet, queue)
    }

    fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        self.0.leave(now, packet, queue)
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        self.0.variables()
    }
}
