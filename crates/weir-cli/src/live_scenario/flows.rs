//! The flows of a scenario, numbered as the simulator numbers them.

use weir_core::key::FlowKey;
use weir_sim::build::key;
use weir_sim::scenario::Scenario;
use weir_sim::topology::{Topology, WayError};

use super::kinds::protocol;

/// A flow.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Its number.
    pub(crate) number: u32,
    /// Its place in the scenario's traffic.
    pub(crate) traffic: usize,
    /// Under which name its figures are kept.
    pub(crate) group: String,
    /// Nodes that it comes from and goes to.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Ports on its way, and on the way back.
    pub(crate) forward: Vec<usize>,
    pub(crate) back: Vec<usize>,
    /// Addresses and ports of its packets.
    pub(crate) key: FlowKey,
    /// Traffic class.
    pub(crate) class: u16,
}

/// Every flow of a scenario, in order.
///
/// # Errors
/// There is no way between two hosts; a scenario that was read from a file has them all.
pub(crate) fn flows(scenario: &Scenario) -> Result<Vec<Flow>, WayError> {
    let mut topology =
        Topology::new(&scenario.nodes, &scenario.links).with_routes(&scenario.routes);
    let mut flows = Vec::new();
    for (place, traffic) in scenario.traffic.iter().enumerate() {
        let mut of_traffic = 0;
        let pairs =
            traffic.to.iter().flat_map(|&to| traffic.from.iter().map(move |&from| (from, to)));
        for (from, to) in pairs {
            let (forward, back) = (topology.way(from, to)?, topology.way(to, from)?);
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
                    traffic: place,
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
