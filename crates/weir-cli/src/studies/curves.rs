//! Computes service curves of schedulers, in the process of a study.

use std::os::unix::net::UnixStream;

use serde::Deserialize;
use serde_json::{Value, json};
use weir_control::dashboard::CurveAlgorithm;
use weir_core::sched;
use weir_rig::Algorithm;
use weir_rig::flows::FlowSet;
use weir_rig::service::{Workload, curves, measure};

use super::messages::{self, RESULTS};

/// The curves that a client wants.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Schedulers with their settings, in the form that `weir rig --alg` accepts.
    algorithms: Vec<String>,
    /// Flows, in the form that `weir rig --flows` accepts.
    flows: String,
    load: Load,
    packets: u64,
    #[serde(default)]
    seed: u64,
}

/// The pattern of arrivals, as in [`Workload`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Load {
    Backlogged,
    OnOff,
    Ramp,
}

/// The schedulers that can be chosen.
pub(super) fn algorithms() -> Vec<CurveAlgorithm> {
    sched::TABLE.iter().map(|row| CurveAlgorithm { name: row.name, summary: row.summary }).collect()
}

/// Sends the service of each flow over time, by each scheduler and by the fluid.
pub(super) fn compute(request: &[Vec<u8>], stream: &UnixStream) -> Result<(), String> {
    let wanted = request.first().map(Vec::as_slice).unwrap_or_default();
    let answer = answer(wanted)?;
    messages::send(stream, RESULTS, answer.to_string().as_bytes()).map_err(|e| e.to_string())
}

fn answer(wanted: &[u8]) -> Result<Value, String> {
    let wanted: Wanted =
        serde_json::from_slice(wanted).map_err(|error| format!("the request is wrong: {error}"))?;
    let Wanted { algorithms, flows, load, packets, seed } = wanted;
    if !(1..=MOST_ALGORITHMS).contains(&algorithms.len()) {
        return Err(format!("choose 1 to {MOST_ALGORITHMS} schedulers"));
    }
    if !(1..=MOST_PACKETS).contains(&packets) {
        return Err(format!("the number of packets is from 1 to {MOST_PACKETS}"));
    }
    let flows: FlowSet = flows.parse().map_err(|error| format!("flows: {error}"))?;
    if flows.len() > MOST_FLOWS {
        return Err(format!("{} flows: here at most {MOST_FLOWS} have curves", flows.len()));
    }
    let mut disciplines = Vec::new();
    for text in &algorithms {
        let algorithm = Algorithm::parse(text).map_err(|error| error.to_string())?;
        let discipline = algorithm.discipline().copied();
        let discipline = discipline.ok_or("`none` is no scheduler, so it has no curve")?;
        disciplines.push((algorithm.to_string(), discipline));
    }
    let workload = match load {
        Load::Backlogged => Workload::Backlogged { packets },
        Load::OnOff => Workload::OnOff { packets },
        Load::Ramp => Workload::Ramp { packets },
    };
    // All curves reach to the end of the shortest run, so that each has a value at each time.
    let of = |discipline, until| curves(discipline, &flows, &workload, seed, (until, STEPS));
    let ends = disciplines.iter().filter_map(|(_, one)| of(one, None).times.last().copied());
    let until = ends.min();
    let mut fluid = None;
    let mut all = Vec::new();
    for (name, discipline) in &disciplines {
        let curves = of(discipline, until);
        let service = measure(discipline, &flows, &workload, seed);
        let classes = service.classes.iter().map(|class| {
            json!({
                "bwfi_bytes": class.bwfi.to_f64(),
                "bound_bytes": class.bound.bytes.map(|bytes| bytes.to_f64()),
                "lag_bytes": class.lag.to_f64(),
                "lead_bytes": class.lead.to_f64(),
                "delay_bytes": class.delay_max,
            })
        });
        all.push(json!({
            "name": name, "served": curves.served, "jain": service.jain,
            "classes": classes.collect::<Vec<_>>(),
        }));
        fluid.get_or_insert((curves.times, curves.fluid));
    }
    let (times, fluid) = fluid.unwrap_or_default();
    let flow_list: Vec<Value> = flows
        .flows()
        .map(|flow| {
            json!({"weight": flow.weight, "lengths": flow.lengths.to_string(), "class": flow.group})
        })
        .collect();
    Ok(json!({"times": times, "fluid": fluid, "flows": flow_list, "algorithms": all}))
}

/// Maximum number of schedulers, flows and packets of a request. These bounds keep the answer below
/// a megabyte.
pub(super) const MOST_ALGORITHMS: usize = 6;
pub(super) const MOST_FLOWS: u32 = 16;
pub(super) const MOST_PACKETS: u64 = 5000;
/// Number of time steps in a curve.
const STEPS: usize = 240;

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(algorithms: &[&str], flows: &str, packets: u64) -> Result<Value, String> {
        let wanted = json!({
            "algorithms": algorithms, "flows": flows, "load": "backlogged", "packets": packets,
        });
        answer(wanted.to_string().as_bytes())
    }

    #[test]
    fn two_schedulers_are_compared_with_one_fluid() {
        let answer = ask(&["fifo", "wf2q+"], "1:w1,1:w3:l500", 200).unwrap();
        assert_eq!(answer["times"].as_array().unwrap().len(), STEPS + 1);
        assert_eq!(answer["fluid"].as_array().unwrap().len(), 2);
        assert_eq!(answer["flows"][1]["lengths"], "l500");
        let last = |value: &Value| value.as_array().unwrap().last().unwrap().as_f64().unwrap();
        let [fifo, fair] = [0, 1].map(|n| last(&answer["algorithms"][n]["served"][1]));
        let fluid = last(&answer["fluid"][1]);
        assert!((fair - fluid).abs() < 1500.0, "{fair} of {fluid}");
        assert!(fluid - fifo > 1500.0, "{fifo} of {fluid}");
    }

    #[test]
    fn requests_are_bounded() {
        let words = |asked: Result<Value, String>| asked.unwrap_err();
        assert!(words(ask(&[], "2:w1", 10)).contains("1 to 6"));
        assert!(words(ask(&["drr"; 7], "2:w1", 10)).contains("1 to 6"));
        assert!(words(ask(&["drr"], "17:w1", 10)).contains("at most 16"));
        assert!(words(ask(&["drr"], "2:w1", 5001)).contains("1 to 5000"));
        assert!(words(ask(&["rrr"], "2:w1", 10)).contains("drr"));
        assert!(words(ask(&["none"], "2:w1", 10)).contains("no scheduler"));
        assert!(words(ask(&["drr"], "2:q1", 10)).starts_with("flows: "));
        // The largest answer that is permitted.
        let all: Vec<&str> = sched::TABLE.iter().take(6).map(|row| row.name).collect();
        let answer = ask(&all, "16:w1:imix", 5000).unwrap();
        assert!(answer.to_string().len() < 1 << 20);
    }

    #[test]
    fn every_scheduler_has_curves() {
        for algorithm in algorithms() {
            let answer = ask(&[algorithm.name], "1:w1,1:w2", 50);
            assert!(answer.is_ok(), "{}: {answer:?}", algorithm.name);
        }
    }
}
