//! Parses the text of a scenario file into its keys. Each table is parsed separately, so that an
//! error in one table does not hide errors in the next.

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error, ValueDeserializer};
use weir_core::Nanos;
use weir_rules::quantity::{self, QuantityError};
use weir_rules::{Code, Diagnostic, Diagnostics, Span, closest};

use super::raw;
use super::{Axis, MAX_DURATION};

/// Collects the diagnostics of a text.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    /// The text.
    pub(super) text: &'a str,
    name: &'a str,
    diagnostics: Diagnostics,
}

impl<'a> Collector<'a> {
    pub(super) fn new(text: &'a str, name: &'a str) -> Self {
        Self { text, name, diagnostics: Diagnostics::default() }
    }

    /// Makes a diagnostic, which the caller gives to [`Self::push`].
    pub(super) fn about(&self, code: Code, span: &Span, message: impl Into<String>) -> Diagnostic {
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
        let error = self.about(code, span, message).label(label);
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
        let error = self.about(Code::BadValue, span, format!("there is no {what} `{name}`"));
        let error = match closest(name, known.iter().copied()) {
            Some(meant) => error.label(format!("did you mean `{meant}`?")),
            None => error.label(format!("no {what} has this name")),
        };
        let error = if known.is_empty() || known.len() > MOST_SHOWN {
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

    /// The place of a part of a string value. It is the whole value if quotes or escapes make the
    /// part's place ambiguous.
    pub(super) fn part(&self, value: &raw::Text, part: &Span) -> Span {
        let Span { start, end } = value.span();
        let source = self.text.get(start..end).unwrap_or("");
        match source.find(value.get_ref().as_str()) {
            Some(at) if source.len() == value.get_ref().len() + 2 * at => {
                start + at + part.start..start + at + part.end
            }
            _ => start..end,
        }
    }

    /// Adds the diagnostics of a value in another language. In the text that was parsed, `skipped`
    /// bytes preceded the value.
    pub(super) fn take(&mut self, value: &raw::Text, diagnostics: &Diagnostics, skipped: usize) {
        for other in diagnostics.iter() {
            if other.file.is_some() {
                self.diagnostics.push(other.clone());
                continue;
            }
            let len = value.get_ref().len();
            let shift = |at: usize| at.saturating_sub(skipped).min(len);
            let place = self.part(value, &(shift(other.span.start)..shift(other.span.end)));
            let mut own =
                self.about(other.code, &place, other.message.clone()).label(other.label.clone());
            own.help.clone_from(&other.help);
            self.push(own);
        }
    }

    /// Adds an error of the TOML parser or of the types of values. If the error has no place,
    /// `inside` is its place.
    fn refused(&mut self, error: &Error, inside: Option<&Span>) {
        let whole = 0..self.text.len().min(1);
        let span = error.span().or_else(|| inside.cloned()).unwrap_or(whole);
        let span = self.first_line(span);
        let diagnostic = explain(error.message());
        let Explained { code, message, label, help } = diagnostic;
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

struct Explained {
    code: Code,
    message: String,
    label: String,
    help: String,
}

/// Rewrites a message of the TOML parser in the style of the other diagnostics.
fn explain(message: &str) -> Explained {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let plain = |code| Explained {
        code,
        message: message.replace('\n', ", "),
        label: "here".to_owned(),
        help: String::new(),
    };
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        let [name, allowed @ ..] = &quoted[..] else { return plain(Code::UnknownKeyword) };
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
            None => plain(Code::Unexpected),
        },
    }
}

/// The parts of a file.
#[derive(Debug)]
pub(super) struct Document<'a> {
    pub(super) head: raw::Head,
    pub(super) nodes: Vec<Entry<'a, raw::Node>>,
    pub(super) links: Vec<Spanned<raw::Link>>,
    pub(super) routes: Vec<Spanned<raw::Route>>,
    pub(super) traffic: Vec<Entry<'a, raw::Traffic>>,
    pub(super) measure: Option<raw::Measure>,
    pub(super) sweep: Vec<(Axis, Span)>,
}

/// A table that has a kind: the keys that all kinds share, and the settings of its kind.
#[derive(Debug)]
pub(super) struct Entry<'a, T> {
    pub(super) common: T,
    pub(super) own: Spanned<DeValue<'a>>,
}

