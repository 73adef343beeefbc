//! What is measured: a scheduler of the table with its settings, or nothing at all.

use std::fmt;

use weir_core::Nanos;
use weir_core::packet::{PacketId, PacketList, Store};
use weir_core::sched::{Discipline, FlowSlot, FlowSpec, Kind, Scheduler, SettingError, Visitor};

/// A scheduler under measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// No scheduler: what the rig itself costs.
    None,
    /// One of the table.
    Scheduler(Discipline),
}

impl Algorithm {
    /// A scheduler as it is written: `none`, a name of the table, with settings
    /// `NAME:SETTING=VALUE`, several behind one another.
    ///
    /// # Errors
    /// [`AlgorithmError`] when there is no such scheduler, or it has no such setting or not this
    /// value of it.
    pub fn parse(text: &str) -> Result<Self, AlgorithmError> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        if name.eq_ignore_ascii_case(NONE) {
            return words.next().map_or(Ok(Self::None), |word| {
                Err(AlgorithmError::Setting(NONE.to_owned(), word.to_owned()))
            });
        }
        let kind = Kind::from_name(name).ok_or_else(|| AlgorithmError::Unknown(name.to_owned()))?;
        let mut algorithm = Self::Scheduler(Discipline::new(kind));
        for word in words {
            let (name, value) =
                word.split_once('=').ok_or_else(|| AlgorithmError::NoValue(word.to_owned()))?;
            algorithm.set(name, value)?;
        }
        Ok(algorithm)
    }

    /// `none` and every scheduler of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::None)
            .chain(Kind::ALL.into_iter().map(|kind| Self::Scheduler(Discipline::new(kind))))
    }

    /// The name in the table; `none` for no scheduler.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => NONE,
            Self::Scheduler(discipline) => discipline.row().name,
        }
    }

    /// The discipline, when there is one.
    pub fn discipline(&self) -> Option<&Discipline> {
        match self {
            Self::None => None,
            Self::Scheduler(discipline) => Some(discipline),
        }
    }

    /// Whether it has a setting of this name.
    pub fn has_setting(&self, name: &str) -> bool {
        self.discipline().is_some_and(|discipline| discipline.row().parameter(name).is_some())
    }

    /// Changes a setting.
    ///
    /// # Errors
    /// [`AlgorithmError`] when it has no such setting, or not this value of it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), AlgorithmError> {
        let own = self.name();
        let Self::Scheduler(discipline) = self else {
            return Err(AlgorithmError::Setting(own.to_owned(), name.to_owned()));
        };
        discipline.set(name, value).map_err(|error| match error {
            SettingError::Unknown => AlgorithmError::Setting(own.to_owned(), name.to_owned()),
            SettingError::Value(parameter) => AlgorithmError::Value {
                setting: parameter.name,
                value: value.to_owned(),
                allowed: parameter.domain.to_string(),
                example: format!(
                    "{own}:{}={}",
                    parameter.name,
                    parameter.domain.write(parameter.default)
                ),
            },
        })
    }

    /// Makes one and hands it to the visitor, which is compiled for each type: what it then does
    /// has no virtual call.
    pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
        match self {
            Self::None => visitor.visit(Nothing::default()),
            Self::Scheduler(discipline) => discipline.visit(visitor),
        }
    }
}

/// As [`Algorithm::parse`] reads it; settings at their defaults are left out.
impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let Some(discipline) = self.discipline() else { return Ok(()) };
        discipline
            .changed()
            .try_for_each(|(parameter, value)| write!(f, ":{}={value}", parameter.name))
    }
}

/// Why a text names no scheduler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlgorithmError {
    /// There is none of this name.
    #[error("there is no scheduler `{0}`: allowed are {all}; for example none,fifo,wf2q+", all = names())]
    Unknown(String),
    /// It has no such setting.
    #[error("`{0}` has no setting `{1}`; `weir algorithms` lists them")]
    Setting(String, String),
    /// A setting without a value.
    #[error("`{0}` is no setting: write NAME:SETTING=VALUE, as in qfq+:m=1")]
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
    let mut names: Vec<&str> = Algorithm::all().map(|algorithm| algorithm.name()).collect();
    names.push("all");
    names.join(", ")
}

/// No scheduler: one list, without a look at flows or lengths.
#[derive(Debug, Default)]
struct Nothing {
    list: PacketList,
}

impl Scheduler for Nothing {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        FlowSlot(spec.flow)
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        _store: &mut P,
        _slot: FlowSlot,
        _spec: &FlowSpec,
    ) {
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        _slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        self.list.take_flow(store, flow)
    }

    #[inline]
    fn enqueue<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        _slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        self.list.push_back_of(store, packet, 0);
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, store: &mut P) -> Option<PacketId> {
        self.list.pop_front(store)
    }

    /// 1 for any number: it does not count.
    fn len(&self) -> usize {
        usize::from(!self.list.is_empty())
    }

    fn backlog(&self) -> u64 {
        0
    }
}

/// The name of no scheduler.
const NONE: &str = "none";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_back() {
        for algorithm in Algorithm::all() {
            assert_eq!(Algorithm::parse(&algorithm.to_string()), Ok(algorithm));
        }
        assert_eq!(Algorithm::parse("DRR").unwrap().name(), Kind::RoundRobin.row().name);
    }

    #[test]
    fn messages_name_the_word_and_what_is_allowed() {
        for (text, words) in [
            ("", ["``", "wf2q+"]),
            ("qfq9", ["`qfq9`", "none, fifo"]),
            ("none:m=1", ["`none`", "`m=1`"]),
            ("fifo:m=1", ["`fifo`", "`m`"]),
            ("fifo:m", ["`m`", "NAME:SETTING=VALUE"]),
        ] {
            let message = Algorithm::parse(text).unwrap_err().to_string();
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
        }
    }
}
