//! Compares two results: each metric of the flows and links that both results have, its difference,
//! and the significance of the difference.
//!
//! # How a difference is judged
//! With several runs on both sides, Welch's test compares the means over the runs. With a single
//! run on each side, the same test compares the means over twentieths of the run (`batches` in the
//! summary), for metrics with a time series. This assumes that neighbouring parts are independent,
//! so a part should be long compared with the slowest oscillation of the traffic. With several runs
//! on one side and one run on the other, there is no test. A difference counts as significant when
//! the probability of a difference at least as large by chance is below 1/20. Among twenty metrics,
//! one significant difference is therefore expected by chance.
//!
//! # Agreement
//! A difference that is not significant does not show that two results agree: with few runs, even a
//! large difference may not be significant. A [`Tolerance`] tests agreement. Results agree if the
//! 95 % confidence interval of the difference lies within the tolerance, and differ if it lies
//! outside. If the interval contains a bound of the tolerance, more runs are needed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use weir_measure::estimate::Estimate;

/// The reason why a result could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// The summary is missing or unreadable.
    #[error("cannot read {}: {source}; a directory that `weir sim --out` or `weir live --out` \
             wrote is expected", path.display())]
    Read {
        /// The path of the summary.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is not JSON.
    #[error("{} is not a summary: {source}", path.display())]
    Parse {
        /// The path of the summary.
        path: PathBuf,
        /// The parser's reason.
        source: serde_json::Error,
    },
    /// The file is JSON, but not the summary of a scenario.
    #[error(
        "{} is not a summary of a scenario: it has no runs with flows and links",
        path.display()
    )]
    Shape {
        /// The path of the summary.
        path: PathBuf,
    },
}

/// The metrics of a result, read from its summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The program that made the result: `sim` or `live`.
    pub source: String,
    /// The name of the scenario.
    pub scenario: String,
    /// The number of runs.
    pub runs: usize,
    flows: Vec<Object>,
    links: Vec<Object>,
}

/// The metrics of a flow or link.
#[derive(Clone, Debug, Default, PartialEq)]
struct Object {
    name: String,
    /// Each metric with its values, one for each run that has the metric.
    runs: Vec<(String, Vec<f64>)>,
    /// The means of each metric over twentieths of the run; empty unless there is a single run.
    batches: BTreeMap<String, Vec<f64>>,
}

/// The comparison of two results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The left result: its program, scenario and number of runs.
    pub left: Side,
    /// The right result: its program, scenario and number of runs.
    pub right: Side,
    /// The metrics of the flows and links that both results have.
    pub differences: Vec<Difference>,
    /// Flows and links that only the left result has.
    pub only_left: Vec<String>,
    /// Flows and links that only the right result has.
    pub only_right: Vec<String>,
}

/// One of the two results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// The program that made the result.
    pub source: String,
    /// The name of the scenario.
    pub scenario: String,
    /// The number of runs.
    pub runs: usize,
}

/// A metric in both results.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// `flow` or `link`.
    pub object: &'static str,
    /// The name of the flow or link.
    pub name: String,
    /// The metric's name, which ends in its unit.
    pub figure: String,
    /// The mean over the runs of the left result.
    pub left: f64,
    /// The mean over the runs of the right result.
    pub right: f64,
    /// The right mean minus the left mean.
    pub difference: f64,
    /// The difference as a fraction of the left mean; null when the left mean is 0.
    pub relative: Option<f64>,
    /// Half the width of the difference's 95 % confidence interval; null with a single run on
    /// either side.
    pub half_width: Option<f64>,
    /// The significance of the difference.
    pub significance: Significance,
    /// Whether the results agree within the tolerance for this metric; null without a tolerance.
    pub verdict: Option<Agreement>,
}

/// The largest difference with which two results agree in a metric. It is a part of the left mean,
/// or an absolute value, whichever is larger.
#[derive(Clone, Debug, PartialEq)]
pub struct Tolerance {
    /// The name of the metric.
    pub metric: String,
    /// The tolerance as a part of the left mean.
    pub part: f64,
    /// The tolerance as an absolute value, in the metric's unit.
    pub absolute: f64,
}

