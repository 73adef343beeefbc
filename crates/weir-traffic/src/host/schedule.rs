//! What a host sends when: the scenario's own sources, in a world of perfect links, a little ahead
//! of time.
//!
//! The sources are those of the simulator with the same seeds, so that a live run sends the very
//! packets that a simulated one does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use weir_core::Nanos;
use weir_sim::build::build;
use weir_sim::network::Observer;
use weir_sim::packet::{Flags, Packet};
use weir_sim::scenario::Scenario;
use weir_sim::world::World;

use super::kinds::{is_datagrams, silence};

/// A packet that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    /// When, ns after the start.
    pub(crate) at: u64,
    /// The flow's number.
    pub(crate) flow: u32,
    /// Network-layer bytes.
    pub(crate) len: u32,
}

/// The packets of one host in their order.
#[derive(Debug)]
pub(crate) struct Schedule {
    world: World,
    sent: Arc<Mutex<VecDeque<Departure>>>,
    ahead: VecDeque<Departure>,
    end: Nanos,
}

impl Schedule {
    /// What this host sends. Traffic that is not made of datagrams, and that of other hosts, is
    /// silent here.
    ///
    /// # Errors
    /// The traffic cannot be made, in words.
    pub(crate) fn new(scenario: &Scenario, seed: u64, host: usize) -> Result<Self, String> {
        let mut alone = scenario.clone();
        for link in &mut alone.links {
            for direction in &mut link.directions {
                direction.spec = weir_rules::LinkSpec::default();
                direction.scheduler = None;
                direction.queues.clear();
            }
        }
        for traffic in &mut alone.traffic {
            if !traffic.from.contains(&host) || !is_datagrams(&traffic.spec) {
                silence(traffic);
            }
        }
        let mut world = build(&alone, seed).map_err(|error| error.to_string())?.world;
        let sent = Arc::new(Mutex::new(VecDeque::new()));
        world.observe(Box::new(Eavesdropper { sent: Arc::clone(&sent) }));
        Ok(Self { world, sent, ahead: VecDeque::new(), end: scenario.duration })
    }

    /// The next packet; `None` when there is none before the end.
    pub(crate) fn next(&mut self) -> Option<Departure> {
        while self.ahead.is_empty() && self.world.network().now() < self.end {
            let until = self.world.network().now().saturating_add(AHEAD).min(self.end);
            self.world.run(until);
            std::mem::swap(
                &mut self.ahead,
                &mut self.sent.lock().unwrap_or_else(PoisonError::into_inner),
            );
        }
        self.ahead.pop_front()
    }
}

/// Notes every packet. Nothing holds packets up, so that they arrive when they are sent.
#[derive(Debug)]
struct Eavesdropper {
    sent: Arc<Mutex<VecDeque<Departure>>>,
}

impl Observer for Eavesdropper {
    fn arrived(&mut self, now: Nanos, packet: &Packet) {
        if !packet.flags.has(Flags::BACK) {
            let departure = Departure { at: now.0, flow: packet.flow.0, len: packet.len };
            self.sent.lock().unwrap_or_else(PoisonError::into_inner).push_back(departure);
        }
    }
}

/// How far ahead packets are made: little enough to take no time that is missed.
const AHEAD: Nanos = Nanos::from_millis(20);
