//! The grammar of an algorithm's settings: `target 5ms`, `target 5 ms` or `target=5ms`; a switch
//! may also be `ecn` or `noecn`.
//!
//! The algorithm's row lists its settings. The algorithms are schedulers, AQMs and congestion
//! controls.

use weir_core::settings::{Chosen, Domain, Entry, Parameter, SettingError};

use crate::diagnostic::shorten;
use crate::diagnostic::{Code, Diagnostic, Span};
use crate::keyword;
use crate::lex::Word;
use crate::quantity::time_unit;
use crate::suggest::closest;

/// A setting as it is given in words.
pub(crate) struct Given {
    setting: &'static Parameter,
    /// The name of the setting as it is written, with its place.
    name: Word,
    /// The value; `None` if it is missing.
    value: Option<Word>,
    /// The number of words that the setting takes.
    taken: usize,
}

impl Given {
    /// A setting and its value in one word; `place` is the place of the value.
    pub(crate) fn new(setting: &'static Parameter, name: &Word, value: &str, place: Span) -> Self {
        let value = Some(Word { text: value.to_owned(), span: place, quoted: false });
        Self { setting, name: name.clone(), value, taken: 1 }
    }
}

/// The setting that begins at `words[at]`, if it is one of `settings()`.
fn given<I>(settings: impl Fn() -> I, words: &[Word], at: usize) -> Option<Given>
where
    I: Iterator<Item = &'static Parameter>,
{
    let word = words.get(at).filter(|word| !word.quoted)?;
    let named = |name: &str| settings().find(|setting| setting.name.eq_ignore_ascii_case(name));
    let (name, joined) = word
        .text
        .split_once('=')
        .map_or((word.text.as_str(), None), |(name, value)| (name, Some(value)));
    let Some(setting) = named(name) else {
        let off = name
            .strip_prefix("no")
            .and_then(named)
            .filter(|setting| joined.is_none() && is_switch(setting));
        let off = off.map(|setting| Given::new(setting, word, "off", word.span.clone()));
        let other = || OTHER_WORDS.iter().find(|(other, ..)| *other == word.text);
        return off.or_else(|| {
            other().and_then(|(_, name, value)| {
                Some(Given::new(named(name)?, word, value, word.span.clone()))
            })
        });
    };
    if let Some(value) = joined {
        let place = word.part(name.len() + 1, value.len());
        let value = (!value.is_empty()).then(|| Word {
            text: value.to_owned(),
            span: place,
            quoted: false,
        });
        return Some(Given {
            setting,
            name: Word { text: name.to_owned(), ..word.clone() },
            value,
            taken: 1,
        });
    }
    let next = words.get(at + 1);
    let fits = next.is_some_and(|next| setting.domain.parse(&next.text).is_some());
    if is_switch(setting) && !fits {
        return Some(Given::new(setting, word, "on", word.span.clone()));
    }
    let missing =
        next.is_some_and(|next| !fits && !next.quoted && keyword::lookup(&next.text).is_some());
    let value = next.filter(|_| !missing);
    let joined = value.and_then(|value| with_unit(setting, value, words.get(at + 2)));
    let taken = 1 + usize::from(value.is_some()) + usize::from(joined.is_some());
    Some(Given { setting, name: word.clone(), value: joined.or_else(|| value.cloned()), taken })
}

/// Joins a number with a unit of time that follows as a separate word.
fn with_unit(setting: &Parameter, value: &Word, next: Option<&Word>) -> Option<Word> {
    let next = next.filter(|next| {
        !next.quoted
            && matches!(setting.domain, Domain::Time { .. })
            && time_unit(&next.text).is_some()
    })?;
    let is_number =
        !value.text.is_empty() && value.text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_number.then(|| Word {
        text: format!("{}{}", value.text, next.text),
        span: value.span.start..next.span.end,
        quoted: false,
    })
}

/// Whether a setting has the values off and on. Its name without a value then means on.
fn is_switch(setting: &Parameter) -> bool {
    matches!(setting.domain, Domain::Choice(_))
        && ["off", "on"].into_iter().all(|word| setting.domain.parse(word).is_some())
}

/// Takes the settings of one algorithm from words, each at most once.
pub(crate) struct Settings<'a, K> {
    text: &'a str,
    chosen: &'a mut Chosen<K>,
    /// The words that precede a setting in an example: `aqm codel`.
    before: String,
    /// The names of the settings that were taken.
    taken: Vec<&'static str>,
}

impl<'a, K: Entry> Settings<'a, K> {
    /// Starts with no setting taken. `text` is the source of the words.
    pub(crate) fn new(text: &'a str, chosen: &'a mut Chosen<K>, before: String) -> Self {
        Self { text, chosen, before, taken: Vec::new() }
    }

