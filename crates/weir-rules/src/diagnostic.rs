//! Diagnostics: each names a fault in a text and its place. If they are known, it also names the
//! allowed alternatives and the text that was probably meant.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet, normalize_untrusted_str};
use core::fmt;
use core::ops::Range;

/// A range of a text, in bytes.
pub type Span = Range<usize>;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The text is refused.
    Error,
    /// The text is accepted, but part of it does not have the expected effect.
    Warning,
    /// Additional information.
    Note,
}

/// The kind of a diagnostic. The names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A word that is not a keyword.
    UnknownKeyword,
    /// A keyword without the value that it needs.
    MissingValue,
    /// A value that does not have the keyword's form.
    BadValue,
    /// A number with a unit that does not fit.
    BadUnit,
    /// A number outside the keyword's range.
    OutOfRange,
    /// A keyword that is given twice.
    Repeated,
    /// Two keywords that exclude each other.
    Contradiction,
    /// A keyword that this version recognises but does not support.
    NotYet,
    /// A quoted word without its closing quote.
    UnclosedQuote,
    /// A file that cannot be read.
    Unreadable,
    /// A file with wrong content.
    BadFile,
    /// A setting that has no effect.
    NoEffect,
    /// A setting that another setting replaces from the first moment.
    Overridden,
    /// A queue that is too small for a full-size packet.
    SmallQueue,
    /// A number without a unit that gives an unusually low rate.
    SmallRate,
    /// Jitter without a delay that it could shorten.
    JitterAlone,
    /// A keyword that is accepted and has no effect.
    Ignored,
    /// Two rates for one link, only one of which is used.
    ProfileRate,
    /// A rate of zero in a rate trace, which is treated as an outage.
    Outage,
    /// A surplus word.
    Unexpected,
    /// A feature that only the firewall of an operating system has.
    KernelOnly,
    /// A feature that only a shell has.
    Shell,
    /// A variable that has no value.
    UnknownVariable,
    /// A text beyond a limit, such as too many errors or a line that is too long.
    TooMuch,
    /// A pipe, queue, scheduler, table or rule that is referred to but not configured.
    NotConfigured,
    /// A jump to a rule that is not after the jumping rule.
    Backwards,
    /// Calls that lead back to the caller.
    CallLoop,
    /// A command that fails unless something was configured before the script ran.
    NotApplied,
    /// A simulation that takes hours.
    LongRun,
}

impl Code {
    /// Every code.
    pub const ALL: &'static [Self] = &[
        Self::UnknownKeyword,
        Self::MissingValue,
        Self::BadValue,
        Self::BadUnit,
        Self::OutOfRange,
        Self::Repeated,
        Self::Contradiction,
        Self::NotYet,
        Self::UnclosedQuote,
        Self::Unreadable,
        Self::BadFile,
        Self::NoEffect,
        Self::Overridden,
        Self::SmallQueue,
        Self::SmallRate,
        Self::JitterAlone,
        Self::Ignored,
        Self::ProfileRate,
        Self::Outage,
        Self::Unexpected,
        Self::KernelOnly,
        Self::Shell,
        Self::UnknownVariable,
        Self::TooMuch,
        Self::NotConfigured,
        Self::Backwards,
        Self::CallLoop,
        Self::NotApplied,
        Self::LongRun,
    ];

    /// The stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownKeyword => "unknown-keyword",
            Self::MissingValue => "missing-value",
            Self::BadValue => "bad-value",
            Self::BadUnit => "bad-unit",
            Self::OutOfRange => "out-of-range",
            Self::Repeated => "repeated",
            Self::Contradiction => "contradiction",
            Self::NotYet => "not-yet",
            Self::UnclosedQuote => "unclosed-quote",
            Self::Unreadable => "unreadable",
            Self::BadFile => "bad-file",
            Self::NoEffect => "no-effect",
            Self::Overridden => "overridden",
            Self::SmallQueue => "small-queue",
            Self::SmallRate => "small-rate",
            Self::JitterAlone => "jitter-alone",
            Self::Ignored => "ignored",
            Self::ProfileRate => "profile-rate",
            Self::Outage => "outage",
            Self::Unexpected => "unexpected",
            Self::KernelOnly => "kernel-only",
            Self::Shell => "shell",
            Self::UnknownVariable => "unknown-variable",
            Self::TooMuch => "too-much",
            Self::NotConfigured => "not-configured",
            Self::Backwards => "backwards",
            Self::CallLoop => "call-loop",
            Self::NotApplied => "not-applied",
            Self::LongRun => "long-run",
        }
    }

    /// The severity of diagnostics with this code.
    pub const fn severity(self) -> Severity {
        match self {
            Self::NoEffect
            | Self::Overridden
            | Self::SmallQueue
            | Self::SmallRate
            | Self::JitterAlone => Severity::Warning,
            Self::NotConfigured
            | Self::Backwards
            | Self::CallLoop
            | Self::NotApplied
            | Self::LongRun => Severity::Warning,
            Self::Ignored | Self::ProfileRate | Self::Outage => Severity::Note,
            _ => Severity::Error,
        }
    }
}

