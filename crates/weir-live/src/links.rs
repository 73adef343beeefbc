//! The results of one lane: its counters, and the configuration of its link.

use weir_core::Nanos;
use weir_core::stats::{DropReason, LinkStats};
use weir_linux::live::LaneReport;
use weir_measure::series::LinkSeries;
use weir_report::LinkResult;
use weir_rules::{LinkSpec, canonical};

/// The results of one direction. Frames that the kernel dropped before they could be read count as
/// arrivals and as drops. `spec` is `None` if rules decide each packet's path.
pub(crate) fn link_result(
    (from, to): (&str, &str),
    lane: &LaneReport,
    series: LinkSeries,
    spec: Option<&LinkSpec>,
    elapsed: Nanos,
) -> LinkResult {
    let mut counters = lane.counters.clone();
    counters.packets_in += lane.rx_kernel_drops;
    (0..lane.rx_kernel_drops).for_each(|_| counters.count_drop(DropReason::NoMemory));
    let stats = LinkStats {
        counters,
        queue_ns: lane.queue_ns.clone(),
        total_ns: lane.total_ns.clone(),
        device: None,
    };
    let result = LinkResult {
        lateness_ns: lane.lateness.clone(),
        series,
        ..LinkResult::from_stats(&lane.name, from, to, &stats)
    };
    match spec {
        Some(spec) => with_spec(result, spec, elapsed),
        None => LinkResult { by_rules: true, ..result },
    }
}

/// Adds the configuration of a link to its results. Rate, delay and loss are means over
/// `elapsed`, the time since the start.
pub(crate) fn with_spec(result: LinkResult, spec: &LinkSpec, elapsed: Nanos) -> LinkResult {
    let link = &spec.pipe.link;
    let means = link.means(Some(Nanos::ZERO..elapsed));
    LinkResult {
        spec: canonical(spec),
        rate_bps: means.rate_bps,
        rate_varies: means.rate_varies,
        delay_ns: means.delay.0,
        delay_varies: means.delay_varies,
        loss: means.loss,
        loss_varies: means.loss_varies,
        ..result
    }
}
