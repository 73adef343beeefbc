//! Reads the argument of one keyword and reports errors in it.
//!
//! A reader starts after the keyword. The keyword's row decides what the reader reads.

use std::ops::RangeInclusive;

use weir_core::config::QueueLimit;

use crate::decimal::Decimal;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, shorten};
use crate::lex::Word;
use crate::netem;
use crate::quantity::{self, QuantityError};
use crate::suggest::closest;

/// How messages refer to a keyword.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// The syntax of the argument, such as `TIME`.
    pub(crate) argument: &'static str,
    /// The fixed words of the argument.
    pub(crate) choices: Vec<&'static str>,
    /// The allowed values in words; empty without an argument.
    pub(crate) range: String,
    pub(crate) example: &'static str,
}

pub(crate) struct Reader<'a> {
    /// The text that contains the words.
    pub(crate) text: &'a str,
    pub(crate) words: &'a [Word],
    /// The index of the next word.
    pub(crate) at: usize,
    /// The keyword as the user wrote it.
    pub(crate) keyword: &'a Word,
    /// The words that are keywords of the object that is configured.
    pub(crate) keywords: &'a [&'static str],
    pub(crate) subject: Subject,
    /// The place of the first value; `None` before a value has been read.
    pub(crate) value: Option<Span>,
    pub(crate) diagnostics: &'a mut Diagnostics,
}

/// Values.
impl Reader<'_> {
    /// Reads the word that is the keyword's value.
    pub(crate) fn word(&mut self) -> Option<Word> {
        self.word_of(&self.keyword.clone())
    }

    /// Reads the word that is the value of an option. A keyword in this place means that the value
    /// is missing.
    pub(crate) fn word_of(&mut self, option: &Word) -> Option<Word> {
        match self.peek() {
            Some(word) if !self.is_keyword(word) => {
                let word = word.clone();
                self.at += 1;
                Some(word)
            }
            _ => {
                let error = self.error(
                    Code::MissingValue,
                    &option.span,
                    format!("`{}` needs a value", option.text),
                );
                let label = format!("expected {} after it", self.subject.argument);
                self.diagnostics.push(error.label(label).help(self.example()));
                None
            }
        }
    }

    /// Reads the keyword's value as a quantity.
    pub(crate) fn quantity<T>(
        &mut self,
        parse: impl Fn(&str) -> Result<T, QuantityError>,
    ) -> Option<T> {
        self.quantity_of(&self.keyword.clone(), parse)
    }

    /// Reads an option's value as a quantity: a number with a unit, which may be a separate word,
    /// as in `20 ms`.
    pub(crate) fn quantity_of<T>(
        &mut self,
        option: &Word,
        parse: impl Fn(&str) -> Result<T, QuantityError>,
    ) -> Option<T> {
        let mut word = self.word_of(option)?;
        let bare = word.text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let is_unit = |w: &Word| w.text.starts_with(|c: char| c.is_alphabetic() || c == '%');
        let unit = self.peek().filter(|w| bare && !w.quoted && is_unit(w) && !self.is_keyword(w));
        if let Some(unit) = unit {
            let joined = word.text.clone() + &unit.text;
            let fits =
                !matches!(parse(&joined), Err(QuantityError::Unit | QuantityError::NotANumber));
            if fits || self.is_wrong_unit(unit) {
                word = Word { text: joined, span: word.span.start..unit.span.end, quoted: false };
                self.at += 1;
            }
        }
        self.accept(&word, parse(&word.text))
    }

    /// Reads the keyword's value as a whole number.
    pub(crate) fn count(&mut self, range: &RangeInclusive<u32>) -> Option<u32> {
        self.quantity(|text| count(text, range))
    }

    /// Reads an option's value as a whole number.
    pub(crate) fn count_of(&mut self, option: &Word, range: &RangeInclusive<u32>) -> Option<u32> {
        self.quantity_of(option, |text| count(text, range))
    }

    /// Reads the keyword's value as a limit: up to `most` packets, or a number of bytes.
    pub(crate) fn limit(&mut self, most: u32) -> Option<QueueLimit> {
        self.quantity(|text| {
            let bare = PACKETS.iter().find_map(|unit| text.strip_suffix(unit)).unwrap_or(text);
            let limit = if Decimal::prefix(bare)?.1.is_empty() {
                QueueLimit::Packets(quantity::count(bare, most)?)
            } else {
                QueueLimit::Bytes(quantity::size(text)?)
            };
            match limit {
                QueueLimit::Packets(0) | QueueLimit::Bytes(0) => Err(QuantityError::OutOfRange),
                limit => Ok(limit),
            }
        })
    }

    /// Reads the keyword's value as the name of a file.
    pub(crate) fn file(&mut self) -> Option<String> {
        let word = self.word()?;
        self.value.get_or_insert(word.span);
        Some(word.text)
    }

    /// The value that was parsed from `word`; `None`, with a diagnostic, if parsing failed.
    pub(crate) fn accept<T>(&mut self, word: &Word, result: Result<T, QuantityError>) -> Option<T> {
        match result {
            Ok(value) => {
                self.value.get_or_insert_with(|| word.span.clone());
                Some(value)
            }
            Err(error) => {
                self.bad_quantity(word, error);
                None
            }
        }
    }
}

