//! The results document of the rig: one row for each algorithm and flow set. Values that were not
//! measured are null; the fields of AQMs are left out where no AQM is measured.

use schemars::JsonSchema;
use serde::Serialize;

use weir_measure::document::{Document, Kind};

use crate::flows::FlowSet;
use crate::service::Class;

/// All results.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Report {
    /// The rows by flow set, then by algorithm, in the order of the command line.
    pub runs: Vec<Run>,
}

/// The results of one algorithm with one flow set.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RigRow")]
pub struct Run {
    /// The algorithm, with settings that are not at their defaults.
    pub alg: String,
    /// The AQM, with settings that are not at their defaults; left out where no AQM is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aqm: Option<String>,
    /// The groups of flows.
    pub flows: Vec<GroupRow>,
    /// The order of arrivals.
    #[serde(rename = "gen")]
    pub order: String,
    /// Packets measured in each run.
    pub pairs: u64,
    /// Processor time of one enqueue and one dequeue in ns, including the rig's own: the median of
    /// the runs.
    pub ns_per_pair: Option<f64>,
    /// `ns_per_pair` minus the time of `none`; for an AQM, minus the time of a pair without the
    /// AQM.
    pub ns_net: Option<f64>,
    /// Instructions per pair, including the rig's own.
    pub instructions_per_pair: Option<f64>,
    /// `instructions_per_pair` minus the instructions of a pair without the AQM; left out where no
    /// AQM is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions_net: Option<f64>,
    /// Misses per pair in a simulated second-level cache, including the rig's own.
    pub l2_misses_per_pair: Option<f64>,
    /// A hash of the order of departures, in hexadecimal digits.
    pub order_hash: Option<String>,
    /// Worst-case fairness by weight class.
    pub wfi: Option<Vec<WfiRow>>,
}

/// Flows with equal properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupRow {
    /// The number of flows.
    pub count: u32,
    /// The weight of each flow.
    pub weight: u32,
    /// The largest packet of each flow in bytes.
    pub lmax: u32,
}

/// The worst-case fair index of a class of flows.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WfiRow {
    /// The weight of each flow of the class.
    pub weight: u32,
    /// The largest packet of the class in bytes.
    pub lmax: u32,
    /// The B-WFI of the worst flow, in packets of the largest length.
    pub bwfi_packets: f64,
    /// The mean distance between a flow's service and its service in the fluid, over the ends of
    /// the class's packets, in packets of the largest length; null if the link sent none.
    pub deviation_packets: Option<f64>,
    /// The theoretical bound, in packets of the largest length; null without a bound.
    pub bound_packets: Option<f64>,
    /// `verified` or `unverified`; null without a bound.
    pub bound_status: Option<String>,
    /// The packets of the class that the scheduler dropped. A flow that loses packets is not always
    /// backlogged, and the fluid drops none.
    pub dropped_packets: u64,
}

impl WfiRow {
    /// The row of a class.
    pub fn of(class: &Class) -> Self {
        Self {
            weight: class.group.weight,
            lmax: class.group.lmax,
            bwfi_packets: class.bwfi_packets(),
            deviation_packets: class.deviation_packets(),
            bound_packets: class.bound_packets(),
            bound_status: class.bound_packets().map(|_| class.bound.status.to_string()),
            dropped_packets: class.dropped,
        }
    }
}

impl Run {
    /// A row without measured values.
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

    /// The number of flows.
    pub fn count(&self) -> u64 {
        self.flows.iter().map(|group| u64::from(group.count)).sum()
    }
}

impl Report {
    /// The JSON document of the [rounded](Self::rounded) report.
    pub fn to_json(&self) -> String {
        Document::new(Kind::Rig, self.rounded()).to_json()
    }

    /// The same report, with times, instructions and misses per pair rounded to two decimals.
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
    fn unmeasured_fields_are_null_and_fields_of_aqms_are_left_out() {
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
