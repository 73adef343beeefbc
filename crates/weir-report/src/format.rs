//! Numbers in readable form, with three significant digits and a unit, and texts without control
//! characters.

use std::borrow::Cow;

/// The text without characters that control a terminal or change the order of the displayed text:
/// each of them becomes `·`. Names of interfaces, hosts, scenarios and links may contain any
/// character.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(controls) { text.replace(controls, "·").into() } else { text.into() }
}

/// As [`printable`], for texts of several lines: line breaks and tabs stay. With `colour`, the
/// sequences that set a colour or a font weight stay too.
pub fn printable_lines(text: &str, colour: bool) -> Cow<'_, str> {
    let is_bad = |c: char| controls(c) && !matches!(c, '\n' | '\t');
    if !text.contains(is_bad) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = if colour { style_length(rest) } else { 0 };
        if len > 0 {
            out.push_str(&rest[..len]);
            rest = &rest[len..];
        } else {
            out.push(if is_bad(c) { '·' } else { c });
            rest = &rest[c.len_utf8()..];
        }
    }
    out.into()
}

/// The length of the sequence for colour or weight at the start of a text, in bytes; 0 if there is
/// none.
fn style_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\x1b[") else { return 0 };
    let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if rest.as_bytes().get(digits) == Some(&b'm') { 2 + digits + 1 } else { 0 }
}

fn controls(c: char) -> bool {
    // These ranges reverse or isolate the direction of the text after them.
    c.is_control() || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// A rate in bit/s, such as `3.81 Mbit/s`.
pub fn rate(bps: f64) -> String {
    scaled(bps, &RATE_UNITS)
}

/// A configured rate, with its original digits if three decimals suffice, such as `4 Mbit/s` or
/// `256 kbit/s`.
pub fn exact_rate(bps: u64) -> String {
    exact(bps, &RATE_UNITS)
}

/// The configured rate of a link: `4 Mbit/s` or `unlimited`, and if it varies `3.25 Mbit/s mean` or
/// `unlimited at times`.
pub fn configured_rate(bps: Option<u64>, varies: bool) -> String {
    match bps {
        None if varies => "unlimited at times".to_owned(),
        None => "unlimited".to_owned(),
        Some(bps) if varies => format!("{} mean", rate(bps as f64)),
        Some(bps) => exact_rate(bps),
    }
}

/// A duration in nanoseconds, such as `20.1 ms`.
pub fn duration(ns: f64) -> String {
    scaled(ns, &TIME_UNITS)
}

/// A configured duration, with its original digits if three decimals suffice, such as `20 ms`.
pub fn exact_duration(ns: u64) -> String {
    if ns == 0 { "0 ms".to_owned() } else { exact(ns, &TIME_UNITS) }
}

/// The duration of a run, such as `12.3 s` or `1 h 02 min`.
pub fn elapsed(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..60 => duration(ns as f64),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A number of bytes, such as `1.23 MB` (powers of ten).
pub fn bytes(n: f64) -> String {
    scaled(n, &BYTE_UNITS)
}

/// A count with thousands separators, such as `10,234`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A fraction as a percentage, such as `0.98 %`. A small fraction never reads as 0.
pub fn percent(fraction: f64) -> String {
    let p = fraction * 100.0;
    match p {
        0.0 => "0 %".to_owned(),
        _ if p < 0.001 => "<0.001 %".to_owned(),
        _ if p < 0.1 => format!("{} %", trimmed(&format!("{p:.3}"))),
        _ if p < 10.0 => format!("{} %", trimmed(&format!("{p:.2}"))),
        _ => format!("{} %", trimmed(&format!("{p:.1}"))),
    }
}

/// The most readable unit for values up to `max`, with its size.
pub(crate) fn unit_for(max: f64, units: &'static [(f64, &'static str)]) -> (f64, &'static str) {
    // 0.9995 of the next unit already rounds to that unit at three digits.
    units
        .iter()
        .rev()
        .find(|(size, _)| max >= size * 0.9995)
        .or(units.first())
        .copied()
        .unwrap_or((1.0, ""))
}

