//! Distributions of delay as tables of quantiles, and correlated draws from them.
//!
//! # Model
//! A distribution is a table of quantiles; the built-in distributions have [`TABLE_SIZE`] of them.
//! A quantile is a multiple of the configured amount, and the table stores this multiple times
//! [`SCALE`]. A uniform random number selects a quantile. The form is that of netem's `.dist`
//! files, which can be used unchanged.
//!
//! Correlated draws use a Gaussian copula: an AR(1) process `z ← ρ z + √(1−ρ²) e` with the
//! correlation `ρ` and independent normal deviates `e`. The normal distribution function converts
//! each `z` to a uniform number. Successive draws are correlated, and their distribution is the
//! configured one.
//!
//! The built-in tables are computed with the crate `libm`, and draws use integer arithmetic, so
//! that both are the same on every machine. Tests compare the tables with fixed values.
//!
//! # Differences from Linux
//! netem averages the previous uniform number with a new one, which narrows the distribution as the
//! correlation grows.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use crate::fingerprint::Fingerprint;
use crate::rng::Stream;
use crate::units::{Nanos, Probability};

/// A distribution of deviations in units of the configured amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    fingerprint: Fingerprint,
    name: String,
    /// Ascending quantiles, times [`SCALE`].
    table: Box<[i32]>,
}

impl Hash for Distribution {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

/// Why a table of values is not a valid distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistributionError {
    /// The table has too few or too many values.
    #[error("a distribution table must have 2 to {MAX_TABLE} values, found {0}")]
    Size(usize),
}

impl Distribution {
    /// A distribution from deviations times [`SCALE`] (the form of netem's `.dist` files), in any
    /// order.
    ///
    /// # Errors
    /// Fewer than 2 or more than [`MAX_TABLE`] values.
    pub fn from_table(name: String, mut table: Vec<i32>) -> Result<Self, DistributionError> {
        if !(2..=MAX_TABLE).contains(&table.len()) {
            return Err(DistributionError::Size(table.len()));
        }
        table.sort_unstable();
        Ok(Self::new(name, table.into()))
    }

    /// Uniform between −1 and 1.
    pub fn uniform() -> Self {
        Self::from_quantiles("uniform", |p| 2.0 * p - 1.0)
    }

    /// Normal with mean 0 and standard deviation 1.
    pub fn normal() -> Self {
        Self::from_quantiles("normal", normal_quantile)
    }

    /// Pareto of shape 3, shifted to mean 0 and scaled to standard deviation 1.
    pub fn pareto() -> Self {
        Self::from_quantiles("pareto", pareto_quantile)
    }

    /// A quarter normal and three quarters Pareto, as netem's `paretonormal` mixes them.
    pub fn pareto_normal() -> Self {
        Self::from_quantiles("paretonormal", |p| {
            0.25 * normal_quantile(p) + 0.75 * pareto_quantile(p)
        })
    }

    fn from_quantiles(name: &str, quantile: impl Fn(f64) -> f64) -> Self {
        let at = |i| {
            libm::round(quantile((f64::from(i) + 0.5) / TABLE_SIZE as f64) * f64::from(SCALE))
                as i32
        };
        Self::new(name.into(), (0..TABLE_SIZE as u32).map(at).collect())
    }

    fn new(name: String, table: Box<[i32]>) -> Self {
        Self { fingerprint: Fingerprint::of(&table), name, table }
    }

    /// The distribution's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The quantiles times [`SCALE`], ascending.
    pub fn table(&self) -> &[i32] {
        &self.table
    }

    /// The bytes that the quantiles take in memory.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.table)
    }

    /// The deviation in ns: the quantile that the random number `uniform` selects, times `amount`.
    pub fn deviation(&self, uniform: u32, amount: Nanos) -> i64 {
        let index = (u64::from(uniform) * self.table.len() as u64) >> 32;
        let scaled = i128::from(self.table[index as usize]) * i128::from(amount.0);
        (scaled / i128::from(SCALE)) as i64
    }
}

