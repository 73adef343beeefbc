//! A draft: a specification between the parser and the checks.

use std::sync::Arc;

use crate::diagnostic::Span;
use crate::link::LinkSpec;

/// An object that a specification configures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// A link with its queue: a pipe, or the link of a scheduler.
    Link,
    /// A queue in front of a scheduler.
    Queue,
    /// A scheduler that is a flow of another scheduler.
    InnerScheduler,
}

/// A value and its place in the text.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

/// The content of a specification before the files that it names are read.
#[derive(Debug)]
pub(crate) struct Draft {
    /// The object that the specification configures.
    pub(crate) object: Object,
    /// All values that need no file. The contents of named files are still missing.
    pub(crate) spec: LinkSpec,
    /// Whether the schedule starts again at its end.
    pub(crate) schedule_repeats: bool,
    /// The file with the distribution of the jitter.
    pub(crate) jitter_file: Option<At<Arc<str>>>,
    /// Whether the AQM's thresholds have the unit of the queue's limit, as in dummynet.
    pub(crate) thresholds_in_queue_unit: bool,
    places: Vec<(&'static str, Places)>,
}

/// The places of a keyword and its value.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) keyword: Span,
    /// The first word of the argument, or the keyword if it has no argument.
    pub(crate) value: Span,
}

impl Draft {
    /// A draft of an object with default values.
    pub(crate) fn new(object: Object) -> Self {
        Self {
            object,
            spec: LinkSpec::default(),
            schedule_repeats: false,
            jitter_file: None,
            thresholds_in_queue_unit: false,
            places: Vec::new(),
        }
    }

    /// A draft of a link with the values of `spec`. No keyword has a place.
    pub(crate) fn over(spec: LinkSpec) -> Self {
        Self { spec, ..Self::new(Object::Link) }
    }

    /// Records the places of the keyword `name`.
    pub(crate) fn note(&mut self, name: &'static str, places: Places) {
        self.places.push((name, places));
    }

    /// The places of the keyword `name`, if it is given.
    pub(crate) fn places(&self, name: &str) -> Option<&Places> {
        self.places.iter().find(|(given, _)| *given == name).map(|(_, places)| places)
    }
}
