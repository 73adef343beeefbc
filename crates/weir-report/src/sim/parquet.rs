//! Tables as Parquet files: columns of integers, fractions and names, written at once or in groups
//! of rows.
//!
//! The module uses only the file format, without Arrow. Nothing is compressed; names are stored
//! once and counters as differences, so the files are small. They do not contain the program's
//! version, so equal rows give equal bytes.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

/// The values of a column. An optional value is `None` where the row has none.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Integers up to 2⁶³ − 1.
    Int(Vec<u64>),
    /// Optional integers.
    SomeInt(Vec<Option<u64>>),
    /// Fractions.
    Float(Vec<f64>),
    /// Optional fractions.
    SomeFloat(Vec<Option<f64>>),
    /// Names, each stored once, and the index of each row's name.
    Name(Vec<String>, Vec<u32>),
}

/// Columns of equal length, with their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Names (letters, digits, underscores) and values.
    pub columns: Vec<(&'static str, Column)>,
}

/// The reason why a table could not be written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Writing failed, or the columns have different lengths.
    #[error("cannot write a table: {0}")]
    Parquet(#[from] ParquetError),
    /// The columns differ from those of the file.
    #[error("the rows have other columns than the table")]
    Columns,
}

/// Writes a table in groups of rows.
pub struct TableWriter<W: Write + Send> {
    inner: SerializedFileWriter<W>,
    schema: String,
}

impl<W: Write + Send> std::fmt::Debug for TableWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Table {
    /// The file with the complete table.
    ///
    /// # Errors
    /// The columns have different lengths.
    pub fn to_bytes(&self) -> Result<Vec<u8>, TableError> {
        let mut bytes = Vec::new();
        let mut writer = TableWriter::new(&mut bytes, self)?;
        writer.write(self)?;
        writer.finish()?;
        Ok(bytes)
    }

    fn schema(&self) -> String {
        let field = |(name, column): &(&str, Column)| {
            format!("{} {name}{};", column.kind(), if column.is_name() { " (UTF8)" } else { "" })
        };
        let fields: Vec<String> = self.columns.iter().map(field).collect();
        format!("message weir {{ {} }}", fields.join(" "))
    }
}

impl<W: Write + Send> TableWriter<W> {
    /// Starts a file with the columns of `table`. Its rows are not written.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(writer: W, table: &Table) -> Result<Self, TableError> {
        let schema = table.schema();
        let mut properties = WriterProperties::builder()
            .set_created_by("weir".to_owned())
            .set_writer_version(WriterVersion::PARQUET_2_0);
        for (name, column) in table.columns.iter().filter(|(_, column)| !column.is_name()) {
            let path = ColumnPath::from(*name);
            properties = properties.set_column_dictionary_enabled(path.clone(), false);
            if matches!(column, Column::Int(_) | Column::SomeInt(_)) {
                properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
            }
        }
        let parsed = Arc::new(parse_message_type(&schema)?);
        Ok(Self {
            inner: SerializedFileWriter::new(writer, parsed, Arc::new(properties.build()))?,
            schema,
        })
    }

    /// Writes the rows of `table` as one group.
    ///
    /// # Errors
    /// The columns differ from those of the file or have different lengths, or the file cannot be
    /// written.
    pub fn write(&mut self, table: &Table) -> Result<(), TableError> {
        if table.schema() != self.schema {
            return Err(TableError::Columns);
        }
        let mut group = self.inner.next_row_group()?;
        for (_, column) in &table.columns {
            let Some(mut writer) = group.next_column()? else { return Err(TableError::Columns) };
            column.write(&mut writer)?;
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<(), TableError> {
        self.inner.close()?;
        Ok(())
    }
}

impl TableWriter<Vec<u8>> {
    /// The bytes written since the last call, for a caller that stores the file in parts.
    ///
    /// # Errors
    /// None, because writing to memory succeeds.
    pub(crate) fn take(&mut self) -> Result<Vec<u8>, TableError> {
        self.inner.flush().map_err(ParquetError::from)?;
        Ok(std::mem::take(self.inner.inner_mut()))
    }

    /// The footer of a file with the first `groups` groups of rows.
    ///
    /// # Errors
    /// The file has fewer groups.
    pub(crate) fn footer(&self, groups: usize) -> Result<Vec<u8>, TableError> {
        let groups =
            self.inner.flushed_row_groups().get(..groups).ok_or(TableError::Columns)?.to_vec();
        let rows = groups.iter().map(RowGroupMetaData::num_rows).sum();
        let schema = Arc::new(self.inner.schema_descr().clone());
        let file = FileMetaData::new(2, rows, Some("weir".to_owned()), None, schema, None);
        let mut bytes = Vec::new();
        let metadata = ParquetMetaData::new(file, groups);
        ParquetMetaDataWriter::new(&mut bytes, &metadata)
            .with_preserve_page_index_locations(false)
            .finish()?;
        Ok(bytes)
    }
}

impl Column {
    fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "REQUIRED INT64",
            Self::SomeInt(_) => "OPTIONAL INT64",
            Self::Float(_) => "REQUIRED DOUBLE",
            Self::SomeFloat(_) => "OPTIONAL DOUBLE",
            Self::Name(..) => "REQUIRED BYTE_ARRAY",
        }
    }

    fn is_name(&self) -> bool {
        matches!(self, Self::Name(..))
    }

    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), TableError> {
        let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        match self {
            Self::Int(values) => {
                let values: Vec<i64> = values.iter().map(|&value| whole(value)).collect();
                writer.typed::<Int64Type>().write_batch(&values, None, None)?;
            }
            Self::SomeInt(values) => {
                let present: Vec<i64> =
                    values.iter().flatten().map(|&value| whole(value)).collect();
                writer.typed::<Int64Type>().write_batch(&present, Some(&levels(values)), None)?;
            }
            Self::Float(values) => {
                writer.typed::<DoubleType>().write_batch(values, None, None)?;
            }
            Self::SomeFloat(values) => {
                let present: Vec<f64> = values.iter().flatten().copied().collect();
                writer.typed::<DoubleType>().write_batch(&present, Some(&levels(values)), None)?;
            }
            Self::Name(names, rows) => {
                let names: Vec<ByteArray> =
                    names.iter().map(|name| ByteArray::from(name.as_str())).collect();
                let values: Vec<ByteArray> =
                    rows.iter().filter_map(|&row| names.get(row as usize).cloned()).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
        }
        Ok(())
    }
}