/// A diagnostic. It contains the line that it refers to, so that it can be shown without the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind of diagnostic.
    pub code: Code,
    /// The problem, in one sentence.
    pub message: String,
    /// The name of the file; `None` for the specification itself.
    pub file: Option<String>,
    /// The line number, from 1.
    pub line: usize,
    /// The text of the line.
    pub text: String,
    /// The marked range of the line, in bytes.
    pub span: Span,
    /// A label for the marked range: what it is, or what is expected there.
    pub label: String,
    /// An earlier range of the line that is related, with its label.
    pub other: Option<(Span, String)>,
    /// The allowed alternatives, and advice.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// Creates a diagnostic about the range `span` of `text`.
    pub fn new(code: Code, text: &str, span: Span, message: impl Into<String>) -> Self {
        let (start, end) = (floor_boundary(text, span.start), floor_boundary(text, span.end));
        let first = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let last = text[first..].find('\n').map_or(text.len(), |i| first + i);
        let line = text[..first].matches('\n').count() + 1;
        // Of a very long line, keep only the part near the marked range.
        let first = if start - first > LONGEST_LINE {
            floor_boundary(text, start - LONGEST_LINE / 2)
        } else {
            first
        };
        let last = if last - first > 2 * LONGEST_LINE {
            floor_boundary(text, first + 2 * LONGEST_LINE)
        } else {
            last
        };
        let span = start - first..end.clamp(start, last.max(start)) - first;
        let text = text[first..last].to_owned();
        Self {
            code,
            message: message.into(),
            file: None,
            line,
            text,
            span,
            label: String::new(),
            other: None,
            help: Vec::new(),
        }
    }

    /// Sets the label of the marked range.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds help.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Adds a related range. A range outside the line is ignored.
    #[must_use]
    pub fn other(mut self, span: Span, label: impl Into<String>) -> Self {
        if span.end <= self.text.len()
            && self.text.is_char_boundary(span.start)
            && self.text.is_char_boundary(span.end)
        {
            self.other = Some((span, label.into()));
        }
        self
    }

    /// Sets the name of the file from which the text was read.
    #[must_use]
    pub fn in_file(mut self, name: &str) -> Self {
        self.file = Some(name.to_owned());
        self
    }

    /// The same diagnostic without any text of the file that it refers to. It keeps its kind, the
    /// name of the file, the number of the line, and what is expected there.
    #[must_use]
    pub fn without_quotes(self) -> Self {
        let message = match self.code {
            Code::Outage => "a rate of 0 is an outage, taken as 1 bit/s".to_owned(),
            _ => format!("line {} is not what this kind of file contains", self.line),
        };
        // Other labels may repeat words of the file.
        let label = if self.label.starts_with(EXPECTED) { self.label } else { String::new() };
        let help = [self.help, vec![NOT_SHOWN.to_owned()]].concat();
        Self { message, text: String::new(), span: 0..0, label, other: None, help, ..self }
    }

    fn render(&self, renderer: &Renderer) -> String {
        let level = match self.code.severity() {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let mut snippet = Snippet::source(self.text.as_str()).line_start(self.line).fold(false);
        if let Some(file) = &self.file {
            snippet = snippet.path(normalize_untrusted_str(file));
        }
        snippet = snippet.annotation(
            AnnotationKind::Primary
                .span(self.span.clone())
                .label(normalize_untrusted_str(&self.label)),
        );
        if let Some((span, label)) = &self.other {
            snippet = snippet
                .annotation(AnnotationKind::Context.span(span.clone()).label(label.as_str()));
        }
        let mut group = level
            .primary_title(normalize_untrusted_str(&self.message))
            .id(self.code.name())
            .element(snippet);
        for help in &self.help {
            group = group.element(Level::HELP.message(normalize_untrusted_str(help)));
        }
        renderer.render(&[group])
    }
}

/// The diagnostics of a text. At most 100 of each severity are kept; all are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
    /// The number of diagnostics of each severity.
    count: [usize; 3],
}