/// The judgement of a metric by a tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// The whole interval of the difference is within the tolerance.
    Agrees,
    /// The whole interval of the difference is outside the tolerance.
    Differs,
    /// The interval contains a bound of the tolerance, or there are too few runs for an interval.
    Open,
}

impl Difference {
    fn verdict(&self, tolerance: &Tolerance) -> Agreement {
        let most = (tolerance.part * self.left.abs()).max(tolerance.absolute);
        let Some(half) = self.half_width else { return Agreement::Open };
        let apart = self.difference.abs();
        if apart + half <= most {
            Agreement::Agrees
        } else if apart - half > most {
            Agreement::Differs
        } else {
            Agreement::Open
        }
    }
}

impl Comparison {
    /// Judges every metric for which there is a tolerance. Returns the metrics that a tolerance
    /// names and the comparison does not have.
    pub fn judge(&mut self, tolerances: &[Tolerance]) -> Vec<String> {
        for difference in &mut self.differences {
            let tolerance = tolerances.iter().find(|t| t.metric == difference.figure);
            difference.verdict = tolerance.map(|tolerance| difference.verdict(tolerance));
        }
        let has = |t: &&Tolerance| self.differences.iter().any(|d| d.figure == t.metric);
        tolerances.iter().filter(|t| !has(t)).map(|t| t.metric.clone()).collect()
    }
}

/// The significance of a difference, and the test that gives it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Significance {
    /// The means are equal.
    Equal,
    /// Welch's test over runs.
    Runs {
        /// The probability of a difference at least as large by chance.
        p: f64,
    },
    /// Welch's test over parts of two single runs.
    Parts {
        /// The probability of a difference at least as large by chance.
        p: f64,
    },
    /// No test is possible: one of the results has a single run, and the parts of two single runs
    /// cannot be compared.
    SingleRun,
}

impl Significance {
    /// Whether the difference is significant at the level of 1/20; `None` without a test.
    pub fn significant(&self) -> Option<bool> {
        match *self {
            Self::Equal => Some(false),
            Self::Runs { p } | Self::Parts { p } => Some(p < LEVEL),
            Self::SingleRun => None,
        }
    }
}

impl Summary {
    /// Reads the summary in a directory of results.
    ///
    /// # Errors
    /// The directory has no readable summary, or the summary is not that of a scenario.
    pub fn read(dir: &Path) -> Result<Self, SummaryError> {
        let path = dir.join("summary.json");
        let text = weir_sim::disk::read_regular(&path)
            .map_err(|source| SummaryError::Read { path: path.clone(), source })?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|source| SummaryError::Parse { path: path.clone(), source })?;
        Self::of(&value).ok_or(SummaryError::Shape { path })
    }

    /// Reads a summary, such as `weir sim --json` writes for a scenario without a sweep; `None` if
    /// it is not the summary of a scenario.
    #[must_use]
    pub fn of(value: &Value) -> Option<Self> {
        let runs = value.get("runs")?.as_array()?;
        let text =
            |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let objects = |key: &str| -> Option<Vec<Object>> {
            let batches = value.get("batches").and_then(|b| b.get(key)).and_then(Value::as_array);
            let first = runs.first()?.get(key)?.as_array()?;
            let each = (0..first.len()).map(|n| {
                let of_runs: Vec<&Value> =
                    runs.iter().filter_map(|run| run.get(key)?.get(n)).collect();
                Object::of(&of_runs, batches.and_then(|all| all.get(n)))
            });
            each.collect()
        };
        let (flows, links) = (objects("flows")?, objects("links")?);
        Some(Self {
            source: text("source"),
            scenario: text("scenario"),
            runs: runs.len(),
            flows,
            links,
        })
    }

    fn side(&self) -> Side {
        Side { source: self.source.clone(), scenario: self.scenario.clone(), runs: self.runs }
    }
}