/// Fixed words.
impl Reader<'_> {
    /// The next word, if any.
    pub(crate) fn peek(&self) -> Option<&Word> {
        self.words.get(self.at)
    }

    /// Takes the next word if it is `name`. Returns whether the word was taken.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let found = self.peek().is_some_and(|w| !w.quoted && w.text == name);
        self.at += usize::from(found);
        found
    }

    /// Whether `word` is a keyword of the object that is configured.
    pub(crate) fn is_keyword(&self, word: &Word) -> bool {
        !word.quoted && self.keywords.contains(&word.text.as_str())
    }

    /// Whether the word after the next one is a number.
    pub(crate) fn number_follows(&self) -> bool {
        let is_number =
            |w: &Word| w.text.starts_with(|c: char| c.is_ascii_digit() || "-.".contains(c));
        self.words.get(self.at + 1).is_some_and(is_number)
    }

    /// Reads the options `names` in any order, each at most once. `read` receives the option's word
    /// and reads its value.
    pub(crate) fn options(
        &mut self,
        names: &[&str],
        mut read: impl FnMut(&mut Self, &Word) -> Option<()>,
    ) -> Option<()> {
        let mut given = Vec::new();
        while let Some(option) =
            self.peek().filter(|w| !w.quoted && names.contains(&w.text.as_str())).cloned()
        {
            self.at += 1;
            read(self, &option)?;
            self.once(&mut given, &option.text, &option.span);
        }
        Some(())
    }

    /// Records that `option` is given, and reports an error if it was given before.
    pub(crate) fn once(&mut self, given: &mut Vec<String>, option: &str, span: &Span) {
        if given.iter().any(|g| g == option) {
            let error = self.error(
                Code::Repeated,
                span,
                format!("the {option} of `{}` is given twice", self.subject.name),
            );
            self.diagnostics.push(error.label("the second time").help("remove one of the two"));
        }
        given.push(option.to_owned());
    }
}

