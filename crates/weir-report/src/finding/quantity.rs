//! A measured quantity with its interval.

use schemars::JsonSchema;
use serde::Serialize;
use weir_measure::estimate::Estimate;

/// A quantity over the runs of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Quantity {
    /// The mean over the runs; null if it was not measured.
    mean: Option<f64>,
    /// The 95 % interval of the mean, `[from, to]`; null for fewer than two runs. For an exact
    /// quantity, `from` and `to` are the mean.
    interval: Option<[f64; 2]>,
    /// Number of runs. Runs have different seeds; for measured times they are repetitions.
    runs: u64,
    /// How the interval was computed.
    basis: Basis,
}

/// How an interval is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Student's interval of the mean over runs.
    Student,
    /// The quantity does not depend on random draws, so one run is exact.
    Exact,
}

impl Quantity {
    /// A quantity with one value for each run. A value that is not finite makes the quantity
    /// unmeasured.
    pub fn of_runs(values: &[f64]) -> Self {
        let runs = values.len() as u64;
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return Self { mean: None, interval: None, runs, basis: Basis::Student };
        }
        let Estimate { mean, half_width, .. } = Estimate::of(values);
        let interval = half_width.map(|half| [mean - half, mean + half]);
        Self { mean: Some(mean), interval, runs, basis: Basis::Student }
    }

    /// A quantity without random draws. `value` is `None` if the quantity was not measured.
    pub fn exact(value: impl Into<Option<f64>>) -> Self {
        let mean = value.into().filter(|value| value.is_finite());
        let interval = mean.map(|mean| [mean, mean]);
        Self { mean, interval, runs: u64::from(mean.is_some()), basis: Basis::Exact }
    }

    /// The quotient of two quantities that the same runs measured: `over[i] / under[i]` of each
    /// run.
    ///
    /// The quantity is unmeasured if the numbers of runs differ.
    pub fn ratio(over: &[f64], under: &[f64]) -> Self {
        if over.len() != under.len() {
            return Self::of_runs(&[]);
        }
        Self::of_runs(&over.iter().zip(under).map(|(over, under)| over / under).collect::<Vec<_>>())
    }

    /// The mean over the runs.
    pub const fn mean(&self) -> Option<f64> {
        self.mean
    }

    /// The interval `[from, to]`.
    pub const fn interval(&self) -> Option<[f64; 2]> {
        self.interval
    }

    /// Number of runs.
    pub const fn runs(&self) -> u64 {
        self.runs
    }

    /// How the interval was computed.
    pub const fn basis(&self) -> Basis {
        self.basis
    }

    /// Half the width of the interval; `None` for an exact quantity and without an interval.
    pub fn half_width(&self) -> Option<f64> {
        let [from, to] = self.interval.filter(|_| self.basis == Basis::Student)?;
        Some((to - from) / 2.0)
    }

    /// The difference from `reference`, in percent of `reference`.
    #[must_use]
    pub fn difference(&self, reference: f64) -> Self {
        let change = |value: f64| (value - reference) / reference * 100.0;
        let interval = self.interval.map(|[from, to]| {
            let (a, b) = (change(from), change(to));
            [a.min(b), a.max(b)]
        });
        let mean = self.mean.map(change).filter(|percent| percent.is_finite());
        Self { mean, interval: interval.filter(|_| mean.is_some()), ..*self }
    }

    /// The mean with its interval in words, for example `0.31 (0.30 to 0.32)`.
    pub fn text(&self) -> String {
        match (self.mean, self.interval) {
            (None, _) => "not measured".to_owned(),
            (Some(mean), Some([from, to])) if self.basis == Basis::Student => {
                format!("{} ({} to {})", short(mean), short(from), short(to))
            }
            (Some(mean), _) => short(mean),
        }
    }
}

/// A number with about three significant digits, and with at most five decimals.
pub(super) fn short(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.01 => 3,
        _ => 5,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_follows_students_t_distribution() {
        // As in the test of `Estimate`: 5 ± 1.9632.
        let quantity = Quantity::of_runs(&[3.0, 4.0, 5.0, 6.0, 7.0]);
        let [from, to] = quantity.interval().unwrap();
        assert!((from - 3.0368).abs() < 1e-3 && (to - 6.9632).abs() < 1e-3);
        assert_eq!(quantity.text(), "5.00 (3.04 to 6.96)");
        assert_eq!((quantity.runs(), quantity.basis()), (5, Basis::Student));
    }

    #[test]
    fn one_run_has_no_interval_unless_it_is_exact() {
        assert_eq!(Quantity::of_runs(&[3.0]).interval(), None);
        assert_eq!(Quantity::exact(3.0).interval(), Some([3.0, 3.0]));
        assert_eq!(Quantity::exact(None).text(), "not measured");
        assert_eq!(Quantity::of_runs(&[1.0, f64::NAN]).mean(), None);
    }

    #[test]
    fn ratios_are_of_the_same_run() {
        assert_eq!(Quantity::ratio(&[2.0, 4.0], &[1.0, 2.0]).interval(), Some([2.0, 2.0]));
        assert_eq!(Quantity::ratio(&[2.0], &[1.0, 2.0]).mean(), None);
        assert_eq!(Quantity::ratio(&[2.0, 1.0], &[1.0, 0.0]).mean(), None);
    }

    #[test]
    fn a_difference_is_in_percent_and_its_interval_ascends() {
        let less = Quantity::of_runs(&[8.0, 9.0, 10.0]).difference(-10.0);
        let [from, to] = less.interval().unwrap();
        assert!(from < to && (less.mean().unwrap() + 190.0).abs() < 1e-9);
        assert_eq!(Quantity::exact(1.0).difference(0.0).mean(), None);
    }
}
