//! A scheduler of the table with its settings: what a user configures, validated.

use super::{Kind, Parameter, Row};
use crate::settings::{Chosen, Entry};

/// A kind of scheduler and the values of its own parameters, those of [`super::Scope::Scheduler`].
pub type Discipline = Chosen<Kind>;

impl Entry for Kind {
    fn settings(self) -> impl Iterator<Item = &'static Parameter> {
        self.row().settings()
    }
}

impl Discipline {
    /// Its row.
    pub fn row(&self) -> &'static Row {
        self.kind().row()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::TABLE;
    use crate::settings::{MOST, SettingError};

    #[test]
    fn defaults_are_within_their_ranges_and_settings_fit() {
        for row in TABLE {
            assert!(row.settings().count() <= MOST, "{}", row.name);
            for parameter in row.parameters {
                let text = parameter.domain.write(parameter.default);
                assert_eq!(
                    parameter.domain.parse(&text),
                    Some(parameter.default),
                    "{} {}",
                    row.name,
                    parameter.name
                );
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
