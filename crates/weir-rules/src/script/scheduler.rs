//! `type NAME` of a scheduler, and the words that are this type's own settings.
//!
//! Which settings there are is what the type's row in the table of schedulers says: `sched 1 config type qfq+ m 4 bw 10Mbit/s`.

use weir_core::sched::{self, Discipline, Domain, Kind, Parameter, Row, Scope, SettingError};

use crate::diagnostic::{Code, Diagnostic};
use crate::keyword;
use crate::lex::Word;
use crate::parse::shorten;
use crate::quantity::{rate_unit, time_unit};
use crate::suggest::closest;

use super::cursor::{Cursor, Read};

/// Takes `type NAME` and the settings behind it out of the words.
pub(super) fn discipline(cursor: &Cursor<'_>, words: &mut Vec<Word>) -> Read<Discipline> {
    let Some(at) = words.iter().position(|word| !word.quoted && word.text == "type") else { return Ok(Discipline::default()) };
    if at + 1 >= words.len() {
        let error = cursor.error(Code::MissingValue, &words[at].span, "`type` needs a value");
        return Err(Box::new(error.label("nothing follows").help(format!("for example `{EXAMPLE}`"))));
    }
    let name = words.remove(at + 1);
    words.remove(at);
    if let Some(second) = words.iter().find(|word| !word.quoted && word.text == "type") {
        return Err(twice(cursor, second));
    }
    let mut discipline = Discipline::new(kind(cursor, &name)?);
    settings(cursor, words, at, &mut discipline)?;
    Ok(discipline)
}

/// Takes the settings out of the words from `at` on.
fn settings(cursor: &Cursor<'_>, words: &mut Vec<Word>, mut at: usize, discipline: &mut Discipline) -> Read<()> {
    let row = discipline.row();
    let (behind_type, mut given) = (at, Vec::new());
    while let Some(word) = words.get(at).cloned() {
        let own = row.settings().find(|setting| !word.quoted && setting.name == word.text.to_ascii_lowercase());
        let Some(setting) = own.filter(|_| !is_unit(words, behind_type, at)) else {
            if at == behind_type {
                check_stranger(cursor, row, &word)?;
            }
            at += 1;
            continue;
        };
        if given.contains(&setting.name) {
            return Err(twice(cursor, &word));
        }
        given.push(setting.name);
        let Some(value) = words.get(at + 1).cloned() else {
            let error = cursor.error(Code::MissingValue, &word.span, format!("`{}` needs a value", word.text));
            return Err(Box::new(error.label(format!("expected {}", setting.domain)).help(example(row, setting))));
        };
        if let Err(error) = discipline.set(setting.name, &value.text) {
            return Err(refused(cursor, row, setting, &value, error));
        }
        words.drain(at..at + 2);
    }
    Ok(())
}

