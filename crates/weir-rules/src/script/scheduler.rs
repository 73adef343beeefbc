//! `type NAME` of a scheduler, and the settings of this type:
//! `sched 1 config type qfq+ m 4 bw 10Mbit/s`.
//!
//! The settings are listed in the type's row of the table of schedulers.

use weir_core::sched::{self, Discipline, Kind, Row};

use crate::aqm;
use crate::diagnostic::Code;
use crate::diagnostic::shorten;
use crate::keyword;
use crate::lex::Word;
use crate::quantity::{rate_unit, time_unit};
use crate::setting::{self, Settings, twice};
use crate::suggest::closest;

use super::cursor::{Cursor, Read};

/// Removes `type NAME` and the settings after it from the words, and returns the scheduler.
pub(super) fn discipline(cursor: &Cursor<'_>, words: &mut Vec<Word>) -> Read<Discipline> {
    let Some(at) = words.iter().position(|word| !word.quoted && word.text == "type") else {
        return Ok(Discipline::default());
    };
    if at + 1 >= words.len() {
        let error = cursor.error(Code::MissingValue, &words[at].span, "`type` needs a value");
        return Err(Box::new(
            error.label("nothing follows").help(format!("for example `{EXAMPLE}`")),
        ));
    }
    let name = words.remove(at + 1);
    words.remove(at);
    if let Some(second) = words.iter().find(|word| !word.quoted && word.text == "type") {
        return Err(twice(cursor.text, "type", second));
    }
    let mut discipline = Discipline::new(kind(cursor, &name)?);
    settings(cursor, words, at, &mut discipline)?;
    sched::check(&discipline).map_err(|misfit| {
        Box::new(cursor.error(Code::Contradiction, &name.span, misfit.to_string()))
    })?;
    Ok(discipline)
}

/// Removes the settings from the words, from `at` on. Settings of an AQM among them remain.
fn settings(
    cursor: &Cursor<'_>,
    words: &mut Vec<Word>,
    mut at: usize,
    discipline: &mut Discipline,
) -> Read<()> {
    let row = discipline.row();
    let before = format!("sched 1 config type {}", row.name);
    let behind_type = at;
    let mut settings = Settings::new(cursor.text, discipline, before);
    while let Some(word) = words.get(at).cloned() {
        if let Some(end) = aqm::end_of(words, at) {
            at = end;
            continue;
        }
        let taken =
            if is_unit(words, behind_type, at) { None } else { settings.take(words, at)? };
        if let Some(taken) = taken {
            words.drain(at..at + taken);
            continue;
        }
        if at == behind_type {
            check_unknown_setting(cursor, row, &word)?;
        }
        at += 1;
    }
    Ok(())
}

/// Whether the word at `at` is the unit of the number before it, such as the `m` of `bw 4 m`.
fn is_unit(words: &[Word], first: usize, at: usize) -> bool {
    let number = at.checked_sub(1).filter(|&n| n >= first).and_then(|n| words.get(n));
    let is_number = number.is_some_and(|w| {
        !w.text.is_empty() && w.text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    });
    is_number && (rate_unit(&words[at].text).is_some() || time_unit(&words[at].text).is_some())
}

/// Refuses a word that resembles a setting of the type, or that is a setting of a queue or of
/// another type. The link's parser handles all other words.
fn check_unknown_setting(cursor: &Cursor<'_>, row: &Row, word: &Word) -> Read<()> {
    let foreign = word.quoted || word.text.starts_with(|c: char| !c.is_alphabetic());
    if foreign || keyword::lookup(&word.text).is_some() || EXTRA.contains(&word.text.as_str()) {
        return Ok(());
    }
    let error = cursor.error(
        Code::UnknownKeyword,
        &word.span,
        format!("`{}` is no setting of `{}`", shorten(&word.text), row.name),
    );
    let own: Vec<&str> = row.parameters.iter().map(|setting| setting.name).collect();
    let of_flow = row.traits.flow.iter().find(|p| p.name == word.text);
    let other = sched::TABLE
        .iter()
        .find(|other| other.parameters.iter().any(|setting| setting.name == word.text));
    let error = match (closest(&word.text, own.iter().copied()), of_flow, other) {
        (Some(meant), _, _) => error.label(format!("did you mean `{meant}`?")),
        (None, Some(_), _) => error
            .label("a setting of a queue")
            .help(format!("for example `queue 1 config sched 1 {} …`", word.text)),
        (None, None, Some(other)) => error.label(format!("a setting of `{}`", other.name)),
        (None, None, None) => return Ok(()),
    };
    Err(Box::new(error.help(setting::allowed(row.name, row.parameters.iter()))))
}

fn kind(cursor: &Cursor<'_>, word: &Word) -> Read<Kind> {
    let name = word.text.to_ascii_lowercase();
    if let Some(kind) = Kind::from_name(&name) {
        return Ok(kind);
    }
    let offered = sched::TABLE.iter().map(|row| row.name).collect::<Vec<_>>();
    let error = cursor.error(
        Code::BadValue,
        &word.span,
        format!("`{}` is no scheduler", shorten(&word.text)),
    );
    if let Some(kind) = weir_core::aqm::Kind::from_name(&name) {
        let name = kind.row().name;
        return Err(Box::new(
            error
                .label("an AQM, which belongs to a queue")
                .help(format!("for example `queue 1 config sched 1 aqm {name}`")),
        ));
    }
    let error = match closest(&name, offered.iter().copied()) {
        Some(meant) => error.label(format!("did you mean `{meant}`?")),
        None => error.label("expected a scheduler"),
    };
    Err(Box::new(error.help(format!("allowed: {}", offered.join(", ")))))
}

/// The type, and the settings that differ from their defaults, in the language.
pub(super) fn write(discipline: &Discipline) -> String {
    let settings =
        discipline.changed().map(|(setting, value)| format!(" {} {value}", setting.name));
    format!("type {}{}", discipline.row().name, settings.collect::<String>())
}

const EXAMPLE: &str = "sched 1 config type wf2q+ bw 10Mbit/s";
/// Words that may follow a scheduler's type although they are neither its settings nor keywords of
/// its link.
const EXTRA: [&str; 1] = ["parent"];
