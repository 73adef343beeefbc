//! An algorithm of a table with values for its settings: the validated choice of a user.

use alloc::string::String;

use super::domain::Parameter;
use super::table::{Entry, Row};

/// An algorithm of a table, and the values of its parameters.
///
/// Every value is stored as a `u64`, so a choice is small and can be copied and compared. It
/// contains only values that the algorithm supports. The algorithm reads the values through the
/// struct that [`settings!`](crate::settings!) generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chosen<K> {
    kind: K,
    /// The values in the order of the row's parameters.
    values: [u64; MOST],
    epoch: u64,
    seed: u64,
}

/// Why a setting was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The algorithm has no parameter of this name.
    #[error("there is no such setting")]
    Unknown,
    /// The value is not allowed.
    #[error("allowed: {}", .0.domain)]
    Value(&'static Parameter),
}

impl<K: Entry> Chosen<K> {
    /// The algorithm with the default values.
    pub fn new(kind: K) -> Self {
        let mut values = [0; MOST];
        for (value, parameter) in values.iter_mut().zip(kind.row().parameters) {
            *value = parameter.default;
        }
        Self { kind, values, epoch: 0, seed: 0 }
    }

    /// The algorithm.
    pub fn kind(&self) -> K {
        self.kind
    }

    /// The algorithm's row in the table.
    pub fn row(&self) -> &'static Row<K::Traits> {
        self.kind.row()
    }

    /// Sets a parameter from its name and the text of its value.
    ///
    /// # Errors
    /// [`SettingError`] if the algorithm has no such parameter, or the value is not allowed.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
        let found = self
            .row()
            .parameters
            .iter()
            .enumerate()
            .find(|(_, parameter)| parameter.name.eq_ignore_ascii_case(name));
        let (index, parameter) = found.ok_or(SettingError::Unknown)?;
        self.values[index] = parameter.domain.parse(text).ok_or(SettingError::Value(parameter))?;
        Ok(())
    }

    /// The value of the parameter with this name as a number of its domain; `None` if the algorithm
    /// has no such parameter.
    pub fn number(&self, name: &str) -> Option<u64> {
        let mut pairs = self.row().parameters.iter().zip(self.values);
        pairs.find(|(parameter, _)| parameter.name == name).map(|(_, value)| value)
    }

    /// The values in the order of `parameters`, which must be those of the row.
    pub fn numbers(&self, parameters: &[Parameter]) -> &[u64] {
        debug_assert_eq!(self.row().parameters, parameters, "settings of another algorithm");
        &self.values
    }

    /// The settings that differ from their defaults, with their values as text.
    pub fn changed(&self) -> impl Iterator<Item = (&'static Parameter, String)> + use<K> {
        self.settings()
            .filter(|(parameter, value)| *value != parameter.domain.write(parameter.default))
    }

    /// All settings, with their values as text.
    pub fn settings(&self) -> impl Iterator<Item = (&'static Parameter, String)> + use<K> {
        let pairs = self.row().parameters.iter().zip(self.values);
        pairs.map(|(parameter, value)| (parameter, parameter.domain.write(value)))
    }

    /// The origin of virtual time in the algorithm's own unit. Tests use it to make virtual time
    /// wrap.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The same choice with another origin of virtual time. Only algorithms with virtual time use
    /// it.
    #[must_use]
    pub fn starting_at(self, epoch: u64) -> Self {
        Self { epoch, ..self }
    }

    /// The seed of the algorithm's random draws.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The same choice with another seed. Only algorithms with random draws use it.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

impl<K: Entry> From<K> for Chosen<K> {
    fn from(kind: K) -> Self {
        Self::new(kind)
    }
}

impl<K: Entry + Default> Default for Chosen<K> {
    fn default() -> Self {
        Self::new(K::default())
    }
}

/// Maximum number of settings of an algorithm.
pub const MOST: usize = 18;