/// Whether the word at `at` is the unit of the number before it: the `m` of `bw 4 m`.
fn is_unit(words: &[Word], first: usize, at: usize) -> bool {
    let number = at.checked_sub(1).filter(|&n| n >= first).and_then(|n| words.get(n));
    let is_number = number.is_some_and(|w| !w.text.is_empty() && w.text.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
    is_number && (rate_unit(&words[at].text).is_some() || time_unit(&words[at].text).is_some())
}

/// Refuses a word behind the type that is nearly one of its settings, or one of another type's; others are the link's affair.
fn check_stranger(cursor: &Cursor<'_>, row: &Row, word: &Word) -> Read<()> {
    let foreign = word.quoted || word.text.starts_with(|c: char| !c.is_alphabetic());
    if foreign || keyword::lookup(&word.text).is_some() || LINKS.contains(&word.text.as_str()) {
        return Ok(());
    }
    let error = cursor.error(Code::UnknownKeyword, &word.span, format!("`{}` is no setting of `{}`", shorten(&word.text), row.name));
    let own: Vec<&str> = row.settings().map(|setting| setting.name).collect();
    let of_flow = row.parameters.iter().find(|p| p.scope == Scope::Flow && p.name == word.text);
    let other = sched::TABLE.iter().find(|other| other.settings().any(|setting| setting.name == word.text));
    let error = match (closest(&word.text, own.iter().copied()), of_flow, other) {
        (Some(meant), _, _) => error.label(format!("did you mean `{meant}`?")),
        (None, Some(_), _) => error.label("a setting of a queue").help(format!("for example `queue 1 config sched 1 {} …`", word.text)),
        (None, None, Some(other)) => error.label(format!("a setting of `{}`", other.name)),
        (None, None, None) => return Ok(()),
    };
    let allowed = row.settings().map(|setting| format!("{} {}", setting.name, setting.domain)).collect::<Vec<_>>();
    let help = if allowed.is_empty() { format!("`{}` has no settings", row.name) } else { format!("settings: {}", allowed.join(", ")) };
    Err(Box::new(error.help(help)))
}

/// A setting's value that is not allowed.
fn refused(cursor: &Cursor<'_>, row: &Row, setting: &Parameter, value: &Word, error: SettingError) -> Box<Diagnostic> {
    let text = shorten(&value.text);
    let is_number = matches!(setting.domain, Domain::Number { .. }) && value.text.parse::<u128>().is_ok();
    let (code, message) = match error {
        SettingError::Value(_) if is_number => (Code::OutOfRange, format!("`{text}` is out of range for `{}`", setting.name)),
        SettingError::Value(_) | SettingError::Unknown => (Code::BadValue, format!("`{text}` is no value for `{}`", setting.name)),
    };
    let choices = match setting.domain {
        Domain::Choice(words) => words,
        Domain::Number { .. } | Domain::Time { .. } | Domain::Fraction { .. } => &[],
    };
    let error = cursor.error(code, &value.span, message);
    let error = match closest(&value.text.to_ascii_lowercase(), choices.iter().copied()) {
        Some(meant) => error.label(format!("did you mean `{meant}`?")).help(format!("allowed: {}", setting.domain)),
        None => error.label(format!("allowed: {}", setting.domain)),
    };
    Box::new(error.help(example(row, setting)))
}

fn example(row: &Row, setting: &Parameter) -> String {
    format!("for example `sched 1 config type {} {} {}`", row.name, setting.name, setting.domain.write(setting.default))
}

fn twice(cursor: &Cursor<'_>, word: &Word) -> Box<Diagnostic> {
    let error = cursor.error(Code::Repeated, &word.span, format!("`{}` is given twice", word.text));
    Box::new(error.label("the second time").help("remove one of the two"))
}

/// The scheduler that a word names.
fn kind(cursor: &Cursor<'_>, word: &Word) -> Read<Kind> {
    let name = word.text.to_ascii_lowercase();
    if let Some(kind) = Kind::from_name(&name) {
        return Ok(kind);
    }
    let offered = sched::TABLE.iter().map(|row| row.name).collect::<Vec<_>>();
    if KNOWN.contains(&name.as_str()) {
        let error = cursor.error(Code::NotYet, &word.span, format!("the scheduler `{}` is not in this version yet", word.text));
        return Err(Box::new(error.label("known, and not offered").help(format!("allowed: {}", offered.join(", ")))));
    }
    let error = cursor.error(Code::BadValue, &word.span, format!("`{}` is no scheduler", shorten(&word.text)));
    let error = match closest(&name, offered.iter().copied()) {
        Some(meant) => error.label(format!("did you mean `{meant}`?")),
        None => error.label("expected a scheduler"),
    };
    Err(Box::new(error.help(format!("allowed: {}", offered.join(", ")))))
}

/// The settings as they are written behind the type: those that are not at their defaults.
pub(super) fn write(discipline: &Discipline) -> String {
    let settings = discipline.changed().map(|(setting, value)| format!(" {} {value}", setting.name));
    format!("type {}{}", discipline.row().name, settings.collect::<String>())
}

const EXAMPLE: &str = "sched 1 config type wf2q+ bw 10Mbit/s";
/// Words of a scheduler that are not those of its link.
const LINKS: [&str; 1] = ["parent"];
/// Schedulers of dummynet that may be missing here.
const KNOWN: [&str; 2] = ["fq_codel", "fq_pie"];
