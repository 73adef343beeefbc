//! Configures, lists and deletes pipes, queues and schedulers.

use weir_core::config::{FlowsetConfig, SchedulerConfig};

use crate::check;
use crate::command::{Command, Numbers, ObjectKind, QueueSpec, SchedSpec};
use crate::diagnostic::{Code, Span};
use crate::keyword::{Object, SCHED};
use crate::lex::Word;
use crate::link::LinkSpec;
use crate::parse::{Seen, parse_words};

use super::cursor::{Cursor, Read};
use super::scheduler;

fn example(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Pipe => "pipe 1 config bw 1Mbit/s delay 20ms",
        ObjectKind::Queue => "queue 1 config sched 1 weight 10",
        ObjectKind::Sched => "sched 1 config type wf2q+ bw 10Mbit/s",
    }
}

pub(crate) fn kind_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Pipe => "pipe",
        ObjectKind::Queue => "queue",
        ObjectKind::Sched => "sched",
    }
}

/// Reads the words after `pipe`, `queue` or `sched`.
pub(crate) fn object(cursor: &mut Cursor<'_>, kind: ObjectKind) -> Read<Vec<Command>> {
    let name = kind_name(kind);
    let what = format!("{name}'s number");
    let number = cursor
        .peek()
        .filter(|w| !w.quoted && w.text.starts_with(|c: char| c.is_ascii_digit()))
        .cloned();
    cursor.at += usize::from(number.is_some());
    let verb = cursor
        .expect(if number.is_some() { "`config`" } else { "a number or a verb" }, example(kind))?;
    match verb.text.as_str() {
        "config" => {
            let word = match number {
                Some(word) => word,
                None => cursor.expect("a number", example(kind))?,
            };
            let number = cursor.number_in(&word, &what, 1, u16::MAX.into())? as u16;
            config(cursor, kind, number)
        }
        "delete" => {
            let numbers = selection(cursor, number, &what)?;
            if numbers.is_empty() {
                return Err(cursor.missing("a number", &format!("{name} delete 1")));
            }
            Ok(vec![Command::DeleteObjects(kind, numbers)])
        }
        "list" | "show" | "print" => {
            Ok(vec![Command::ShowObjects(kind, selection(cursor, number, &what)?)])
        }
        "flush" if number.is_none() => Ok(vec![Command::FlushObjects(kind)]),
        _ => Err(cursor.unknown(
            &verb,
            &format!("verb of `{name}`"),
            ["config", "delete", "list", "show", "flush"].into_iter(),
        )),
    }
}

fn selection(cursor: &mut Cursor<'_>, first: Option<Word>, what: &str) -> Read<Vec<Numbers>> {
    if let Some(word) = first {
        cursor.at -= 1;
        cursor.words[cursor.at] = word;
    }
    cursor.numbers(what, 1, u16::MAX)
}

fn config(cursor: &mut Cursor<'_>, kind: ObjectKind, number: u16) -> Read<Vec<Command>> {
    let mut words = cursor.take_rest();
    Ok(vec![match kind {
        ObjectKind::Pipe => Command::ConfigPipe(number, Box::new(link(cursor, &words))),
        ObjectKind::Sched => {
            let parent = take_pair(cursor, &mut words, &["parent"], INNER)?;
            let discipline = scheduler::discipline(cursor, &mut words)?;
            let mut link = match &parent {
                Some((_, to)) => inner(cursor, &words, &to.text)?,
                None => link_of_scheduler(cursor, &words)?,
            };
            let parent = match parent {
                Some((_, to)) => {
                    Some(cursor.number_in(&to, "scheduler's number", 1, u16::MAX.into())? as u16)
                }
                None => None,
            };
            // In `sched N config`, `mask` and `max_flows` belong to the scheduler, not to its
            // queue.
            let mask = std::mem::take(&mut link.pipe.queue.mask);
            let max_instances = link.pipe.queue.max_flows.take();
            Command::ConfigSched(
                number,
                Box::new(SchedSpec {
                    scheduler: SchedulerConfig { discipline, mask, max_instances, parent },
                    link,
                }),
            )
        }
        ObjectKind::Queue => {
            let attached = take_pair(cursor, &mut words, &["sched", "pipe"], example(kind))?;
            let Some((_, to)) = attached else {
                cursor.at = cursor.words.len();
                return Err(cursor.missing("`sched N` or `pipe N`", example(kind)));
            };
            let scheduler = cursor.number_in(&to, "scheduler's number", 1, u16::MAX.into())? as u16;
            let flowset = flowset(cursor, &words)?;
            Command::ConfigQueue(number, Box::new(QueueSpec { scheduler, flowset }))
        }
    }])
}

