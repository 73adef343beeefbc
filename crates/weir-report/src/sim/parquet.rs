//! Tables as Parquet files: columns of integers, floating-point numbers and names, written at once
//! or in groups of rows.
//!
//! The module uses only the file format, without Arrow. Nothing is compressed, but the files are
//! small, because each name is stored once in a group of rows, and integers are stored as
//! differences. Files do not contain the program's version, so equal rows give equal bytes.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use parquet::basic::{ConvertedType, Encoding, Repetition, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type, TypePtr};

/// The values of a column. An optional value is `None` where the row has none.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Integers. Values above 2⁶³ − 1 are stored as 2⁶³ − 1.
    Int(Vec<u64>),
    /// Optional integers.
    SomeInt(Vec<Option<u64>>),
    /// Floating-point numbers.
    Float(Vec<f64>),
    /// Optional floating-point numbers.
    SomeFloat(Vec<Option<f64>>),
    /// Names, each stored once, and the index of each row's name.
    Name(Vec<String>, Vec<u32>),
}

/// Columns of equal length, with their names.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<N = &'static str> {
    /// Names and values.
    pub columns: Vec<(N, Column)>,
}

impl<N> Default for Table<N> {
    fn default() -> Self {
        Self { columns: Vec::new() }
    }
}

/// The reason why a table could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file is damaged, writing failed, or the columns have different lengths.
    #[error("cannot read or write a table: {0}")]
    Parquet(#[from] ParquetError),
    /// The columns differ from those of the file.
    #[error("the rows have other columns than the table")]
    Columns,
    /// A file has a column of a type that tables do not have.
    #[error("column `{0}` is of no type that a table has")]
    Type(String),
}

/// Writes a table in groups of rows.
pub struct TableWriter<W: Write + Send> {
    inner: SerializedFileWriter<W>,
    /// The name and the type of each column.
    schema: Vec<(String, &'static str)>,
}

impl<W: Write + Send> std::fmt::Debug for TableWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl<N: AsRef<str>> Table<N> {
    /// The bytes of a file with the complete table.
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

    fn schema(&self) -> Vec<(String, &'static str)> {
        let columns = self.columns.iter();
        columns.map(|(name, column)| (name.as_ref().to_owned(), column.kind())).collect()
    }
}

impl Table<String> {
    /// Reads a file that [`TableWriter`] wrote.
    ///
    /// # Errors
    /// The file cannot be read, or has columns of other types.
    pub fn read(file: File) -> Result<Self, TableError> {
        let reader = SerializedFileReader::new(file)?;
        let mut table = columns(&reader)?;
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group)?;
            let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            for (at, (_, column)) in table.columns.iter_mut().enumerate() {
                column.read(group.get_column_reader(at)?, rows)?;
            }
        }
        Ok(table)
    }

    /// Reads the columns of a file, without their rows.
    ///
    /// # Errors
    /// The file cannot be read, or has columns of other types.
    pub fn read_columns(file: File) -> Result<Self, TableError> {
        columns(&SerializedFileReader::new(file)?)
    }
}

/// The columns of a file, without rows.
fn columns(reader: &SerializedFileReader<File>) -> Result<Table<String>, TableError> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let of = |column: &Arc<ColumnDescriptor>| {
        let empty = match (column.physical_type(), column.max_def_level()) {
            (PhysicalType::INT64, 0) => Column::Int(Vec::new()),
            (PhysicalType::INT64, _) => Column::SomeInt(Vec::new()),
            (PhysicalType::DOUBLE, 0) => Column::Float(Vec::new()),
            (PhysicalType::DOUBLE, _) => Column::SomeFloat(Vec::new()),
            (PhysicalType::BYTE_ARRAY, 0) => Column::Name(Vec::new(), Vec::new()),
            _ => return Err(TableError::Type(column.name().to_owned())),
        };
        Ok((column.name().to_owned(), empty))
    };
    Ok(Table { columns: schema.columns().iter().map(of).collect::<Result<_, _>>()? })
}

