//! The precision of a mean over several runs: Student's confidence intervals, and Welch's test for
//! the difference between two means. Also Jain's index of fairness.
//!
//! Runs with different seeds are independent, and a run's result is nearly normal if it is a mean
//! over many packets. With 95 % probability, the mean of n runs then lies within t(n − 1) · s / √n
//! of the true mean, where s is the standard deviation over the runs and t the 97.5th percentile of
//! Student's distribution. This module computes Student's distribution from the incomplete beta
//! function, with functions of `libm` called by name, so that results have the same bytes on every
//! machine.

use serde::Serialize;

/// The mean of a quantity over several runs, and its confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// Number of runs.
    pub runs: u64,
    /// The mean over the runs.
    pub mean: f64,
    /// The standard deviation over the runs, with n − 1 as the divisor; `None` for fewer than two
    /// runs.
    pub deviation: Option<f64>,
    /// Half the width of the 95 % confidence interval of the mean; `None` for fewer than two runs.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// The estimate from the value of each run.
    pub fn of(values: &[f64]) -> Self {
        let runs = values.len() as f64;
        let mean = if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / runs };
        if values.len() < 2 {
            return Self { runs: values.len() as u64, mean, deviation: None, half_width: None };
        }
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let deviation = libm::sqrt(squares / (runs - 1.0));
        let half_width = quantile(0.975, runs - 1.0) * deviation / libm::sqrt(runs);
        Self {
            runs: values.len() as u64,
            mean,
            deviation: Some(deviation),
            half_width: Some(half_width),
        }
    }

    /// Welch's test: the probability of a difference of at least this size if the true means are
    /// equal. `None` if either estimate has fewer than two runs.
    pub fn welch(&self, other: &Self) -> Option<f64> {
        let apart = (self.mean - other.mean).abs();
        let (error, freedom) = self.error_of_difference(other)?;
        if error == 0.0 {
            return Some(if apart == 0.0 { 1.0 } else { 0.0 });
        }
        Some(2.0 * (1.0 - cumulative(apart / error, freedom)))
    }

    /// Half the width of the 95 % confidence interval of the difference between the two means, by
    /// Welch's method. `None` if either estimate has fewer than two runs.
    pub fn difference_half_width(&self, other: &Self) -> Option<f64> {
        let (error, freedom) = self.error_of_difference(other)?;
        Some(if error == 0.0 { 0.0 } else { quantile(0.975, freedom) * error })
    }

    /// The standard error of the difference between the two means, and its degrees of freedom.
    fn error_of_difference(&self, other: &Self) -> Option<(f64, f64)> {
        let part = |e: &Self| e.deviation.map(|s| s * s / e.runs as f64);
        let (a, b) = (part(self)?, part(other)?);
        let freedom = (a + b) * (a + b)
            / (a * a / (self.runs as f64 - 1.0) + b * b / (other.runs as f64 - 1.0));
        Some((libm::sqrt(a + b), freedom))
    }
}

/// Jain's index of fairness: 1 if all values are equal, 1/n if only one of n values is positive;
/// `None` if no value is positive.
pub fn fairness(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// The quantile `p` (0.5 to 1) of Student's t distribution with `freedom` degrees of freedom.
pub fn quantile(p: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while cumulative(high, freedom) < p && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if cumulative(middle, freedom) < p { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The probability that a variable of Student's t distribution with `freedom` degrees of freedom is
/// at most `t`, which must not be negative.
pub fn cumulative(t: f64, freedom: f64) -> f64 {
    1.0 - 0.5 * incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun
/// 26.5.8, evaluated with Lentz's method).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let scale = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)
        + a * libm::log(x)
        + b * libm::log(1.0 - x);
    let away = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / away(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..MOST_TERMS {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    libm::exp(scale) * fraction / a
}

/// Replaces a zero denominator.
const TINY: f64 = 1e-300;
/// Maximum number of terms of the continued fraction; a few dozen usually suffice.
const MOST_TERMS: u32 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_printed_tables() {
        let table = [
            (1.0, 12.7062),
            (2.0, 4.3027),
            (4.0, 2.7764),
            (9.0, 2.2622),
            (29.0, 2.0452),
            (120.0, 1.9799),
            (1e6, 1.9600),
        ];
        for (freedom, t) in table {
            assert!(
                (quantile(0.975, freedom) - t).abs() < 1e-4,
                "{freedom}: {}",
                quantile(0.975, freedom)
            );
        }
        assert_eq!(cumulative(0.0, 5.0), 0.5);
    }

    #[test]
    fn an_interval_worked_by_hand() {
        // Mean 5, squares 4 + 1 + 0 + 1 + 4 = 10, s² = 10/4; t(4) = 2.7764; 2.7764 · √2.5 / √5 =
        // 1.9632.
        let e = Estimate::of(&[3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!((e.runs, e.mean), (5, 5.0));
        assert!(
            (e.deviation.unwrap() - 1.581_139).abs() < 1e-6
                && (e.half_width.unwrap() - 1.963_2).abs() < 1e-4,
            "{e:?}"
        );
        assert_eq!(
            Estimate::of(&[3.0]),
            Estimate { runs: 1, mean: 3.0, deviation: None, half_width: None }
        );
    }

    #[test]
    fn two_means_differ_significantly_if_their_spread_is_small() {
        // t = 2 / √(2.5/5 + 2.5/5) = 2 with 8 degrees of freedom: p = 0.0805 in the tables.
        let (a, b) =
            (Estimate::of(&[3.0, 4.0, 5.0, 6.0, 7.0]), Estimate::of(&[5.0, 6.0, 7.0, 8.0, 9.0]));
        assert!((a.welch(&b).unwrap() - 0.0805).abs() < 1e-4, "{:?}", a.welch(&b));
        assert!(a.welch(&a).unwrap() > 0.999);
        assert_eq!(a.welch(&Estimate::of(&[1.0])), None);
        let same = Estimate::of(&[2.0, 2.0]);
        assert_eq!(
            (same.welch(&same), same.welch(&Estimate::of(&[3.0, 3.0]))),
            (Some(1.0), Some(0.0))
        );
    }

    #[test]
    fn fairness_ranges_from_one_nth_to_one() {
        assert_eq!(
            (fairness(&[2.0; 4]), fairness(&[1.0, 0.0, 0.0, 0.0]), fairness(&[])),
            (Some(1.0), Some(0.25), None)
        );
        assert_eq!(fairness(&[1.0, 3.0]), Some(0.8));
    }

    #[test]
    fn an_interval_of_a_difference_worked_by_hand() {
        // Both have s² / n = 2.5 / 5, so the error is 1 with 8 degrees of freedom; t(8) = 2.3060.
        let (a, b) =
            (Estimate::of(&[3.0, 4.0, 5.0, 6.0, 7.0]), Estimate::of(&[5.0, 6.0, 7.0, 8.0, 9.0]));
        let half = a.difference_half_width(&b).unwrap();
        assert!((half - 2.306).abs() < 1e-4, "{half}");
        assert_eq!(
            Estimate::of(&[1.0, 1.0]).difference_half_width(&Estimate::of(&[2.0, 2.0])),
            Some(0.0)
        );
        assert_eq!(a.difference_half_width(&Estimate::of(&[1.0])), None);
    }
}
