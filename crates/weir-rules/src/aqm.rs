//! Reads and writes the AQM of a queue: `aqm NAME` with the settings of that AQM in the table, and
//! dummynet's words `red`, `gred`, `codel` and `pie`.
//!
//! An AQM's settings directly follow its name. Among them, a word that names a setting means the
//! setting even if the word is also a keyword.

use weir_core::aqm::{Kind, Policy, Row, TABLE};
use weir_core::sched;

use crate::diagnostic::shorten;
use crate::diagnostic::{Code, Diagnostic};
use crate::keyword::{self, Group, Keyword};
use crate::lex::Word;
use crate::quantity::size;
use crate::scheduler;
use crate::setting::{self, Given, Settings};
use crate::suggest::closest;

/// dummynet's word for an AQM.
struct Dialect {
    word: &'static str,
    /// The name of the AQM in the table.
    name: &'static str,
    /// Settings that the word implies.
    implies: &'static [(&'static str, &'static str)],
}

/// An AQM as it was read from words.
pub(crate) struct Read {
    /// The AQM, or the error in its words.
    pub(crate) policy: Result<Policy, Box<Diagnostic>>,
    /// The index of the first word after the AQM.
    pub(crate) end: usize,
    /// Whether the thresholds have the unit of the queue's limit, as in dummynet.
    pub(crate) thresholds_in_queue_unit: bool,
}

/// Reads the AQM that the keyword `row` introduces. The words after the keyword begin at
/// `words[at]`.
pub(crate) fn read(text: &str, row: &Keyword, words: &[Word], at: usize) -> Read {
    let keyword = &words[at.saturating_sub(1)];
    let mut reader = Reader { text, words, at };
    let policy = reader
        .named(row, keyword)
        .and_then(|mut policy| reader.settings(&mut policy).map(|()| policy));
    let thresholds_in_queue_unit = dialect(row.name).is_some_and(Dialect::has_thresholds);
    Read { policy, end: reader.at, thresholds_in_queue_unit }
}

/// The index of the first word after the AQM that begins at `words[at]`; `None` if no AQM begins
/// there.
pub(crate) fn end_of(words: &[Word], at: usize) -> Option<usize> {
    let row = words
        .get(at)
        .filter(|word| !word.quoted)
        .and_then(|word| keyword::lookup(&word.text))
        .filter(|row| row.group == Group::Aqm)?;
    Some(read("", row, words, at + 1).end)
}

impl Dialect {
    /// Whether thresholds follow the word, in the form `w_q/min_th/max_th/max_p`.
    fn has_thresholds(&self) -> bool {
        self.name == "red"
    }

    /// The AQM, with the settings that the word implies.
    fn policy(&self) -> Policy {
        let mut policy =
            Policy::new(Kind::from_name(self.name).expect("each word of dummynet's has its row"));
        for (name, value) in self.implies {
            policy.set(name, value).expect("what is implied is allowed");
        }
        policy
    }
}

/// The entry of [`DIALECT`] for a word of dummynet.
fn dialect(word: &str) -> Option<&'static Dialect> {
    DIALECT.iter().find(|dialect| dialect.word.eq_ignore_ascii_case(word))
}

struct Reader<'a> {
    text: &'a str,
    words: &'a [Word],
    /// The index of the next word.
    at: usize,
}

