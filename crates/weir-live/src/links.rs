//! The results of a lane or link: its counters, and the configuration of the link.

use weir_core::link::ConfiguredMeans;
use weir_core::stats::{DropReason, LinkStats};
use weir_linux::live::LaneReport;
use weir_measure::series::LinkSeries;
use weir_report::LinkResult;
use weir_rules::{LinkSpec, canonical};

/// The results of a lane. Frames that the kernel dropped before they could be read count as
/// arrivals and as drops. `configured` has the link's specification and the means since the start;
/// `None` if rules decide each packet's path.
pub(crate) fn link_result(
    (from, to): (&str, &str),
    lane: &LaneReport,
    series: LinkSeries,
    configured: Option<(&LinkSpec, ConfiguredMeans)>,
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
    match configured {
        Some(configured) => with_configured(result, configured),
        None => LinkResult { by_rules: true, ..result },
    }
}

/// Adds the specification of a link, and its means since the start, to its results.
pub(crate) fn with_configured(
    result: LinkResult,
    (spec, means): (&LinkSpec, ConfiguredMeans),
) -> LinkResult {
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
