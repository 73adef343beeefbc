//! A scheduler of the table with its settings: what a user configures, validated.

use alloc::string::String;

use super::{Kind, Parameter, Row};

/// A kind of scheduler and the values of its own parameters, those of [`super::Scope::Scheduler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Discipline {
    kind: Kind,
    /// By their place among the row's settings.
    values: [u64; MOST],
    epoch: u64,
}

/// Why a setting was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The scheduler has no parameter of this name.
    #[error("the scheduler has no such parameter")]
    Unknown,
    /// The value is not allowed.
    #[error("allowed: {}", .0.domain)]
    Value(&'static Parameter),
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Parameter {}

impl Discipline {
    /// A scheduler of this kind with its defaults.
    pub fn new(kind: Kind) -> Self {
        let mut values = [0; MOST];
        for (value, parameter) in values.iter_mut().zip(kind.row().settings()) {
            *value = parameter.default;
        }
        Self { kind, values, epoch: 0 }
    }

    /// Which scheduler it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its row.
    pub fn row(&self) -> &'static Row {
        self.kind.row()
    }

    /// The value of the setting `name`; of a choice, its place. 0 when there is none of that name.
    pub fn get(&self, name: &str) -> u64 {
        self.row().settings().zip(self.values).find(|(parameter, _)| parameter.name == name).map_or(0, |(_, value)| value)
    }

    /// Sets a parameter from the words of the command language.
    ///
    /// # Errors
    /// [`SettingError`] when the scheduler has no such parameter of its own, or the value is not allowed.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
        let found = self.kind.row().settings().position(|p| p.name.eq_ignore_ascii_case(name));
        let parameter = found.and_then(|place| self.row().settings().nth(place));
        let (Some(place), Some(parameter)) = (found, parameter) else { return Err(SettingError::Unknown) };
        self.values[place] = parameter.domain.parse(text).ok_or(SettingError::Value(parameter))?;
        Ok(())
    }

    /// Settings that are not at their defaults, with their values as they are written.
    pub fn changed(&self) -> impl Iterator<Item = (&'static Parameter, String)> + use<> {
        self.settings().filter(|(parameter, value)| *value != parameter.domain.write(parameter.default))
    }

    /// All settings, with their values as they are written.
    pub fn settings(&self) -> impl Iterator<Item = (&'static Parameter, String)> + use<> {
        let pairs = self.row().settings().zip(self.values);
        pairs.map(|(parameter, value)| (parameter, parameter.domain.write(value)))
    }

    /// Where virtual time begins, in the scheduler's own unit; for tests of its wrap-around.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The same, with virtual time beginning elsewhere. Schedulers without one do not care.
    #[must_use]
    pub fn starting_at(self, epoch: u64) -> Self {
        Self { epoch, ..self }
    }
}

impl From<Kind> for Discipline {
    fn from(kind: Kind) -> Self {
        Self::new(kind)
    }
}

impl Default for Discipline {
    fn default() -> Self {
        Self::new(Kind::default())
    }
}

/// Most settings of one scheduler.
const MOST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::TABLE;

    #[test]
    fn defaults_are_within_their_ranges_and_settings_fit() {
        for row in TABLE {
            assert!(row.settings().count() <= MOST, "{}", row.name);
            for parameter in row.parameters {
                let text = parameter.domain.write(parameter.default);
                assert_eq!(parameter.domain.parse(&text), Some(parameter.default), "{} {}", row.name, parameter.name);
            }
        }
    }

    #[test]
    fn unknown_settings_and_values_are_refused() {
        let mut discipline = Discipline::new(Kind::Fifo);
        assert_eq!(discipline.set("depth", "1"), Err(SettingError::Unknown));
        assert_eq!(discipline.changed().count(), 0);
    }
}