impl<W: Write + Send> TableWriter<W> {
    /// Starts a file with the columns of `table`. The rows of `table` are not written.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new<N: AsRef<str>>(writer: W, table: &Table<N>) -> Result<Self, TableError> {
        let schema = table.schema();
        let mut properties = WriterProperties::builder()
            .set_created_by("weir".to_owned())
            .set_writer_version(WriterVersion::PARQUET_2_0)
            // Statistics of each page would cost more time than readers would save.
            .set_statistics_enabled(EnabledStatistics::Chunk);
        for (name, column) in &table.columns {
            // The path has one part, because a name may contain dots.
            let path = ColumnPath::new(vec![name.as_ref().to_owned()]);
            if column.is_name() {
                // For statistics of names, the writer would compare the names of all rows.
                let none = EnabledStatistics::None;
                properties = properties.set_column_statistics_enabled(path, none);
                continue;
            }
            properties = properties.set_column_dictionary_enabled(path.clone(), false);
            if matches!(column, Column::Int(_) | Column::SomeInt(_)) {
                properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
            }
        }
        let fields = table.columns.iter().map(|(name, column)| column.field(name.as_ref()));
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let message = Type::group_type_builder("weir").with_fields(fields).build()?;
        let parsed = Arc::new(message);
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
    pub fn write<N: AsRef<str>>(&mut self, table: &Table<N>) -> Result<(), TableError> {
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
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Int(values) => values.len(),
            Self::SomeInt(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::SomeFloat(values) => values.len(),
            Self::Name(_, rows) => rows.len(),
        }
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "REQUIRED INT64",
            Self::SomeInt(_) => "OPTIONAL INT64",
            Self::Float(_) => "REQUIRED DOUBLE",
            Self::SomeFloat(_) => "OPTIONAL DOUBLE",
            Self::Name(..) => "REQUIRED BYTE_ARRAY",
        }
    }

    /// The column in the schema of a file.
    fn field(&self, name: &str) -> Result<TypePtr, ParquetError> {
        let (physical, repetition) = match self {
            Self::Int(_) => (PhysicalType::INT64, Repetition::REQUIRED),
            Self::SomeInt(_) => (PhysicalType::INT64, Repetition::OPTIONAL),
            Self::Float(_) => (PhysicalType::DOUBLE, Repetition::REQUIRED),
            Self::SomeFloat(_) => (PhysicalType::DOUBLE, Repetition::OPTIONAL),
            Self::Name(..) => (PhysicalType::BYTE_ARRAY, Repetition::REQUIRED),
        };
        let builder = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        let builder =
            if self.is_name() { builder.with_converted_type(ConvertedType::UTF8) } else { builder };
        Ok(Arc::new(builder.build()?))
    }

    fn is_name(&self) -> bool {
        matches!(self, Self::Name(..))
    }

    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), TableError> {
        let signed = |value: u64| value.min(i64::MAX as u64) as i64;
        match self {
            Self::Int(values) => {
                let values: Vec<i64> = values.iter().map(|&value| signed(value)).collect();
                writer.typed::<Int64Type>().write_batch(&values, None, None)?;
            }
            Self::SomeInt(values) => {
                let present: Vec<i64> =
                    values.iter().flatten().map(|&value| signed(value)).collect();
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
                let writer = writer.typed::<ByteArrayType>();
                let mut gathered = Vec::new();
                for equal in rows.chunk_by(|a, b| a == b) {
                    let name = equal.first().and_then(|&row| names.get(row as usize));
                    let Some(name) = name else { continue };
                    if equal.len() < COPIES {
                        gathered.extend(std::iter::repeat_n(name, equal.len()).cloned());
                        continue;
                    }
                    writer.write_batch(&gathered, None, None)?;
                    gathered.clear();
                    let copies = vec![name.clone(); COPIES];
                    for part in equal.chunks(COPIES) {
                        writer.write_batch(&copies[..part.len()], None, None)?;
                    }
                }
                writer.write_batch(&gathered, None, None)?;
            }
        }
        Ok(())
    }
}