impl Reader<'_> {
    fn error(&self, code: Code, word: &Word, message: String) -> Diagnostic {
        Diagnostic::new(code, self.text, word.span.clone(), message)
    }

    /// Reads an AQM up to its settings: a dummynet word with its thresholds, or the name after
    /// `aqm`.
    fn named(&mut self, row: &Keyword, keyword: &Word) -> Result<Policy, Box<Diagnostic>> {
        if let Some(dialect) = dialect(row.name) {
            let mut policy = dialect.policy();
            if dialect.has_thresholds() {
                self.numbers(row, keyword, &mut policy)?;
            }
            return Ok(policy);
        }
        let Some(name) = self.words.get(self.at) else {
            let error = self.error(Code::MissingValue, keyword, "`aqm` needs a value".to_owned());
            return Err(Box::new(
                error.label("expected the AQM's name").help(offered()).help(example(row)),
            ));
        };
        self.at += 1;
        if let Some(kind) = Kind::from_name(&name.text) {
            return Ok(Policy::new(kind));
        }
        if let Some(dialect) = dialect(&name.text) {
            return Ok(dialect.policy());
        }
        let error =
            self.error(Code::BadValue, name, format!("`{}` is no AQM", shorten(&name.text)));
        if let Some(kind) = sched::Kind::from_name(&name.text) {
            let name = kind.row().name;
            if scheduler::suits_a_link(kind) {
                return Err(Box::new(error.label(format!("a scheduler: `sched {name}`"))));
            }
            let error = error.label("a scheduler, with queues of its own");
            return Err(Box::new(error.help(format!(
                "`sched 1 config type {name}` makes one; queues and rules lead packets to it"
            ))));
        }
        let names = TABLE
            .iter()
            .flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied()));
        let error = match closest(&name.text, names) {
            Some(meant) => error.label(format!("did you mean `{meant}`?")),
            None => error.label("expected the AQM's name"),
        };
        Err(Box::new(error.help(offered())))
    }

    /// Reads `w_q/min_th/max_th/max_p`, the value of `red` and `gred`.
    fn numbers(
        &mut self,
        row: &Keyword,
        keyword: &Word,
        policy: &mut Policy,
    ) -> Result<(), Box<Diagnostic>> {
        let Some(word) = self.words.get(self.at).filter(|word| word.text.contains('/')) else {
            let error =
                self.error(Code::MissingValue, keyword, format!("`{}` needs a value", row.name));
            return Err(Box::new(
                error.label(format!("expected {} after it", row.argument)).help(example(row)),
            ));
        };
        let parts: Vec<&str> = word.text.split('/').collect();
        if parts.len() != RED.len() {
            let error = self.error(
                Code::BadValue,
                word,
                format!("`{}` has {} parts, not four", shorten(&word.text), parts.len()),
            );
            return Err(Box::new(
                error.label(format!("expected {}", row.argument)).help(example(row)),
            ));
        }
        self.at += 1;
        let before = format!("aqm {}", policy.row().name);
        let mut start = 0;
        for (name, part) in RED.into_iter().zip(parts) {
            let place = word.part(start, part.len());
            start += part.len() + 1;
            let in_bytes =
                THRESHOLDS.contains(&name) && part.ends_with(|c: char| c.is_ascii_alphabetic());
            let bytes = in_bytes.then(|| size(part).ok()).flatten().map(|bytes| bytes.to_string());
            if bytes.is_some() && policy.set("unit", "bytes").is_err() {
                debug_assert!(false, "lengths are in packets or bytes");
            }
            let setting = policy.row().parameters.iter().find(|setting| setting.name == name);
            let given = setting.map(|setting| {
                Given::new(setting, keyword, bytes.as_deref().unwrap_or(part), place)
            });
            given.map_or(Ok(()), |given| setting::take(self.text, policy, &given, &before))?;
        }
        Ok(())
    }

    /// Reads the settings after the name, up to the first word that is not a setting.
    fn settings(&mut self, policy: &mut Policy) -> Result<(), Box<Diagnostic>> {
        let row = policy.row();
        let mut settings = Settings::new(self.text, policy, format!("aqm {}", row.name));
        while let Some(taken) = settings.take(self.words, self.at)? {
            self.at += taken;
        }
        match self.words.get(self.at) {
            Some(word) if is_strange(word) => Err(self.stranger(row, word)),
            _ => self.check_thresholds(policy),
        }
    }

    /// Refuses a lower threshold above the upper one. An upper threshold of 0 is valid: the AQM
    /// then derives it.
    fn check_thresholds(&self, policy: &Policy) -> Result<(), Box<Diagnostic>> {
        let [Some(min), Some(max)] = THRESHOLDS.map(|name| policy.number(name)) else {
            return Ok(());
        };
        if min <= max || max == 0 {
            return Ok(());
        }
        let last = &self.words[self.at - 1];
        let error = self.error(
            Code::Contradiction,
            last,
            format!("the lower threshold, {min}, is above the upper one, {max}"),
        );
        Err(Box::new(error.label("up to here").help("`min` is at most `max`")))
    }

    fn stranger(&self, row: &Row, word: &Word) -> Box<Diagnostic> {
        let name = word.text.split('=').next().unwrap_or_default();
        let error = self.error(
            Code::UnknownKeyword,
            word,
            format!("`{}` is no setting of `{}`", shorten(name), row.name),
        );
        let own = row.parameters.iter().map(|setting| setting.name);
        let other = TABLE.iter().find(|other| {
            other.parameters.iter().any(|setting| setting.name.eq_ignore_ascii_case(name))
        });
        let error = match (closest(name, own.chain(keyword::words())), other) {
            (Some(meant), _) => error.label(format!("did you mean `{meant}`?")),
            (None, Some(other)) => error.label(format!("a setting of `{}`", other.name)),
            (None, None) => error.label("neither a setting of the AQM nor a keyword"),
        };
        Box::new(error.help(setting::allowed(row.name, row.parameters.iter())))
    }
}

/// Whether a word after the settings is neither a keyword nor a setting.
fn is_strange(word: &Word) -> bool {
    word.quoted || keyword::lookup(&word.text).is_none()
}

/// The AQM in canonical form: its name, and the settings with values other than the default.
pub(crate) fn write(policy: &Policy) -> String {
    let settings = policy.changed().map(|(setting, value)| format!(" {} {value}", setting.name));
    format!("aqm {}{}", policy.row().name, settings.collect::<String>())
}

fn offered() -> String {
    format!("allowed: {}", TABLE.iter().map(|row| row.name).collect::<Vec<_>>().join(", "))
}

fn example(row: &Keyword) -> String {
    format!("for example `{}`", row.example)
}

/// dummynet's words for AQMs.
const DIALECT: [Dialect; 4] = [
    Dialect {
        word: "red",
        name: "red",
        implies: &[("variant", "dummynet"), ("avpkt", "512"), ("gentle", "off")],
    },
    Dialect {
        word: "gred",
        name: "red",
        implies: &[("variant", "dummynet"), ("avpkt", "512"), ("gentle", "on")],
    },
    Dialect { word: "codel", name: "codel", implies: &[] },
    Dialect { word: "pie", name: "pie", implies: &[("variant", "dummynet")] },
];
/// The settings in the value of `red` and `gred`, in the order in which they are written.
const RED: [&str; 4] = ["w", "min", "max", "max_p"];
/// The settings in [`RED`] that are lengths of the queue.
const THRESHOLDS: [&str; 2] = ["min", "max"];