impl Diagnostics {
    /// Adds a diagnostic. If 100 of its severity are kept already, it is only counted.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let count = &mut self.count[diagnostic.code.severity() as usize];
        *count += 1;
        if *count <= MAX_KEPT {
            self.items.push(diagnostic);
        }
    }

    /// The same diagnostics. Those about the file `name` lose the name of the file.
    #[must_use]
    pub fn without_file(mut self, name: &str) -> Self {
        for diagnostic in self.items.iter_mut().filter(|d| d.file.as_deref() == Some(name)) {
            diagnostic.file = None;
        }
        self
    }

    /// The number of diagnostics of a severity, including those that are not kept.
    pub fn count(&self, severity: Severity) -> usize {
        self.count[severity as usize]
    }

    /// Adds all diagnostics of another text, and applies `change` to each.
    pub fn append(&mut self, other: Self, mut change: impl FnMut(&mut Diagnostic)) {
        let beyond = other.count.map(|n| n.saturating_sub(MAX_KEPT));
        for mut diagnostic in other.items {
            change(&mut diagnostic);
            self.push(diagnostic);
        }
        for (count, beyond) in self.count.iter_mut().zip(beyond) {
            *count += beyond;
        }
    }

    /// The kept diagnostics, in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.items.iter()
    }

    /// The kept diagnostics of a severity.
    pub fn of(&self, severity: Severity) -> impl Iterator<Item = &Diagnostic> {
        self.items.iter().filter(move |d| d.code.severity() == severity)
    }

    /// Whether there are errors, so that the text is refused.
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// Whether there are no diagnostics at all.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The diagnostics as text for a terminal, with or without colour. Each shows its line with the
    /// marked range underlined.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() }
            .decor_style(DecorStyle::Ascii);
        let mut parts: Vec<String> = self.items.iter().map(|d| d.render(&renderer)).collect();
        let more = [
            (Severity::Error, "errors"),
            (Severity::Warning, "warnings"),
            (Severity::Note, "notes"),
        ];
        let more =
            more.map(|(severity, name)| (self.count(severity) - self.of(severity).count(), name));
        let more: Vec<String> = more
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, name)| format!("{n} more {name}"))
            .collect();
        if !more.is_empty() {
            parts.push(format!("… and {}", more.join(", ")));
        }
        parts.join("\n\n")
    }
}

/// The rendering without colour.
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// The range of `part`, a slice of `text`, within `text`.
pub(crate) fn span_of(text: &str, part: &str) -> Span {
    let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start + part.len()
}

/// Shortens a word for use in a message.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The nearest character boundary at or before `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

/// The first word of labels that describe what is expected at a place and repeat nothing of the
/// text.
const EXPECTED: &str = "expected ";
const NOT_SHOWN: &str = "the line is not shown, since the file is not below the directory of the \
                         text that names it, or only root may read it";
/// Maximum number of diagnostics of one severity that are kept.
const MAX_KEPT: usize = 100;
/// At most twice this number of bytes of a line are kept. If more than this number of bytes precede
/// the marked range, half of this number is kept before it.
const LONGEST_LINE: usize = 500;
/// Maximum number of characters of a wrong word that a message repeats.
const LONGEST_SHOWN: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_complete_and_their_names_differ() {
        let names: std::collections::BTreeSet<_> = Code::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        assert_eq!(Code::ALL.last().map(|&c| c as usize), Some(Code::ALL.len() - 1));
    }

    #[test]
    fn many_diagnostics_are_all_counted_and_some_are_kept() {
        let mut all = Diagnostics::default();
        for _ in 0..3 {
            let mut some = Diagnostics::default();
            (0..150).for_each(|_| some.push(Diagnostic::new(Code::BadValue, "x", 0..1, "wrong")));
            all.append(some, |d| d.line = 7);
        }
        assert_eq!((all.iter().count(), all.count(Severity::Error)), (MAX_KEPT, 450));
        assert!(all.iter().all(|d| d.line == 7));
        assert!(all.render(false).ends_with("… and 350 more errors"));
    }

    #[test]
    fn only_the_part_of_a_long_line_near_the_place_is_shown() {
        let text = "é".repeat(100_000);
        let diagnostic = Diagnostic::new(Code::BadValue, &text, 150_000..150_002, "wrong");
        assert!(diagnostic.text.len() <= 2 * LONGEST_LINE);
        assert_eq!(&diagnostic.text[diagnostic.span.clone()], "é");
    }

    #[test]
    fn a_diagnostic_without_quotes_keeps_the_place_and_what_is_expected() {
        let text = "one\nsecret three\nfour";
        let diagnostic = Diagnostic::new(Code::BadFile, text, 4..10, "`secret` is no number")
            .label("did you mean `secret`?")
            .in_file("f")
            .help("numbers are allowed");
        let plain = diagnostic.clone().without_quotes();
        assert!(!format!("{plain:?}").contains("secret"), "{plain:?}");
        assert_eq!((plain.line, plain.file.as_deref(), plain.help.len()), (2, Some("f"), 2));
        let expected = diagnostic.label("expected a time").without_quotes();
        assert_eq!(expected.label, "expected a time");
        let mut all = Diagnostics::default();
        all.push(expected);
        assert!(all.render(false).contains("f:2"), "{}", all.render(false));
    }

    #[test]
    fn a_place_in_the_second_line_is_shown_with_that_line() {
        let diagnostic = Diagnostic::new(Code::BadValue, "one\ntwo three\nfour", 8..13, "wrong")
            .label("here")
            .in_file("f");
        assert_eq!(
            (diagnostic.line, diagnostic.text.as_str(), diagnostic.span.clone()),
            (2, "two three", 4..9)
        );
        let mut all = Diagnostics::default();
        all.push(diagnostic);
        let text = all.render(false);
        assert!(text.contains("f:2:5") && text.contains("^^^^^ here"), "{text}");
        assert!(all.render(true).contains('\u{1b}'));
    }
}
