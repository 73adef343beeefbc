//! The results of one lane: its counters, and the configuration of its link.

use weir_core::Nanos;
use weir_core::config::{Capacity, LinkConfig, Loss};
use weir_core::link::Step;
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
        Some(spec) => with_spec(result, spec),
        None => LinkResult { by_rules: true, ..result },
    }
}

/// Adds the configuration of a link to its results.
pub(crate) fn with_spec(result: LinkResult, spec: &LinkSpec) -> LinkResult {
    let link = &spec.pipe.link;
    let (rate_bps, delay) = configured(link);
    LinkResult {
        spec: canonical(spec),
        rate_bps,
        delay_ns: delay.0,
        loss: mean_loss(link.loss),
        ..result
    }
}

/// The configured rate and delay of a link. If a table changes them over time, these are the means
/// over the steps, weighted by their duration: over one period of a repeating table, otherwise over
/// all steps. The last step, which does not end, counts as long as the step before it.
fn configured(link: &LinkConfig) -> (Option<u64>, Nanos) {
    let bps = |capacity: &Capacity| match capacity {
        Capacity::Unlimited => None,
        Capacity::Constant(rate) => Some(rate.bps()),
        Capacity::Trace(trace) => Some(trace.mean_bps()),
    };
    let at_first = (bps(&link.capacity), link.delay);
    let Some(schedule) = &link.schedule else { return at_first };
    let after = |(rate, delay), step: &Step| {
        (step.capacity.as_ref().map_or(rate, bps), step.delay.unwrap_or(delay))
    };
    let steps = schedule.steps();
    // In a repeating table, each period begins with the values at the end of the period before it.
    let mut now = if schedule.period().is_some() {
        steps.iter().fold(at_first, |now, (_, step)| after(now, step))
    } else {
        at_first
    };
    let mut held = vec![(Nanos::ZERO, now)];
    for (at, step) in steps {
        now = after(now, step);
        held.push((*at, now));
    }
    let begins = |i: usize| u128::from(held[i].0.0);
    let lasts = |i: usize| match schedule.period() {
        _ if i + 1 < held.len() => begins(i + 1) - begins(i),
        Some(period) => u128::from(period.0) - begins(i),
        None => (begins(i) - begins(i - 1)).max(1),
    };
    let parts = || (0..held.len()).map(|i| (held[i].1, lasts(i))).filter(|(_, lasts)| *lasts > 0);
    let mean = |sum: u128| {
        u64::try_from(sum / parts().map(|(_, lasts)| lasts).sum::<u128>()).unwrap_or(u64::MAX)
    };
    let bits: Option<u128> =
        parts().map(|((rate, _), lasts)| Some(u128::from(rate?) * lasts)).sum();
    let delays: u128 = parts().map(|((_, delay), lasts)| u128::from(delay.0) * lasts).sum();
    (bits.map(mean), Nanos(mean(delays)))
}

/// Long-run share of packets that a loss model drops.
fn mean_loss(loss: Loss) -> Option<f64> {
    match loss {
        Loss::None => None,
        Loss::Bernoulli(p) => Some(p.as_f64()),
        Loss::GilbertElliott { loss_in_good, good_to_bad, loss_in_bad, bad_to_good } => {
            let (k, p, h, r) = (
                loss_in_good.as_f64(),
                good_to_bad.as_f64(),
                loss_in_bad.as_f64(),
                bad_to_good.as_f64(),
            );
            let bad = if p + r > 0.0 { p / (p + r) } else { 0.0 };
            Some(k * (1.0 - bad) + h * bad)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The configured rate and delay of a specification with a table, in bit/s and ms.
    fn means(spec: &str, table: &str) -> (Option<u64>, u64) {
        let files = BTreeMap::from([("t.csv".to_owned(), table.to_owned())]);
        let checked = weir_rules::check_spec(spec, &files);
        let spec = checked.spec.unwrap_or_else(|| panic!("{}", checked.diagnostics));
        let (rate, delay) = configured(&spec.pipe.link);
        (rate, delay.0 / 1_000_000)
    }

    #[test]
    fn the_means_of_a_table_weight_each_value_by_its_duration() {
        assert_eq!(
            means("trace t.csv", "time,rate,delay\n0,1M,10\n1,4M,40\n4,,\n"),
            (Some(3_250_000), 32)
        );
        assert_eq!(means("schedule t.csv", "time,rate\n0,1M\n1,4M\n4,2M\n"), (Some(2_714_285), 0));
        assert_eq!(
            means("bw 7M delay 5ms schedule t.csv", "time,rate,delay\n0,3M,\n"),
            (Some(3_000_000), 5)
        );
    }

    #[test]
    fn the_means_of_a_table_include_the_time_before_its_first_row() {
        assert_eq!(means("bw 1M schedule t.csv", "time,rate\n2,4M\n"), (Some(2_500_000), 0));
        assert_eq!(
            means("schedule t.csv", "time,rate\n2,4M\n"),
            (None, 0),
            "no limit at first: there is no mean"
        );
        // In all periods after the first, the values of the last row apply until the first row.
        assert_eq!(
            means("bw 9M schedule t.csv loop", "time,rate\n1,2M\n3,6M\n4,\n"),
            (Some(4_000_000), 0)
        );
        assert_eq!(
            means("trace t.csv", "time,rate,delay\n0,2M,\n1,,10\n2,,\n"),
            (Some(2_000_000), 10)
        );
    }
}
