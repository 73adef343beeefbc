//! The plots of a watched queue.

use weir_measure::exact::Exact;
use weir_measure::histogram::Bin;
use weir_measure::series::Periods;
use weir_measure::watch::{Measured, QueuePeriod};

use super::super::charts::{Chart, Detail, micro, seconds, variant};
use super::detail::{self, Part};
use crate::format;
use crate::plot::{Axis, Curve, Plot, Shape, Unit};

/// Start and end of the watch, ns.
pub(super) type Span = (u64, u64);

/// The plot of the queue's length over time, in packets and in bytes. For zooming, the page stores
/// at most `most` items of the packets and a quarter as many of the bytes.
pub(super) fn length(queue: &Measured, (start, end): Span, most: usize) -> Chart {
    let mut variants = Vec::new();
    for (name, unit, part, most) in
        [("packets", Unit::Count, PACKETS, most), ("bytes", Unit::Bytes, BYTES, most / 4)]
    {
        if unit == Unit::Bytes && queue.bytes().max() == 0 && queue.packets().max() > 0 {
            continue;
        }
        let periods = queue.periods();
        let offset = periods.origin_ns().saturating_sub(start);
        let group = periods.as_slice().len().div_ceil(COLUMNS).max(1);
        let width = periods.width_ns() * group as u64;
        let until = queue.until.unwrap_or(end).saturating_sub(start);
        let (mut band, mut mean) = (Vec::new(), Vec::new());
        for item in detail::items(periods, group, part) {
            let at = seconds(offset + item.from as u64 * width);
            band.push([at, item.low as f64, item.high as f64]);
            mean.push([at, item.mean]);
        }
        let last = seconds(until);
        band.extend(band.last().map(|&[from, low, high]| [last.max(from), low, high]));
        mean.extend(mean.last().map(|&[from, mean]| [last.max(from), mean]));
        let values = if unit == Unit::Count { queue.packets() } else { queue.bytes() };
        let description = format!(
            "{name} waiting in {} over time, least to most and mean: median {}, 99th percentile \
             {}, at most {}.",
            queue.queue.label(),
            format::count(values.quantile(0.5)),
            format::count(values.quantile(0.99)),
            format::count(values.max())
        );
        let curves = vec![
            Curve::new("least to most", 5, Shape::Band(band)),
            Curve::new("mean", 0, Shape::Steps(mean)),
        ];
        let plot =
            over_time("Queue length", description, Axis::linear(name, unit), (start, end), curves);
        let mut variant = variant(name, "time", plot);
        let (group, items) = detail::at_most(periods, most, part);
        let period = seconds(periods.width_ns() * group as u64);
        variant.data.detail = Some(Detail {
            offset: seconds(offset),
            period,
            end: last,
            items: detail::encode(&items),
        });
        variants.push(variant);
    }
    let finest = micro(&format::duration(queue.periods().width_ns() as f64));
    let remark = format!(
        "The band spans the extremes, so that a single reading is visible. Zoom: drag, or + and \
         −; finest period {finest}."
    );
    Chart { variants, remark }
}