/// A source of uniform random numbers in which consecutive numbers are correlated.
#[derive(Clone, Debug)]
pub struct CorrelatedUniform {
    /// The current normal deviate, times 2^16.
    z: i64,
    /// ρ, times 2^16.
    keep: i64,
    /// √(1−ρ²), times 2^16.
    fresh: i64,
}

impl CorrelatedUniform {
    /// A source with this correlation of its normal deviates.
    pub fn new(correlation: Probability) -> Self {
        let rho = correlation.as_f64();
        let q16 = |x: f64| libm::round(x * 65_536.0) as i64;
        Self { z: 0, keep: q16(rho), fresh: q16(libm::sqrt(1.0 - rho * rho)) }
    }

    /// The next uniform number. Without tables, or without correlation, it is independent of the
    /// previous numbers.
    pub fn next(&mut self, stream: &mut Stream, tables: Option<&NormalTables>) -> u32 {
        let (Some(tables), true) = (tables, self.keep != 0) else {
            return stream.bits32();
        };
        let e = i64::from(tables.quantiles[(stream.bits32() >> (32 - NORMAL_BITS)) as usize]);
        self.z = (self.keep * self.z + self.fresh * e) >> 16;
        tables.uniform(self.z)
    }
}

/// The normal distribution function and its inverse in fixed point.
#[derive(Clone, Debug)]
pub struct NormalTables {
    /// Quantiles of the normal distribution, times 2^16.
    quantiles: Box<[i32]>,
    /// The distribution function from −4 to 4 in steps of 1/512, times 2^32 − 1.
    cumulative: Box<[u32]>,
}

impl Default for NormalTables {
    fn default() -> Self {
        let n = 1u32 << NORMAL_BITS;
        let quantiles = (0..n)
            .map(|i| {
                libm::round(normal_quantile((f64::from(i) + 0.5) / f64::from(n)) * 65_536.0) as i32
            })
            .collect();
        let at = |i: i32| {
            let z = f64::from(i - CUMULATIVE_HALF) / f64::from(CUMULATIVE_STEP);
            libm::round(0.5 * libm::erfc(-z / core::f64::consts::SQRT_2) * 4_294_967_295.0) as u32
        };
        Self { quantiles, cumulative: (0..=2 * CUMULATIVE_HALF).map(at).collect() }
    }
}

impl NormalTables {
    /// Converts a normal deviate to a uniform number by the distribution function, with
    /// interpolation between table entries. `z` is the deviate times 2^16.
    fn uniform(&self, z: i64) -> u32 {
        let position = (z * i64::from(CUMULATIVE_STEP) + (i64::from(CUMULATIVE_HALF) << 16))
            .clamp(0, i64::from(2 * CUMULATIVE_HALF) << 16);
        let index = (position >> 16) as usize;
        let low = u64::from(self.cumulative[index]);
        let high = u64::from(*self.cumulative.get(index + 1).unwrap_or(&self.cumulative[index]));
        (low + (((high - low) * (position as u64 & 0xffff)) >> 16)) as u32
    }
}