/// Parses a file's tables.
pub(super) fn document<'a>(collector: &mut Collector<'a>) -> Option<Document<'a>> {
    let root = match DeTable::parse(collector.text) {
        Ok(root) => root,
        Err(error) => {
            collector.refused(&error, None);
            return None;
        }
    };
    let whole = 0..collector.text.find('\n').unwrap_or(collector.text.len());
    let mut head = DeTable::new();
    let mut sections: [Vec<Spanned<DeValue<'a>>>; 4] = Default::default();
    let (mut measure, mut sweep) = (None, Vec::new());
    for (key, value) in root.into_inner() {
        let name = key.get_ref().as_ref().to_owned();
        match name.as_str() {
            "measure" => measure = one_table(collector, "measure", value),
            "sweep" => sweep = axes(collector, value),
            name => match SECTIONS.iter().position(|section| *section == name) {
                Some(at) => sections[at] = list(collector, name, value),
                None if HEAD.contains(&name) => drop(head.insert(key, value)),
                None => {
                    let label =
                        closest(name, HEAD.into_iter().chain(SECTIONS).chain(["measure", "sweep"]));
                    let label = label.map_or("no key of a scenario".to_owned(), |meant| {
                        format!("did you mean `{meant}`?")
                    });
                    let allowed = format!(
                        "allowed: {}, {}, measure, sweep",
                        HEAD.join(", "),
                        SECTIONS.join(", ")
                    );
                    collector.error(
                        Code::UnknownKeyword,
                        &key.span(),
                        format!("`{name}` is no key"),
                        label,
                        &allowed,
                    );
                }
            },
        }
    }
    let [nodes, links, routes, traffic] = sections;
    let head = item(collector, Spanned::new(whole, DeValue::Table(head)));
    let nodes =
        nodes.into_iter().filter_map(|value| split(collector, value, &raw::NODE_KEYS)).collect();
    let links = items(collector, links);
    let routes = items(collector, routes);
    let traffic = traffic
        .into_iter()
        .filter_map(|value| split(collector, value, &raw::TRAFFIC_KEYS))
        .collect();
    Some(Document { head: head?, nodes, links, routes, traffic, measure, sweep })
}

/// Parses a table into the type with its keys.
pub(super) fn item<T: DeserializeOwned>(
    collector: &mut Collector<'_>,
    value: Spanned<DeValue<'_>>,
) -> Option<T> {
    let span = value.span();
    accept(collector, &span, T::deserialize(ValueDeserializer::from(value)))
}

/// Returns the result of parsing the table at `span`. If parsing failed, adds a diagnostic.
pub(super) fn accept<T>(
    collector: &mut Collector<'_>,
    span: &Span,
    read: Result<T, Error>,
) -> Option<T> {
    match read {
        Ok(item) => Some(item),
        Err(error) => {
            collector.refused(&error, Some(span));
            None
        }
    }
}

/// Parses a table that a file has at most once.
fn one_table<T: DeserializeOwned>(
    collector: &mut Collector<'_>,
    name: &str,
    value: Spanned<DeValue<'_>>,
) -> Option<T> {
    if value.get_ref().is_table() {
        return item(collector, value);
    }
    let span = collector.first_line(value.span());
    collector.error(
        Code::BadValue,
        &span,
        format!("`{name}` is one table for the whole scenario"),
        format!("expected `[{name}]`"),
        "write it once, with one bracket on each side",
    );
    None
}

fn items<T: DeserializeOwned>(
    collector: &mut Collector<'_>,
    values: Vec<Spanned<DeValue<'_>>>,
) -> Vec<Spanned<T>> {
    let one = |value: Spanned<DeValue<'_>>| {
        let span = value.span();
        Some(Spanned::new(span, item(collector, value)?))
    };
    values.into_iter().filter_map(one).collect()
}

/// The tables of a list in the file.
fn list<'a>(
    collector: &mut Collector<'a>,
    name: &str,
    value: Spanned<DeValue<'a>>,
) -> Vec<Spanned<DeValue<'a>>> {
    let span = collector.first_line(value.span());
    match value.into_inner() {
        DeValue::Array(values) => values.into_iter().collect(),
        _ => {
            let label = format!("expected tables `[[{name}]]`");
            collector.error(
                Code::BadValue,
                &span,
                format!("`{name}` is a list of tables"),
                label,
                "each has its own, with two brackets on each side",
            );
            Vec::new()
        }
    }
}

