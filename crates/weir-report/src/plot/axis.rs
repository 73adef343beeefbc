//! Axes: their ticks and labels, and the position of values.

/// The unit of an axis, which determines the prefixes of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Rate in bit/s.
    BitsPerSecond,
    /// A duration in ns.
    Nanoseconds,
    /// Time since the start in s.
    Seconds,
    /// Bytes.
    Bytes,
    /// A plain number.
    Count,
    /// A fraction shown as a percentage.
    Fraction,
}

/// The spacing of values along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Values are spaced evenly.
    Linear,
    /// Values are spaced by their logarithm.
    Log,
}

/// One axis of a plot.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity, without its unit.
    pub label: String,
    /// The unit of the values.
    pub unit: Unit,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// The range to show; `None` takes the range of the data. A linear axis then starts at 0, or at
    /// the least value if that is negative.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis over the range of the data.
    pub fn linear(label: &str, unit: Unit) -> Self {
        Self { label: label.to_owned(), unit, scale: Scale::Linear, range: None }
    }

    /// A logarithmic axis over the range of the data.
    pub fn log(label: &str, unit: Unit) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label, unit) }
    }

    /// The same axis with a fixed range.
    pub fn with_range(self, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..self }
    }
}

/// An axis with its final range, ticks and position.
#[derive(Clone, Debug)]
pub(crate) struct Fitted {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) scale: Scale,
    /// The position of `low`, px.
    pub(crate) from: f64,
    /// The position of `high`, px.
    pub(crate) to: f64,
    /// The value and the label of each tick.
    pub(crate) ticks: Vec<(f64, String)>,
    /// The label; on a linear axis, with its unit.
    pub(crate) title: String,
    /// The size of the unit of a linear axis, such as 1e6 for Mbit/s.
    pub(crate) unit_size: f64,
}

impl Fitted {
    /// Fits `axis` to values from `min` to `max` between two positions, with about one tick every
    /// `spacing` px.
    pub(crate) fn new(
        axis: &Axis,
        min: f64,
        max: f64,
        (from, to): (f64, f64),
        spacing: f64,
    ) -> Self {
        let (mut low, mut high) = axis.range.unwrap_or(match axis.scale {
            Scale::Linear => (min.min(0.0), max),
            Scale::Log => (min, max),
        });
        if !(low.is_finite() && high.is_finite()) {
            (low, high) = (0.0, 0.0);
        }
        if axis.scale == Scale::Log {
            low = if low > 0.0 { low } else { 1.0 };
            high = if high > low { high } else { low * 10.0 };
        } else if high <= low {
            high = low + 1.0;
        }
        let wanted = ((to - from).abs() / spacing).max(2.0);
        let (unit_size, unit_name) = unit_of(axis.unit, high);
        let mut fitted = Self {
            low,
            high,
            scale: axis.scale,
            from,
            to,
            ticks: Vec::new(),
            title: match unit_name {
                "" => axis.label.clone(),
                name => format!("{} ({name})", axis.label),
            },
            unit_size,
        };
        match axis.scale {
            Scale::Linear => {
                // Counts have whole ticks, unless the range is short and fractional, as for a mean.
                let span = fitted.high - fitted.low;
                let is_whole = axis.unit == Unit::Count && (span == 1.0 || span >= 2.0);
                fitted.linear_ticks(wanted, axis.range.is_none(), if is_whole { 1.0 } else { 0.0 });
            }
            Scale::Log => {
                fitted.log_ticks(wanted, axis.unit);
                if fitted.ticks.len() < 2 {
                    fitted.even_ticks(wanted, axis.unit);
                }
                fitted.title.clone_from(&axis.label);
            }
        }
        fitted
    }

