//! The flows of a scenario, with the same numbers as in the simulator.

use weir_core::key::FlowKey;
use weir_sim::build::key;
use weir_sim::scenario::Scenario;
use weir_sim::topology::{PathError, Topology};

use super::kinds::{Carrier, carrier_of, protocol};

#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) number: u32,
    /// Index of the flow's entry in the scenario's traffic.
    pub(super) traffic: usize,
    /// Name of the group to which the flow's statistics belong.
    pub(super) group: String,
    /// The node at which the flow begins.
    pub(super) from: usize,
    /// The node at which the flow ends.
    pub(super) to: usize,
    /// The ports on the flow's path. A port is one direction of a link.
    pub(super) forward: Vec<usize>,
    /// The ports on the path back.
    pub(super) back: Vec<usize>,
    /// Addresses and port numbers of the flow's packets.
    pub(super) key: FlowKey,
    pub(super) class: u16,
}

impl Flow {
    /// The source of the flow's packets.
    pub(super) fn carrier(&self, scenario: &Scenario) -> Carrier {
        // The check has refused traffic that cannot run live.
        carrier_of(&scenario.traffic[self.traffic].spec)
            .unwrap_or(Carrier::Datagrams { tos: 0, echo: false })
    }

    /// Whether a generator sends the flow's packets as datagrams.
    pub(super) fn is_of_datagrams(&self, scenario: &Scenario) -> bool {
        matches!(self.carrier(scenario), Carrier::Datagrams { .. })
    }
}

/// All flows of a scenario, in the order of their numbers.
///
/// # Errors
/// There is no path between two hosts. This cannot happen for a scenario that was read from a file.
pub(super) fn flows(scenario: &Scenario) -> Result<Vec<Flow>, PathError> {
    let mut topology =
        Topology::new(&scenario.nodes, &scenario.links).with_routes(&scenario.routes);
    let mut flows = Vec::new();
    for (index, traffic) in scenario.traffic.iter().enumerate() {
        let mut of_traffic = 0;
        let pairs =
            traffic.to.iter().flat_map(|&to| traffic.from.iter().map(move |&from| (from, to)));
        for (from, to) in pairs {
            let (forward, back) = (topology.path(from, to)?, topology.path(to, from)?);
            for _ in 0..traffic.count {
                of_traffic += 1;
                let own = || {
                    if traffic.flows() == 1 {
                        traffic.name.clone()
                    } else {
                        format!("{}.{of_traffic}", traffic.name)
                    }
                };
                let number = flows.len() as u32;
                flows.push(Flow {
                    number,
                    traffic: index,
                    group: traffic.group.clone().unwrap_or_else(own),
                    from,
                    to,
                    forward: forward.clone(),
                    back: back.clone(),
                    key: key(from, to, number.into(), protocol(&traffic.spec)),
                    class: traffic.class,
                });
            }
        }
    }
    Ok(flows)
}