impl Column {
    /// Appends the rows of a column of a file.
    fn read(&mut self, reader: ColumnReader, rows: usize) -> Result<(), TableError> {
        match (self, reader) {
            (Self::Int(all), ColumnReader::Int64ColumnReader(reader)) => {
                all.extend(values(reader, rows)?.0.into_iter().map(|value| value as u64));
            }
            (Self::SomeInt(all), ColumnReader::Int64ColumnReader(reader)) => {
                let (present, levels) = values(reader, rows)?;
                all.extend(optional(present.into_iter().map(|value| value as u64), &levels));
            }
            (Self::Float(all), ColumnReader::DoubleColumnReader(reader)) => {
                all.extend(values(reader, rows)?.0);
            }
            (Self::SomeFloat(all), ColumnReader::DoubleColumnReader(reader)) => {
                let (present, levels) = values(reader, rows)?;
                all.extend(optional(present.into_iter(), &levels));
            }
            (Self::Name(names, at), ColumnReader::ByteArrayColumnReader(reader)) => {
                for value in values(reader, rows)?.0 {
                    let name = value.as_utf8()?;
                    if names.last().is_none_or(|last| last != name) {
                        names.push(name.to_owned());
                    }
                    at.push(names.len() as u32 - 1);
                }
            }
            _ => return Err(TableError::Columns),
        }
        Ok(())
    }
}

/// The values of a column that are present, and the definition level of each row.
fn values<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: usize,
) -> Result<(Vec<T::T>, Vec<i16>), TableError> {
    let (mut values, mut levels) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let mut read = 0;
    while read < rows {
        let (records, _, _) =
            reader.read_records(rows - read, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(TableError::Columns);
        }
        read += records;
    }
    Ok((values, levels))
}

/// Each row's value, which is present where its level is not 0.
fn optional<T>(present: impl Iterator<Item = T>, levels: &[i16]) -> Vec<Option<T>> {
    let mut present = present;
    levels.iter().map(|level| if *level > 0 { present.next() } else { None }).collect()
}

/// The definition level of each row: whether the row has a value.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}

/// Number of rows with the same name that are written at once. The writer needs a copy of the name
/// for each of them, and making a copy takes longer than writing it. Longer sequences of rows with
/// the same name therefore use the same copies again.
const COPIES: usize = 128;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
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
        let none = Table::<&str>::default();
        assert!(matches!(writer.write(&none), Err(TableError::Columns)));
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        assert_eq!((reader.num_row_groups(), reader.get_row_iter(None).unwrap().count()), (2, 6));
    }

    #[test]
    fn a_file_is_read_as_the_table_that_was_written() {
        let path = std::env::temp_dir().join(format!("weir-table-{}", std::process::id()));
        let mut expected = Table::<String>::default();
        for (name, column) in table().columns {
            expected.columns.push((format!("a.b {name}"), column));
        }
        std::fs::write(&path, expected.to_bytes().unwrap()).unwrap();
        let read = Table::read(File::open(&path).unwrap()).unwrap();
        let columns = Table::read_columns(File::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        expected.columns[0].1 = Column::Int(vec![1, 2, i64::MAX as u64]);
        let names = ["é b", "a", "é b"].map(str::to_owned).to_vec();
        expected.columns[4].1 = Column::Name(names, vec![0, 1, 2]);
        assert_eq!(read, expected);
        assert_eq!(columns.columns.len(), 5);
        assert!(columns.columns.iter().all(|(_, column)| column.is_empty()));
    }

    #[test]
    fn the_same_rows_are_the_same_bytes() {
        assert_eq!(table().to_bytes().unwrap(), table().to_bytes().unwrap());
    }
}
