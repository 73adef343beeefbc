//! Canonical form: one way to write each link, which reads back as the same link.

use core::fmt;

use weir_core::config::{FlowsetConfig, PipeConfig};
use weir_core::sched;

use crate::aqm;
use crate::keyword::{AQM, Keyword, TABLE, Value, lookup};
use crate::lex;
use crate::link::LinkSpec;

/// The specification in canonical form. A perfect link is the empty text.
///
/// Reading it gives the same link, as long as the files it names are the same.
pub fn canonical(spec: &LinkSpec) -> String {
    let mut rows = TABLE.to_vec();
    rows.sort_by_key(|row| row.part);
    let words: Vec<String> = rows.into_iter().filter_map(|row| keyword(row, spec)).collect();
    words.join(" ")
}

/// A queue's settings in canonical form.
pub(crate) fn canonical_queue(queue: &FlowsetConfig) -> String {
    let pipe = PipeConfig { queue: queue.clone(), ..PipeConfig::default() };
    canonical(&LinkSpec { pipe, ..LinkSpec::default() })
}

/// [`canonical`].
impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&canonical(self))
    }
}

/// A keyword with its argument; `None` for the default value.
fn keyword(row: &Keyword, spec: &LinkSpec) -> Option<String> {
    let argument = match row.value {
        // Every AQM can be written with `aqm`.
        Value::Aqm(_) if row.name == AQM.name => {
            return spec.pipe.queue.aqm.as_ref().map(aqm::write);
        }
        _ => row.value.print(spec, file)?,
    };
    Some(if argument.is_empty() { row.name.to_owned() } else { format!("{} {argument}", row.name) })
}

/// The name of a file in a form that is read as a name everywhere.
fn file(name: &str) -> String {
    // `IN`, `OUT` and `expire` end a specification inside `netconfig`.
    let ends = |word: &str| {
        ["in", "out", "expire", "type", "pipe", "sched", "parent"]
            .iter()
            .any(|end| word.eq_ignore_ascii_case(end))
    };
    // Behind a scheduler's type, its settings may be anywhere.
    let sets = |word: &str| {
        sched::TABLE
            .iter()
            .flat_map(|row| row.parameters)
            .any(|setting| word.eq_ignore_ascii_case(setting.name))
    };
    lex::quote(name, |word| lookup(word).is_some() || ends(word) || sets(word))
}