/// The plot of the share of readings, or of time, with each length.
pub(super) fn histogram(queue: &Measured) -> Chart {
    let (packets, share) = (queue.packets(), share_of(queue));
    let (least, most) = (packets.min(), packets.max());
    let step = (most - least + 1).div_ceil(BARS).max(1);
    let mut bars: Vec<[f64; 4]> = Vec::new();
    for Bin { low: value, count: weight, .. } in packets.bins() {
        let from = (least + (value - least) / step * step) as f64 - 0.5;
        let height = weight as f64 / packets.total().max(1) as f64;
        match bars.last_mut().filter(|bar| bar[0] == from) {
            Some(bar) => bar[3] += height,
            None => bars.push([from, from + step as f64, 0.0, height]),
        }
    }
    let x = Axis::linear("packets waiting", Unit::Count)
        .with_range(least as f64 - 0.5, (least + (most - least) / step * step + step) as f64 - 0.5);
    let description = format!(
        "Share of {share} for each length of {}, from {least} to {most} packets.",
        queue.queue.label()
    );
    let lowest = bars.iter().map(|bar| bar[3]).fold(1.0, f64::min);
    let logarithmic =
        Axis::log(share, Unit::Fraction).with_range((lowest * 0.5).max(LEAST_SHARE), 1.0);
    let one = |name: &str, y: Axis| {
        let (title, curves) =
            ("Lengths".to_owned(), vec![Curve::new("", 0, Shape::Bars(bars.clone()))]);
        variant(
            name,
            "lengths",
            Plot { title, description: description.clone(), x: x.clone(), y, curves },
        )
    };
    let variants =
        vec![one("linear", Axis::linear(share, Unit::Fraction)), one("logarithmic", logarithmic)];
    let remark = if step > 1 { format!("Bars of {step} packets each.") } else { String::new() };
    Chart { variants, remark }
}

/// The plot of the share of readings, or of time, with a queue longer than each length.
pub(super) fn above(queue: &Measured) -> Chart {
    let (packets, share) = (queue.packets(), share_of(queue));
    let points = complement(packets);
    let lowest =
        points.iter().rev().map(|point| point[1]).find(|&share| share > 0.0).unwrap_or(1.0);
    let description = format!(
        "Share of {share} with more packets than this waiting in {}; more than half the maximum: \
         {}.",
        queue.queue.label(),
        format::percent(packets.share_above(packets.max() / 2))
    );
    let plot = Plot {
        title: "Time above a threshold".to_owned(),
        description,
        x: Axis::linear("more packets than", Unit::Count)
            .with_range(0.0, packets.max().max(1) as f64),
        y: Axis::log(share, Unit::Fraction).with_range((lowest * 0.7).max(LEAST_SHARE), 1.0),
        curves: vec![Curve::new("", 0, Shape::Steps(points))],
    };
    Chart {
        variants: vec![variant("", "lengths", plot)],
        remark: "The scale of shares is logarithmic: rare long queues are visible.".to_owned(),
    }
}

/// Points `[length, share of readings or of time with a longer queue]`. If there are too many, some
/// are left out, but not the first or the last.
fn complement(packets: &Exact) -> Vec<[f64; 2]> {
    let total = packets.total().max(1) as f64;
    let mut longer = packets.total();
    let mut points = vec![[0.0, (packets.total() - packets.weight_at(0)) as f64 / total]];
    for Bin { low: value, count: weight, .. } in packets.bins() {
        longer -= weight;
        if value > 0 {
            points.push([value as f64, longer as f64 / total]);
        }
    }
    // No length is above the greatest one, and a logarithmic scale cannot show a share of 0: the
    // last step keeps its height up to the greatest length.
    if points.len() > 1 {
        let last = points.len() - 1;
        points[last][1] = points[last - 1][1];
    }
    let every = points.len().div_ceil(CURVE_POINTS);
    let last = points.len() - 1;
    points
        .into_iter()
        .enumerate()
        .filter(|(place, _)| place % every == 0 || *place == last)
        .map(|(_, point)| point)
        .collect()
}