impl Object {
    fn of(runs: &[&Value], batches: Option<&Value>) -> Option<Self> {
        let first = runs.first()?.as_object()?;
        let name = first.get("name")?.as_str()?.to_owned();
        let values = |figure: &String| {
            runs.iter().filter_map(|run| run.get(figure)?.as_f64()).collect::<Vec<f64>>()
        };
        let metrics = first
            .keys()
            .filter(|key| *key != "name")
            .map(|figure| (figure.clone(), values(figure)));
        let parts = |(figure, values): (&String, &Value)| {
            let values = values.as_array()?.iter().filter_map(Value::as_f64).collect();
            Some((figure.clone(), values))
        };
        let batches =
            batches.and_then(Value::as_object).into_iter().flatten().filter_map(parts).collect();
        Some(Self { name, runs: metrics.collect(), batches })
    }
}

/// Compares two results: flows and links by name, metrics in the order of the left result.
pub fn compare(left: &Summary, right: &Summary) -> Comparison {
    let mut all = Comparison { left: left.side(), right: right.side(), ..Comparison::default() };
    for (object, left, right) in
        [("flow", &left.flows, &right.flows), ("link", &left.links, &right.links)]
    {
        for item in left {
            match right.iter().find(|other| other.name == item.name) {
                Some(other) => all.differences.extend(differences(object, item, other)),
                None => all.only_left.push(format!("{object} {}", item.name)),
            }
        }
        let missing = right.iter().filter(|other| left.iter().all(|item| item.name != other.name));
        all.only_right.extend(missing.map(|other| format!("{object} {}", other.name)));
    }
    all
}

fn differences(object: &'static str, left: &Object, right: &Object) -> Vec<Difference> {
    let one = |(figure, ours): &(String, Vec<f64>)| {
        let (_, theirs) =
            right.runs.iter().find(|(other, theirs)| other == figure && !theirs.is_empty())?;
        if ours.is_empty() {
            return None;
        }
        let (a, b) = (Estimate::of(ours), Estimate::of(theirs));
        let difference = b.mean - a.mean;
        let parts = || {
            let single = ours.len() == 1 && theirs.len() == 1;
            let (a, b) = (left.batches.get(figure)?, right.batches.get(figure)?);
            Estimate::of(a).welch(&Estimate::of(b)).filter(|_| single)
        };
        let significance = match a.welch(&b) {
            _ if difference == 0.0 => Significance::Equal,
            Some(p) => Significance::Runs { p },
            None => parts().map_or(Significance::SingleRun, |p| Significance::Parts { p }),
        };
        let relative = (a.mean != 0.0).then(|| difference / a.mean.abs());
        let (name, figure) = (left.name.clone(), figure.clone());
        Some(Difference {
            object,
            name,
            figure,
            left: a.mean,
            right: b.mean,
            difference,
            relative,
            half_width: a.difference_half_width(&b),
            significance,
            verdict: None,
        })
    };
    left.runs.iter().filter_map(one).collect()
}

