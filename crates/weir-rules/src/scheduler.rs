//! Reads and writes the scheduler of a link: `sched NAME` with the settings of that scheduler in
//! the engine's table.
//!
//! The settings directly follow the name. Among them, a word that names a setting means the setting
//! even if the word is also a keyword.

use weir_core::sched::{self, Discipline, Kind, Row, TABLE};

use crate::diagnostic::shorten;
use crate::diagnostic::{Code, Diagnostic};
use crate::keyword::{self, Keyword};
use crate::lex::Word;
use crate::setting::{self, Settings};
use crate::suggest::closest;

/// A scheduler as it was read from words.
pub(crate) struct Read {
    /// The scheduler, or the error in its words.
    pub(crate) discipline: Result<Discipline, Box<Diagnostic>>,
    /// The index of the first word after the scheduler.
    pub(crate) end: usize,
}

/// Reads the scheduler that the keyword `row` introduces. The words after the keyword begin at
/// `words[at]`.
pub(crate) fn read(text: &str, row: &Keyword, words: &[Word], at: usize) -> Read {
    let mut reader = Reader { text, words, at };
    let discipline = reader.scheduler(row, &words[at.saturating_sub(1)]);
    Read { discipline, end: reader.at }
}

/// The scheduler in canonical form: its name, and the settings with values other than the default.
pub(crate) fn write(discipline: &Discipline) -> String {
    let settings =
        discipline.changed().map(|(setting, value)| format!(" {} {value}", setting.name));
    format!("sched {}{}", discipline.row().name, settings.collect::<String>())
}

/// Whether a link can have this scheduler. The scheduler must distinguish flows itself.
pub(crate) fn suits_a_link(kind: Kind) -> bool {
    kind.row().traits.classifies
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

    fn scheduler(&mut self, row: &Keyword, keyword: &Word) -> Result<Discipline, Box<Diagnostic>> {
        let Some(name) = self.words.get(self.at) else {
            let error = self.error(Code::MissingValue, keyword, "`sched` needs a value".to_owned());
            return Err(Box::new(
                error.label("expected the scheduler's name").help(offered()).help(example(row)),
            ));
        };
        self.at += 1;
        let kind = Kind::from_name(&name.text.to_ascii_lowercase())
            .ok_or_else(|| self.unknown(row, name))?;
        if !suits_a_link(kind) {
            return Err(self.needs_queues(kind.row(), name));
        }
        let mut discipline = Discipline::new(kind);
        self.settings(&mut discipline)?;
        sched::check(&discipline).map_err(|misfit| {
            Box::new(self.error(Code::Contradiction, name, misfit.to_string()))
        })?;
        Ok(discipline)
    }

    /// Reads the settings after the name, up to the first word that is not a setting.
    fn settings(&mut self, discipline: &mut Discipline) -> Result<(), Box<Diagnostic>> {
        let row = discipline.row();
        let mut settings = Settings::new(self.text, discipline, format!("sched {}", row.name));
        while let Some(taken) = settings.take(self.words, self.at)? {
            self.at += taken;
        }
        let strange = |word: &&Word| word.quoted || keyword::lookup(&word.text).is_none();
        match self.words.get(self.at).filter(strange) {
            Some(word) => Err(self.stranger(row, word)),
            None => Ok(()),
        }
    }

    fn unknown(&self, row: &Keyword, name: &Word) -> Box<Diagnostic> {
        let shown = shorten(&name.text);
        let error = self.error(Code::BadValue, name, format!("`{shown}` is no scheduler"));
        if let Some(aqm) = weir_core::aqm::Kind::from_name(&name.text.to_ascii_lowercase()) {
            let error = error.label(format!("an AQM: `aqm {}`", aqm.row().name));
            return Box::new(error.help(offered()));
        }
        let names = TABLE.iter().flat_map(|row| [row.name].into_iter().chain(row.aliases.to_vec()));
        let error = match closest(&name.text, names) {
            Some(meant) => error.label(format!("did you mean `{meant}`?")),
            None => error.label("expected the scheduler's name"),
        };
        Box::new(error.help(offered()).help(example(row)))
    }

    /// The error for a scheduler that shares a link among several queues. A link has one queue.
    fn needs_queues(&self, row: &Row, name: &Word) -> Box<Diagnostic> {
        let message = format!("`{}` shares a link among queues, and a link has one", row.name);
        let error =
            self.error(Code::Contradiction, name, message).label("needs a queue for each flow");
        Box::new(error.help(offered()).help(format!(
            "rules make the queues: `sched 1 config type {}` and `queue 1 config sched 1`",
            row.name
        )))
    }

    fn stranger(&self, row: &Row, word: &Word) -> Box<Diagnostic> {
        let name = word.text.split('=').next().unwrap_or_default();
        let error = self.error(
            Code::UnknownKeyword,
            word,
            format!("`{}` is no setting of `{}`", shorten(name), row.name),
        );
        let own = row.parameters.iter().map(|setting| setting.name);
        let has = |other: &&Row| other.parameters.iter().any(|setting| setting.name == name);
        let error = match (closest(name, own.chain(keyword::words())), TABLE.iter().find(has)) {
            (Some(meant), _) => error.label(format!("did you mean `{meant}`?")),
            (None, Some(other)) => error.label(format!("a setting of `{}`", other.name)),
            (None, None) => error.label("neither a setting of the scheduler nor a keyword"),
        };
        Box::new(error.help(setting::allowed(row.name, row.parameters.iter())))
    }
}

fn offered() -> String {
    let suitable = TABLE.iter().filter(|row| row.traits.classifies).map(|row| row.name);
    format!("allowed: {}", suitable.collect::<Vec<_>>().join(", "))
}

fn example(row: &Keyword) -> String {
    format!("for example `{}`", row.example)
}
