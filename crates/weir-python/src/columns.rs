//! Converts the columns of reports to Arrow arrays, and joins the tables of several points.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use weir_report::sim::{Column, Table};

pub(crate) fn to_batch(table: Table) -> Result<RecordBatch, ArrowError> {
    let mut fields = Vec::with_capacity(table.columns.len());
    let mut arrays = Vec::with_capacity(table.columns.len());
    for (name, column) in table.columns {
        let may_be_null = matches!(column, Column::SomeInt(_) | Column::SomeFloat(_));
        let array = to_array(column)?;
        fields.push(Field::new(name, array.data_type().clone(), may_be_null));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

fn to_array(column: Column) -> Result<ArrayRef, ArrowError> {
    Ok(match column {
        Column::Int(values) => {
            // The vector is converted in place.
            Arc::new(Int64Array::from(values.into_iter().map(signed).collect::<Vec<i64>>()))
        }
        Column::SomeInt(values) => {
            Arc::new(values.into_iter().map(|value| value.map(signed)).collect::<Int64Array>())
        }
        Column::Float(values) => Arc::new(Float64Array::from(values)),
        Column::SomeFloat(values) => Arc::new(Float64Array::from(values)),
        Column::Name(names, rows) => Arc::new(dictionary(&names, &rows)?),
    })
}

/// Names as a dictionary without repeated values, since some readers require unique values.
fn dictionary(names: &[String], rows: &[u32]) -> Result<DictionaryArray<Int32Type>, ArrowError> {
    let mut unique: Vec<&str> = Vec::new();
    let mut known: HashMap<&str, i32> = HashMap::new();
    let mut number_of = vec![None; names.len()];
    let mut keys = Vec::with_capacity(rows.len());
    for &row in rows {
        let row = row as usize;
        let number = match number_of[row] {
            Some(number) => number,
            None => {
                let number = *known.entry(&names[row]).or_insert_with(|| {
                    unique.push(&names[row]);
                    unique.len() as i32 - 1
                });
                number_of[row] = Some(number);
                number
            }
        };
        keys.push(number);
    }
    DictionaryArray::try_new(Int32Array::from(keys), Arc::new(StringArray::from(unique)))
}

/// Appends the rows of `more`. A column that only one of the tables has is a [`Column::SomeFloat`],
/// and is empty in the rows of the other.
pub(crate) fn append(all: &mut Table, more: Table) {
    let before = all.columns.first().map_or(0, |(_, column)| len(column));
    let added = more.columns.first().map_or(0, |(_, column)| len(column));
    for (name, column) in more.columns {
        match all.columns.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => extend(known, column),
            None => {
                let mut filled = Column::SomeFloat(vec![None; before]);
                extend(&mut filled, column);
                all.columns.push((name, filled));
            }
        }
    }
    for (_, column) in &mut all.columns {
        if let Column::SomeFloat(values) = column {
            values.resize(before + added, None);
        }
    }
}

fn extend(all: &mut Column, more: Column) {
    match (all, more) {
        (Column::Int(all), Column::Int(more)) => all.extend(more),
        (Column::SomeInt(all), Column::SomeInt(more)) => all.extend(more),
        (Column::Float(all), Column::Float(more)) => all.extend(more),
        (Column::SomeFloat(all), Column::SomeFloat(more)) => all.extend(more),
        (Column::Name(names, rows), Column::Name(more, more_rows)) => {
            // The blocks of a trace have the same names.
            let first = if *names == more { 0 } else { names.len() as u32 };
            if first > 0 {
                names.extend(more);
            }
            rows.extend(more_rows.into_iter().map(|row| row + first));
        }
        // Tables of one kind have columns of the same types.
        _ => unreachable!("a column has two types"),
    }
}

pub(crate) fn len(column: &Column) -> usize {
    match column {
        Column::Int(values) => values.len(),
        Column::SomeInt(values) => values.len(),
        Column::Float(values) => values.len(),
        Column::SomeFloat(values) => values.len(),
        Column::Name(_, rows) => rows.len(),
    }
}

/// The name of a type in the description of a table.
pub(crate) fn type_name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Int64 => "int64",
        DataType::Float64 => "float64",
        _ => "dictionary<int32, string>",
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
