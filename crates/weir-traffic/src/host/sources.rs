//! The schedule of a host: the scenario's sources run in a simulated network of ideal links,
//! slightly ahead of real time.
//!
//! The sources and seeds are those of the simulator, so a live run sends the same packets as a
//! simulated run.

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

/// The packets that one host sends, in order of time.
#[derive(Debug)]
pub(super) struct Sources {
    world: World,
    /// The packets that the simulation has sent since they were last moved to `ready`.
    made: Arc<Mutex<VecDeque<Burst>>>,
    /// The packets that are still to be sent.
    ready: VecDeque<Burst>,
    end: Nanos,
}

impl Sources {
    /// Creates the schedule of the flows in `places`, which gives the index of each flow's outlet.
    /// The sources of other hosts, and traffic that does not consist of datagrams, are left out.
    ///
    /// # Errors
    /// The reason why the simulator rejects the scenario.
    pub(super) fn new(
        scenario: &Scenario,
        seed: u64,
        host: usize,
        places: BTreeMap<u32, usize>,
    ) -> Result<Self, String> {
        let mut ideal = scenario.clone();
        for link in &mut ideal.links {
            for direction in &mut link.directions {
                direction.spec = weir_rules::LinkSpec::default();
                direction.scheduler = None;
                direction.queues.clear();
            }
        }
        for traffic in &mut ideal.traffic {
            if !traffic.from.contains(&host) || !is_datagrams(&traffic.spec) {
                silence(traffic);
            }
        }
        let mut world = build(&ideal, seed).map_err(|error| error.to_string())?.world;
        let made = Arc::new(Mutex::new(VecDeque::new()));
        world.observe(Box::new(Recorder { places, made: Arc::clone(&made) }));
        Ok(Self { world, made, ready: VecDeque::new(), end: scenario.duration })
    }
}

impl Schedule for Sources {
    fn next(&mut self, _elapsed: u64) -> Option<Burst> {
        while self.ready.is_empty() && self.world.network().now() < self.end {
            let until = self.world.network().now().saturating_add(LOOKAHEAD).min(self.end);
            self.world.run(until);
            std::mem::swap(
                &mut self.ready,
                &mut self.made.lock().unwrap_or_else(PoisonError::into_inner),
            );
        }
        self.ready.pop_front().filter(|burst| burst.at < self.end.0)
    }
}

/// Records every packet that an outlet is to send. The ideal links have no rate limit and no delay,
/// so packets arrive at the moment at which they are sent.
#[derive(Debug)]
struct Recorder {
    /// The index of each flow's outlet.
    places: BTreeMap<u32, usize>,
    made: Arc<Mutex<VecDeque<Burst>>>,
}

impl Observer for Recorder {
    fn arrived(&mut self, now: Nanos, packet: &Packet) {
        // This host does not send the packets that go back to the source.
        if packet.flags.has(Flags::BACK) {
            return;
        }
        if let Some(&outlet) = self.places.get(&packet.flow.0) {
            let burst = Burst { at: now.0, outlet, bytes: packet.len, count: 1 };
            self.made.lock().unwrap_or_else(PoisonError::into_inner).push_back(burst);
        }
    }
}

/// How far the simulation runs ahead. The interval is short, so that simulating it takes little
/// time.
const LOOKAHEAD: Nanos = Nanos::from_millis(20);
