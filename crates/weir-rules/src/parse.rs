//! From words to settings: each keyword with its value and its place. What the values mean together
//! is decided in `check`.

mod device;

use weir_core::aqm::{Policy, TABLE as AQMS};
use weir_core::config::{MAX_QUEUE_PACKETS, QueueLimit, Reorder};
use weir_core::link::Overhead;
use weir_core::sched;
use weir_core::units::Probability;

use crate::Gso;
use crate::aqm;
use crate::decimal::Decimal;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Severity, Span};
use crate::keyword::{self, Group, Id, Keyword, TABLE};
use crate::lex::{Word, lex};
use crate::mask;
use crate::presets;
use crate::quantity::{self, MAX_DELAY, QuantityError};
use crate::raw::{At, Raw, RawJitter, Shape};
use crate::suggest::closest;

/// Reads a specification; what cannot be understood is left out and said.
pub(crate) fn parse(text: &str, diagnostics: &mut Diagnostics) -> Raw {
    let words = lex(text, diagnostics);
    parse_words(text, words, Words::OfLink, diagnostics).0
}

/// Which words are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// Those of a link.
    OfLink,
    /// Those of a queue in front of a scheduler too; `burst` is the flow's there.
    OfQueue,
}

impl Words {
    /// The keyword that `word` is here.
    fn lookup(self, word: &str) -> Option<&'static Keyword> {
        keyword::lookup(word).filter(|row| self.has(row))
    }

    fn has(self, row: &Keyword) -> bool {
        self == Self::OfQueue || row.group != Group::Flow
    }

    /// All words that are keywords here.
    fn all(self) -> impl Iterator<Item = &'static str> {
        keyword::words().filter(move |word| self.lookup(word).is_some())
    }
}

/// Reads a specification that stands as `words` in `text`, and says where each keyword was given.
pub(crate) fn parse_words(
    text: &str,
    words: Vec<Word>,
    which: Words,
    diagnostics: &mut Diagnostics,
) -> (Raw, Seen) {
    let raw = Raw { of_link: which == Words::OfLink, ..Raw::default() };
    let mut parser =
        Parser { text, words, which, at: 0, seen: [const { None }; TABLE.len()], raw, diagnostics };
    parser.short_form();
    while let Some(word) = parser.next() {
        // A text that is wrong so often is no specification.
        if parser.diagnostics.count(Severity::Error) >= MOST_ERRORS {
            break;
        }
        parser.keyword(&word);
    }
    (parser.raw, parser.seen)
}

/// Where each keyword was given, by its place in the table.
pub(crate) type Seen = [Option<Span>; TABLE.len()];