    /// The position of a value, px. A value outside the range is at the edge.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let v = value.clamp(self.low, self.high);
        let part = match self.scale {
            Scale::Linear => (v - self.low) / (self.high - self.low),
            Scale::Log => (v / self.low).log10() / (self.high / self.low).log10(),
        };
        self.from + part * (self.to - self.from)
    }

    /// Adds ticks at round numbers that are at least `least_step` apart; `widen` extends the range
    /// to whole steps.
    fn linear_ticks(&mut self, wanted: f64, widen: bool, least_step: f64) {
        let step = nice_step((self.high - self.low) / self.unit_size / wanted).max(least_step);
        if widen {
            self.high = (self.high / self.unit_size / step - 1e-9).ceil() * step * self.unit_size;
        }
        // Adding zero turns a first tick of -0 into 0.
        let first = (self.low / self.unit_size / step - 1e-9).ceil() + 0.0;
        let decimals = decimals_of(step);
        let mut i = first;
        while i * step * self.unit_size <= self.high * (1.0 + 1e-9) && self.ticks.len() < MAX_TICKS
        {
            self.ticks.push((i * step * self.unit_size, format!("{:.decimals$}", i * step)));
            i += 1.0;
        }
    }

    /// Adds ticks at powers of ten and, if there is room, at 2 and 5 times these powers. Each tick
    /// label has its own unit.
    fn log_ticks(&mut self, wanted: f64, unit: Unit) {
        let decades = (self.high / self.low).log10();
        let factors: &[f64] = if decades * 3.0 <= wanted { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let skip = (decades / wanted).ceil().max(1.0) as i32;
        let mut exponent = self.low.log10().floor() as i32;
        while self.ticks.len() < MAX_TICKS {
            let base = power_of_ten(exponent);
            if base > self.high {
                break;
            }
            if exponent % skip == 0 || factors.len() > 1 {
                let inside =
                    factors.iter().map(|f| f * base).filter(|v| (self.low..=self.high).contains(v));
                self.ticks.extend(inside.map(|v| (v, text_of(unit, v))));
            }
            exponent += 1;
        }
    }

    /// Replaces the ticks of a logarithmic axis by ticks at equal distances.
    fn even_ticks(&mut self, wanted: f64, unit: Unit) {
        let step = nice_step((self.high - self.low) / wanted);
        let mut i = (self.low / step - 1e-9).ceil();
        self.ticks.clear();
        while i * step <= self.high * (1.0 + 1e-9) && self.ticks.len() < MAX_TICKS {
            self.ticks.push((i * step, text_of(unit, i * step)));
            i += 1.0;
        }
    }
}

/// A value with its unit, such as `20.1 ms`. A small fraction that is a power of ten is shown as
/// a power, such as `10⁻⁴ %`, since its leading zeros would need too much room.
pub(crate) fn text_of(unit: Unit, value: f64) -> String {
    if unit == Unit::Fraction && value > 0.0 && value < 0.9995e-4 {
        let exponent = (value * 100.0).log10();
        if (exponent - exponent.round()).abs() < 1e-6 {
            let digits = (-exponent.round() as u32).to_string();
            return format!(
                "10⁻{} %",
                digits
                    .bytes()
                    .map(|digit| SUPERSCRIPT[usize::from(digit - b'0')])
                    .collect::<String>()
            );
        }
    }
    let (size, name) = unit_of(unit, value);
    let digits = crate::format::digits(value / size);
    if name.is_empty() { digits } else { format!("{digits} {name}") }
}

/// The most readable unit for values up to `max`, and its size.
fn unit_of(unit: Unit, max: f64) -> (f64, &'static str) {
    use crate::format::{BYTE_UNITS, RATE_UNITS, TIME_UNITS, unit_for};
    match unit {
        Unit::BitsPerSecond => unit_for(max, &RATE_UNITS),
        Unit::Nanoseconds => match unit_for(max, &TIME_UNITS) {
            (size, "us") => (size, "µs"),
            other => other,
        },
        Unit::Seconds if max > 10_800.0 => (3600.0, "h"),
        Unit::Seconds if max > 180.0 => (60.0, "min"),
        Unit::Seconds => (1.0, "s"),
        Unit::Bytes => unit_for(max, &BYTE_UNITS),
        Unit::Count => (1.0, ""),
        Unit::Fraction => (0.01, "%"),
    }
}

