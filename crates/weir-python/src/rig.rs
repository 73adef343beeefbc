//! Measures schedulers that are written in Python. The command `weir` does not have them, so this
//! process measures them.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_rig::cost::{Spread, order_hash, time};
use weir_rig::report::{Report, Run as Row, WfiRow};
use weir_rig::service::{self, Workload};
use weir_rig::{Algorithm, Order, Plan, flows};

use crate::external::Run;

/// The requested measurements.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Request {
    algorithm: String,
    flows: Vec<String>,
    order: String,
    batch: usize,
    seed: u64,
    runs: u32,
    /// Number of packets of a measurement of processor time.
    pairs: u64,
    /// Number of packets of a measurement of service; if absent, enough for the set of flows.
    service_packets: Option<u64>,
    /// Whether to measure the processor time per packet.
    times: bool,
    /// Whether to measure the service of each flow.
    services: bool,
}

/// Measures a scheduler with each set of flows. Returns the document of the rig, as JSON.
#[pyfunction]
pub(crate) fn rig(py: Python<'_>, request: Request) -> PyResult<String> {
    let run = Arc::new(Run::default());
    let measured = py.detach(|| run.during(|| request.measure()));
    if let Some(error) = run.take() {
        return Err(error);
    }
    let report = Report { runs: measured.map_err(PyValueError::new_err)? };
    Ok(report.to_json())
}

impl Request {
    fn measure(&self) -> Result<Vec<Row>, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let algorithm = Algorithm::parse(&self.algorithm).map_err(|error| text(&error))?;
        let order = Order::from_name(&self.order).ok_or_else(|| {
            let names: Vec<&str> = Order::names().collect();
            format!("`{}` is no order of arrivals: allowed are {}", self.order, names.join(", "))
        })?;
        let mut rows = Vec::new();
        for word in &self.flows {
            for set in flows::sweep(word).map_err(|error| text(&error))? {
                let plan =
                    Plan::new(set.clone(), order.clone(), None, self.batch, self.pairs, self.seed);
                let plan = plan.map_err(|error| text(&error))?;
                let packets = self.service_packets.unwrap_or_else(|| service::enough_packets(&set));
                let (order, pairs) = if self.times {
                    (self.order.clone(), plan.pairs())
                } else {
                    ("backlogged".to_owned(), packets)
                };
                let mut row = Row::new(algorithm.to_string(), &set, order, pairs);
                if self.times {
                    self.measure_times(&algorithm, &plan, &mut row);
                }
                if let (true, Some(discipline)) = (self.services, algorithm.discipline()) {
                    let workload = Workload::Backlogged { packets };
                    let found = service::measure(discipline, &set, &workload, self.seed);
                    row.wfi = Some(found.classes.iter().map(WfiRow::of).collect());
                }
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn measure_times(&self, algorithm: &Algorithm, plan: &Plan, row: &mut Row) {
        let (mut times, mut of_none) = (Vec::new(), Vec::new());
        for _ in 0..self.runs.max(1) {
            of_none.push(time(&Algorithm::None, plan, &thread_time));
            times.push(time(algorithm, plan, &thread_time));
        }
        let median = |times: &[f64]| Spread::of(times).map_or(0.0, |spread| spread.median);
        row.ns_per_pair = Some(median(&times));
        row.ns_net = Some(median(&times) - median(&of_none));
        row.order_hash = Some(format!("{:016x}", order_hash(algorithm, plan).0));
    }
}

/// Processor time of this thread, ns.
fn thread_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
