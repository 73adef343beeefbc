//! Two results side by side: every figure of every flow and link that both have, its difference,
//! and whether that is more than chance.
//!
//! # How a difference is judged
//! Over several runs on both sides, by Welch's test of their means. Of single runs, by the same
//! test over the means of twentieths of the time (`batches` of the summary), for the figures that
//! are known over time; neighbouring parts are taken to be independent, so a part should be long
//! beside the slowest swing of the traffic. Where one side has several runs and the other one,
//! nothing is said. A difference counts as significant when chance alone gives one as large in less
//! than one of twenty cases; among twenty figures one is then to be expected.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use weir_measure::estimate::Estimate;

/// Why a result could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// No summary, or not readable.
    #[error("cannot read {}: {source}; a directory that `weir sim --out` or `weir live --out` wrote is expected", path.display())]
    Read {
        /// The summary.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Not JSON.
    #[error("{} is not a summary: {source}", path.display())]
    Parse {
        /// The summary.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// JSON of another kind.
    #[error("{} is not a summary of a scenario: it has no runs with flows and links", path.display())]
    Shape {
        /// The summary.
        path: PathBuf,
    },
}

/// The figures of a result, as its summary tells them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// What made it: `sim`, `live`.
    pub source: String,
    /// The scenario.
    pub scenario: String,
    /// How many runs.
    pub runs: usize,
    flows: Vec<Thing>,
    links: Vec<Thing>,
}

/// A flow or link.
#[derive(Clone, Debug, Default, PartialEq)]
struct Thing {
    name: String,
    /// Each figure's value in each run that has it, in the order of the summary.
    runs: Vec<(String, Vec<f64>)>,
    batches: BTreeMap<String, Vec<f64>>,
}

/// Two results side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// What made the two, and of which scenario.
    pub left: Side,
    /// See [`Self::left`].
    pub right: Side,
    /// Every figure of a flow or link that both have.
    pub differences: Vec<Difference>,
    /// Flows and links that only the left has.
    pub only_left: Vec<String>,
    /// Flows and links that only the right has.
    pub only_right: Vec<String>,
}

/// One of two results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// What made it.
    pub source: String,
    /// The scenario.
    pub scenario: String,
    /// How many runs.
    pub runs: usize,
}

/// A figure on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// `flow` or `link`.
    pub object: &'static str,
    /// Which.
    pub name: String,
    /// The figure, with its unit.
    pub figure: String,
    /// Its mean on the left.
    pub left: f64,
    /// Its mean on the right.
    pub right: f64,
    /// Right less left.
    pub difference: f64,
    /// That as a fraction of the left; `None` when the left is 0.
    pub relative: Option<f64>,
    /// What that is worth.
    pub significance: Significance,
}

/// What a difference is worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Significance {
    /// There is no difference at all.
    Equal,
    /// Welch's test over runs.
    Runs {
        /// How often chance alone gives a difference as large.
        p: f64,
    },
    /// Welch's test over parts of single runs.
    Parts {
        /// How often chance alone gives a difference as large.
        p: f64,
    },
    /// Single runs, and a figure that is not known over time.
    SingleRun,
}

impl Significance {
    /// Whether the difference is more than chance, at one in twenty; `None` when that cannot be
    /// said.
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
    /// No summary there, or one that is not of a scenario.
    pub fn read(dir: &Path) -> Result<Self, SummaryError> {
        let path = dir.join("summary.json");
        let text = std::fs::read_to_string(&path)
            .map_err(|source| SummaryError::Read { path: path.clone(), source })?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|source| SummaryError::Parse { path: path.clone(), source })?;
        Self::of(&value).ok_or(SummaryError::Shape { path })
    }

    fn of(value: &Value) -> Option<Self> {
        let runs = value.get("runs")?.as_array()?;
        let text =
            |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let things = |key: &str| -> Option<Vec<Thing>> {
            let batches = value.get("batches").and_then(|b| b.get(key)).and_then(Value::as_array);
            let first = runs.first()?.get(key)?.as_array()?;
            let each = (0..first.len()).map(|n| {
                let of_runs: Vec<&Value> =
                    runs.iter().filter_map(|run| run.get(key)?.get(n)).collect();
                Thing::of(&of_runs, batches.and_then(|all| all.get(n)))
            });
            each.collect()
        };
        let (flows, links) = (things("flows")?, things("links")?);
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

impl Thing {
    fn of(runs: &[&Value], batches: Option<&Value>) -> Option<Self> {
        let first = runs.first()?.as_object()?;
        let name = first.get("name")?.as_str()?.to_owned();
        let values = |figure: &String| {
            runs.iter().filter_map(|run| run.get(figure)?.as_f64()).collect::<Vec<f64>>()
        };
        let figures = first
            .keys()
            .filter(|key| *key != "name")
            .map(|figure| (figure.clone(), values(figure)));
        let parts = |(figure, values): (&String, &Value)| {
            let values = values.as_array()?.iter().filter_map(Value::as_f64).collect();
            Some((figure.clone(), values))
        };
        let batches =
            batches.and_then(Value::as_object).into_iter().flatten().filter_map(parts).collect();
        Some(Self { name, runs: figures.collect(), batches })
    }
}

/// Puts two results side by side: flows and links by their names, figures in the order of the left.
pub fn compare(left: &Summary, right: &Summary) -> Comparison {
    let mut all = Comparison { left: left.side(), right: right.side(), ..Comparison::default() };
    for (object, left, right) in
        [("flow", &left.flows, &right.flows), ("link", &left.links, &right.links)]
    {
        for thing in left {
            match right.iter().find(|other| other.name == thing.name) {
                Some(other) => all.differences.extend(differences(object, thing, other)),
                None => all.only_left.push(format!("{object} {}", thing.name)),
            }
        }
        let missing =
            right.iter().filter(|other| left.iter().all(|thing| thing.name != other.name));
        all.only_right.extend(missing.map(|other| format!("{object} {}", other.name)));
    }
    all
}

fn differences(object: &'static str, left: &Thing, right: &Thing) -> Vec<Difference> {
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
            significance,
        })
    };
    left.runs.iter().filter_map(one).collect()
}

/// Chance of a difference where there is none.
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
            "the jitter that no run has is no figure: {:?}",
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
    fn what_only_one_side_has_is_named() {
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
}
