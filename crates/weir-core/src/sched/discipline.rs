//! A scheduler of the table with its validated settings, as a user configures it.

use super::Kind;
use crate::settings::Chosen;

/// A kind of scheduler and the values of its settings.
pub type Discipline = Chosen<Kind>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::TABLE;
    use crate::settings::SettingError;

    #[test]
    fn defaults_of_flows_are_within_their_ranges() {
        for row in TABLE {
            for parameter in row.traits.flow {
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
