//! Means of counters over several runs, in the form that documents use.

use alloc::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::document::Number;
use crate::stats::{DropReason, LinkCounters, MarkReason, Reasons};

/// Mean drops and marks by reason; reasons that did not occur are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReasonMeans {
    drops: BTreeMap<DropReason, Number>,
    marks: BTreeMap<MarkReason, Number>,
}

impl ReasonMeans {
    /// The means over runs.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a Reasons>) -> Self {
        let (mut all, mut count) = (Reasons::default(), 0u32);
        for reasons in runs {
            all.merge(reasons);
            count += 1;
        }
        let mean = |n: u64| Number::new(n as f64 / f64::from(count.max(1)));
        Self {
            drops: all.drop_counts().iter().map(|(reason, n)| (reason, mean(n))).collect(),
            marks: all.mark_counts().iter().map(|(reason, n)| (reason, mean(n))).collect(),
        }
    }
}

/// Mean values of a link's counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkMeans {
    counters: [Number; LinkCounters::ROWS.len()],
    reasons: ReasonMeans,
}

impl LinkMeans {
    /// The means over runs.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a LinkCounters> + Clone) -> Self {
        let (mut sums, mut count) = ([0.0; LinkCounters::ROWS.len()], 0u32);
        for counters in runs.clone() {
            for (sum, value) in sums.iter_mut().zip(counters.values()) {
                *sum += value as f64;
            }
            count += 1;
        }
        Self {
            counters: sums.map(|sum| Number::new(sum / f64::from(count.max(1)))),
            reasons: ReasonMeans::of(runs.into_iter().map(LinkCounters::reasons)),
        }
    }
}

impl Serialize for LinkMeans {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (row, value) in LinkCounters::ROWS.iter().zip(&self.counters) {
            map.serialize_entry(row.name, value)?;
        }
        map.serialize_entry("drops", &self.reasons.drops)?;
        map.serialize_entry("marks", &self.reasons.marks)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn means_have_the_names_of_the_counters() {
        let run = |packets_in, drops: u32| {
            let mut counters = LinkCounters { packets_in, ..LinkCounters::default() };
            (0..drops).for_each(|_| counters.count_drop(DropReason::QueueFull));
            counters
        };
        let runs = [run(3, 0), run(4, 2)];
        let value = serde_json::to_value(LinkMeans::of(&runs)).unwrap();
        assert_eq!((&value["packets_in"], &value["carried"]), (&json!(3.5), &json!(0)));
        assert_eq!(value["drops"], json!({ "queue_full": 1 }));
    }
}
