//! The canonical form of links: each link has exactly one, and it reads back as the same link.

use core::fmt;

use weir_core::config::{FlowsetConfig, PipeConfig};
use weir_core::sched;

use crate::aqm;
use crate::keyword::{AQM, Keyword, TABLE, Value, lookup};
use crate::lex;
use crate::link::LinkSpec;
use crate::scheduler;

/// The specification in canonical form. A perfect link gives the empty text.
///
/// Reading the text gives the same link if the files that it names are the same.
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

/// The canonical form, see [`canonical`].
impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&canonical(self))
    }
}

/// A keyword with its argument; `None` for the default value.
fn keyword(row: &Keyword, spec: &LinkSpec) -> Option<String> {
    let argument = match row.value {
        // The keyword `aqm` can express every AQM.
        Value::Aqm(_) if row.name == AQM.name => {
            return spec.pipe.queue.aqm.as_ref().map(aqm::write);
        }
        Value::Scheduler(_) => return spec.pipe.scheduler.as_ref().map(scheduler::write),
        _ => row.value.print(spec, file)?,
    };
    Some(if argument.is_empty() { row.name.to_owned() } else { format!("{} {argument}", row.name) })
}

/// The name of a file, quoted if some part of the language would not read it as a name.
fn file(name: &str) -> String {
    // `IN`, `OUT` and `expire` end a specification within `netconfig`. The other words introduce
    // values of their own within `sched N config` and `queue N config`.
    let ends = |word: &str| {
        ["in", "out", "expire", "type", "pipe", "sched", "parent"]
            .iter()
            .any(|end| word.eq_ignore_ascii_case(end))
    };
    // The settings of a scheduler may be anywhere after its type.
    let sets = |word: &str| {
        sched::TABLE
            .iter()
            .flat_map(|row| row.parameters)
            .any(|setting| word.eq_ignore_ascii_case(setting.name))
    };
    lex::quote(name, |word| lookup(word).is_some() || ends(word) || sets(word))
}
