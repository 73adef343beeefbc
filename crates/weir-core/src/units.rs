//! Units of the engine: time, rate, size and probability. Each has its own type, so that they
//! cannot be confused.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// Nanoseconds in one second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A point in time or a time span, in nanoseconds.
///
/// The engine never reads a clock: the driver passes the time and chooses its origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The origin of time, and the empty span.
    pub const ZERO: Self = Self(0);
    /// The largest time, which means "never".
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `ms` whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// A span of `us` whole microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// A span of `s` whole seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * NANOS_PER_SEC)
    }

    /// The span from `earlier` to `self`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// `self + span`, or the largest time on overflow.
    pub const fn saturating_add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// `self - span`, or zero if `span` is longer.
    pub const fn saturating_sub(self, span: Self) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

/// Formats the span in a readable unit: `1.5 s`, `20 ms`, `250 us`, `30 ns`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0 => return f.write_str("0 ms"),
            1_000_000_000.. => (1_000_000_000, "s"),
            1_000_000.. => (1_000_000, "ms"),
            1_000.. => (1_000, "us"),
            _ => (1, "ns"),
        };
        write_decimal(f, self.0, unit)?;
        write!(f, " {name}")
    }
}

/// A rate in bits per second, at most [`Rate::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// 400 Gbit/s, the largest rate for which the engine's arithmetic is exact for every packet
    /// size.
    pub const MAX: Self = Self(400_000_000_000);

    /// A rate of `bps` bits per second; `None` if it is zero or above [`Rate::MAX`].
    pub const fn new(bps: u64) -> Option<Self> {
        if bps == 0 || bps > Self::MAX.0 { None } else { Some(Self(bps)) }
    }

    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }
}

/// Formats the rate as `256 kbit/s`, `4 Mbit/s`, `1.5 Gbit/s`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            1_000_000_000.. => (1_000_000_000, "Gbit/s"),
            1_000_000.. => (1_000_000, "Mbit/s"),
            1_000.. => (1_000, "kbit/s"),
            _ => (1, "bit/s"),
        };
        write_decimal(f, self.0, unit)?;
        write!(f, " {name}")
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// Formats the size as `1500 B`, `64 KB`, `15 MB`: in powers of 1000, in the largest unit that
/// gives at least 10, or in bytes.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            10_000_000_000.. => (1_000_000_000, "GB"),
            10_000_000.. => (1_000_000, "MB"),
            10_000.. => (1_000, "KB"),
            _ => (1, "B"),
        };
        write_decimal(f, self.0, unit)?;
        write!(f, " {name}")
    }
}

/// A probability as a 63-bit fixed-point fraction: `0` is never, [`Probability::ONE`] is always.
///
/// A draw compares 63 random bits with the fraction, so that 0 and 1 are exact and the packet path
/// needs no floating point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability(u64);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ONE: Self = Self(1 << 63);

    /// The probability `p`; `None` if it is not between 0 and 1.
    pub fn new(p: f64) -> Option<Self> {
        // 2^63 is exact in a double, and so is the product; `as` truncates towards zero.
        (0.0..=1.0).contains(&p).then_some(Self((p * 9_223_372_036_854_775_808.0) as u64))
    }

    /// The probability as a number between 0 and 1.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 9_223_372_036_854_775_808.0
    }

    /// The fixed-point value, between 0 and 2^63.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Whether the probability is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Writes `value / unit` with up to three decimals and no trailing zeros; exact where three
/// decimals suffice.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, unit: u64) -> fmt::Result {
    let thousandths = ((u128::from(value) * 1000) + u128::from(unit) / 2) / u128::from(unit);
    let (whole, fraction) = (thousandths / 1000, thousandths % 1000);
    if fraction == 0 {
        return write!(f, "{whole}");
    }
    let digits = [fraction / 100, fraction / 10 % 10, fraction % 10].map(|d| b'0' + d as u8);
    let mut digits = digits.as_slice();
    while let [head @ .., b'0'] = digits {
        digits = head;
    }
    write!(f, "{whole}.{}", core::str::from_utf8(digits).unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn units_print_in_readable_form() {
        assert_eq!(format!("{}", Nanos(20_000_000)), "20 ms");
        assert_eq!(format!("{}", Nanos(1_500)), "1.5 us");
        assert_eq!(format!("{}", Nanos(12)), "12 ns");
        assert_eq!(format!("{}", Nanos(999_999_999)), "1000 ms");
        assert_eq!(format!("{}", Rate(256_000)), "256 kbit/s");
        assert_eq!(format!("{}", Rate(1_250_000_000)), "1.25 Gbit/s");
        assert_eq!(format!("{}", Bytes(1500)), "1500 B");
        assert_eq!(format!("{}", Bytes(64_000)), "64 KB");
    }

    #[test]
    fn probabilities_outside_zero_to_one_are_refused() {
        assert_eq!(Probability::new(1.0), Some(Probability::ONE));
        assert_eq!(Probability::new(0.0), Some(Probability::ZERO));
        for p in [-0.1, 1.000_001, f64::NAN, f64::INFINITY] {
            assert_eq!(Probability::new(p), None);
        }
    }

    #[test]
    fn rate_is_bounded() {
        assert_eq!(Rate::new(0), None);
        assert_eq!(Rate::new(400_000_000_001), None);
        assert_eq!(Rate::new(400_000_000_000), Some(Rate::MAX));
    }
}
