//! The algorithm that manages a queue: an AQM with its settings, a scheduler with its settings, or
//! only the queue's limit.

use std::fmt;

use weir_core::aqm::{self, Policy};
use weir_core::sched::{self, Discipline};
use weir_core::settings::{Chosen, Entry};

use crate::named::{self, NamedError};

/// The algorithm that drops and marks packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// Only the queue's limit.
    None,
    /// An AQM on a FIFO queue.
    Aqm(Policy),
    /// A scheduler, with or without an AQM inside.
    Scheduler(Discipline),
}

impl Manager {
    /// Parses `none`, an AQM, or a scheduler that distinguishes flows itself, with settings in the
    /// form of [`named::read`].
    ///
    /// # Errors
    /// No such algorithm has this name, or [`named::read`] refuses its settings.
    pub fn parse(text: &str) -> Result<Self, NamedError> {
        let name = named::name(text);
        if name.eq_ignore_ascii_case(NONE) {
            return named::alone(text).map(|()| Self::None);
        }
        if aqm::Kind::from_name(name).is_some() {
            return named::read(text).map(Self::Aqm);
        }
        match sched::Kind::from_name(name).filter(|kind| kind.row().traits.classifies) {
            Some(_) => Self::parse_scheduler(text),
            None => Err(named::unknown("AQM", name, Self::all().map(|manager| manager.name()))),
        }
    }

    /// Parses any scheduler with its settings.
    ///
    /// # Errors
    /// As with [`Self::parse`].
    pub fn parse_scheduler(text: &str) -> Result<Self, NamedError> {
        named::read_scheduler(text).map(Self::Scheduler)
    }

    /// Every AQM of the table, and every scheduler that distinguishes flows itself.
    pub fn all() -> impl Iterator<Item = Self> {
        let schedulers = sched::Kind::ALL.into_iter().filter(|kind| kind.row().traits.classifies);
        let aqms = aqm::Kind::ALL.into_iter().map(|kind| Self::Aqm(Policy::new(kind)));
        aqms.chain(schedulers.map(|kind| Self::Scheduler(Discipline::new(kind))))
    }

    /// The name in the table; `none` for [`Manager::None`].
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => NONE,
            Self::Aqm(policy) => policy.row().name,
            Self::Scheduler(discipline) => discipline.row().name,
        }
    }
}

/// The form that [`Manager::parse`] reads. Settings at their defaults are omitted.
impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::None => Ok(()),
            Self::Aqm(policy) => changed(policy, f),
            Self::Scheduler(discipline) => changed(discipline, f),
        }
    }
}

fn changed<K: Entry>(chosen: &Chosen<K>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    chosen.changed().try_for_each(|(parameter, value)| write!(f, " {}={value}", parameter.name))
}

/// The name of [`Manager::None`].
const NONE: &str = "none";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_back() {
        for manager in Manager::all().chain([Manager::None]) {
            assert_eq!(Manager::parse(&manager.to_string()), Ok(manager));
        }
        assert_eq!(Manager::parse("TailDrop").unwrap().name(), "droptail");
        assert_eq!(Manager::parse_scheduler("rr").unwrap().name(), "drr");
    }

    #[test]
    fn messages_name_the_word_and_what_is_allowed() {
        for (text, words) in [
            ("", ["``", "headdrop"]),
            ("drr", ["`drr`", "headdrop"]),
            ("none ecn=on", ["`none`", "`ecn=on`"]),
            ("droptail m=1", ["`droptail`", "`m`"]),
            ("droptail:m", ["`m`", "NAME=VALUE"]),
        ] {
            let message = Manager::parse(text).unwrap_err().to_string();
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
        }
    }
}
