//! The schedule of a host: the scenario's own sources, in a world of perfect links, a little ahead
//! of time.
//!
//! The sources are those of the simulator with the same seeds, so that a live run sends the very
//! packets that a simulated one does.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use weir_core::Nanos;
use weir_sim::build::build;
use weir_sim::network::Observer;
use weir_sim::packet::{Flags, Packet};
use weir_sim::scenario::Scenario;
use weir_sim::world::World;

use super::kinds::{is_datagrams, silence};
use crate::schedule::{Burst, Schedule};

/// The packets of one host in their order.
#[derive(Debug)]
pub(super) struct Sources {
    world: World,
    made: Arc<Mutex<VecDeque<Burst>>>,
    ahead: VecDeque<Burst>,
    end: Nanos,
}

impl Sources {
    /// The packets of the flows with outlets at these places. Traffic that is not made of
    /// datagrams, and that of other hosts, is silent.
    ///
    /// # Errors
    /// The traffic cannot be made, in words.
    pub(super) fn new(
        scenario: &Scenario,
        seed: u64,
        host: usize,
        places: BTreeMap<u32, usize>,
    ) -> Result<Self, String> {
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
        let made = Arc::new(Mutex::new(VecDeque::new()));
        world.observe(Box::new(Eavesdropper { places, made: Arc::clone(&made) }));
        Ok(Self { world, made, ahead: VecDeque::new(), end: scenario.duration })
    }
}

impl Schedule for Sources {
    fn next(&mut self, _elapsed: u64) -> Option<Burst> {
        while self.ahead.is_empty() && self.world.network().now() < self.end {
            let until = self.world.network().now().saturating_add(AHEAD).min(self.end);
            self.world.run(until);
            std::mem::swap(
                &mut self.ahead,
                &mut self.made.lock().unwrap_or_else(PoisonError::into_inner),
            );
        }
        self.ahead.pop_front().filter(|burst| burst.at < self.end.0)
    }
}

/// Notes every packet that leaves from an outlet. Links without rate and delay deliver packets when
/// they are sent.
#[derive(Debug)]
struct Eavesdropper {
    places: BTreeMap<u32, usize>,
    made: Arc<Mutex<VecDeque<Burst>>>,
}

impl Observer for Eavesdropper {
    fn arrived(&mut self, now: Nanos, packet: &Packet) {
        if packet.flags.has(Flags::BACK) {
            return;
        }
        if let Some(&outlet) = self.places.get(&packet.flow.0) {
            let burst = Burst { at: now.0, outlet, bytes: packet.len, count: 1 };
            self.made.lock().unwrap_or_else(PoisonError::into_inner).push_back(burst);
        }
    }
}

/// How far ahead packets are made: so little that making them takes no time that is missed.
const AHEAD: Nanos = Nanos::from_millis(20);
