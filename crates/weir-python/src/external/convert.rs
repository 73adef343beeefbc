//! Reads the numbers that methods return and attributes have.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use super::instance::{Instance, wrong_type};

impl Instance {
    /// Reads a time or an amount: a whole number or a finite float, not negative. `method` is the
    /// name of the method or attribute, for messages.
    pub(super) fn amount(&self, method: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        let py = value.py();
        let refused = |what: String| self.broken(py, method, &what);
        if let Ok(float) = value.cast::<PyFloat>() {
            let number = float.value();
            if !number.is_finite() {
                return Err(refused(format!("is {number}, which is no number")));
            }
            if number < 0.0 {
                return Err(refused(format!("is {number}, which is negative")));
            }
            // A number above the range becomes the largest `u64`.
            return Ok(number as u64);
        }
        if !value.is_instance_of::<PyBool>() {
            let whole = if value.is_instance_of::<PyInt>() {
                value.clone()
            } else {
                // Numbers of NumPy, for example.
                value.call_method0("__index__").map_err(|_| self.no_number(method, value))?
            };
            if let Ok(number) = whole.extract::<u64>() {
                return Ok(number);
            }
            if whole.lt(0)? {
                return Err(refused(format!("is {whole}, which is negative")));
            }
            return Ok(u64::MAX);
        }
        Err(self.no_number(method, value))
    }

    fn no_number(&self, method: &str, value: &Bound<'_, PyAny>) -> PyErr {
        let found = value.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
        let message = format!("{}.{method}: expected a number, not {found}", self.class);
        wrong_type(value.py(), &message)
    }
}
