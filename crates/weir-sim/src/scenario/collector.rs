//! The diagnostics of a scenario file, and the checks of single values that add to them.

use toml::Spanned;
use toml::de::Error;
use weir_core::Nanos;
use weir_rules::quantity::{self, QuantityError};
use weir_rules::{Code, Diagnostic, Diagnostics, Span, closest};

use super::{MAX_DURATION, raw};

/// Collects the diagnostics of a text.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    pub(super) text: &'a str,
    /// The name of the file, for diagnostics.
    name: &'a str,
    diagnostics: Diagnostics,
}

impl<'a> Collector<'a> {
    pub(super) fn new(text: &'a str, name: &'a str) -> Self {
        Self { text, name, diagnostics: Diagnostics::default() }
    }

    /// Creates a diagnostic without adding it; see [`Self::push`].
    pub(super) fn diagnostic(
        &self,
        code: Code,
        span: &Span,
        message: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::new(code, self.text, span.clone(), message).in_file(self.name)
    }

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Adds an error with a label at its place and with help.
    pub(super) fn error(
        &mut self,
        code: Code,
        span: &Span,
        message: impl Into<String>,
        label: impl Into<String>,
        help: &str,
    ) {
        let error = self.diagnostic(code, span, message).label(label);
        self.push(if help.is_empty() { error } else { error.help(help) });
    }

    /// Adds an error about an unknown name.
    pub(super) fn unknown<'n>(
        &mut self,
        span: &Span,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'n str>,
        help: &str,
    ) {
        let known: Vec<&str> = known.collect();
        let error = self.diagnostic(Code::BadValue, span, format!("there is no {what} `{name}`"));
        let error = match closest(name, known.iter().copied()) {
            Some(meant) => error.label(format!("did you mean `{meant}`?")),
            None => error.label(format!("no {what} has this name")),
        };
        let error = if known.is_empty() || known.len() > MAX_SHOWN {
            error
        } else {
            error.help(format!("there are: {}", known.join(", ")))
        };
        self.push(error.help(help));
    }

    pub(super) fn has_errors(&self) -> bool {
        self.diagnostics.has_errors()
    }

    pub(super) fn into_diagnostics(self) -> Diagnostics {
        self.diagnostics
    }

    /// The place in the file of a part of a string value. If escapes in the string hide the place
    /// of the part, returns the place of the whole value.
    pub(super) fn place_of_part(&self, value: &raw::Text, part: &Span) -> Span {
        let Span { start, end } = value.span();
        let source = self.text.get(start..end).unwrap_or("");
        match source.find(value.get_ref().as_str()) {
            Some(at) if source.len() == value.get_ref().len() + 2 * at => {
                start + at + part.start..start + at + part.end
            }
            _ => start..end,
        }
    }

    /// Adds the diagnostics of a string value that is written in another language, such as a link
    /// specification. The diagnostics refer to a text in which `skipped` bytes preceded the value.
    pub(super) fn add_nested(
        &mut self,
        value: &raw::Text,
        diagnostics: &Diagnostics,
        skipped: usize,
    ) {
        for other in diagnostics.iter() {
            if other.file.is_some() {
                self.diagnostics.push(other.clone());
                continue;
            }
            let len = value.get_ref().len();
            let shift = |at: usize| at.saturating_sub(skipped).min(len);
            let place =
                self.place_of_part(value, &(shift(other.span.start)..shift(other.span.end)));
            let mut moved = self
                .diagnostic(other.code, &place, other.message.clone())
                .label(other.label.clone());
            moved.help.clone_from(&other.help);
            self.push(moved);
        }
    }

    /// Adds an error of the TOML parser, or of a value that has the wrong type. `table` is the
    /// place to report for an error without a place.
    pub(super) fn add_toml_error(&mut self, error: &Error, table: Option<&Span>) {
        let start_of_file = 0..self.text.len().min(1);
        let span = error.span().or_else(|| table.cloned()).unwrap_or(start_of_file);
        let span = self.first_line(span);
        let Explained { code, message, label, help } = explain(error.message());
        self.error(code, &span, message, label, &help);
    }

    /// The part of `span` on its first line.
    pub(super) fn first_line(&self, span: Span) -> Span {
        let line = self
            .text
            .get(span.clone())
            .and_then(|text| text.find('\n'))
            .map_or(span.end, |end| span.start + end);
        span.start..line
    }
}

