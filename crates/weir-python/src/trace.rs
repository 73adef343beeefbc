//! Collects the records of a run in columns.

use std::sync::{Arc, Mutex, PoisonError};

use weir_report::sim::{Table, trace_rows};
use weir_sim::measure::{Names, Record, Sink};

use crate::columns;

/// The trace of a run while it is recorded.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    rows: Arc<Mutex<Option<Table>>>,
}

impl Trace {
    /// The sink for the records of a run with these names.
    pub(crate) fn sink(&self, names: &Names) -> Sink {
        let (rows, names) = (Arc::clone(&self.rows), names.clone());
        // A run without packets has a table without rows.
        *rows.lock().unwrap_or_else(PoisonError::into_inner) = Some(trace_rows(&[], &names));
        Box::new(move |records: &[Record]| {
            let block = trace_rows(records, &names);
            match &mut *rows.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(all) => columns::append(all, block),
                none => *none = Some(block),
            }
        })
    }

    /// The recorded rows; `None` if no run was traced.
    pub(crate) fn take(&self) -> Option<Table> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
