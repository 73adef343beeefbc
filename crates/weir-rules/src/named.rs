//! Reads an algorithm and its settings from one text: `codel target 5ms`, `codel target=5ms` or, in
//! one word, `codel:target=5ms`.
//!
//! These texts occur outside the command language: options of the rig, conformance cases, and the
//! congestion controls, schedulers and rank programs of scenarios. Settings have the same grammar
//! and the same diagnostics as after `aqm NAME` and `type NAME` in a script.

use weir_core::sched::{self, Discipline};
use weir_core::settings::{Chosen, Entry, Parameter};

use crate::diagnostic::{Code, Diagnostic, shorten};
use crate::lex::Word;
use crate::setting::{self, Settings};
use crate::suggest::closest;

/// The reason why a text is not an algorithm with settings, on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", line(.0))]
pub struct NamedError(Box<Diagnostic>);

/// The first word of a text, which is the algorithm's name; empty if the text has no words.
pub fn name(text: &str) -> &str {
    text.split(is_gap).find(|word| !word.is_empty()).unwrap_or_default()
}

/// Reads an algorithm of a table with its settings: the name, then settings as `NAME VALUE` or
/// `NAME=VALUE`. A switch may also be `NAME` or `noNAME`. Blanks or colons separate words.
///
/// # Errors
/// The table has no algorithm of this name, the algorithm has no such setting, or a value is
/// missing, not allowed or given twice.
pub fn read<K: Entry>(text: &str) -> Result<Chosen<K>, NamedError> {
    let name = name(text);
    let kind = K::named(name)
        .ok_or_else(|| unknown(K::NOUN, name, K::all().iter().map(|kind| kind.row().name)))?;
    let mut chosen = Chosen::new(kind);
    set(&mut chosen, text, 1)?;
    Ok(chosen)
}

/// Changes settings of an algorithm. The text has the form that [`read`] accepts after the name.
///
/// # Errors
/// As with [`read`].
pub fn change<K: Entry>(chosen: &mut Chosen<K>, settings: &str) -> Result<(), NamedError> {
    set(chosen, settings, 0)
}

/// Reads a scheduler with its settings, as [`read`] does, and checks that they fit together.
///
/// # Errors
/// As with [`read`], or two settings contradict each other.
pub fn read_scheduler(text: &str) -> Result<Discipline, NamedError> {
    let discipline = read(text)?;
    fits(text, &discipline)?;
    Ok(discipline)
}

/// Changes settings of a scheduler, as [`change`] does, and checks that they fit together.
///
/// # Errors
/// As with [`read_scheduler`].
pub fn change_scheduler(discipline: &mut Discipline, settings: &str) -> Result<(), NamedError> {
    change(discipline, settings)?;
    fits(settings, discipline)
}

/// The error that no algorithm in `names` has this name.
pub fn unknown(noun: &str, name: &str, names: impl Iterator<Item = &'static str>) -> NamedError {
    let names: Vec<&str> = names.collect();
    let message = format!("`{}` is no {noun}", shorten(name));
    let error = Diagnostic::new(Code::BadValue, name, 0..name.len(), message);
    let error = match closest(name, names.iter().copied()) {
        Some(meant) => error.label(format!("did you mean `{meant}`?")),
        None => error,
    };
    NamedError(Box::new(error.help(format!("allowed: {}", names.join(", ")))))
}

/// Refuses words after a name that has no settings, such as `none`.
///
/// # Errors
/// There are words after the name.
pub fn alone(text: &str) -> Result<(), NamedError> {
    let words = words(text);
    match words.get(1) {
        None => Ok(()),
        Some(word) => {
            Err(NamedError(unknown_setting(text, word, &word.text, &words[0].text, (&[], []))))
        }
    }
}

fn fits(text: &str, discipline: &Discipline) -> Result<(), NamedError> {
    sched::check(discipline).map_err(|misfit| {
        NamedError(Box::new(Diagnostic::new(
            Code::Contradiction,
            text,
            0..text.len(),
            misfit.to_string(),
        )))
    })
}

/// Applies the settings of a text, from word number `at` on.
fn set<K: Entry>(chosen: &mut Chosen<K>, text: &str, mut at: usize) -> Result<(), NamedError> {
    let words = words(text);
    let row = chosen.row();
    let mut settings = Settings::new(text, chosen, row.name.to_owned());
    while let Some(word) = words.get(at) {
        let taken = settings.take(&words, at).map_err(NamedError)?.ok_or_else(|| {
            let others =
                K::all().iter().map(|kind| kind.row()).map(|row| (row.name, row.parameters));
            let name = word.text.split('=').next().unwrap_or_default();
            NamedError(unknown_setting(text, word, name, row.name, (row.parameters, others)))
        })?;
        at += taken;
    }
    Ok(())
}

/// The error that a word is not a setting of the algorithm. `own` are the algorithm's parameters.
/// `others` are the names and parameters of all algorithms of the table.
fn unknown_setting(
    text: &str,
    word: &Word,
    name: &str,
    algorithm: &str,
    (own, others): (
        &'static [Parameter],
        impl IntoIterator<Item = (&'static str, &'static [Parameter])>,
    ),
) -> Box<Diagnostic> {
    let message = format!("`{}` is no setting of `{algorithm}`", shorten(name));
    let error = Diagnostic::new(Code::UnknownKeyword, text, word.span.clone(), message);
    let has = |parameters: &[Parameter]| parameters.iter().any(|setting| setting.name == name);
    let other = || others.into_iter().find(|(_, parameters)| has(parameters));
    let error = match closest(name, own.iter().map(|setting| setting.name)) {
        Some(meant) => error.label(format!("did you mean `{meant}`?")),
        None => match other() {
            Some((other, _)) => error.label(format!("a setting of `{other}`")),
            None => error,
        },
    };
    Box::new(error.help(setting::allowed(algorithm, own.iter())).help(FORM))
}

