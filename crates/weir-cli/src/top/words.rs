//! Formats values with few digits, so that columns do not jump.

use weir_report::format::count;

use super::activity::Delay;

/// A value with three digits and a prefix, such as `3.80 M`. A value below 1000 has no prefix, and
/// at most one decimal. A small positive value reads as `<0.1`.
pub(super) fn short(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    if value < 0.095 {
        return "<0.1".to_owned();
    }
    if value < 9.95 && value.fract() > 0.0 {
        return format!("{value:.1}");
    }
    let mut value = value;
    for prefix in ["", " k", " M", " G", " T"] {
        if value < 999.5 {
            return if prefix.is_empty() { format!("{value:.0}") } else { digits(value) + prefix };
        }
        value /= 1000.0;
    }
    "much".to_owned()
}

/// A rate, such as `3.80 Mbit/s`.
pub(super) fn rate(bps: f64) -> String {
    let value = short(bps);
    let space = if value.contains(' ') { "" } else { " " };
    format!("{value}{space}bit/s")
}

/// Formats `ns` with three digits and a unit, such as `20.1 ms`.
pub(super) fn time(ns: f64) -> String {
    if ns <= 0.0 {
        return "0 us".to_owned();
    }
    let mut value = ns.max(0.0) / 1000.0;
    for unit in ["us", "ms"] {
        if value < 999.5 {
            return format!("{} {unit}", digits(value));
        }
        value /= 1000.0;
    }
    format!("{} s", digits(value))
}

/// A queueing delay; an estimate begins with `~`.
pub(super) fn delay(delay: &Delay) -> String {
    match delay {
        Delay::Unknown => "-".to_owned(),
        Delay::Measured(latency) => time(latency.p99 as f64),
        Delay::Estimated(ns) => format!("~{}", time(*ns)),
    }
}

/// A count; from a million on, with three digits and a prefix.
pub(super) fn number(value: u64) -> String {
    if value < 1_000_000 { count(value) } else { short(value as f64) }
}

fn digits(value: f64) -> String {
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_width() {
        for (value, text) in [
            (0.0, "0"),
            (0.01, "<0.1"),
            (0.5, "0.5"),
            (3.0, "3"),
            (42.0, "42"),
            (999.4, "999"),
            (999.6, "1.00 k"),
            (3_800_000.0, "3.80 M"),
            (99_960_000.0, "100 M"),
            (1.234e9, "1.23 G"),
            (f64::NAN, "0"),
        ] {
            assert_eq!(short(value), text, "{value}");
        }
        assert_eq!((time(20_100_000.0).as_str(), time(0.0).as_str()), ("20.1 ms", "0 us"));
        assert_eq!((rate(3.8e6), rate(12.0)), ("3.80 Mbit/s".into(), "12 bit/s".into()));
        assert_eq!((time(1.5e9).as_str(), time(999_600_000.0).as_str()), ("1.50 s", "1.00 s"));
        assert_eq!((number(999_999), number(1_000_000)), ("999,999".into(), "1.00 M".into()));
    }
}