/// The smallest number of the form 1, 2 or 5 times a power of ten that is not below `raw`.
fn nice_step(raw: f64) -> f64 {
    let raw = if raw.is_finite() && raw > 0.0 { raw } else { 1.0 };
    let base = power_of_ten(raw.log10().floor() as i32);
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|f| f * base)
        .find(|&s| s >= raw * (1.0 - 1e-9))
        .unwrap_or(10.0 * base)
}

fn decimals_of(step: f64) -> usize {
    (-(step.log10() + 1e-9).floor()).clamp(0.0, 9.0) as usize
}

fn power_of_ten(exponent: i32) -> f64 {
    let power = (0..exponent.unsigned_abs().min(300)).fold(1.0, |p, _| p * 10.0);
    if exponent < 0 { 1.0 / power } else { power }
}

/// The superscript digits 0 to 9.
const SUPERSCRIPT: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
/// Maximum number of ticks, needed for degenerate ranges. No axis has room for more.
const MAX_TICKS: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, min: f64, max: f64, px: f64) -> Vec<String> {
        Fitted::new(axis, min, max, (0.0, px), 60.0).ticks.into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn ticks_are_round_and_in_the_axis_unit() {
        let axis = Axis::linear("rate", Unit::BitsPerSecond);
        assert_eq!(texts(&axis, 0.0, 3_900_000.0, 300.0), ["0", "1", "2", "3", "4"]);
        assert_eq!(Fitted::new(&axis, 0.0, 3_900_000.0, (0.0, 300.0), 60.0).title, "rate (Mbit/s)");
        assert_eq!(
            texts(&Axis::linear("t", Unit::Seconds).with_range(0.0, 600.0), 0.0, 0.0, 360.0),
            ["0", "2", "4", "6", "8", "10"]
        );
        assert_eq!(texts(&Axis::linear("n", Unit::Count), 0.0, 0.0, 200.0), ["0", "1"]);
    }

    #[test]
    fn an_axis_has_more_than_one_tick() {
        let count = Axis::linear("mean length", Unit::Count);
        assert_eq!(texts(&count, 0.0, 1.4, 200.0), ["0.0", "0.5", "1.0", "1.5"]);
        assert_eq!(texts(&count, 0.0, 0.004, 200.0), ["0.000", "0.002", "0.004"]);
        assert_eq!(texts(&count, 0.0, 3.0, 200.0), ["0", "1", "2", "3"]);
        let log = Axis::log("delay", Unit::Nanoseconds);
        assert_eq!(texts(&log, 6e6, 9e6, 300.0), ["6 ms", "7 ms", "8 ms", "9 ms"]);
    }

    #[test]
    fn log_ticks_carry_their_own_units() {
        let axis = Axis::log("delay", Unit::Nanoseconds);
        assert_eq!(texts(&axis, 5e4, 2e9, 300.0), ["100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
        assert_eq!(texts(&axis, 1e7, 6e7, 360.0), ["10 ms", "20 ms", "50 ms"]);
        assert_eq!(
            texts(&Axis::log("share", Unit::Fraction), 1e-6, 1.0, 200.0),
            ["10⁻⁴ %", "0.01 %", "1 %", "100 %"]
        );
    }

    #[test]
    fn positions_cover_the_axis_and_odd_ranges_do_not_panic() {
        let f = Fitted::new(&Axis::log("d", Unit::Nanoseconds), 1e3, 1e9, (50.0, 350.0), 60.0);
        assert_eq!(
            (
                f.place(1e3).round(),
                f.place(1e6).round(),
                f.place(1e9).round(),
                f.place(0.0).round()
            ),
            (50.0, 200.0, 350.0, 50.0)
        );
        for (min, max) in [(0.0, 0.0), (f64::INFINITY, f64::NEG_INFINITY), (5.0, 5.0)] {
            Fitted::new(&Axis::linear("x", Unit::Count), min, max, (0.0, 100.0), 50.0);
            Fitted::new(&Axis::log("x", Unit::Count), min, max, (0.0, 100.0), 50.0);
        }
    }
}