fn words(text: &str) -> Vec<Word> {
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split(is_gap)
        .filter(|word| !word.is_empty())
        .map(|word| {
            let start = start(word);
            Word { text: word.to_owned(), span: start..start + word.len(), quoted: false }
        })
        .collect()
}

fn is_gap(c: char) -> bool {
    c == ':' || c.is_whitespace()
}

/// A diagnostic on one line, without the text that it refers to.
fn line(diagnostic: &Diagnostic) -> String {
    let label = Some(&diagnostic.label).filter(|label| !label.is_empty());
    let rest: Vec<&str> = label.into_iter().chain(&diagnostic.help).map(String::as_str).collect();
    if rest.is_empty() {
        return diagnostic.message.clone();
    }
    format!("{}: {}", diagnostic.message, rest.join("; "))
}

const FORM: &str = "write NAME=VALUE or NAME VALUE behind the algorithm";

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::aqm::{self, Policy};

    fn codel(text: &str) -> Result<Policy, String> {
        read::<aqm::Kind>(text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_form_of_a_setting_is_the_same() {
        let mut expected = Policy::new(aqm::Kind::Codel);
        expected.set("target", "2.5ms").unwrap();
        expected.set("ecn", "on").unwrap();
        for text in [
            "codel target 2.5ms ecn on",
            "codel target=2.5ms ecn=on",
            "codel:target=2.5ms:ecn=on",
            "codel:target=2.5ms ecn",
            "CoDel Target 2.5 ms ecn",
            "codel target 2500us noecn ",
        ] {
            let expected = if text.contains("noecn") {
                let mut off = expected;
                off.set("ecn", "off").unwrap();
                off
            } else {
                expected
            };
            assert_eq!(codel(text), Ok(expected), "{text}");
        }
        let mut changed = Policy::new(aqm::Kind::Codel);
        change(&mut changed, "target=2.5ms ecn").unwrap();
        assert_eq!(changed, expected);
    }

    #[test]
    fn a_text_gives_the_same_message_as_a_script() {
        for settings in ["target 5parsec", "target", "target 99s", "arith linus", "ecn ecn"] {
            let mut message = codel(&format!("codel {settings}")).unwrap_err();
            let script = crate::check_spec(&format!("aqm codel {settings}"), &crate::NoFiles)
                .diagnostics
                .iter()
                .next()
                .map(line)
                .unwrap();
            message = message.replace("`codel target 5ms`", "`aqm codel target 5ms`");
            message = message.replace("`codel arith linux`", "`aqm codel arith linux`");
            assert_eq!(message, script, "{settings}");
        }
    }

    #[test]
    fn messages_suggest_what_was_meant() {
        let message = |text: &str| read::<sched::Kind>(text).unwrap_err().to_string();
        assert!(
            message("pifoo").starts_with("`pifoo` is no scheduler: did you mean `pifo`?; allowed")
        );
        assert!(message("").starts_with("`` is no scheduler: allowed: fifo, drr"));
        assert_eq!(
            message("qfq+ n=1"),
            "`n` is no setting of `qfq+`: settings: m 0..16; write NAME=VALUE or NAME VALUE \
             behind the algorithm"
        );
        assert!(
            message("fq_codel limits=9").contains("of `fq_codel`: did you mean `limit`?; settings")
        );
        assert!(message("fifo m").contains("a setting of `qfq+`; `fifo` has no settings"));
        assert!(message("qfq+ m 99").starts_with("`99` is out of range for `m`: allowed: 0..16"));
        assert!(message("qfq+ m 1 m=2").starts_with("`m` is given twice"));
        assert!(alone("none").is_ok());
        assert!(
            alone("none m").unwrap_err().to_string().starts_with("`m` is no setting of `none`")
        );
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let refused = |text: &str| read_scheduler(text).unwrap_err().to_string();
        assert_eq!(
            refused("dcf standard=g phy=11"),
            "802.11g has no data rate of 11 Mbit/s; it has 6, 9, 12, 18, 24, 36, 48, 54"
        );
        assert_eq!(
            refused("dcf:preamble=short:standard=n"),
            "only 802.11b has a short preamble; 802.11n has none"
        );
        let mut dcf = read_scheduler("dcf phy 5.5 preamble short").unwrap();
        let error = change_scheduler(&mut dcf, "standard a").unwrap_err().to_string();
        assert!(error.starts_with("802.11a has no data rate of 5.5 Mbit/s"), "{error}");
    }

    #[test]
    fn hostile_settings_of_the_medium_are_refused() {
        for text in [
            "dcf aifsn 0",
            "dcf aifsn 2,2,3",
            "dcf aifsn 2,2,3,7,9",
            "dcf cwmin 0",
            "dcf cwmax 32768",
            "dcf txop 65535",
            "dcf txop -1",
            "dcf errors 1.1",
            "dcf errors nan",
            "dcf rts 65536",
            "dcf edca on",
            "dcf standard ac",
            "dcf phy 7",
            "dcf cwmin 31,",
        ] {
            assert!(read_scheduler(text).is_err(), "{text}");
        }
        assert!(
            read_scheduler("dcf aifsn 2,2,3,7 cwmin 15 txop standard errors 1/3 rts 1").is_ok()
        );
    }
}