    /// Takes the setting that begins at `words[at]`, if there is one. Returns the number of words
    /// that it takes.
    ///
    /// # Errors
    /// The value is missing or not allowed, or the setting was already taken.
    pub(crate) fn take(
        &mut self,
        words: &[Word],
        at: usize,
    ) -> Result<Option<usize>, Box<Diagnostic>> {
        let row = self.chosen.row();
        let Some(given) = given(|| row.parameters.iter(), words, at) else { return Ok(None) };
        if self.taken.contains(&given.setting.name) {
            return Err(twice(self.text, given.setting.name, &given.name));
        }
        self.taken.push(given.setting.name);
        take(self.text, self.chosen, &given, &self.before)?;
        Ok(Some(given.taken))
    }
}

/// Sets a setting. `before` contains the words that precede it in an example: `aqm codel`.
///
/// # Errors
/// The value is missing or not allowed.
pub(crate) fn take<K: Entry>(
    text: &str,
    chosen: &mut Chosen<K>,
    given: &Given,
    before: &str,
) -> Result<(), Box<Diagnostic>> {
    let setting = given.setting;
    let example = format!(
        "for example `{before} {} {}`",
        setting.name,
        setting.domain.write(setting.default)
    );
    let Some(value) = &given.value else {
        let error = Diagnostic::new(
            Code::MissingValue,
            text,
            given.name.span.clone(),
            format!("`{}` needs a value", given.name.text),
        );
        return Err(Box::new(error.label(format!("expected {}", setting.domain)).help(example)));
    };
    chosen
        .set(setting.name, &value.text)
        .map_err(|error| refused(text, setting, value, error, example))
}

/// The diagnostic for a value that is not allowed.
fn refused(
    text: &str,
    setting: &Parameter,
    value: &Word,
    error: SettingError,
    example: String,
) -> Box<Diagnostic> {
    let shown = shorten(&value.text);
    let (code, message) = match error {
        SettingError::Value(_) if is_out_of_range(setting, &value.text) => {
            (Code::OutOfRange, format!("`{shown}` is out of range for `{}`", setting.name))
        }
        SettingError::Value(_) | SettingError::Unknown => {
            (Code::BadValue, format!("`{shown}` is no value for `{}`", setting.name))
        }
    };
    let choices = match setting.domain {
        Domain::Choice(words) => words,
        Domain::Number { .. }
        | Domain::Time { .. }
        | Domain::Fraction { .. }
        | Domain::Four { .. } => &[],
    };
    let error = Diagnostic::new(code, text, value.span.clone(), message);
    let error = match closest(&value.text, choices.iter().copied()) {
        Some(meant) => error
            .label(format!("did you mean `{meant}`?"))
            .help(format!("allowed: {}", setting.domain)),
        None => error.label(format!("allowed: {}", setting.domain)),
    };
    let error = match setting.domain {
        Domain::Time { .. } => {
            error.help("units of time are s, ms, us and ns; a number without one is in ms")
        }
        Domain::Four { .. } => error.help("four numbers are written with commas: 2,2,3,7"),
        Domain::Number { .. } | Domain::Choice(_) | Domain::Fraction { .. } => error,
    };
    Box::new(error.help(example))
}

/// Whether a value has the right form but is out of range.
fn is_out_of_range(setting: &Parameter, value: &str) -> bool {
    match setting.domain {
        Domain::Number { .. } => value.parse::<u128>().is_ok(),
        Domain::Time { .. } => Domain::Time { least: 0, most: u64::MAX }.parse(value).is_some(),
        Domain::Fraction { .. } => {
            Domain::Fraction { least: 0, most: u64::MAX }.parse(value).is_some()
        }
        Domain::Four { .. } => {
            Domain::Four { least: 0, most: u16::MAX, unit: "" }.parse(value).is_some()
        }
        Domain::Choice(_) => false,
    }
}

/// The diagnostic for a word that gives `name` a second time.
pub(crate) fn twice(text: &str, name: &str, word: &Word) -> Box<Diagnostic> {
    let error = Diagnostic::new(
        Code::Repeated,
        text,
        word.span.clone(),
        format!("`{name}` is given twice"),
    );
    Box::new(error.label("the second time").help("remove one of the two"))
}

/// The settings of an algorithm, as a line of help.
pub(crate) fn allowed(name: &str, settings: impl Iterator<Item = &'static Parameter>) -> String {
    let allowed: Vec<String> =
        settings.map(|setting| format!("{} {}", setting.name, setting.domain)).collect();
    if allowed.is_empty() {
        format!("`{name}` has no settings")
    } else {
        format!("settings: {}", allowed.join(", "))
    }
}

/// dummynet's words for a setting and its value: word, setting, value.
const OTHER_WORDS: [(&str, &str, &str); 4] = [
    ("drand", "derand", "on"),
    ("nodrand", "derand", "off"),
    ("ts", "qdelay", "ts"),
    ("dre", "qdelay", "dre"),
];
