//! A table that other libraries read through Arrow's PyCapsule interface, without a copy.

use std::ffi::CStr;

use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array as _, RecordBatch, RecordBatchIterator};
use arrow_schema::DataType;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::columns::type_name;

/// A table in memory.
#[pyclass(frozen, module = "weirlab._native")]
pub(crate) struct Table {
    batch: RecordBatch,
}

impl Table {
    pub(crate) fn new(batch: RecordBatch) -> Self {
        Self { batch }
    }
}

#[pymethods]
impl Table {
    /// Exports the table. The consumer shares its memory.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to ignore a requested schema that it cannot provide
        // without a conversion.
        drop(requested_schema);
        let batches = vec![Ok(self.batch.clone())];
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    /// Number of rows.
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The name and the type of each column.
    #[getter]
    fn schema(&self) -> Vec<(String, &'static str)> {
        let schema = self.batch.schema();
        let described = schema.fields().iter();
        described.map(|field| (field.name().clone(), type_name(field.data_type()))).collect()
    }

    /// A table with only some of the columns. Both tables share their memory.
    fn select(&self, names: Vec<String>) -> PyResult<Self> {
        let schema = self.batch.schema();
        let place =
            |name: &String| schema.index_of(name).map_err(|_| PyKeyError::new_err(name.to_owned()));
        let places = names.iter().map(place).collect::<PyResult<Vec<_>>>()?;
        let batch = self.batch.project(&places);
        batch.map(Self::new).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Memory of the table, bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.batch.get_array_memory_size()
    }

    /// The values of a column in the rows from `start` to `stop - 1`.
    fn column<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        start: usize,
        stop: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let array = self.batch.column_by_name(name);
        let array = array.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        if start > stop || stop > array.len() {
            return Err(PyIndexError::new_err("rows outside the table"));
        }
        let rows = start..stop;
        match array.data_type() {
            DataType::Int64 => {
                let values = array.as_primitive::<Int64Type>();
                PyList::new(py, rows.map(|n| values.is_valid(n).then(|| values.value(n))))
            }
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>();
                PyList::new(py, rows.map(|n| values.is_valid(n).then(|| values.value(n))))
            }
            _ => {
                let values = array.as_dictionary::<Int32Type>();
                let names = values.values().as_string::<i32>();
                PyList::new(py, rows.map(|n| names.value(values.keys().value(n) as usize)))
            }
        }
    }
}

/// The names of capsules in Arrow's interface.
const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";
