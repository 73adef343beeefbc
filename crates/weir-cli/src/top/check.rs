//! Checks the text of a change with the parser of the command language before it is sent.

use std::collections::BTreeMap;
use std::io;

use weir_rules::{Diagnostics, Files, Severity, check_spec, script};
use weir_sim::disk::Disk;

use super::activity::Kind;
use super::board::{Id, Row, Source};
use crate::files::Recorded;

/// The object that a change applies to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) source: Id,
    /// The link; `None` if changes are commands.
    pub(super) link: Option<String>,
    /// The name of the object for the user.
    pub(super) label: String,
}

impl Target {
    /// The target for a row, and the text with which its change begins.
    ///
    /// # Errors
    /// Why the row cannot be changed.
    pub(super) fn of(source: &Source, row: &Row) -> Result<(Self, String), String> {
        let activity = &row.activity;
        let spec = source.spec(row).unwrap_or_default();
        let label = source.label(row);
        let target = |link| Self { source: source.id.clone(), link, label: label.clone() };
        match activity.kind {
            Kind::Link if source.about.rules => Ok((target(None), String::new())),
            Kind::Link => Ok((target(Some(activity.name.clone())), spec.to_owned())),
            Kind::Pipe | Kind::Sched | Kind::Queue => {
                let command = format!("{}{} config {spec}", activity.kind.word(), activity.name);
                Ok((target(None), command.trim_end().to_owned()))
            }
            Kind::Path => Err("a path has no specification: change one of its links".to_owned()),
            Kind::Lane => {
                Err("a lane has no specification: change a pipe, or the rules".to_owned())
            }
        }
    }
}

/// The verdict on the text of a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Verdict {
    /// Whether the text may be sent.
    pub(super) allowed: bool,
    /// The reason for a refusal, or a note.
    pub(super) words: String,
}

pub(super) fn check(target: &Target, text: &str) -> Verdict {
    let files = Plain(Disk);
    if text.trim().is_empty() {
        return Verdict { allowed: false, words: "say what to change".to_owned() };
    }
    let diagnostics = match target.link {
        Some(_) => check_spec(text, &files).diagnostics,
        None => script::parse(text, "the command", &files).diagnostics,
    };
    Verdict { allowed: !diagnostics.has_errors(), words: words(&diagnostics) }
}

/// The files that a text names, with their contents.
pub(super) fn files(target: &Target, text: &str) -> BTreeMap<String, String> {
    let files = Recorded::new(Plain(Disk));
    match target.link {
        Some(_) => drop(check_spec(text, &files)),
        None => drop(script::parse(text, "the command", &files)),
    }
    files.into_contents()
}

/// The first of the most severe diagnostics, in one line.
fn words(diagnostics: &Diagnostics) -> String {
    let of = |severity| diagnostics.of(severity).next();
    let first =
        of(Severity::Error).or_else(|| of(Severity::Warning)).or_else(|| of(Severity::Note));
    let Some(first) = first else { return String::new() };
    let mut words = first.message.clone();
    if !first.label.is_empty() {
        words = format!("{words}: {}", first.label);
    }
    for help in &first.help {
        words = format!("{words}; {help}");
    }
    words
}

/// Reads only regular files. A text that is being written may name a device or a pipe for a moment,
/// and reading one of them may never end.
#[derive(Clone, Copy, Debug)]
struct Plain(Disk);

impl Plain {
    fn checked(path: &str) -> io::Result<()> {
        if std::fs::metadata(path)?.is_file() {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"))
        }
    }
}

impl Files for Plain {
    fn read(&self, path: &str) -> io::Result<String> {
        Self::checked(path).and_then(|()| self.0.read(path))
    }

    fn read_quotable(&self, path: &str) -> io::Result<(String, bool)> {
        Self::checked(path).and_then(|()| self.0.read_quotable(path))
    }

    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        Self::checked(path).and_then(|()| self.0.read_bytes(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(link: Option<&str>) -> Target {
        Target { source: "s".into(), link: link.map(str::to_owned), label: "x".into() }
    }

    #[test]
    fn words_are_checked_in_the_language_of_their_target() {
        let link = target(Some("down"));
        assert!(check(&link, "bw 8Mbit/s delay 20ms").allowed);
        let wrong = check(&link, "bw 8Mbit/s dely 20ms");
        assert!(!wrong.allowed && wrong.words.contains("dely"), "{wrong:?}");
        assert!(!check(&link, " ").allowed);
        let pipe = target(None);
        assert!(check(&pipe, "pipe 7 config bw 8Mbit/s").allowed);
        assert!(!check(&pipe, "bw 8Mbit/s").allowed);
    }

    #[test]
    fn a_device_is_not_read_while_its_name_is_written() {
        let verdict = check(&target(Some("down")), "trace /dev/zero");
        assert!(!verdict.allowed, "{verdict:?}");
    }
}