/// The definition level of each row: whether the row has a value.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    fn table() -> Table {
        Table {
            columns: vec![
                ("n", Column::Int(vec![1, 2, u64::MAX])),
                ("maybe", Column::SomeInt(vec![None, Some(7), None])),
                ("x", Column::Float(vec![0.5, -1.0, 1e300])),
                ("some_x", Column::SomeFloat(vec![Some(0.25), None, None])),
                ("who", Column::Name(vec!["a".into(), "é b".into()], vec![1, 0, 1])),
            ],
        }
    }

    #[test]
    fn written_rows_are_read_back() {
        let reader = SerializedFileReader::new(Bytes::from(table().to_bytes().unwrap())).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(
            rows.iter().map(|r| r.get_long(0).unwrap()).collect::<Vec<_>>(),
            [1, 2, i64::MAX]
        );
        assert_eq!(
            rows.iter().map(|r| r.get_long(1).ok()).collect::<Vec<_>>(),
            [None, Some(7), None]
        );
        assert_eq!(
            rows.iter().map(|r| r.get_double(2).unwrap()).collect::<Vec<_>>(),
            [0.5, -1.0, 1e300]
        );
        assert_eq!(
            rows.iter().map(|r| r.get_double(3).ok()).collect::<Vec<_>>(),
            [Some(0.25), None, None]
        );
        assert_eq!(
            rows.iter().map(|r| r.get_string(4).unwrap().as_str()).collect::<Vec<_>>(),
            ["é b", "a", "é b"]
        );
    }

    #[test]
    fn groups_of_rows_make_one_table_and_other_columns_are_refused() {
        let mut bytes = Vec::new();
        let mut writer = TableWriter::new(&mut bytes, &table()).unwrap();
        writer.write(&table()).unwrap();
        writer.write(&table()).unwrap();
        assert!(matches!(writer.write(&Table::default()), Err(TableError::Columns)));
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        assert_eq!((reader.num_row_groups(), reader.get_row_iter(None).unwrap().count()), (2, 6));
    }

    #[test]
    fn the_same_rows_are_the_same_bytes() {
        assert_eq!(table().to_bytes().unwrap(), table().to_bytes().unwrap());
    }
}
