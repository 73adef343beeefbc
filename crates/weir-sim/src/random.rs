//! Random variables from a seeded stream, with the same bits on every machine.
//!
//! Functions of real numbers are those of `libm`, called directly. The functions of different
//! platforms differ in the last bits. A library of random variables is not used, because features
//! that another crate enables can change which functions such a library calls. A test pins hashes
//! of many draws, so that a seed gives the same values forever.

use weir_core::Nanos;
use weir_core::rng::{Purpose, Stream};

/// A seeded stream of random variables.
#[derive(Clone, Debug)]
pub struct Draws(Stream);

impl Draws {
    /// The stream `part` of the component `number`. Each quantity that a component draws has a
    /// separate stream, so that, for example, a change of flow sizes does not change start times.
    pub fn new(seed: u64, number: u64, part: u8) -> Self {
        Self(Stream::new(seed, number << 8 | u64::from(part), Purpose::Generator))
    }

    /// A uniform number above 0 and up to 1, with 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.0.bits() >> 11) + 1) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// A uniform number from `low` to `high`.
    #[inline]
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A whole number below `n`, which must not be 0.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        self.0.below(n)
    }

    /// An exponentially distributed number.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(self.unit())
    }

    /// A Pareto-distributed number: never below `scale`, and above `x` with probability
    /// `(scale / x) ^ shape`.
    #[inline]
    pub fn pareto(&mut self, shape: f64, scale: f64) -> f64 {
        scale * libm::pow(self.unit(), -1.0 / shape)
    }

    /// A normally distributed number, by the Box–Muller transform. The second value of each pair is
    /// not used, so each draw takes two uniform numbers.
    #[inline]
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
        mean + deviation * radius * libm::cos(core::f64::consts::TAU * self.unit())
    }

    /// A log-normally distributed number: its logarithm is normal with mean `mu` and standard
    /// deviation `sigma`.
    #[inline]
    pub fn log_normal(&mut self, mu: f64, sigma: f64) -> f64 {
        libm::exp(self.normal(mu, sigma))
    }

    /// An index, drawn with these weights. At least one weight must be above 0.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut remaining = self.unit() * weights.iter().sum::<f64>();
        for (index, weight) in weights.iter().enumerate() {
            remaining -= weight;
            if remaining <= 0.0 && *weight > 0.0 {
                return index;
            }
        }
        weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0)
    }
}

/// A random variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Variable {
    /// A constant.
    Fixed(f64),
    /// Uniform between two bounds.
    Uniform(f64, f64),
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Pareto; see [`Draws::pareto`].
    Pareto {
        /// Shape; the mean is finite above 1.
        shape: f64,
        /// Smallest value.
        scale: f64,
    },
    /// Log-normal; see [`Draws::log_normal`].
    LogNormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// A distribution given by points.
    Empirical(Cdf),
    /// Another variable, redrawn until the value is between two bounds. After 1000 draws, the
    /// nearer bound replaces a value outside.
    Within(Box<Variable>, f64, f64),
    /// Another variable, with the bound in place of larger values.
    AtMost(Box<Variable>, f64),
}

impl Variable {
    /// The Pareto variable with a given mean; `None` if `shape` is at most 1, which makes the mean
    /// infinite.
    pub fn pareto_of_mean(shape: f64, mean: f64) -> Option<Self> {
        (shape > 1.0).then(|| Self::Pareto { shape, scale: mean * (shape - 1.0) / shape })
    }

    /// The log-normal variable with a given mean and standard deviation.
    pub fn log_normal_of_mean(mean: f64, deviation: f64) -> Self {
        let variance = libm::log1p((deviation / mean) * (deviation / mean));
        Self::LogNormal { mu: libm::log(mean) - variance / 2.0, sigma: libm::sqrt(variance) }
    }

