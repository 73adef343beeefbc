//! The compiled part of `weirlab`, Weir's Python package: simulations, their results as Arrow
//! tables, and conformance cases.
//!
//! The functions take and return plain values. The modules in `python/weirlab` check the arguments,
//! raise the exceptions and contain the documentation. A function that computes releases the
//! interpreter's lock meanwhile.

mod case;
mod columns;
mod load;
mod readings;
mod results;
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
    Ok(())
}