/// Reads a specification of a link.
pub(crate) fn link(cursor: &mut Cursor<'_>, words: &[Word]) -> LinkSpec {
    read(cursor, words, Object::Link).0
}

/// Reads the link of a scheduler. A second scheduler is refused.
fn link_of_scheduler(cursor: &mut Cursor<'_>, words: &[Word]) -> Read<LinkSpec> {
    let (link, seen) = read(cursor, words, Object::Link);
    let Some((_, span)) = seen.iter().find(|(row, _)| row.name == SCHED.name) else {
        return Ok(link);
    };
    let message = "a link has one scheduler".to_owned();
    let error = cursor.error(Code::Contradiction, span, message).label("the second one");
    Err(Box::new(error.help("the scheduler of `sched N` is its `type`")))
}

fn read(cursor: &mut Cursor<'_>, words: &[Word], object: Object) -> (LinkSpec, Seen) {
    let (draft, seen) = parse_words(cursor.text, words, object, &mut cursor.diagnostics);
    if cursor.diagnostics.has_errors() {
        return (LinkSpec::default(), seen);
    }
    (check::build(draft, cursor.text, cursor.files.0, &mut cursor.diagnostics), seen)
}

/// Reads the settings of a queue. Settings of a link are refused.
fn flowset(cursor: &mut Cursor<'_>, words: &[Word]) -> Read<FlowsetConfig> {
    let (link, seen) = read(cursor, words, Object::Queue);
    if let Some((row, span)) = seen.iter().find(|(row, _)| !row.objects.contains(&Object::Queue)) {
        let message = format!("a queue has no `{}` of its own", row.name);
        let error = cursor.error(Code::Contradiction, span, message);
        return Err(Box::new(
            error
                .label("belongs to the link")
                .help("give it to the pipe or scheduler that the queue feeds"),
        ));
    }
    Ok(link.pipe.queue)
}

/// Reads the settings of a scheduler that is a flow of scheduler `parent`. Settings that only links
/// or only queues have are refused.
fn inner(cursor: &mut Cursor<'_>, words: &[Word], parent: &str) -> Read<LinkSpec> {
    let (link, seen) = read(cursor, words, Object::InnerScheduler);
    if let Some((row, span)) =
        seen.iter().find(|(row, _)| !row.objects.contains(&Object::InnerScheduler))
    {
        let message = format!("a scheduler with a parent has no `{}` of its own", row.name);
        let error = cursor.error(Code::Contradiction, span, message);
        let error = if row.objects.contains(&Object::Queue) {
            error.label("belongs to queues").help("give it to the queues that feed the scheduler")
        } else {
            error.label("belongs to the link").help(format!(
                "give it to scheduler {parent}, or to the one above that has the link"
            ))
        };
        return Err(Box::new(error));
    }
    Ok(link)
}

/// Removes a word that is in `names` and the word after it from `words`. A second word that is in
/// `names` is an error.
fn take_pair(
    cursor: &Cursor<'_>,
    words: &mut Vec<Word>,
    names: &[&str],
    example: &str,
) -> Read<Option<(Word, Word)>> {
    let is = |word: &Word| !word.quoted && names.contains(&word.text.as_str());
    let Some(at) = words.iter().position(is) else { return Ok(None) };
    if at + 1 >= words.len() {
        let span: &Span = &words[at].span;
        let error =
            cursor.error(Code::MissingValue, span, format!("`{}` needs a value", words[at].text));
        return Err(Box::new(
            error.label("nothing follows").help(format!("for example `{example}`")),
        ));
    }
    let value = words.remove(at + 1);
    let name = words.remove(at);
    match words.iter().find(|word| is(word)) {
        None => Ok(Some((name, value))),
        Some(second) => {
            let error = cursor.error(
                Code::Repeated,
                &second.span,
                format!("`{}` is given twice", second.text),
            );
            Err(Box::new(error.label("the second time").help("remove one of the two")))
        }
    }
}

/// An example of a scheduler that is a flow of another one.
const INNER: &str = "sched 2 config type drr parent 1 weight 3";