/// The quantile of the normal distribution, by bisection on `erfc` to within 0.02 and then Newton's
/// method.
fn normal_quantile(p: f64) -> f64 {
    let cumulative = |z: f64| 0.5 * libm::erfc(-z / core::f64::consts::SQRT_2);
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..10 {
        let middle = 0.5 * (low + high);
        if cumulative(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut z = 0.5 * (low + high);
    for _ in 0..4 {
        let density = libm::exp(-0.5 * z * z) / libm::sqrt(2.0 * core::f64::consts::PI);
        z -= (cumulative(z) - p) / density;
    }
    z
}

/// The quantile of the Pareto distribution of shape 3 with mean 0 and standard deviation 1.
fn pareto_quantile(p: f64) -> f64 {
    // With minimum 1, the mean is a/(a−1) = 3/2, and the variance is a/((a−1)²(a−2)) = 3/4.
    (libm::pow(1.0 - p, -1.0 / 3.0) - 1.5) / libm::sqrt(0.75)
}

/// Number of entries in the tables of the built-in distributions.
pub const TABLE_SIZE: usize = 4096;
/// Maximum number of entries in a table from a file.
pub const MAX_TABLE: usize = 65_536;
/// The factor by which entries of a table are multiplied, as in netem's files.
pub const SCALE: i32 = 8192;
/// Base-2 logarithm of the number of entries in the normal quantile table.
const NORMAL_BITS: u32 = 12;
/// Number of table entries per unit of the distribution function's argument.
const CUMULATIVE_STEP: i32 = 512;
/// Number of entries on each side of zero, up to four standard deviations.
const CUMULATIVE_HALF: i32 = 4 * CUMULATIVE_STEP;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    /// The FNV-1a hash of a table, for comparison with a fixed value.
    fn golden(table: &[i32]) -> u64 {
        table
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
    }

    fn moments(d: &Distribution) -> (f64, f64) {
        let n = d.table().len() as f64;
        let mean = d.table().iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let variance =
            d.table().iter().map(|&v| (f64::from(v) - mean) * (f64::from(v) - mean)).sum::<f64>()
                / n;
        (mean / f64::from(SCALE), libm::sqrt(variance) / f64::from(SCALE))
    }

    #[test]
    fn tables_are_pinned() {
        let hashes = [
            Distribution::uniform(),
            Distribution::normal(),
            Distribution::pareto(),
            Distribution::pareto_normal(),
        ]
        .map(|d| golden(d.table()));
        assert_eq!(hashes, GOLDEN);
    }

    #[test]
    fn tables_have_the_stated_moments() {
        let (mean, deviation) = moments(&Distribution::normal());
        assert!(mean.abs() < 0.001 && (deviation - 1.0).abs() < 0.002, "{mean} {deviation}");
        let (mean, deviation) = moments(&Distribution::uniform());
        assert!(mean.abs() < 0.001 && (deviation - 0.577).abs() < 0.001, "{mean} {deviation}");
        let (mean, deviation) = moments(&Distribution::pareto());
        assert!(mean.abs() < 0.01 && (deviation - 1.0).abs() < 0.1, "{mean} {deviation}");
    }

    #[test]
    fn correlated_draws_stay_uniform_and_are_correlated() {
        let tables = NormalTables::default();
        for (rho, expected) in [(0.0, 0.0), (0.5, 0.483), (0.9, 0.891)] {
            let mut stream = Stream::new(3, 1, Purpose::Jitter);
            let mut source = CorrelatedUniform::new(Probability::new(rho).unwrap());
            let xs: Vec<f64> = (0..200_000)
                .map(|_| f64::from(source.next(&mut stream, Some(&tables))) / 4_294_967_296.0)
                .collect();
            let mean = xs.iter().sum::<f64>() / xs.len() as f64;
            let variance =
                xs.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / xs.len() as f64;
            let covariance =
                xs.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / xs.len() as f64;
            assert!(
                (mean - 0.5).abs() < 0.01 && (variance - 1.0 / 12.0).abs() < 0.003,
                "{rho}: {mean} {variance}"
            );
            // The rank correlation of a bivariate normal distribution is 6/π·asin(ρ/2).
            assert!(
                (covariance / variance - expected).abs() < 0.02,
                "{rho}: {}",
                covariance / variance
            );
        }
    }

    #[test]
    fn a_deviation_scales_with_the_amount() {
        let d = Distribution::from_table("t".into(), alloc::vec![-SCALE, SCALE]).unwrap();
        assert_eq!(d.deviation(0, Nanos(500)), -500);
        assert_eq!(d.deviation(u32::MAX, Nanos(500)), 500);
    }

    const GOLDEN: [u64; 4] =
        [9892694499487790885, 6999114295383943791, 4619257199967962041, 12412097102484686674];
}