    /// Draws a value.
    pub fn draw(&self, draws: &mut Draws) -> f64 {
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform(low, high) => draws.uniform(low, high),
            Self::Exponential { mean } => draws.exponential(mean),
            Self::Pareto { shape, scale } => draws.pareto(shape, scale),
            Self::LogNormal { mu, sigma } => draws.log_normal(mu, sigma),
            Self::Empirical(ref cdf) => cdf.draw(draws),
            Self::Within(ref variable, low, high) => {
                for _ in 0..MAX_REDRAWS {
                    let value = variable.draw(draws);
                    if (low..=high).contains(&value) {
                        return value;
                    }
                }
                low.max(high.min(variable.draw(draws)))
            }
            Self::AtMost(ref variable, most) => variable.draw(draws).min(most),
        }
    }

    /// Draws a time; the variable is in nanoseconds.
    pub fn span(&self, draws: &mut Draws) -> Nanos {
        nanos(self.draw(draws))
    }

    /// The mean; `None` if it is infinite, or if no formula for it is implemented.
    pub fn mean(&self) -> Option<f64> {
        match *self {
            Self::Fixed(value) => Some(value),
            Self::Uniform(low, high) => Some(f64::midpoint(low, high)),
            Self::Exponential { mean } => Some(mean),
            Self::Pareto { shape, scale } => (shape > 1.0).then(|| scale * shape / (shape - 1.0)),
            Self::LogNormal { mu, sigma } => Some(libm::exp(mu + sigma * sigma / 2.0)),
            Self::Empirical(ref cdf) => Some(cdf.mean()),
            Self::Within(ref variable, low, high) => within_mean(variable, low, high),
            Self::AtMost(ref variable, most) => match **variable {
                Self::Pareto { shape, scale } if shape != 1.0 && most >= scale => {
                    Some(scale + (scale - most * libm::pow(scale / most, shape)) / (shape - 1.0))
                }
                _ => None,
            },
        }
    }
}

/// The mean of a variable that is drawn until the value is between two bounds.
fn within_mean(variable: &Variable, low: f64, high: f64) -> Option<f64> {
    match *variable {
        Variable::Pareto { shape, scale } if shape != 1.0 => {
            let low = low.max(scale);
            let tail = |x: f64| libm::pow(scale / x, shape);
            let part = |x: f64| shape / (shape - 1.0) * x * tail(x);
            Some((part(low) - part(high)) / (tail(low) - tail(high)))
        }
        Variable::LogNormal { mu, sigma } => {
            let normal = |x: f64| 0.5 * libm::erfc(-x / core::f64::consts::SQRT_2);
            let [a, b] = [low, high].map(|x| (libm::log(x) - mu) / sigma);
            let share = normal(b) - normal(a);
            Some(
                libm::exp(mu + sigma * sigma / 2.0) * (normal(b - sigma) - normal(a - sigma))
                    / share,
            )
        }
        _ => None,
    }
}

/// A cumulative distribution function: points with linear interpolation between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf(Vec<(f64, f64)>);

/// Why a text is not a cumulative distribution function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CdfError {
    /// A line is not two numbers.
    #[error("line {0}: not two numbers `value,probability`")]
    Line(usize),
    /// A value or probability is below that of the line before, or out of range.
    #[error(
        "line {0}: a value must be between 0 and 1e15, a probability between 0 and 1, and neither \
         may be below that of the line before"
    )]
    Order(usize),
    /// The last probability is not 1.
    #[error("the last probability must be 1")]
    End,
}

