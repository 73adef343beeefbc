//! A kind of scheduler with its validated settings, as a user configures it.

use super::{AnyScheduler, Kind, Scheduler};
use crate::settings::Chosen;

/// A kind of scheduler and the values of its settings.
pub type Discipline = Chosen<Kind>;

impl Discipline {
    /// Whether [`crate::Emulator::has_room`] can predict, before a driver submits a packet, if this
    /// packet or another one will be dropped for lack of room. The prediction needs a scheduler
    /// that accepts every packet within the queue's limit, or refuses packets only because of the
    /// lengths of its queues.
    pub fn knows_room(&self) -> bool {
        match self.kind() {
            Kind::Pifo | Kind::SpPifo | Kind::StrictSlices => true,
            Kind::Added(_) => false,
            _ => AnyScheduler::new(self).accepts_all(),
        }
    }
}

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
    fn room_is_known_where_only_lengths_decide() {
        for (kind, known) in [
            (Kind::Fifo, true),
            (Kind::RoundRobin, true),
            (Kind::Pifo, true),
            (Kind::SpPifo, true),
            (Kind::StrictSlices, true),
            (Kind::Aifo, false),
            (Kind::FqCodel, false),
            (Kind::Cake, false),
        ] {
            assert_eq!(Discipline::new(kind).knows_room(), known, "{kind:?}");
        }
    }

    #[test]
    fn unknown_settings_are_refused() {
        let mut discipline = Discipline::new(Kind::Fifo);
        assert_eq!(discipline.set("depth", "1"), Err(SettingError::Unknown));
        assert_eq!(discipline.changed().count(), 0);
    }
}
