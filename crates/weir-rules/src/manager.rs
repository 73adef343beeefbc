//! What keeps a queue short: an AQM of the table with its settings, a scheduler that has one
//! inside, or nothing.

use std::fmt;

use weir_core::aqm::{self, Policy};
use weir_core::sched::{self, Discipline};
use weir_core::settings::{Chosen, Entry, SettingError};

/// What drops and marks packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// Nothing but the queue's limit.
    None,
    /// An AQM in front of a list.
    Aqm(Policy),
    /// A scheduler, those with an AQM inside among them.
    Scheduler(Discipline),
}

impl Manager {
    /// An AQM, or else a scheduler, as it is written: its name, and settings `NAME=VALUE` behind it
    /// with blanks or colons between.
    ///
    /// # Errors
    /// [`ManagerError`] when there is none of this name, or it has no such setting or not this
    /// value of it.
    pub fn parse(text: &str) -> Result<Self, ManagerError> {
        let (name, words) = words(text);
        if name.eq_ignore_ascii_case(NONE) {
            return words.first().map_or(Ok(Self::None), |word| {
                Err(ManagerError::Setting(NONE.to_owned(), (*word).to_owned()))
            });
        }
        if let Some(kind) = aqm::Kind::from_name(name) {
            return Ok(Self::Aqm(chosen(kind, kind.row().name, &words)?));
        }
        match sched::Kind::from_name(name).filter(|kind| kind.row().traits.classifies) {
            Some(kind) => Ok(Self::Scheduler(chosen(kind, kind.row().name, &words)?)),
            None => Err(ManagerError::Unknown(name.to_owned())),
        }
    }

    /// A scheduler as it is written, whether it has an AQM inside or not.
    ///
    /// # Errors
    /// As for [`Self::parse`].
    pub fn parse_scheduler(text: &str) -> Result<Self, ManagerError> {
        let (name, words) = words(text);
        let kind = sched::Kind::from_name(name)
            .ok_or_else(|| ManagerError::NoScheduler(name.to_owned()))?;
        Ok(Self::Scheduler(chosen(kind, kind.row().name, &words)?))
    }

    /// Every AQM of the table and every scheduler that has one inside.
    pub fn all() -> impl Iterator<Item = Self> {
        let inside = sched::Kind::ALL.into_iter().filter(|kind| kind.row().traits.classifies);
        let aqms = aqm::Kind::ALL.into_iter().map(|kind| Self::Aqm(Policy::new(kind)));
        aqms.chain(inside.map(|kind| Self::Scheduler(Discipline::new(kind))))
    }

    /// The name in the table; `none` for nothing.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => NONE,
            Self::Aqm(policy) => policy.row().name,
            Self::Scheduler(discipline) => discipline.row().name,
        }
    }
}

/// As [`Manager::parse`] reads it; settings at their defaults are left out.
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

/// A name and what stands behind it.
pub fn words(text: &str) -> (&str, Vec<&str>) {
    let mut words = text.split([' ', ':']).filter(|word| !word.is_empty());
    (words.next().unwrap_or_default(), words.collect())
}

/// An algorithm of a table with settings `NAME=VALUE`.
///
/// # Errors
/// [`ManagerError`] when it has no such setting, or not this value of it.
pub fn chosen<K: Entry>(kind: K, name: &str, words: &[&str]) -> Result<Chosen<K>, ManagerError> {
    let mut chosen = Chosen::new(kind);
    for word in words {
        let (setting, value) =
            word.split_once('=').ok_or_else(|| ManagerError::NoValue((*word).to_owned()))?;
        chosen.set(setting, value).map_err(|error| match error {
            SettingError::Unknown => ManagerError::Setting(name.to_owned(), setting.to_owned()),
            SettingError::Value(parameter) => ManagerError::Value {
                setting: parameter.name,
                value: value.to_owned(),
                allowed: parameter.domain.to_string(),
                example: format!(
                    "{}={}",
                    parameter.name,
                    parameter.domain.write(parameter.default)
                ),
            },
        })?;
    }
    Ok(chosen)
}

/// Why a text names nothing that keeps a queue short.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagerError {
    /// There is no AQM of this name, and no scheduler with one inside.
    #[error("there is no AQM `{0}`: allowed are {all}", all = names())]
    Unknown(String),
    /// There is no scheduler of this name.
    #[error("there is no scheduler `{0}`; `weir algorithms` lists them")]
    NoScheduler(String),
    /// There is no congestion control of this name.
    #[error("there is no congestion control `{0}`: allowed are {1}")]
    NoControl(String, String),
    /// It has no such setting.
    #[error("`{0}` has no setting `{1}`; `weir algorithms` lists them")]
    Setting(String, String),
    /// A setting without a value.
    #[error("`{0}` is no setting: write NAME=VALUE behind the AQM's name")]
    NoValue(String),
    /// The value is not allowed.
    #[error("`{value}` is no value of {setting}: allowed is {allowed}; for example {example}")]
    Value {
        /// The setting.
        setting: &'static str,
        /// The word.
        value: String,
        /// What is allowed.
        allowed: String,
        /// A valid one.
        example: String,
    },
}

fn names() -> String {
    let names: Vec<&str> = Manager::all().map(|manager| manager.name()).collect();
    names.join(", ")
}

/// The name of nothing.
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
        assert_eq!(Manager::parse_scheduler("drr").unwrap().name(), "rr");
    }

    #[test]
    fn messages_name_the_word_and_what_is_allowed() {
        for (text, words) in [
            ("", ["``", "headdrop"]),
            ("rr", ["`rr`", "headdrop"]),
            ("none ecn=on", ["`none`", "`ecn=on`"]),
            ("droptail m=1", ["`droptail`", "`m`"]),
            ("droptail:m", ["`m`", "NAME=VALUE"]),
        ] {
            let message = Manager::parse(text).unwrap_err().to_string();
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
        }
    }
}
