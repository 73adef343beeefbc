//! The report of a span of time, from the readings of the page.

use weir_control::dashboard::{Point, Quantiles, Range, Span, Watched};
use weir_measure::stats::Reasons;
use weir_report::{SpanChange, SpanObject, SpanPoint, SpanReport, span_to_html};

/// The report as one HTML document.
#[must_use]
pub fn span_report(span: &Span) -> String {
    let after = |at_ns: u64| at_ns.saturating_sub(span.from_ns) as f64 / 1e9;
    let change = |change: &weir_control::dashboard::ChangeView| SpanChange {
        at_s: after(change.at_ns),
        what: change.what.clone(),
    };
    let object = |watched: &Watched| {
        let Watched { view, points } = watched;
        SpanObject {
            name: view.name.clone(),
            ends: view.from.clone().zip(view.to.clone()).map(|(from, to)| [from, to]),
            spec: view.spec.clone(),
            points: points.iter().map(|point| reading(point, after(point.at_ns))).collect(),
        }
    };
    span_to_html(&SpanReport {
        name: span.name.clone(),
        program: span.program.clone(),
        from: date(span.from_ms),
        to: date(span.to_ms),
        seconds: after(span.to_ns),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        objects: span.objects.iter().map(object).collect(),
        changes: span.changes.iter().map(change).collect(),
    })
}

fn reading(point: &Point, at_s: f64) -> SpanPoint {
    let range = |range: Range| [range.min as f64, range.mean, range.max as f64];
    let times = |times: Quantiles| [times.p50, times.p99, times.max].map(|ns| ns as f64);
    let none = Reasons::default();
    let reasons = point.reasons.as_deref().unwrap_or(&none);
    let words = |(name, number): (&str, u64)| (name.to_owned(), number);
    SpanPoint {
        at_s,
        span_s: point.span_ns as f64 / 1e9,
        packets_in: point.packets_in,
        packets_out: point.packets_out,
        in_bps: point.in_bps(),
        out_bps: point.out_bps(),
        out_bps_max: point.out_bps_max.max(point.out_bps()),
        queue_packets: range(point.queue_packets),
        queue_bytes: point.queue_bytes.map(range),
        wait_ns: point.wait.map(times),
        total_ns: point.total.map(times),
        late_ns: point.late.map(times),
        drops: reasons.drop_counts().in_words().map(words).collect(),
        marks: reasons.mark_counts().in_words().map(words).collect(),
        rate_bps: point.rate_bps.map(|bps| bps as f64),
    }
}

/// A date and time in UTC, from ms since 1970, such as `2026-01-15T10:30:00Z`.
fn date(ms: i64) -> String {
    jiff::Timestamp::from_second(ms.div_euclid(1000)).map(|t| t.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_control::dashboard::ObjectView;

    #[test]
    fn readings_become_a_report() {
        let point = Point {
            at_ns: 3_000_000_000,
            span_ns: 1_000_000_000,
            packets_out: 100,
            bytes_out: 125_000,
            ..Point::default()
        };
        let view = ObjectView { name: "pipe 1".to_owned(), ..ObjectView::default() };
        let page = span_report(&Span {
            name: "serve".to_owned(),
            from_ms: 1_700_000_000_123,
            from_ns: 2_000_000_000,
            to_ns: 4_000_000_000,
            objects: vec![Watched { view, points: vec![point] }],
            ..Span::default()
        });
        assert!(page.contains("pipe 1") && page.contains("1 Mbit/s"));
        assert!(page.contains("2023-11-14T22:13:20Z"));
        assert!(page.contains("\"at_s\":1.0"), "times count from the beginning of the span");
    }
}