struct Parser<'a> {
    text: &'a str,
    words: Vec<Word>,
    which: Words,
    at: usize,
    /// Where each keyword was given.
    seen: Seen,
    raw: Raw,
    diagnostics: &'a mut Diagnostics,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Word> {
        self.words.get(self.at)
    }

    fn next(&mut self) -> Option<Word> {
        let word = self.words.get(self.at).cloned()?;
        self.at += 1;
        Some(word)
    }

    fn error(&mut self, code: Code, span: &Span, message: String) -> Diagnostic {
        Diagnostic::new(code, self.text, span.clone(), message)
    }

    /// `RATE[/DELAY[/LOSS]]` as the first word.
    fn short_form(&mut self) {
        let Some(word) = self.peek().cloned() else { return };
        if word.quoted || !word.text.starts_with(|c: char| c.is_ascii_digit() || "./-".contains(c))
        {
            return;
        }
        self.at += 1;
        let parts = short_parts(&word.text);
        if parts.len() > 3 {
            let error = self.error(
                Code::BadValue,
                &word.span,
                format!("`{}` has too many parts", word.text),
            );
            self.diagnostics.push(
                error
                    .label("RATE/DELAY/LOSS")
                    .help("the short form is a rate, a delay and a loss, such as `4M/20ms/0.1%`"),
            );
            return;
        }
        for (id, part) in [Id::Bw, Id::Delay, Id::Loss]
            .into_iter()
            .zip(parts)
            .filter(|(_, part)| !part.is_empty())
        {
            let span = word.span.start + part.start..word.span.start + part.end;
            let text = &word.text[part];
            self.seen[id as usize] = Some(span.clone());
            match id {
                Id::Bw => {
                    self.raw.rate = self.accept(id, &span, text, quantity::rate(text));
                    self.doubt_bare_rate(&span, text);
                }
                Id::Delay => {
                    self.raw.delay = self.accept(id, &span, text, quantity::time(text, MAX_DELAY))
                }
                _ => self.raw.loss = self.accept(id, &span, text, quantity::loss(text)),
            }
        }
    }

    /// Says so when the short form's rate has no unit and is below a kilobit per second: `4/20` is
    /// meant as megabits.
    fn doubt_bare_rate(&mut self, span: &Span, text: &str) {
        let Some(At { value: Some(rate), .. }) = self.raw.rate else { return };
        let bare = Decimal::prefix(text).is_ok_and(|(_, unit)| unit.is_empty());
        if bare && rate.bps() < SLOW_BPS {
            let warning =
                self.error(Code::SmallRate, span, format!("`{text}` means {} bit/s", rate.bps()));
            self.diagnostics.push(
                warning
                    .label(format!("`{text}M` is {text} Mbit/s"))
                    .help("a rate without a unit is in bit/s"),
            );
        }
    }

    /// One keyword with its value.
    fn keyword(&mut self, word: &Word) {
        let Some(row) = self.which.lookup(&word.text).filter(|_| !word.quoted) else {
            self.unknown(word);
            return self.skip_to_keyword();
        };
        let before = self.diagnostics.count(Severity::Error);
        if let Some(first) = self.seen[row.id as usize].replace(word.span.clone()) {
            let error =
                self.error(Code::Repeated, &word.span, format!("`{}` is given twice", row.name));
            let error = with_first(error.label("the second time"), word, &first, "the first time");
            self.diagnostics.push(error.help("remove one of the two"));
            return self.skip_to_keyword();
        }
        self.setting(row, word);
        // What follows a value that is wrong is likely a part of it: one mistake, one message.
        if self.diagnostics.count(Severity::Error) > before {
            self.skip_to_keyword();
        }
    }

    fn setting(&mut self, row: &'static Keyword, word: &Word) {
        match row.id {
            Id::Bw => self.raw.rate = self.quantity(row, word, quantity::rate),
            Id::Trace => self.raw.trace = self.file(row, word),
            Id::Schedule => {
                self.raw.schedule = self
                    .file(row, word)
                    .map(|file| At { value: (file.value, self.flag("loop")), span: file.span });
            }
            Id::Burst if self.which == Words::OfQueue => {
                self.raw.flow_burst = self.quantity(row, word, quantity::size).map(|at| at.value)
            }
            Id::Burst => self.raw.burst = self.quantity(row, word, quantity::size),
            Id::Overhead => self.raw.overhead = self.overhead(row, word),
            Id::Profile => self.raw.profile = self.file(row, word),
            Id::Delay => {
                self.raw.delay = self.quantity(row, word, |t| quantity::time(t, MAX_DELAY))
            }
            Id::Jitter => self.raw.jitter = self.jitter(row, word),
            Id::Reorder => self.raw.reorder = self.reorder(row, word),
            Id::Loss => self.raw.loss = self.quantity(row, word, quantity::loss),
            Id::Plr => self.raw.plr = self.quantity(row, word, quantity::loss).map(|at| at.value),
            Id::Dup => {
                self.raw.duplicate = self
                    .quantity(row, word, quantity::probability)
                    .map_or(Probability::ZERO, |at| at.value)
            }
            Id::Corrupt => {
                self.raw.corrupt = self
                    .quantity(row, word, quantity::probability)
                    .map_or(Probability::ZERO, |at| at.value)
            }
            Id::Queue => self.raw.queue = self.queue(row, word),
            Id::Droptail => self.manage(word, None),
            Id::Mask => self.mask(row, word),
            Id::MaxFlows => self.raw.max_flows = self.number(row, word, 1, MAX_FLOWS),
            Id::Weight => self.raw.weight = self.number(row, word, 1, 65_536),
            Id::Lmax => self.raw.max_packet = self.number(row, word, 64, 65_536),
            Id::Pri => self.raw.priority = self.number(row, word, 0, 63),
            Id::Rate => {
                self.raw.flow_rate =
                    self.quantity(row, word, quantity::rate).and_then(|at| at.value)
            }
            Id::Ceil => {
                self.raw.flow_ceil =
                    self.quantity(row, word, quantity::rate).and_then(|at| at.value)
            }
            Id::Deadline => {
                self.raw.deadline =
                    self.quantity(row, word, |t| quantity::time(t, MAX_DELAY)).map(|at| at.value)
            }
            Id::Buckets => {
                if self.number(row, word, 1, 65_536).is_some() {
                    self.ignored(word, "tables grow by themselves");
                }
            }
            Id::Noerror => self.ignored(word, "a sender is never told of a drop"),
            Id::Gso => self.raw.gso = self.gso(row, word),
            Id::Red | Id::Gred | Id::Codel | Id::Pie | Id::Aqm => self.aqm(row, word),
            Id::Ring | Id::Dql | Id::Coalesce | Id::Cpu => self.device(row, word),
        }
    }

    /// An AQM with its settings.
    fn aqm(&mut self, row: &Keyword, word: &Word) {
        let read = aqm::read(self.text, row, &self.words, self.at);
        self.at = read.behind;
        match read.policy {
            Ok(policy) => {
                self.manage(word, Some(policy));
                self.raw.thresholds_as_queue = matches!(row.id, Id::Red | Id::Gred);
            }
            Err(error) => self.diagnostics.push(*error),
        }
    }

    /// Takes what manages the queue, `None` for its limit alone; there is one.
    fn manage(&mut self, word: &Word, policy: Option<Policy>) {
        if let Some(At { span: first, .. }) = &self.raw.aqm {
            let first = first.clone();
            let error =
                self.error(Code::Contradiction, &word.span, "a queue has one AQM".to_owned());
            let error = with_first(error.label("the second one"), word, &first, "the first one");
            self.diagnostics.push(error.help("remove one of the two"));
        }
        self.raw.aqm = Some(At { value: policy, span: word.span.clone() });
    }

    fn ignored(&mut self, word: &Word, why: &str) {
        let note = self.error(
            Code::Ignored,
            &word.span,
            format!("`{}` is accepted and ignored", word.text),
        );
        self.diagnostics.push(note.label(why));
    }

    fn unknown(&mut self, word: &Word) {
        let error = self.error(
            Code::UnknownKeyword,
            &word.span,
            format!("unknown keyword `{}`", word.text),
        );
        let error = match closest(&word.text, self.which.all()) {
            Some(meant) => error.label(format!("did you mean `{meant}`?")),
            None if presets::preset(&word.text).is_ok() => error.label("a preset").help(
                "a preset describes both directions; it stands alone, not inside a specification",
            ),
            None if word.text != "rate" && keyword::lookup(&word.text).is_some() => {
                error.label("a word of queues in front of a scheduler: `queue N config sched M …`")
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
                error.label(
                    "a setting of AQMs, which stands directly behind the name of one: `aqm NAME …`",
                )
            }
            None => match FOREIGN.iter().find(|(theirs, _)| *theirs == word.text) {
                Some((_, ours)) => error.label(format!("netem's word; here it is `{ours}`")),
                None => error.label("no keyword begins here"),
            },
        };
        let offered = TABLE.iter().filter(|row| self.which.has(row)).map(|row| row.name);
        let help = format!("keywords are {}", offered.collect::<Vec<_>>().join(", "));
        self.diagnostics.push(error.help(help));
    }

    fn skip_to_keyword(&mut self) {
        while self.peek().is_some_and(|w| w.quoted || self.which.lookup(&w.text).is_none()) {
            self.at += 1;
        }
    }

    /// The word that is a keyword's value; a keyword in its place means that the value is missing.
    fn value(&mut self, row: &Keyword, keyword: &Word) -> Option<Word> {
        match self.peek().cloned() {
            Some(word) if word.quoted || self.which.lookup(&word.text).is_none() => {
                self.at += 1;
                Some(word)
            }
            _ => {
                let error = self.error(
                    Code::MissingValue,
                    &keyword.span,
                    format!("`{}` needs a value", keyword.text),
                );
                self.diagnostics.push(
                    error.label(format!("expected {} after it", row.argument)).help(example(row)),
                );
                None
            }
        }
    }

    /// A number with a unit, which may be a word of its own: `20 ms`.
    fn quantity<T>(
        &mut self,
        row: &Keyword,
        keyword: &Word,
        parse: impl Fn(&str) -> Result<T, QuantityError>,
    ) -> Option<At<T>> {
        let mut word = self.value(row, keyword)?;
        let bare = word.text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let unit = self
            .peek()
            .filter(|w| bare && !w.quoted && self.which.lookup(&w.text).is_none())
            .cloned();
        if let Some(unit) = unit {
            let joined = word.text.clone() + &unit.text;
            let is_unit = unit.text.starts_with(|c: char| c.is_alphabetic() || c == '%');
            // A word that is neither a unit here nor an option nor nearly a keyword was meant as a
            // unit.
            let fits =
                !matches!(parse(&joined), Err(QuantityError::Unit | QuantityError::NotANumber));
            let option = row.choices.iter().any(|c| c.name == unit.text) || unit.text.contains('.');
            let near =
                closest(&unit.text, self.which.all().chain(row.choices.iter().map(|c| c.name)))
                    .is_some();
            if is_unit && (fits || !option && !near) {
                self.at += 1;
                word = Word { text: joined, span: word.span.start..unit.span.end, quoted: false };
            }
        }
        self.accept(row.id, &word.span, &word.text, parse(&word.text))
    }

    /// A value with its place, or a diagnostic that says what is wrong with it.
    fn accept<T>(
        &mut self,
        id: Id,
        span: &Span,
        text: &str,
        result: Result<T, QuantityError>,
    ) -> Option<At<T>> {
        match result {
            Ok(value) => Some(At { value, span: span.clone() }),
            Err(error) => {
                self.bad_quantity(id.row(), span, text, error);
                None
            }
        }
    }

    fn bad_quantity(&mut self, row: &Keyword, span: &Span, text: &str, error: QuantityError) {
        let shown = shorten(text);
        let (code, message) = match error {
            QuantityError::NotANumber => {
                (Code::BadValue, format!("`{shown}` is no value for `{}`", row.name))
            }
            QuantityError::Unit => {
                (Code::BadUnit, format!("the unit of `{shown}` does not fit `{}`", row.name))
            }
            QuantityError::Negative => (
                Code::OutOfRange,
                format!("`{shown}` is out of range: `{}` cannot be negative", row.name),
            ),
            QuantityError::OutOfRange => {
                (Code::OutOfRange, format!("`{shown}` is out of range for `{}`", row.name))
            }
        };
        let label = if code == Code::OutOfRange {
            format!("allowed: {}", row.range)
        } else {
            format!("expected {}", row.argument)
        };
        let mut diagnostic = self.error(code, span, message).label(label);
        if code != Code::OutOfRange && !row.range.is_empty() {
            diagnostic = diagnostic.help(format!("allowed: {}", row.range));
        }
        if code == Code::BadUnit && row.argument.starts_with("TIME") {
            diagnostic = diagnostic
                .help("units of time are s, ms, us and ns; a number without one is in ms");
        }
        let percent = format!("{text}%");
        if code == Code::OutOfRange
            && PROBABILITIES.contains(&row.id)
            && quantity::probability(&percent).is_ok()
        {
            diagnostic = diagnostic.help(format!("{text} percent are written `{percent}`"));
        }
        self.diagnostics.push(diagnostic.help(example(row)));
    }

    /// Notes that an option of a keyword is given; says so when it was given before.
    fn once(&mut self, row: &Keyword, given: &mut Vec<String>, option: &str, span: &Span) {
        if given.iter().any(|g| g == option) {
            let error = self.error(
                Code::Repeated,
                span,
                format!("the {option} of `{}` is given twice", row.name),
            );
            self.diagnostics.push(error.label("the second time").help("remove one of the two"));
        }
        given.push(option.to_owned());
    }

    fn number(&mut self, row: &Keyword, keyword: &Word, least: u32, most: u32) -> Option<u32> {
        let parse = |text: &str| {
            quantity::count(text, most)
                .and_then(|n| if n < least { Err(QuantityError::OutOfRange) } else { Ok(n) })
        };
        self.quantity(row, keyword, parse).map(|at| at.value)
    }

    fn file(&mut self, row: &Keyword, keyword: &Word) -> Option<At<String>> {
        self.value(row, keyword).map(|word| At { value: word.text, span: word.span })
    }

    /// Whether the next word is this one; takes it.
    fn flag(&mut self, name: &str) -> bool {
        let found = self.peek().is_some_and(|w| !w.quoted && w.text == name);
        self.at += usize::from(found);
        found
    }

    /// A word that is none of the allowed ones.
    fn bad_choice(&mut self, row: &Keyword, word: &Word) {
        let error = self.error(
            Code::BadValue,
            &word.span,
            format!("`{}` is no value for `{}`", shorten(&word.text), row.name),
        );
        let label = match closest(&word.text, row.choices.iter().map(|c| c.name)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("expected {}", row.argument),
        };
        self.diagnostics.push(
            error.label(label).help(format!("allowed: {}", row.allowed())).help(example(row)),
        );
    }

    fn gso(&mut self, row: &Keyword, keyword: &Word) -> Gso {
        match self.value(row, keyword) {
            None => Gso::Split,
            Some(word) => match word.text.as_str() {
                "split" => Gso::Split,
                "whole" => Gso::Whole,
                _ => {
                    self.bad_choice(row, &word);
                    Gso::Split
                }
            },
        }
    }

    fn queue(&mut self, row: &Keyword, keyword: &Word) -> Option<At<QueueLimit>> {
        self.places(row, keyword, MAX_QUEUE_PACKETS)
    }

    /// A size in up to `most` packets, or in bytes.
    fn places(&mut self, row: &Keyword, keyword: &Word, most: u32) -> Option<At<QueueLimit>> {
        self.quantity(row, keyword, |text| {
            let bare = SLOTS.iter().find_map(|unit| text.strip_suffix(unit)).unwrap_or(text);
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

    fn overhead(&mut self, row: &Keyword, keyword: &Word) -> Option<Overhead> {
        let word = self.value(row, keyword)?;
        let mut overhead = if let Some(kind) = overhead_kind(&word.text) {
            kind
        } else {
            let (negative, digits) = word
                .text
                .strip_prefix('-')
                .map_or((false, word.text.as_str()), |digits| (true, digits));
            if !digits.starts_with(|c: char| c.is_ascii_digit() || "-.+".contains(c)) {
                self.bad_choice(row, &word);
                return None;
            }
            let bytes = self
                .accept(row.id, &word.span, &word.text, quantity::count(digits, MAX_OVERHEAD))?
                .value as i32;
            Overhead { per_packet: if negative { -bytes } else { bytes }, ..Overhead::NONE }
        };
        let mut given = Vec::new();
        while let Some(option) = self.peek().cloned() {
            if self.flag("mpu") {
                let word = self.value(row, &option)?;
                overhead.minimum = self
                    .accept(row.id, &word.span, &word.text, quantity::count(&word.text, MAX_MPU))?
                    .value;
            } else if self.flag("atm") {
                overhead.atm_cells = true;
            } else {
                break;
            }
            self.once(row, &mut given, &option.text, &option.span);
        }
        Some(overhead)
    }

    fn jitter(&mut self, row: &'static Keyword, keyword: &Word) -> Option<RawJitter> {
        let amount = self.quantity(row, keyword, |t| quantity::time(t, MAX_DELAY))?.value;
        let mut jitter = RawJitter {
            amount,
            shape: Shape::Uniform,
            correlation: Probability::ZERO,
            may_reorder: false,
        };
        let mut given = Vec::new();
        while let Some(word) = self.peek().cloned() {
            let next_is_number = self.words.get(self.at + 1).is_some_and(|w| {
                w.text.starts_with(|c: char| c.is_ascii_digit() || "-.".contains(c))
            });
            let is_keyword = !word.quoted && self.which.lookup(&word.text).is_some();
            if is_keyword && (word.text != "reorder" || next_is_number) {
                break;
            }
            self.at += 1;
            let part = match word.text.as_str() {
                "correlation" => {
                    jitter.correlation = self.quantity(row, &word, quantity::probability)?.value;
                    "correlation"
                }
                "ordered" => "order",
                "reorder" => {
                    jitter.may_reorder = true;
                    "order"
                }
                name => {
                    let Some(shape) = shape(name, &word.span) else {
                        self.bad_choice(row, &word);
                        return None;
                    };
                    jitter.shape = shape;
                    "distribution"
                }
            };
            self.once(row, &mut given, part, &word.span);
        }
        Some(jitter)
    }

    fn reorder(&mut self, row: &'static Keyword, keyword: &Word) -> Option<At<Reorder>> {
        let At { value: probability, .. } = self.quantity(row, keyword, quantity::probability)?;
        let mut given = Vec::new();
        let mut reorder = Reorder { probability, gap: 1, correlation: Probability::ZERO };
        while let Some(word) = self.peek().cloned() {
            if self.flag("gap") {
                reorder.gap = self.number(row, &word, 1, 1_000_000)?;
            } else if self.flag("correlation") {
                reorder.correlation = self.quantity(row, &word, quantity::probability)?.value;
            } else {
                break;
            }
            self.once(row, &mut given, &word.text, &word.span);
        }
        Some(At { value: reorder, span: keyword.span.clone() })
    }

    fn mask(&mut self, row: &'static Keyword, keyword: &Word) {
        if self.value(row, keyword).is_none() {
            return;
        }
        self.at -= 1;
        if self.flag("all") {
            self.raw.mask = mask::all();
            return;
        }
        let mut given = Vec::new();
        while let Some(word) = self.peek().cloned() {
            if !word.quoted && self.which.lookup(&word.text).is_some() {
                break;
            }
            self.at += 1;
            let Some(field) = mask::Field::named(&word.text) else {
                return self.bad_choice(row, &word);
            };
            let Some(value) = self.value(row, &word) else { return };
            let Some(bits) = field.parse(&value.text) else {
                let error = self.error(
                    Code::BadValue,
                    &value.span,
                    format!("`{}` is no mask for `{}`", shorten(&value.text), field.name),
                );
                let label = format!("expected at most {} bits", field.bits);
                return self.diagnostics.push(
                    error.label(label).help(format!("allowed: {}", row.range)).help(example(row)),
                );
            };
            field.set(&mut self.raw.mask, bits);
            self.once(row, &mut given, field.name, &word.span);
        }
    }
}

/// Shows the place where something was given before, if that is in the same line.
fn with_first(error: Diagnostic, word: &Word, first: &Span, label: &str) -> Diagnostic {
    let offset = word.span.start - error.span.start.min(word.span.start);
    let shown = first.start >= offset && first.end >= offset;
    if shown { error.other(first.start - offset..first.end - offset, label) } else { error }
}

/// The parts of the short form, as places in it. The `/` of `bit/s` separates nothing.
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

fn shape(name: &str, span: &Span) -> Option<Shape> {
    Some(match name {
        "uniform" => Shape::Uniform,
        "normal" => Shape::Normal,
        "pareto" => Shape::Pareto,
        "paretonormal" => Shape::ParetoNormal,
        name if name.ends_with(".dist") => {
            Shape::File(At { value: name.into(), span: span.clone() })
        }
        _ => return None,
    })
}

/// The framing that a word names.
pub(crate) fn overhead_kind(name: &str) -> Option<Overhead> {
    OVERHEADS.iter().find(|(n, _)| *n == name).map(|&(_, overhead)| overhead)
}

fn example(row: &Keyword) -> String {
    format!("for example `{}`", row.example)
}

/// A word short enough for a message.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Framings that have a name.
pub(crate) const OVERHEADS: &[(&str, Overhead)] = &[
    ("none", Overhead::NONE),
    ("layer2", Overhead::LAYER2),
    ("ethernet", Overhead::ETHERNET),
    ("atm", Overhead::ATM),
    ("docsis", Overhead::DOCSIS),
    ("ppp", Overhead::PPP),
];
/// Keywords whose value is a probability.
const PROBABILITIES: [Id; 5] = [Id::Loss, Id::Plr, Id::Dup, Id::Corrupt, Id::Reorder];
/// Words for packets of a queue's size.
const SLOTS: [&str; 4] = ["slots", "slot", "packets", "packet"];
/// Largest number of bytes that framing adds or takes.
const MAX_OVERHEAD: u32 = 1000;
/// Largest least size.
const MAX_MPU: u32 = 65_535;
/// A link slower than this was hardly meant, in bit/s: a full packet takes more than twelve
/// seconds.
const SLOW_BPS: u64 = 1000;
/// Largest bound on flows.
const MAX_FLOWS: u32 = 10_000_000;
/// Errors after which the rest of a specification is not read.
const MOST_ERRORS: usize = 20;
/// Letters of a wrong word that a message repeats.
const LONGEST_SHOWN: usize = 40;

/// Words of `tc netem` that mean a keyword of ours.
const FOREIGN: &[(&str, &str)] = &[
    ("rate", "bw"),
    ("limit", "queue"),
    ("duplicate", "dup"),
    ("distribution", "jitter T normal"),
    ("gemodel", "loss K,p,H,r"),
];