/// Splits a table into the keys that all kinds share and those of its kind.
fn split<'a, T: DeserializeOwned>(
    collector: &mut Collector<'a>,
    value: Spanned<DeValue<'a>>,
    keys: &[&str],
) -> Option<Entry<'a, T>> {
    let span = value.span();
    let DeValue::Table(table) = value.into_inner() else {
        collector.error(
            Code::BadValue,
            &span,
            "this is no table",
            "expected a table of its own",
            "",
        );
        return None;
    };
    let (common, own): (DeTable<'a>, DeTable<'a>) =
        table.into_iter().partition(|(key, _)| keys.contains(&key.get_ref().as_ref()));
    let Some(common) = item(collector, Spanned::new(span.clone(), DeValue::Table(common))) else {
        // A key that seems to be missing may be present under a misspelled name.
        for key in own.keys() {
            if let Some(meant) = closest(key.get_ref(), keys.iter().copied()) {
                let message = format!("`{}` is no key", key.get_ref());
                collector.error(
                    Code::UnknownKeyword,
                    &key.span(),
                    message,
                    format!("did you mean `{meant}`?"),
                    "",
                );
            }
        }
        return None;
    };
    Some(Entry { common, own: Spanned::new(span, DeValue::Table(own)) })
}

/// Parses `[sweep] "key" = [values]` or `[[sweep]] key = "…" values = […]`.
fn axes(collector: &mut Collector<'_>, value: Spanned<DeValue<'_>>) -> Vec<(Axis, Span)> {
    let span = collector.first_line(value.span());
    match value.into_inner() {
        DeValue::Table(table) => {
            let axes = table
                .into_iter()
                .map(|(key, value)| (key.get_ref().as_ref().to_owned(), key.span(), value));
            axes.collect::<Vec<_>>()
                .into_iter()
                .filter_map(|(key, span, value)| axis(collector, key, span, &value))
                .collect()
        }
        DeValue::Array(tables) => {
            tables.into_iter().filter_map(|table| axis_table(collector, table)).collect()
        }
        _ => {
            collector.error(
                Code::BadValue,
                &span,
                "`sweep` is a table",
                "expected `[sweep]` or `[[sweep]]`",
                SWEEP_EXAMPLE,
            );
            Vec::new()
        }
    }
}

fn axis_table(collector: &mut Collector<'_>, value: Spanned<DeValue<'_>>) -> Option<(Axis, Span)> {
    let span = collector.first_line(value.span());
    let DeValue::Table(mut table) = value.into_inner() else {
        collector.error(
            Code::BadValue,
            &span,
            "a sweep is a table",
            "expected `key` and `values`",
            SWEEP_EXAMPLE,
        );
        return None;
    };
    let (key, values) = (table.remove("key"), table.remove("values"));
    if let Some((other, _)) = table.into_iter().next() {
        let message = format!("`{}` is no key", other.get_ref());
        collector.error(
            Code::UnknownKeyword,
            &other.span(),
            message,
            "no key of a sweep",
            "allowed: key, values",
        );
    }
    let (Some(key), Some(values)) = (key, values) else {
        collector.error(
            Code::MissingValue,
            &span,
            "a sweep needs `key` and `values`",
            "one of them is missing",
            SWEEP_EXAMPLE,
        );
        return None;
    };
    let Some(name) = key.get_ref().as_str().map(str::to_owned) else {
        collector.error(
            Code::BadValue,
            &key.span(),
            "a key is a text",
            "expected a key's name",
            SWEEP_EXAMPLE,
        );
        return None;
    };
    axis(collector, name, key.span(), &values)
}

fn axis(
    collector: &mut Collector<'_>,
    key: String,
    span: Span,
    values: &Spanned<DeValue<'_>>,
) -> Option<(Axis, Span)> {
    let list = values.get_ref().as_array().filter(|list| !list.is_empty());
    let Some(list) = list else {
        collector.error(
            Code::BadValue,
            &values.span(),
            format!("`{key}` needs a list of values"),
            "expected a list with one value or more",
            SWEEP_EXAMPLE,
        );
        return None;
    };
    let values = list.iter().map(|value| collector.text[value.span()].to_owned()).collect();
    Some((Axis { key, values }, span))
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
                (Code::OutOfRange, format!("{what} is negative"), "time goes forwards".to_owned())
            }
            Err(QuantityError::OutOfRange) => (
                Code::OutOfRange,
                format!("{what} of `{text}` is too long"),
                "at most a year".to_owned(),
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

    /// Checks that a whole number is within a range. Without the key, returns the default.
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

/// Keys outside tables.
pub(super) const HEAD: [&str; 5] = ["name", "duration", "warmup", "seed", "runs"];
/// Lists of tables.
pub(super) const SECTIONS: [&str; 4] = ["node", "link", "route", "traffic"];
/// The largest number of names in a list of a message.
const MOST_SHOWN: usize = 20;
const SWEEP_EXAMPLE: &str =
    "for example `[[sweep]] key = \"traffic.f1.rate\" values = [\"1Mbit/s\", \"2Mbit/s\"]`";
