//! Results for programs: one row for each algorithm and flow set. Values that were not measured are
//! null.

use schemars::JsonSchema;
use serde::Serialize;

use weir_measure::document::{Document, Kind};

use crate::flows::FlowSet;

/// Everything that was measured.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Report {
    /// By flow set, then by algorithm, in the order in which they were asked for.
    pub runs: Vec<Run>,
}

/// What was measured of one algorithm with one flow set.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RigRow")]
pub struct Run {
    /// The algorithm, with settings that are not at their defaults.
    pub alg: String,
    /// The AQM, with settings that are not at their defaults; left out where no AQM is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aqm: Option<String>,
    /// The flows.
    pub flows: Vec<GroupRow>,
    /// The order of arrivals.
    #[serde(rename = "gen")]
    pub order: String,
    /// Packets that counted in each run.
    pub pairs: u64,
    /// Processor time of one enqueue and one dequeue in ns, the rig's own included: the median of
    /// the runs.
    pub ns_per_pair: Option<f64>,
    /// The same less what `none` takes; of an AQM less what a pair takes without it.
    pub ns_net: Option<f64>,
    /// Instructions of one pair, the rig's own included.
    pub instructions_per_pair: Option<f64>,
    /// The same less what a pair takes without an AQM; left out where no AQM is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions_net: Option<f64>,
    /// Misses of a simulated second-level cache in one pair, the rig's own included.
    pub l2_misses_per_pair: Option<f64>,
    /// Which order packets left in, as hexadecimal digits.
    pub order_hash: Option<String>,
    /// Worst-case fairness by weight class.
    pub wfi: Option<Vec<WfiRow>>,
}

/// Flows that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupRow {
    /// How many.
    pub count: u32,
    /// Weight of each.
    pub weight: u32,
    /// Largest packet of each in bytes.
    pub lmax: u32,
}

/// The worst-case fair index of a class of flows.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WfiRow {
    /// Weight of the class.
    pub weight: u32,
    /// Largest packet of the class in bytes.
    pub lmax: u32,
    /// The worst of its flows, in largest packets.
    pub bwfi_packets: f64,
    /// What theory allows, in largest packets.
    pub bound_packets: Option<f64>,
    /// `verified` or `unverified`; null without a bound.
    pub bound_status: Option<String>,
}

impl Run {
    /// A row without values.
    pub fn new(alg: String, flows: &FlowSet, order: String, pairs: u64) -> Self {
        let groups = flows.groups().iter().map(|group| GroupRow {
            count: group.count,
            weight: group.weight,
            lmax: group.lmax,
        });
        Self {
            alg,
            aqm: None,
            flows: groups.collect(),
            order,
            pairs,
            ns_per_pair: None,
            ns_net: None,
            instructions_per_pair: None,
            instructions_net: None,
            l2_misses_per_pair: None,
            order_hash: None,
            wfi: None,
        }
    }

    /// Number of flows.
    pub fn count(&self) -> u64 {
        self.flows.iter().map(|group| u64::from(group.count)).sum()
    }
}

impl Report {
    /// As a JSON document. Times have two decimals.
    pub fn to_json(&self) -> String {
        Document::new(Kind::Rig, self.rounded()).to_json()
    }

    /// The same with two decimals in each time and count of instructions.
    #[must_use]
    pub fn rounded(&self) -> Self {
        let mut rounded = self.clone();
        for run in &mut rounded.runs {
            let instructions = [
                &mut run.instructions_per_pair,
                &mut run.instructions_net,
                &mut run.l2_misses_per_pair,
            ];
            for number in instructions.into_iter().chain([&mut run.ns_per_pair, &mut run.ns_net]) {
                *number = number.map(|value| (value * 100.0).round() / 100.0);
            }
        }
        rounded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_there_and_what_was_not_measured_is_null() {
        let flows: FlowSet = "500:w1,250:w4:imix".parse().unwrap();
        let mut run = Run::new("fifo".into(), &flows, "ramp".into(), 10);
        run.ns_per_pair = Some(12.3456);
        let text = Report { runs: vec![run] }.to_json();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({ "schema": "weir.results/1", "kind": "rig", "runs": [{
            "alg": "fifo", "flows": [{ "count": 500, "weight": 1, "lmax": 1500 }, { "count": 250, "weight": 4, "lmax": 1500 }],
            "gen": "ramp", "pairs": 10, "ns_per_pair": 12.35, "ns_net": null, "instructions_per_pair": null, "l2_misses_per_pair": null,
            "order_hash": null, "wfi": null,
        }] });
        assert_eq!(json, expected);
    }
}