impl Cdf {
    /// Parses a text with a line `value,probability` for each point. Numbers may also be separated
    /// by blanks, tabs or semicolons. A third number in the middle, which some traffic generators
    /// write, is ignored. Probabilities may be in percent if the last is 100. Empty lines, lines
    /// that begin with `#`, and a first line of words are skipped.
    ///
    /// # Errors
    /// The text has another format.
    pub fn read(text: &str) -> Result<Self, CdfError> {
        let mut points = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            let titles = points.is_empty() && line.starts_with(|c: char| c.is_ascii_alphabetic());
            if line.is_empty() || line.starts_with('#') || titles {
                continue;
            }
            let fields: Vec<&str> =
                line.split([',', ' ', '\t', ';']).filter(|field| !field.is_empty()).collect();
            let point = match fields[..] {
                [value, probability] | [value, _, probability] => {
                    value.parse().ok().zip(probability.parse().ok())
                }
                _ => None,
            };
            points.push((point.ok_or(CdfError::Line(number))?, number));
        }
        let percent = points.last().is_some_and(|&((_, p), _)| p == 100.0);
        let scale = if percent { 100.0 } else { 1.0 };
        let mut before = (0.0, 0.0);
        for &mut ((value, ref mut p), number) in &mut points {
            *p /= scale;
            // This form of the comparison also rejects NaN.
            if !(value >= before.0 && value <= MAX_VALUE && *p >= before.1 && *p <= 1.0) {
                return Err(CdfError::Order(number));
            }
            before = (value, *p);
        }
        if before.1 != 1.0 {
            return Err(CdfError::End);
        }
        Ok(Self(points.into_iter().map(|(point, _)| point).collect()))
    }

    /// The points: value and probability.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.0
    }

    /// The value below which a share `p` of all values lies.
    pub fn quantile(&self, p: f64) -> f64 {
        let at = self.0.partition_point(|&(_, q)| q < p).min(self.0.len() - 1);
        let (value, q) = self.0[at];
        match at.checked_sub(1).map(|before| self.0[before]) {
            Some((below, r)) if q > r => {
                below + (value - below) * ((p - r) / (q - r)).clamp(0.0, 1.0)
            }
            _ => value,
        }
    }

    /// The share of values up to and including `x`.
    pub fn share(&self, x: f64) -> f64 {
        let at = self.0.partition_point(|&(value, _)| value <= x);
        match (at.checked_sub(1).map(|before| self.0[before]), self.0.get(at)) {
            (Some((a, p)), Some(&(b, q))) => p + (q - p) * (x - a) / (b - a),
            (Some((_, p)), None) => p,
            (None, _) => 0.0,
        }
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        let first = self.0.first().map_or(0.0, |&(value, p)| value * p);
        first
            + self
                .0
                .windows(2)
                .map(|pair| (pair[1].1 - pair[0].1) * f64::midpoint(pair[0].0, pair[1].0))
                .sum::<f64>()
    }

    /// Draws a value.
    pub fn draw(&self, draws: &mut Draws) -> f64 {
        self.quantile(draws.unit())
    }
}

/// A real number as nanoseconds, limited to half of the range of times.
#[inline]
pub fn nanos(ns: f64) -> Nanos {
    Nanos((libm::round(ns).max(0.0) as u64).min(u64::MAX / 2))
}

/// Maximum number of draws of a value that must be within bounds.
const MAX_REDRAWS: u32 = 1000;
/// The largest value of a distribution.
const MAX_VALUE: f64 = 1e15;

#[cfg(test)]
mod tests {
    use super::*;