/// The plot of the differences of consecutive readings, as in the Fast Queue Sampler publication.
pub(super) fn variance(queue: &Measured) -> Chart {
    let steps = queue.steps();
    let most = steps.max().min(MAX_STEPS);
    let share = |weight: u64| weight as f64 / steps.total().max(1) as f64;
    let mut bars: Vec<[f64; 4]> = (0..=most)
        .map(|step| [step as f64 - 0.5, step as f64 + 0.5, 0.0, share(steps.weight_at(step))])
        .filter(|bar| bar[3] > 0.0)
        .collect();
    let more = steps.share_above(MAX_STEPS);
    if more > 0.0 {
        bars.push([MAX_STEPS as f64 + 0.5, MAX_STEPS as f64 + 1.5, 0.0, more]);
    }
    let (zero, one) = (format::percent(steps.share_at(0)), format::percent(steps.share_at(1)));
    let lowest = bars.iter().map(|bar| bar[3]).fold(1.0, f64::min);
    let plot = Plot {
        title: "Difference of consecutive readings".to_owned(),
        description: format!(
            "Of {} differences {zero} are 0 and {one} are 1 packet.",
            format::count(steps.total())
        ),
        x: Axis::linear("packets", Unit::Count)
            .with_range(-0.5, (most + 1).max(4) as f64 + if more > 0.0 { 0.5 } else { -0.5 }),
        y: Axis::log("readings", Unit::Fraction).with_range((lowest * 0.5).max(LEAST_SHARE), 1.0),
        curves: vec![Curve::new("", 2, Shape::Bars(bars))],
    };
    let rest =
        if more > 0.0 { format!(" The last bar is all above {MAX_STEPS}.") } else { String::new() };
    let remark = format!(
        "0: {zero}, 1: {one}, more: {}, up to {} packets.{rest}",
        format::percent(steps.share_above(1)),
        steps.max()
    );
    Chart { variants: vec![variant("", "lengths", plot)], remark }
}

/// The plot of dropped packets over time.
pub(super) fn drops(queue: &Measured, (start, end): Span) -> Chart {
    let periods = queue.periods();
    let offset = periods.origin_ns().saturating_sub(start);
    let group = group_of(periods);
    let width = periods.width_ns() * group as u64;
    let of_group = |(place, group): (usize, &[QueuePeriod])| {
        let drops: u64 = group.iter().map(|period| period.drops).sum();
        let from = offset + place as u64 * width;
        (drops > 0).then(|| [seconds(from), seconds(from + width), 0.0, drops as f64])
    };
    let bars: Vec<[f64; 4]> =
        periods.as_slice().chunks(group).enumerate().filter_map(of_group).collect();
    let total = format::count(queue.counted().drops);
    let description =
        format!("Packets dropped by {} over time, {total} in all.", queue.queue.label());
    let plot = over_time(
        "Drops",
        description,
        Axis::linear("packets dropped", Unit::Count),
        (start, end),
        vec![Curve::new("", 1, Shape::Bars(bars))],
    );
    let remark = format!("Packets in each {}.", micro(&format::duration(width as f64)));
    Chart { variants: vec![variant("", "time", plot)], remark }
}

/// Number of periods per bar of drops.
fn group_of(periods: &Periods<QueuePeriod>) -> usize {
    let least = LEAST_DROP_PERIOD_NS.div_ceil(periods.width_ns()) as usize;
    periods.as_slice().len().div_ceil(DROP_COLUMNS).max(least).max(1)
}

fn over_time(
    title: &str,
    description: String,
    y: Axis,
    (start, end): Span,
    curves: Vec<Curve>,
) -> Plot {
    let x = Axis::linear("time", Unit::Seconds)
        .with_range(0.0, seconds(end.saturating_sub(start).max(1)));
    Plot { title: title.to_owned(), description, x, y, curves }
}

pub(super) fn share_of(queue: &Measured) -> &'static str {
    if queue.is_exact() { "time" } else { "readings" }
}

const PACKETS: Part = |period| period.packets;
const BYTES: Part = |period| period.bytes;
/// Maximum number of periods in the plot over time.
const COLUMNS: usize = 700;
/// Maximum number of bars of drops over time.
const DROP_COLUMNS: usize = 120;
/// Minimum width of a bar of drops: counters are read every 20 ms.
const LEAST_DROP_PERIOD_NS: u64 = 20_000_000;
/// Maximum number of bars of lengths.
const BARS: u64 = 100;
/// The greatest difference with a bar of its own.
const MAX_STEPS: u64 = 20;
/// Maximum number of points of a curve, apart from its last point.
const CURVE_POINTS: usize = 400;
/// Lower bound of the scale of shares.
const LEAST_SHARE: f64 = 1e-10;
