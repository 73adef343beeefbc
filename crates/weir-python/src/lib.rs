//! The compiled part of `weirlab`, Weir's Python package: simulations, their results as Arrow
//! tables, campaigns, conformance cases, algorithms in Python, the rig for schedulers in Python,
//! and environments for reinforcement learning.
//!
//! The functions take and return plain values. The modules in `python/weirlab` check the arguments,
//! raise the exceptions and contain the documentation. A function that computes releases the
//! interpreter's lock meanwhile.

#![expect(clippy::needless_pass_by_value, reason = "PyO3 gives functions their arguments by value")]

mod agent;
mod campaign;
mod case;
mod columns;
mod external;
mod load;
mod readings;
mod results;
mod rig;
mod runs;
mod table;
mod trace;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<readings::Readings>()?;
    module.add_class::<results::Results>()?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(load::check, module)?)?;
    module.add_function(wrap_pyfunction!(load::schema, module)?)?;
    module.add_function(wrap_pyfunction!(results::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(case::play_case, module)?)?;
    module.add_class::<campaign::Campaign>()?;
    module.add_class::<campaign::Stop>()?;
    module.add("MAX_RUNS", weir_campaign::plan::MAX_RUNS)?;
    module.add_function(wrap_pyfunction!(campaign::campaign, module)?)?;
    module.add_function(wrap_pyfunction!(campaign::campaign_file, module)?)?;
    module.add_function(wrap_pyfunction!(campaign::create_store, module)?)?;
    module.add_function(wrap_pyfunction!(campaign::engine, module)?)?;
    module.add_function(wrap_pyfunction!(campaign::estimate, module)?)?;
    module.add_function(wrap_pyfunction!(campaign::figures, module)?)?;
    module.add_function(wrap_pyfunction!(campaign::has, module)?)?;
    module.add_function(wrap_pyfunction!(campaign::key, module)?)?;
    module.add_function(wrap_pyfunction!(campaign::verify, module)?)?;
    module.add_function(wrap_pyfunction!(campaign::work, module)?)?;
    agent::add();
    module.add_class::<agent::Environment>()?;
    module.add_function(wrap_pyfunction!(rig::rig, module)?)?;
    module.add_class::<external::Slot>()?;
    module.add_class::<external::Packet>()?;
    module.add_class::<external::Flow>()?;
    module.add_class::<external::Queue>()?;
    module.add_class::<external::Ack>()?;
    module.add_function(wrap_pyfunction!(external::check::play, module)?)?;
    Ok(())
}
