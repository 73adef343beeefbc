//! The state of the daemon in one word, and its problems.

use crate::api::{BridgeView, HealthStatus, LaneView};
use crate::plane::NoAnswer;

/// The lanes as the plane reports them, or the error with which the plane gave up; `None` if the
/// plane did neither in time.
pub(super) type Lanes = Option<Result<Vec<LaneView>, NoAnswer>>;

/// Adds to each bridge its two lanes, if the plane reports lanes. The lanes are in the order of the
/// bridges.
pub(super) fn with_lanes(mut bridges: Vec<BridgeView>, lanes: &Lanes) -> Vec<BridgeView> {
    let lanes = lanes.iter().flatten().flatten();
    for (bridge, lanes) in bridges.iter_mut().zip(lanes.collect::<Vec<_>>().chunks(2)) {
        bridge.lanes = lanes.iter().map(|&lane| lane.clone()).collect();
    }
    bridges
}

/// Returns the status of the daemon, and a sentence for each problem.
pub(super) fn judge(bridges: &[BridgeView], lanes: &Lanes) -> (HealthStatus, Vec<String>) {
    let mut problems: Vec<String> = bridges.iter().flat_map(of_bridge).collect();
    let stalled = !matches!(lanes, Some(Ok(_)));
    let status = match (stalled, problems.is_empty()) {
        (true, _) => HealthStatus::Stalled,
        (false, false) => HealthStatus::Degraded,
        (false, true) => HealthStatus::Ok,
    };
    if stalled {
        let stall = "the loop that forwards packets does not answer; if this lasts, restart the \
                     daemon";
        problems.insert(0, stall.to_owned());
    }
    (status, problems)
}

fn of_bridge(bridge: &BridgeView) -> impl Iterator<Item = String> + '_ {
    bridge.interfaces.iter().enumerate().filter_map(|(side, name)| {
        if !bridge.attached[side] {
            return Some(format!(
                "interface {name} is missing; the daemon uses it when it appears"
            ));
        }
        if let Some(error) = &bridge.failed[side] {
            return Some(format!(
                "interface {name} has failed ({error}); restart the daemon, or delete the \
                 interface and create it again"
            ));
        }
        (!bridge.up[side]).then(|| {
            format!("interface {name} is down or has no carrier; set it up, or check its cable")
        })
    })
}