impl Collector<'_> {
    /// Parses a time with its unit, from `least` up to [`MAX_DURATION`].
    pub(super) fn time(&mut self, value: &raw::Text, what: &str, least: Nanos) -> Option<Nanos> {
        let text = value.get_ref().trim();
        let no_unit = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let read =
            if no_unit { Err(QuantityError::Unit) } else { quantity::time(text, MAX_DURATION) };
        let (code, message, label) = match read {
            Ok(time) if time >= least => return Some(time),
            Ok(_) if least.0 == 1 => {
                (Code::OutOfRange, format!("{what} of zero"), "above zero".to_owned())
            }
            Ok(_) => (
                Code::OutOfRange,
                format!("{what} of `{text}` is too short"),
                format!("at least {least}"),
            ),
            Err(QuantityError::Negative) => {
                (Code::OutOfRange, format!("{what} is negative"), "must not be negative".to_owned())
            }
            Err(QuantityError::OutOfRange) => (
                Code::OutOfRange,
                format!("{what} of `{text}` is too long"),
                "at most 366 days".to_owned(),
            ),
            Err(QuantityError::Unit | QuantityError::Bare) => (
                Code::BadUnit,
                format!("`{text}` has no unit of time"),
                "expected a number with a unit".to_owned(),
            ),
            Err(QuantityError::NotANumber) => (
                Code::BadValue,
                format!("`{text}` is no time"),
                "expected a number with a unit".to_owned(),
            ),
        };
        let help = "units of time are s, ms, us and ns: `60s`, `1.5ms`; an hour is `3600s`";
        self.error(code, &value.span(), message, label, help);
        None
    }

    /// Checks that a whole number is within a range. Returns the default if the key is absent or
    /// the number is out of range.
    pub(super) fn number(
        &mut self,
        value: Option<&Spanned<i64>>,
        what: &str,
        default: i64,
        least: i64,
        most: i64,
    ) -> i64 {
        let Some(value) = value else { return default };
        let number = *value.get_ref();
        if (least..=most).contains(&number) {
            return number;
        }
        self.error(
            Code::OutOfRange,
            &value.span(),
            format!("{what} of {number} is out of range"),
            format!("{least} to {most}"),
            "",
        );
        default
    }
}

struct Explained {
    code: Code,
    message: String,
    label: String,
    help: String,
}

/// Rewrites a message of the TOML parser in the style of the other diagnostics.
fn explain(message: &str) -> Explained {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let unchanged = |code| Explained {
        code,
        message: message.replace('\n', ", "),
        label: "here".to_owned(),
        help: String::new(),
    };
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        let [name, allowed @ ..] = &quoted[..] else { return unchanged(Code::UnknownKeyword) };
        let (code, what) = if message.starts_with("unknown field") {
            (Code::UnknownKeyword, "key")
        } else {
            (Code::BadValue, "value allowed here")
        };
        let label = closest(name, allowed.iter().copied())
            .map_or(format!("no {what}"), |meant| format!("did you mean `{meant}`?"));
        return Explained {
            code,
            message: format!("`{name}` is no {what}"),
            label,
            help: format!("allowed: {}", allowed.join(", ")),
        };
    }
    if message.starts_with("missing field") {
        let name = quoted.first().copied().unwrap_or("?");
        let message = format!("`{name}` is missing");
        return Explained {
            code: Code::MissingValue,
            message,
            label: format!("needs `{name}`"),
            help: String::new(),
        };
    }
    if message.starts_with("duplicate key") {
        return Explained {
            code: Code::Repeated,
            message: "this key is given twice".to_owned(),
            label: "the second time".to_owned(),
            help: "remove one of the two".to_owned(),
        };
    }
    match message.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected ")) {
        Some((found, expected)) => Explained {
            code: Code::BadValue,
            message: format!("{found} does not belong here"),
            label: format!("expected {expected}"),
            help: String::new(),
        },
        None => match message.split_once("; ") {
            // Messages about quantities contain the error and then the help.
            Some((wrong, help)) => Explained {
                code: Code::BadValue,
                message: wrong.to_owned(),
                label: "not allowed here".to_owned(),
                help: help.to_owned(),
            },
            None => unchanged(Code::Unexpected),
        },
    }
}

/// The largest number of names that a message lists.
const MAX_SHOWN: usize = 20;