/// Three significant digits, but at most two decimals, without trailing zeros; below 0.01, up to
/// six decimals.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => trimmed(&format!("{value:.1}")).to_owned(),
        v if v > 0.0 && v < 0.00995 => trimmed(&format!("{value:.6}")).to_owned(),
        _ => trimmed(&format!("{value:.2}")).to_owned(),
    }
}

fn scaled(value: f64, units: &'static [(f64, &'static str)]) -> String {
    let (size, name) = unit_for(value, units);
    format!("{} {name}", digits(value / size))
}

/// Formats in the largest unit that shows the number exactly with at most three decimals. If there
/// is no such unit, formats with three significant digits.
fn exact(value: u64, units: &'static [(f64, &'static str)]) -> String {
    for &(size, name) in units.iter().rev() {
        let size = size as u64;
        if value >= size
            && value / size < 10_000
            && (u128::from(value) * 1000).is_multiple_of(u128::from(size))
        {
            let thousandths = u128::from(value) * 1000 / u128::from(size);
            let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
            return format!("{} {name}", trimmed(&text));
        }
    }
    scaled(value as f64, units)
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

pub(crate) const RATE_UNITS: [(f64, &str); 4] =
    [(1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s")];
/// Units of time in nanoseconds.
pub(crate) const TIME_UNITS: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")];
pub(crate) const BYTE_UNITS: [(f64, &str); 4] = [(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_control_the_terminal() {
        assert_eq!(printable("eth0\x1b]0;gone\x07\r\n\u{9b}2J\u{202e}"), "eth0·]0;gone····2J·");
        assert_eq!(printable("br-lan → é"), "br-lan → é");
        let text = "\x1b[1;31mbad\x1b[0m\tx\n\x1b[2J\x1b[";
        assert_eq!(printable_lines(text, true), "\x1b[1;31mbad\x1b[0m\tx\n·[2J·[");
        assert_eq!(printable_lines(text, false), "·[1;31mbad·[0m\tx\n·[2J·[");
    }

    #[test]
    fn numbers_have_three_digits_and_the_right_unit() {
        assert_eq!(rate(3_812_345.0), "3.81 Mbit/s");
        assert_eq!(rate(999_600.0), "1 Mbit/s");
        assert_eq!(rate(0.0), "0 bit/s");
        assert_eq!(duration(20_123_456.0), "20.1 ms");
        assert_eq!(duration(999_400.0), "999 us");
        assert_eq!(bytes(1_234_567.0), "1.23 MB");
        assert_eq!(elapsed(3_725_000_000_000), "1 h 02 min");
        assert_eq!(elapsed(59_990_000_000), "60 s");
    }

    #[test]
    fn configured_values_keep_their_digits() {
        assert_eq!(exact_rate(4_000_000), "4 Mbit/s");
        assert_eq!(exact_rate(1_536_000), "1.536 Mbit/s");
        assert_eq!(exact_rate(1_234_567_891), "1.23 Gbit/s");
        assert_eq!(exact_rate(56_250), "56.25 kbit/s");
        assert_eq!(exact_duration(20_000_000), "20 ms");
        assert_eq!(exact_duration(1_250), "1.25 us");
        assert_eq!(exact_duration(0), "0 ms");
    }

    #[test]
    fn a_configured_rate_that_varies_is_marked() {
        assert_eq!(configured_rate(Some(3_250_000), true), "3.25 Mbit/s mean");
        assert_eq!(configured_rate(Some(3_250_000), false), "3.25 Mbit/s");
        assert_eq!(configured_rate(None, true), "unlimited at times");
        assert_eq!(configured_rate(None, false), "unlimited");
    }

    #[test]
    fn counts_and_fractions() {
        assert_eq!(
            (count(0), count(999), count(1000), count(1_234_567)),
            ("0".into(), "999".into(), "1,000".into(), "1,234,567".into())
        );
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.031), "3.1 %");
        assert_eq!(percent(0.000_001), "<0.001 %");
        assert_eq!(percent(1.0), "100 %");
    }
}