/// Diagnostics.
impl Reader<'_> {
    /// A diagnostic about a place of the text.
    pub(crate) fn error(&self, code: Code, span: &Span, message: String) -> Diagnostic {
        Diagnostic::new(code, self.text, span.clone(), message)
    }

    /// Reports that a word is none of the allowed ones.
    pub(crate) fn bad_choice(&mut self, word: &Word) {
        let error = self.error(
            Code::BadValue,
            &word.span,
            format!("`{}` is no value for `{}`", shorten(&word.text), self.subject.name),
        );
        let label = netem::value(self.subject.name, &word.text).unwrap_or_else(|| {
            match closest(&word.text, self.subject.choices.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("expected {}", self.subject.argument),
            }
        });
        let error = error.label(label).help(format!("allowed: {}", self.choices()));
        self.diagnostics.push(error.help(self.example()));
    }

    /// Reports that `value` is not a mask of the field `name`, which has `bits` bits.
    pub(crate) fn bad_mask(&mut self, value: &Word, name: &str, bits: u32) {
        let error = self.error(
            Code::BadValue,
            &value.span,
            format!("`{}` is no mask for `{name}`", shorten(&value.text)),
        );
        let error = error.label(format!("expected at most {bits} bits"));
        let error = error.help(format!("allowed: {}", self.subject.range));
        self.diagnostics.push(error.help(self.example()));
    }

    /// Reports that the keyword is accepted and has no effect.
    pub(crate) fn ignored(&mut self, why: &str) {
        let note = self.error(
            Code::Ignored,
            &self.keyword.span,
            format!("`{}` is accepted and ignored", self.keyword.text),
        );
        self.diagnostics.push(note.label(why));
    }

    fn bad_quantity(&mut self, word: &Word, error: QuantityError) {
        let (shown, name) = (shorten(&word.text), self.subject.name);
        let (code, message) = match error {
            QuantityError::NotANumber => {
                (Code::BadValue, format!("`{shown}` is no value for `{name}`"))
            }
            QuantityError::Unit => {
                (Code::BadUnit, format!("the unit of `{shown}` does not fit `{name}`"))
            }
            QuantityError::Bare => {
                (Code::BadUnit, format!("`{shown}` for `{name}` may be meant in two units"))
            }
            QuantityError::Negative => (
                Code::OutOfRange,
                format!("`{shown}` is out of range: `{name}` cannot be negative"),
            ),
            QuantityError::OutOfRange => {
                (Code::OutOfRange, format!("`{shown}` is out of range for `{name}`"))
            }
        };
        let Subject { argument, range, .. } = &self.subject;
        let diagnostic = self.error(code, &word.span, message);
        let mut diagnostic = if code == Code::OutOfRange {
            diagnostic.label(format!("allowed: {range}"))
        } else {
            let of_netem = netem::value(name, &word.text);
            diagnostic.label(of_netem.unwrap_or_else(|| format!("expected {argument}")))
        };
        if !matches!(
            error,
            QuantityError::OutOfRange | QuantityError::Negative | QuantityError::Bare
        ) && !range.is_empty()
        {
            diagnostic = diagnostic.help(format!("allowed: {range}"));
        }
        if code == Code::BadUnit && argument.starts_with("TIME") {
            diagnostic = diagnostic
                .help("units of time are s, ms, us and ns; a number without one is in ms");
        }
        let is_probability = argument.split(' ').next() == Some("P");
        let percent = format!("{}%", word.text);
        if error == QuantityError::Bare {
            diagnostic = diagnostic.help(format!("1 % is `{percent}`, 100 % is `100%`"));
        }
        if code == Code::OutOfRange && is_probability && quantity::probability(&percent).is_ok() {
            diagnostic = diagnostic.help(format!("{} percent are written `{percent}`", word.text));
        }
        self.diagnostics.push(diagnostic.help(self.example()));
    }

    /// Whether a word that is not a valid unit here was probably meant as a unit: it is neither an
    /// option nor similar to a keyword.
    fn is_wrong_unit(&self, word: &Word) -> bool {
        let choices = || self.subject.choices.iter().copied();
        let is_option = choices().any(|name| name == word.text) || word.text.contains('.');
        !is_option && closest(&word.text, self.keywords.iter().copied().chain(choices())).is_none()
    }

    /// The fixed words of the argument, joined for a sentence: "`split` or `whole`".
    fn choices(&self) -> String {
        let words: Vec<String> =
            self.subject.choices.iter().map(|name| format!("`{name}`")).collect();
        match words.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => self.subject.argument.to_owned(),
        }
    }

    fn example(&self) -> String {
        format!("for example `{}`", self.subject.example)
    }
}

/// Parses a whole number within a range.
fn count(text: &str, range: &RangeInclusive<u32>) -> Result<u32, QuantityError> {
    quantity::count(text, *range.end())
        .and_then(|n| if n < *range.start() { Err(QuantityError::OutOfRange) } else { Ok(n) })
}

/// Units of a limit in packets.
const PACKETS: [&str; 4] = ["slots", "slot", "packets", "packet"];
