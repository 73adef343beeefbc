//! Turns words into a draft. It finds each keyword; the keyword's row in the keyword table then
//! reads the argument. The module `check` examines the values together.

use weir_core::aqm::{Policy, TABLE as AQMS};
use weir_core::config::Capacity;
use weir_core::sched;

use crate::aqm;
use crate::decimal::Decimal;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Severity, Span};
use crate::keyword::draft::{Draft, Places};
use crate::keyword::reader::Reader;
use crate::keyword::{self, BW, DELAY, Keyword, LOSS, Object, TABLE, Value};
use crate::lex::{Word, lex};
use crate::netem;
use crate::presets;
use crate::quantity::{self, MAX_DELAY};
use crate::scheduler;
use crate::suggest::closest;

/// Reads a specification of a link. A part that contains an error is omitted, with a diagnostic.
pub(crate) fn parse(text: &str, diagnostics: &mut Diagnostics) -> Draft {
    parse_over(Draft::new(Object::Link), text, diagnostics).0
}

/// Reads words of a link's specification into `draft`; a value in the text replaces the draft's.
/// Also returns the place of each keyword.
pub(crate) fn parse_over(draft: Draft, text: &str, diagnostics: &mut Diagnostics) -> (Draft, Seen) {
    let words = lex(text, diagnostics);
    read_words(draft, text, &words, diagnostics)
}

/// Reads a specification of an object from `words`, which are words of `text`. Also returns the
/// place of each keyword.
pub(crate) fn parse_words(
    text: &str,
    words: &[Word],
    object: Object,
    diagnostics: &mut Diagnostics,
) -> (Draft, Seen) {
    read_words(Draft::new(object), text, words, diagnostics)
}

fn read_words(
    draft: Draft,
    text: &str,
    words: &[Word],
    diagnostics: &mut Diagnostics,
) -> (Draft, Seen) {
    let mut parser = Parser {
        text,
        words,
        keywords: words_of(draft.object),
        at: 0,
        seen: Vec::new(),
        aqm: None,
        draft,
        diagnostics,
    };
    parser.short_form();
    while let Some(word) = parser.next() {
        // A text with so many errors is probably not a specification.
        if parser.diagnostics.count(Severity::Error) >= MOST_ERRORS {
            break;
        }
        parser.keyword(word);
    }
    (parser.draft, parser.seen)
}

/// The keywords of a specification and where they are, in the order of the text.
pub(crate) type Seen = Vec<(&'static Keyword, Span)>;

/// Whether a keyword is recognised where `object` is configured. For a queue or an inner scheduler,
/// all keywords are recognised, so that those of a link can be refused with a message that names
/// their proper place.
fn is_known(row: &Keyword, object: Object) -> bool {
    object != Object::Link || row.objects.contains(&object)
}

/// All words that are keywords where `object` is configured.
fn words_of(object: Object) -> Vec<&'static str> {
    let rows = TABLE.iter().filter(|row| is_known(row, object));
    rows.flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied())).collect()
}

