//! The position up to which a line has been read, and the diagnostics for errors at that position.

use std::collections::HashMap;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, shorten};
use crate::files::Files;
use crate::lex::Word;
use crate::rule::Name;
use crate::suggest::closest;
use crate::table::FlowFields;

use super::lex::Lexed;
use super::variables::Variables;

/// The result of reading a part of a line. The first error ends the reading.
pub(crate) type Read<T> = Result<T, Box<Diagnostic>>;

/// A line and the position in it.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) text: &'a str,
    pub(crate) words: Vec<Word>,
    /// The index of the next word.
    pub(crate) at: usize,
    /// The offset of the command in the line, after the program's name and flags.
    pub(crate) start: usize,
    /// The text after `//`.
    pub(crate) comment: Option<String>,
    pub(crate) files: FilesRef<'a>,
    /// The state from earlier lines.
    pub(crate) context: &'a mut Context,
    /// The flags before the command.
    pub(crate) flags: Flags,
    /// Diagnostics other than the error that ends the line.
    pub(crate) diagnostics: Diagnostics,
}

/// The state that earlier lines pass to later ones.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// The variables that assignments have set.
    pub(crate) variables: Variables,
    /// The fields of the flow tables that the script creates.
    pub(crate) flow_tables: HashMap<Name, FlowFields>,
}

/// The source of files, in a form that implements `Debug`.
#[derive(Clone, Copy)]
pub(crate) struct FilesRef<'a>(pub(crate) &'a dyn Files);

impl core::fmt::Debug for FilesRef<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Files")
    }
}

/// Flags before a command that change its meaning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// Whether `-q` is given.
    pub(crate) quiet: bool,
    /// Whether `-a` is given.
    pub(crate) counters: bool,
    /// Whether `-n` is given.
    pub(crate) dry: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(lexed: Lexed<'a>, files: &'a dyn Files, context: &'a mut Context) -> Self {
        let Lexed { text, words, comment, .. } = lexed;
        let (flags, diagnostics) = (Flags::default(), Diagnostics::default());
        Self {
            text,
            words,
            at: 0,
            start: 0,
            comment,
            files: FilesRef(files),
            context,
            flags,
            diagnostics,
        }
    }

    pub(crate) fn peek(&self) -> Option<&Word> {
        self.words.get(self.at)
    }

    pub(crate) fn next(&mut self) -> Option<Word> {
        let word = self.words.get(self.at).cloned()?;
        self.at += 1;
        Some(word)
    }

    /// The text of the next word, unless it is quoted.
    pub(crate) fn plain(&self) -> Option<&str> {
        self.peek().filter(|w| !w.quoted).map(|w| w.text.as_str())
    }

    /// Takes the next word if it is `word`. Returns whether the word was taken.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        let found = self.plain() == Some(word);
        self.at += usize::from(found);
        found
    }

    /// Takes the next word if it is one of `words`. Returns whether the word was taken.
    pub(crate) fn take_any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.take(word))
    }

    pub(crate) fn take_rest(&mut self) -> Vec<Word> {
        let rest = self.words.split_off(self.at.min(self.words.len()));
        self.at = self.words.len();
        rest
    }

    pub(crate) fn at_end(&self) -> bool {
        self.at >= self.words.len()
    }

    /// Takes the next word. If there is none, the error says that `what` is expected and shows
    /// `example`.
    pub(crate) fn expect(&mut self, what: &str, example: &str) -> Read<Word> {
        match self.next() {
            Some(word) => Ok(word),
            None => Err(self.missing(what, example)),
        }
    }

    /// Returns an error if a word is left.
    pub(crate) fn end(&self) -> Read<()> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(self.unexpected(word)),
        }
    }

    /// The diagnostic for a surplus word.
    pub(crate) fn unexpected(&self, word: &Word) -> Box<Diagnostic> {
        let message = format!("`{}` is one word too many", shorten(&word.text));
        Box::new(
            self.error(Code::Unexpected, &word.span, message)
                .label("the command ends before it")
                .help("remove it"),
        )
    }

    pub(crate) fn error(&self, code: Code, span: &Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, self.text, span.clone(), message)
    }

    /// The diagnostic for something that is missing before the next word or at the end.
    pub(crate) fn missing(&self, what: &str, example: &str) -> Box<Diagnostic> {
        let before = self.at.checked_sub(1).and_then(|at| self.words.get(at));
        let span = before.or(self.peek()).map_or(0..0, |w| w.span.clone());
        let after =
            before.map_or_else(|| "the command".to_owned(), |w| format!("`{}`", shorten(&w.text)));
        let error = self.error(Code::MissingValue, &span, format!("{after} needs {what} after it"));
        Box::new(error.label(format!("expected {what}")).help(format!("for example `{example}`")))
    }

    /// The diagnostic for a word that is not allowed here.
    pub(crate) fn unknown<'w>(
        &self,
        word: &Word,
        what: &str,
        allowed: impl Iterator<Item = &'w str>,
    ) -> Box<Diagnostic> {
        let allowed: Vec<&str> = allowed.collect();
        let error = self.error(
            Code::UnknownKeyword,
            &word.span,
            format!("`{}` is no {what}", shorten(&word.text)),
        );
        let error = match closest(&word.text, allowed.iter().copied()) {
            Some(meant) => error.label(format!("did you mean `{meant}`?")),
            None => error.label(format!("expected {}", with_article(what))),
        };
        Box::new(error.help(format!("allowed: {}", allowed.join(", "))))
    }

    /// The diagnostic for a value that is not allowed.
    pub(crate) fn bad(&self, span: &Span, message: String, allowed: &str) -> Box<Diagnostic> {
        Box::new(self.error(Code::BadValue, span, message).label(format!("expected {allowed}")))
    }

    pub(crate) fn out_of_range(
        &self,
        span: &Span,
        text: &str,
        what: &str,
        range: &str,
    ) -> Box<Diagnostic> {
        let message = format!("`{}` is out of range for {}", shorten(text), with_article(what));
        Box::new(self.error(Code::OutOfRange, span, message).label(format!("allowed: {range}")))
    }

    /// Adds a note that something is accepted and has no effect.
    pub(crate) fn ignore(&mut self, span: &Span, what: &str, why: &str) {
        let note = self.error(Code::Ignored, span, format!("{what} is accepted and ignored"));
        self.diagnostics.push(note.label(why));
    }
}

fn with_article(what: &str) -> String {
    if what.starts_with("a ") || what.starts_with("an ") {
        return what.to_owned();
    }
    let vowel = what.starts_with(['a', 'e', 'i', 'o', 'A', 'E', 'I', 'O']);
    format!("{} {what}", if vowel { "an" } else { "a" })
}
