//! The service metrics of `weir rig`: the service of flows and its theoretical bounds.

use weir_rig::Order;
use weir_rig::flows::FlowSet;
use weir_rig::report::WfiRow;
use weir_rig::service::{Service, Workload, measure};

use super::args::Load;
use super::config::Config;

/// The service of each class of flows under a scheduler; `None` for the algorithm `none`, which is
/// no scheduler.
pub(crate) fn service(
    config: &Config,
    algorithm: &weir_rig::Algorithm,
    set: &FlowSet,
) -> Option<Service> {
    let packets = config.service_packets(set);
    let workload = match (&config.order, config.load) {
        (Order::Trace(trace), _) => Workload::Trace(trace),
        (_, Load::Backlogged) => Workload::Backlogged { packets },
        (_, Load::OnOff) => Workload::OnOff { packets },
        (_, Load::Ramp) => Workload::Ramp { packets },
    };
    algorithm.discipline().map(|discipline| measure(discipline, set, &workload, config.seed))
}

/// The results as rows of the JSON document.
pub(crate) fn rows(service: &Service) -> Vec<WfiRow> {
    service.classes.iter().map(WfiRow::of).collect()
}