    /// FNV-1a over the bits of many draws.
    fn hash(mut draw: impl FnMut(&mut Draws) -> f64) -> u64 {
        let mut draws = Draws::new(7, 1, 0);
        (0..200_000).fold(0xcbf2_9ce4_8422_2325, |hash, _| {
            (hash ^ draw(&mut draws).to_bits()).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    #[test]
    fn a_seed_gives_the_same_draws_forever() {
        let cdf = Cdf::read("0,0\n10,0.5\n100,1").unwrap();
        let pinned: [(&str, u64, u64); 8] = [
            ("unit", hash(Draws::unit), 0xb7fa_2aa1_7eac_2121),
            ("uniform", hash(|d| d.uniform(3.0, 5.0)), 0xba3b_1c6f_f78b_adc7),
            ("exponential", hash(|d| d.exponential(8e6)), 0xdb53_5570_0452_82c2),
            ("pareto", hash(|d| d.pareto(2.0, 4e6)), 0xa6d9_18ac_1fe2_19f8),
            ("normal", hash(|d| d.normal(0.0, 1.0)), 0xf4be_d579_0b45_336d),
            ("log-normal", hash(|d| d.log_normal(8.37, 1.37)), 0xd746_a063_7594_eb44),
            ("weighted", hash(|d| d.weighted(&[7.0, 4.0, 1.0]) as f64), 0x38cf_b3ca_7259_8c25),
            ("empirical", hash(|d| cdf.draw(d)), 0xee5d_d2d7_7a34_8e2e),
        ];
        let changed: Vec<String> = pinned
            .iter()
            .filter(|pin| pin.1 != pin.2)
            .map(|pin| format!("{}: {:#018x}", pin.0, pin.1))
            .collect();
        assert!(changed.is_empty(), "{changed:#?}");
    }

    /// Mean and variance of many draws.
    fn moments(variable: &Variable) -> (f64, f64) {
        let mut draws = Draws::new(3, 9, 1);
        let values: Vec<f64> = (0..400_000).map(|_| variable.draw(&mut draws)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (
            mean,
            values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>()
                / values.len() as f64,
        )
    }

    #[test]
    fn means_of_draws_are_those_of_the_formulas() {
        let variables = [
            Variable::Fixed(4.0),
            Variable::Uniform(1.0, 3.0),
            Variable::Exponential { mean: 8.0 },
            Variable::Pareto { shape: 3.0, scale: 4.0 },
            Variable::LogNormal { mu: 1.0, sigma: 0.5 },
            Variable::log_normal_of_mean(5.0, 3.0),
            Variable::Empirical(Cdf::read("1 0.25\n2 0.5\n6 1").unwrap()),
            Variable::Within(Box::new(Variable::Pareto { shape: 1.1, scale: 2.0 }), 2.0, 55.0),
            Variable::AtMost(Box::new(Variable::Pareto { shape: 1.1, scale: 2.0 }), 55.0),
            Variable::Within(Box::new(Variable::LogNormal { mu: 6.17, sigma: 2.36 }), 50.0, 2e6),
        ];
        for variable in variables {
            let (mean, variance) = moments(&variable);
            let expected = variable.mean().unwrap();
            let bound = 4.0 * libm::sqrt(variance / 400_000.0);
            assert!((mean - expected).abs() <= bound, "{variable:?}: {mean} instead of {expected}");
        }
        assert_eq!(Variable::Pareto { shape: 1.0, scale: 4.0 }.mean(), None);
        assert_eq!(
            Variable::pareto_of_mean(2.0, 8.0),
            Some(Variable::Pareto { shape: 2.0, scale: 4.0 })
        );
        assert_eq!(Variable::pareto_of_mean(1.0, 8.0), None);
        let (mean, variance) = moments(&Variable::log_normal_of_mean(5.0, 3.0));
        assert!((mean - 5.0).abs() < 0.02 && (variance - 9.0).abs() < 0.3, "{mean} {variance}");
    }

    #[test]
    fn draws_of_a_distribution_follow_it() {
        let cdf = Cdf::read("# bytes\nsize,share\n100,0.2\n1000,0.5\n1000,0.6\n20000,1").unwrap();
        let mut draws = Draws::new(1, 2, 3);
        let mut values: Vec<f64> = (0..100_000).map(|_| cdf.draw(&mut draws)).collect();
        values.sort_by(f64::total_cmp);
        // Kolmogorov–Smirnov test: the largest difference exceeds 1.95 / √n in one of a thousand
        // sets of `n` values. The share jumps at a step, so only the share up to and including the
        // value is compared.
        for (index, &value) in values.iter().enumerate() {
            if values.get(index + 1).is_none_or(|&next| next > value) {
                let measured = (index + 1) as f64 / values.len() as f64;
                assert!(
                    (measured - cdf.share(value)).abs() < 1.95 / libm::sqrt(100_000.0),
                    "{value}: {measured}"
                );
            }
        }
        for (p, value) in [(0.1, 100.0), (0.35, 550.0), (0.8, 10_500.0), (1.0, 20_000.0)] {
            assert!((cdf.quantile(p) - value).abs() < 1e-9, "{p}: {}", cdf.quantile(p));
        }
    }

    #[test]
    fn a_text_that_is_no_distribution_is_refused_at_its_line() {
        assert_eq!(
            Cdf::read("0 0\n10 50\n20 100").unwrap().points(),
            [(0.0, 0.0), (10.0, 0.5), (20.0, 1.0)]
        );
        assert_eq!(Cdf::read("6 1 0\n13 1 1").unwrap().points(), [(6.0, 0.0), (13.0, 1.0)]);
        assert_eq!(Cdf::read("0 0\nten 1"), Err(CdfError::Line(2)));
        assert_eq!(Cdf::read("0 0\n10 0.5\n9 1"), Err(CdfError::Order(3)));
        assert_eq!(Cdf::read("0 0\nNaN 1"), Err(CdfError::Order(2)));
        assert_eq!(Cdf::read("0 0\n10 0.9"), Err(CdfError::End));
        assert_eq!(Cdf::read(""), Err(CdfError::End));
    }

    #[test]
    fn weights_of_zero_are_never_chosen() {
        let mut draws = Draws::new(1, 1, 0);
        for _ in 0..10_000 {
            assert_eq!(draws.weighted(&[0.0, 2.0, 0.0]), 1);
        }
    }
}
