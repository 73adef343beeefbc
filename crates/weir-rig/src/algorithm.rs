//! The algorithm under measurement: a scheduler with its settings, or no scheduler. The schedulers
//! are those of the table in [`weir_core::sched`].

use std::fmt;

use weir_core::Nanos;
use weir_core::packet::{PacketId, PacketList, Store};
use weir_core::sched::{Discipline, FlowSlot, FlowSpec, Kind, Scheduler, Visitor};
use weir_core::settings::Entry;
use weir_rules::named::{self, NamedError};

/// An algorithm under measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// No scheduler: one list for all packets. Its cost is the cost of the rig.
    None,
    /// A scheduler of the table.
    Scheduler(Discipline),
}

impl Algorithm {
    /// Parses `none`, or a scheduler of the table with its settings: `NAME:SETTING=VALUE`, and the
    /// other forms of [`named::read`].
    ///
    /// # Errors
    /// No scheduler has this name, or [`named::read`] refuses the settings.
    pub fn parse(text: &str) -> Result<Self, AlgorithmError> {
        let name = named::name(text);
        if name.eq_ignore_ascii_case(NONE) {
            return named::alone(text).map(|()| Self::None).map_err(AlgorithmError::Setting);
        }
        if Kind::from_name(name).is_none() {
            let names = Self::all().map(|algorithm| algorithm.name()).chain(["all"]);
            return Err(AlgorithmError::Unknown(named::unknown(Kind::NOUN, name, names)));
        }
        named::read_scheduler(text).map(Self::Scheduler).map_err(AlgorithmError::Setting)
    }

    /// `none` and every scheduler of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::None)
            .chain(Kind::ALL.into_iter().map(|kind| Self::Scheduler(Discipline::new(kind))))
    }

    /// The scheduler's name in the table; `none` for no scheduler.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => NONE,
            Self::Scheduler(discipline) => discipline.row().name,
        }
    }

    /// The discipline; `None` for no scheduler.
    pub fn discipline(&self) -> Option<&Discipline> {
        match self {
            Self::None => None,
            Self::Scheduler(discipline) => Some(discipline),
        }
    }

    /// Whether the algorithm has a setting of this name.
    pub fn has_setting(&self, name: &str) -> bool {
        self.discipline().is_some_and(|discipline| discipline.row().parameter(name).is_some())
    }

    /// Changes settings. `settings` has the same form as the settings after the name in
    /// [`Algorithm::parse`].
    ///
    /// # Errors
    /// [`named::read`] refuses the settings, or the algorithm is `none`.
    pub fn change(&mut self, settings: &str) -> Result<(), AlgorithmError> {
        match self {
            Self::None => named::alone(&format!("{NONE} {settings}")),
            Self::Scheduler(discipline) => named::change_scheduler(discipline, settings),
        }
        .map_err(AlgorithmError::Setting)
    }

    /// Creates the scheduler and passes it to the visitor. The visitor is compiled for each
    /// scheduler type, so its calls are not virtual.
    pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
        match self {
            Self::None => visitor.visit(Nothing::default()),
            Self::Scheduler(discipline) => discipline.visit(visitor),
        }
    }
}

/// The form that [`Algorithm::parse`] reads. Settings at their defaults are left out.
impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let Some(discipline) = self.discipline() else { return Ok(()) };
        discipline
            .changed()
            .try_for_each(|(parameter, value)| write!(f, ":{}={value}", parameter.name))
    }
}

/// The reason why a text is not a scheduler with settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlgorithmError {
    /// No scheduler has this name.
    #[error("{0}; for example none,fifo,wf2q+")]
    Unknown(NamedError),
    /// A setting is refused.
    #[error("{0}; NAME:SETTING=VALUE in one word, as in qfq+:m=1")]
    Setting(NamedError),
}

/// No scheduler: one list that ignores flows and lengths.
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

    /// 1 when the list has packets, since the list does not count them; 0 when it is empty.
    fn len(&self) -> usize {
        usize::from(!self.list.is_empty())
    }

    fn backlog(&self) -> u64 {
        0
    }
}

/// The name for no scheduler.
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
    fn settings_have_the_forms_that_they_have_in_scripts() {
        let expected = Algorithm::parse("qfq+:m=4");
        assert!(expected.is_ok());
        for text in ["qfq+ m 4", "qfq+ m=4", "QFQ+:m 4"] {
            assert_eq!(Algorithm::parse(text), expected);
        }
        let mut changed = Algorithm::parse("qfq+").unwrap();
        changed.change("m=4").unwrap();
        assert_eq!(Ok(changed), expected);
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
