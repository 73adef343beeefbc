//! A table of a case's file: values by name, each with its line for error messages.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_core::quantity::exact_time;

/// A fault in a case's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct CaseError {
    /// The line, from 1.
    pub line: usize,
    /// A description of the fault.
    pub message: String,
}

impl CaseError {
    pub(super) fn new(text: &str, offset: usize, message: String) -> Self {
        Self { line: line_of(text, offset), message }
    }
}

/// A TOML table, and the text of the file that contains it.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    text: &'a str,
    table: &'a DeTable<'a>,
    /// The name of the table in messages.
    name: &'a str,
    /// The byte offset of the table in the text.
    offset: usize,
}

/// A value with its position in the text.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    text: &'a str,
    value: &'a DeValue<'a>,
    name: &'a str,
    offset: usize,
}

impl<'a> Table<'a> {
    pub(super) fn new(text: &'a str, table: &'a DeTable<'a>, name: &'a str, offset: usize) -> Self {
        Self { text, table, name, offset }
    }

    /// Refuses a table with names that are not in `allowed`.
    pub(super) fn only(&self, allowed: &[&str]) -> Result<(), CaseError> {
        let unknown = self.table.keys().find(|key| !allowed.contains(&key.get_ref().as_ref()));
        unknown.map_or(Ok(()), |key| {
            let words = format!(
                "`{}` is not known in {}: allowed are {}",
                key.get_ref(),
                self.name,
                allowed.join(", ")
            );
            Err(CaseError::new(self.text, key.span().start, words))
        })
    }

    pub(super) fn get(&self, name: &'a str) -> Option<Value<'a>> {
        let (_, value) = self.table.iter().find(|(key, _)| key.get_ref().as_ref() == name)?;
        Some(Value::new(self.text, value, name))
    }

    pub(super) fn need(&self, name: &'a str) -> Result<Value<'a>, CaseError> {
        self.get(name).ok_or_else(|| self.error(format!("{} needs `{name}`", self.name)))
    }

    /// All values with their names.
    pub(super) fn values(&self) -> impl Iterator<Item = Value<'a>> {
        let text = self.text;
        self.table.iter().map(move |(key, value)| Value {
            offset: key.span().start,
            ..Value::new(text, value, key.get_ref().as_ref())
        })
    }

    pub(super) fn error(&self, words: String) -> CaseError {
        CaseError::new(self.text, self.offset, words)
    }
}

impl<'a> Value<'a> {
    fn new(text: &'a str, value: &'a Spanned<DeValue<'a>>, name: &'a str) -> Self {
        Self { text, value: value.get_ref(), name, offset: value.span().start }
    }

    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    pub(super) fn line(&self) -> usize {
        line_of(self.text, self.offset)
    }

    pub(super) fn error(&self, words: impl std::fmt::Display) -> CaseError {
        CaseError::new(self.text, self.offset, format!("`{}`: {words}", self.name))
    }

    pub(super) fn table(&self) -> Result<Table<'a>, CaseError> {
        match self.value {
            DeValue::Table(table) => Ok(Table::new(self.text, table, self.name, self.offset)),
            _ => Err(self.error("a table is needed")),
        }
    }

    /// The members of an array. Any other value is treated as an array of this one value.
    pub(super) fn members(&self) -> Vec<Value<'a>> {
        match self.value {
            DeValue::Array(array) => {
                array.iter().map(|value| Value::new(self.text, value, self.name)).collect()
            }
            _ => vec![*self],
        }
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    pub(super) fn is_text(&self) -> bool {
        self.value.is_str()
    }

    pub(super) fn text(&self) -> Result<&'a str, CaseError> {
        match self.value {
            DeValue::String(text) => Ok(text.as_ref()),
            _ => Err(self.error("text in quotes is needed")),
        }
    }

    pub(super) fn number(&self, least: u64, most: u64) -> Result<u64, CaseError> {
        let number = match self.value {
            DeValue::Integer(digits) => u64::from_str_radix(digits.as_str(), digits.radix()).ok(),
            _ => None,
        };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            let most = if most == u64::MAX { String::new() } else { format!(" to {most}") };
            self.error(format!("a whole number from {least}{most} is needed"))
        })
    }

    pub(super) fn numbers(&self) -> Result<Vec<u64>, CaseError> {
        self.members().iter().map(|member| member.number(0, u64::MAX)).collect()
    }

    pub(super) fn float(&self) -> Result<f64, CaseError> {
        let number: Option<f64> = match self.value {
            DeValue::Integer(digits) => digits.as_str().parse().ok(),
            DeValue::Float(digits) => digits.as_str().parse().ok(),
            _ => None,
        };
        number.filter(|number| number.is_finite()).ok_or_else(|| self.error("a number is needed"))
    }

    /// A duration with its unit, converted to ns.
    pub(super) fn time(&self) -> Result<u64, CaseError> {
        self.time_of(self.text()?)
    }

    /// Durations in ns: an array, or one text with blanks between the durations.
    pub(super) fn times(&self) -> Result<Vec<u64>, CaseError> {
        let mut times = Vec::new();
        for member in self.members() {
            for word in member.text()?.split_whitespace() {
                times.push(member.time_of(word)?);
            }
        }
        Ok(times)
    }

    fn time_of(&self, word: &str) -> Result<u64, CaseError> {
        let has_unit = word.ends_with('s');
        let time =
            exact_time(word).filter(|&time| time <= u64::MAX / 4 && (has_unit || word == "0"));
        time.ok_or_else(|| {
            self.error(format!(
                "`{word}` is not a time: write a number and ns, us, ms or s, as in 1.5ms"
            ))
        })
    }
}

/// The line number, from 1, of a byte offset in a text.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}