struct Parser<'a> {
    text: &'a str,
    words: &'a [Word],
    keywords: Vec<&'static str>,
    /// The index of the next word.
    at: usize,
    seen: Seen,
    /// The place of the keyword that sets the queue's AQM or, as `droptail` does, removes it.
    aqm: Option<Span>,
    draft: Draft,
    diagnostics: &'a mut Diagnostics,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Option<&'a Word> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// The keyword that `word` means for this object, if any.
    fn lookup(&self, word: &Word) -> Option<&'static Keyword> {
        let object = self.draft.object;
        let rows =
            || TABLE.iter().copied().filter(|row| row.is(&word.text) && is_known(row, object));
        let own = rows().find(|row| row.objects.contains(&object));
        own.or_else(|| rows().next()).filter(|_| !word.quoted)
    }

    fn diagnostic(&self, code: Code, span: &Span, message: String) -> Diagnostic {
        Diagnostic::new(code, self.text, span.clone(), message)
    }

    /// Reads `RATE[/DELAY[/LOSS]]`, if it is the first word.
    fn short_form(&mut self) {
        let Some(word) = self.words.first() else { return };
        if word.quoted || !word.text.starts_with(|c: char| c.is_ascii_digit() || "./-".contains(c))
        {
            return;
        }
        self.at = 1;
        let parts = short_parts(&word.text);
        if parts.len() > 3 {
            let error = self.diagnostic(
                Code::BadValue,
                &word.span,
                format!("`{}` has too many parts", word.text),
            );
            let error = error.label("RATE/DELAY/LOSS");
            self.diagnostics.push(
                error.help("the short form is a rate, a delay and a loss, such as `4M/20ms/0.1%`"),
            );
            return;
        }
        for (row, part) in
            [&BW, &DELAY, &LOSS].into_iter().zip(parts).filter(|(_, part)| !part.is_empty())
        {
            let span = word.span.start + part.start..word.span.start + part.end;
            // A quoted word is a value even if it looks like a keyword.
            let value = Word { text: word.text[part].to_owned(), span: span.clone(), quoted: true };
            self.seen.push((row, span.clone()));
            self.read(row, &value, std::slice::from_ref(&value), 0);
            if row.name == BW.name {
                self.warn_of_bare_rate(&span, &value.text);
            }
        }
    }

    /// Adds a warning if a rate below one kilobit per second has no unit: the author of `4/20` or
    /// `bw 4` probably means megabits. A rate of 0 means no limit and needs no unit.
    fn warn_of_bare_rate(&mut self, span: &Span, text: &str) {
        let Capacity::Constant(rate) = self.draft.spec.pipe.link.capacity else { return };
        let bare = Decimal::prefix(text).is_ok_and(|(_, unit)| unit.is_empty());
        if bare && rate.bps() > 0 && rate.bps() < SLOW_BPS {
            let warning = self.diagnostic(
                Code::SmallRate,
                span,
                format!("`{text}` means {} bit/s", rate.bps()),
            );
            self.diagnostics.push(
                warning
                    .label(format!("`{text}M` is {text} Mbit/s"))
                    .help("a rate without a unit is in bit/s"),
            );
        }
    }

    fn keyword(&mut self, word: &'a Word) {
        let Some(row) = self.lookup(word) else {
            self.unknown(word);
            return self.skip_to_keyword();
        };
        let before = self.diagnostics.count(Severity::Error);
        if let Some((_, first)) = self.seen.iter().find(|(seen, _)| seen.name == row.name) {
            let error = self.diagnostic(
                Code::Repeated,
                &word.span,
                format!("`{}` is given twice", row.name),
            );
            let error = with_first(error.label("the second time"), word, first, "the first time");
            self.diagnostics.push(error.help("remove one of the two"));
            return self.skip_to_keyword();
        }
        self.seen.push((row, word.span.clone()));
        match row.value {
            Value::Aqm(_) => self.aqm(row, word),
            Value::Scheduler(_) => self.scheduler(row, word),
            Value::DropTail => self.set_aqm(word, None),
            _ => {
                let value = self.words.get(self.at).map(|word| (word.span.clone(), &word.text));
                self.at = self.read(row, word, self.words, self.at);
                if row.name == BW.name
                    && let Some((span, text)) = value
                {
                    self.warn_of_bare_rate(&span, text);
                }
            }
        }
        // The words after a wrong value are probably parts of it. They get no messages of their
        // own.
        if self.diagnostics.count(Severity::Error) > before {
            self.skip_to_keyword();
        }
    }

    /// Reads the argument of a keyword, which begins at `words[at]`. Returns the index of the next
    /// word.
    fn read(&mut self, row: &'static Keyword, keyword: &Word, words: &[Word], at: usize) -> usize {
        let mut reader = Reader {
            text: self.text,
            words,
            at,
            keyword,
            keywords: &self.keywords,
            subject: row.subject(),
            value: None,
            diagnostics: self.diagnostics,
        };
        // An argument that cannot be read has been reported. Callers do not use a draft after an
        // error.
        let _ = row.value.read(&mut reader, &mut self.draft);
        let (at, place_of_value) = (reader.at, reader.value);
        let keyword = keyword.span.clone();
        let value = place_of_value.unwrap_or_else(|| keyword.clone());
        self.draft.note(row.name, Places { keyword, value });
        at
    }

    fn aqm(&mut self, row: &'static Keyword, word: &Word) {
        let read = aqm::read(self.text, row, self.words, self.at);
        self.at = read.end;
        match read.policy {
            Ok(policy) => {
                self.set_aqm(word, Some(policy));
                self.draft.thresholds_in_queue_unit = read.thresholds_in_queue_unit;
            }
            Err(error) => self.diagnostics.push(*error),
        }
    }

    fn scheduler(&mut self, row: &'static Keyword, word: &Word) {
        let read = scheduler::read(self.text, row, self.words, self.at);
        self.at = read.end;
        match read.discipline {
            Ok(discipline) => {
                let places = Places { keyword: word.span.clone(), value: word.span.clone() };
                self.draft.note(row.name, places);
                self.draft.spec.pipe.scheduler = Some(discipline);
            }
            Err(error) => self.diagnostics.push(*error),
        }
    }

    /// Sets the queue's AQM; `None` means drop tail. A second one is an error.
    fn set_aqm(&mut self, word: &Word, policy: Option<Policy>) {
        if let Some(first) = &self.aqm {
            let error =
                self.diagnostic(Code::Contradiction, &word.span, "a queue has one AQM".to_owned());
            let error = with_first(error.label("the second one"), word, first, "the first one");
            self.diagnostics.push(error.help("remove one of the two"));
        }
        self.aqm = Some(word.span.clone());
        let places = Places { keyword: word.span.clone(), value: word.span.clone() };
        self.draft.note(keyword::AQM.name, places);
        self.draft.spec.pipe.queue.aqm = policy;
    }

    fn unknown(&mut self, word: &Word) {
        let error = self.diagnostic(
            Code::UnknownKeyword,
            &word.span,
            format!("unknown keyword `{}`", word.text),
        );
        let error = match self.of_netem(word) {
            Some(label) => error.label(label),
            None => self.explain(error, word),
        };
        let own = TABLE.iter().filter(|row| row.objects.contains(&self.draft.object));
        let names: Vec<_> = own.map(|row| row.name).collect();
        let help = format!("keywords are {}", names.join(", "));
        self.diagnostics.push(error.help(help));
    }

    /// Completes the error about an unknown word: says what the word may mean.
    fn explain(&self, error: Diagnostic, word: &Word) -> Diagnostic {
        match closest(&word.text, self.keywords.iter().copied()) {
            Some(meant) => error.label(format!("did you mean `{meant}`?")),
            None if presets::preset(&word.text).is_ok() => error.label("a preset").help(
                "a preset describes both directions; use it alone, not inside a specification",
            ),
            None if keyword::lookup(&word.text).is_some() => {
                error.label("a word of queues in front of a scheduler: `queue N config sched M …`")
            }
            None if sched::Kind::from_name(&word.text).is_some_and(scheduler::suits_a_link) => {
                error.label(format!("a scheduler: `sched {}`", word.text))
            }
            None if sched::Kind::from_name(&word.text).is_some() => {
                error.label("a scheduler, with queues of its own: `sched N config type …`")
            }
            None if AQMS
                .iter()
                .any(|row| row.name == word.text || row.aliases.contains(&word.text.as_str())) =>
            {
                error.label(format!("an AQM: `aqm {}`", word.text))
            }
            None if AQMS
                .iter()
                .any(|row| row.parameters.iter().any(|setting| setting.name == word.text)) =>
            {
                error
                    .label("a setting of AQMs: put it directly behind the AQM's name, `aqm NAME …`")
            }
            None => error.label("no keyword begins here"),
        }
    }

    /// A label with the meaning of an unknown word in netem's language, if it has one there. In
    /// netem, the second duration after `delay` is the jitter. `limit` in a text with an AQM is
    /// probably the AQM's setting.
    fn of_netem(&self, word: &Word) -> Option<String> {
        let follows_delay = self.seen.last().is_some_and(|(row, _)| row.name == DELAY.name);
        if follows_delay && quantity::time(&word.text, MAX_DELAY).is_ok() {
            return Some(format!("netem's jitter; here it is `jitter {}`", word.text));
        }
        netem::keyword(&word.text).filter(|_| word.text != "limit" || self.aqm.is_none())
    }

    fn skip_to_keyword(&mut self) {
        while self.words.get(self.at).is_some_and(|word| self.lookup(word).is_none()) {
            self.at += 1;
        }
    }
}

/// Adds the first place of a repeated word to its diagnostic, if both places are in the same line.
fn with_first(error: Diagnostic, word: &Word, first: &Span, label: &str) -> Diagnostic {
    let offset = word.span.start - error.span.start.min(word.span.start);
    let shown = first.start >= offset && first.end >= offset;
    if shown { error.other(first.start - offset..first.end - offset, label) } else { error }
}

/// The places of the parts of the short form. The `/` of `bit/s` does not separate parts.
fn short_parts(text: &str) -> Vec<Span> {
    let mut parts: Vec<Span> = Vec::new();
    let mut start = 0;
    for part in text.split('/') {
        let end = start + part.len();
        match parts.last_mut() {
            Some(last) if part == "s" => last.end = end,
            _ => parts.push(start..end),
        }
        start = end + 1;
    }
    parts
}

/// A lower rate than this, in bit/s, is probably a mistake: a full-size packet takes more than
/// twelve seconds.
pub(crate) const SLOW_BPS: u64 = 1000;
/// Number of errors after which the rest of a specification is not read.
const MOST_ERRORS: usize = 20;