/// The level of significance: the probability of calling equal results different.
const LEVEL: f64 = 0.05;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary(goodput: &[f64], batches: Option<[f64; 4]>) -> Summary {
        let run = |bps: &f64| json!({ "seed": 1, "flows": [{ "name": "f", "goodput_bps": bps, "jitter_ns": null }], "links": [] });
        let mut value = json!({ "source": "sim", "scenario": "s", "runs": goodput.iter().map(run).collect::<Vec<_>>() });
        if let Some(parts) = batches {
            value["batches"] =
                json!({ "flows": [{ "name": "f", "goodput_bps": parts }], "links": [] });
        }
        Summary::of(&value).unwrap()
    }

    fn only(left: &Summary, right: &Summary) -> Difference {
        let all = compare(left, right);
        assert_eq!(
            all.differences.len(),
            1,
            "a metric that no run has is left out: {:?}",
            all.differences
        );
        all.differences[0].clone()
    }

    #[test]
    fn several_runs_are_judged_by_their_spread() {
        let d = only(
            &summary(&[3.0, 4.0, 5.0, 6.0, 7.0], None),
            &summary(&[5.0, 6.0, 7.0, 8.0, 9.0], None),
        );
        assert_eq!((d.left, d.right, d.difference, d.relative), (5.0, 7.0, 2.0, Some(0.4)));
        assert!(
            matches!(d.significance, Significance::Runs { p } if (p - 0.0805).abs() < 1e-3),
            "{:?}",
            d.significance
        );
        assert_eq!(d.significance.significant(), Some(false));
        let far = only(&summary(&[3.0, 4.0, 5.0], None), &summary(&[30.0, 40.0, 50.0], None));
        assert_eq!(far.significance.significant(), Some(true));
    }

    #[test]
    fn single_runs_are_judged_by_their_parts_or_not_at_all() {
        let (a, b) = (
            summary(&[5.0], Some([4.9, 5.0, 5.1, 5.0])),
            summary(&[7.0], Some([6.9, 7.0, 7.1, 7.0])),
        );
        assert!(matches!(only(&a, &b).significance, Significance::Parts { p } if p < 1e-4));
        assert_eq!(only(&a, &a).significance, Significance::Equal);
        assert_eq!(only(&a, &summary(&[7.0], None)).significance, Significance::SingleRun);
        assert_eq!(only(&a, &summary(&[7.0, 8.0], None)).significance.significant(), None);
    }

    #[test]
    fn results_agree_if_the_interval_of_the_difference_is_within_the_tolerance() {
        // The interval of the difference is 2 ± 2.306, see `weir_measure::estimate`.
        let (left, right) =
            (summary(&[3.0, 4.0, 5.0, 6.0, 7.0], None), summary(&[5.0, 6.0, 7.0, 8.0, 9.0], None));
        let judged = |left: &Summary, right: &Summary, part, absolute| {
            let mut all = compare(left, right);
            let tolerance = Tolerance { metric: "goodput_bps".to_owned(), part, absolute };
            assert_eq!(all.judge(&[tolerance]), Vec::<String>::new());
            all.differences[0].verdict.unwrap()
        };
        assert_eq!(judged(&left, &right, 0.0, 4.31), Agreement::Agrees);
        assert_eq!(judged(&left, &right, 0.862, 0.0), Agreement::Agrees);
        assert_eq!(judged(&left, &right, 0.0, 4.30), Agreement::Open);
        let far = summary(&[55.0, 56.0, 57.0, 58.0, 59.0], None);
        assert_eq!(judged(&left, &far, 0.0, 49.6), Agreement::Differs);
        assert_eq!(judged(&left, &far, 0.0, 49.8), Agreement::Open);
        // A single run has no interval, however close its value is to the mean of the other result.
        assert_eq!(judged(&summary(&[5.0], None), &right, 1.0, 0.0), Agreement::Open);
        let unknown = Tolerance { metric: "nothing".to_owned(), part: 1.0, absolute: 0.0 };
        assert_eq!(compare(&left, &right).judge(&[unknown]), ["nothing"]);
    }

    #[test]
    fn objects_of_only_one_result_are_listed() {
        let mut other = summary(&[1.0], None);
        other.flows[0].name = "g".into();
        let all = compare(&summary(&[1.0], None), &other);
        assert_eq!(
            (all.only_left, all.only_right),
            (vec!["flow f".to_owned()], vec!["flow g".to_owned()])
        );
        assert!(all.differences.is_empty());
    }

    #[test]
    fn a_directory_without_a_summary_is_refused_with_its_name() {
        let error = Summary::read(Path::new("/nonexistent/results")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/results/summary.json"), "{error}");
        assert_eq!(Summary::of(&json!({ "links": [] })), None);
    }

    #[test]
    fn a_summary_that_is_no_regular_file_is_refused_at_once() {
        let dir = std::env::temp_dir().join(format!("weir-compare-pipe-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("summary.json");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let zero = Summary::read(&dir).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        let pipe = Summary::read(&dir).unwrap_err();
        for error in [zero, pipe] {
            assert!(error.to_string().contains("not a regular file"), "{error}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
