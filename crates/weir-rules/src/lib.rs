//! Weir's command language: link specifications, presets, and the trace, profile and distribution
//! files they name.
//!
//! A specification is a line of words such as `bw 4Mbit/s delay 20ms queue 50`, or the short form
//! `4M/20ms`. [`check_spec`] turns it into the engine's configuration and says what is wrong with
//! it, at the word where it is wrong. The words are rows of [`keyword::TABLE`], which also drives
//! the reference in `docs/link-spec.md` and shell completion.
//!
//! The crate reads no file and no clock: what a specification names is read through [`Files`].

mod aqm;
mod check;
pub mod classify;
pub mod command;
pub mod decimal;
mod diagnostic;
pub mod dist;
pub mod docs;
pub mod keyword;
mod lex;
pub mod manager;
mod mask;
mod parse;
pub mod presets;
mod print;
pub mod profile;
pub mod quantity;
mod raw;
pub mod rule;
pub mod ruleset;
pub mod script;
mod setting;
pub mod show;
mod suggest;
pub mod table;
pub mod trace;

pub use diagnostic::{Code, Diagnostic, Diagnostics, Severity, Span};
pub use print::canonical;
pub use suggest::closest;

use std::collections::BTreeMap;
use std::io;

use weir_core::config::PipeConfig;

/// A link as a specification describes it: one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSpec {
    /// The queue and the link.
    pub pipe: PipeConfig,
    /// What happens to offload trains.
    pub gso: Gso,
    /// The files that the specification names; needed to print it again.
    pub files: FileNames,
}

/// Names of the files that a specification was read from. A jitter table's name is the name of its
/// distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileNames {
    /// Air-time profile.
    pub profile: Option<String>,
    /// Rate trace.
    pub trace: Option<String>,
    /// Schedule.
    pub schedule: Option<String>,
}

/// What a link does with a segmentation-offload train: one large frame that stands for several wire
/// packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gso {
    /// Every wire packet is shaped by itself.
    #[default]
    Split,
    /// The train is shaped as one packet.
    Whole,
}

/// Where the files that a specification names are read from.
pub trait Files {
    /// The text of the file at `path`.
    ///
    /// # Errors
    /// Whatever keeps it from being read; the message is shown to the user.
    fn read(&self, path: &str) -> io::Result<String>;

    /// The bytes of the file at `path`, for files that are not text.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        self.read(path).map(String::into_bytes)
    }
}

/// No files: every name is refused as not found.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Files in memory, by name.
impl Files for BTreeMap<String, String> {
    fn read(&self, path: &str) -> io::Result<String> {
        self.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The outcome of reading a specification.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The link; `None` when there are errors.
    pub spec: Option<LinkSpec>,
    /// Errors, warnings and notes, in the order of the text.
    pub diagnostics: Diagnostics,
}

/// Reads a specification and keeps what there is to say about it: warnings and notes even when it
/// is accepted.
///
/// An empty text is a perfect link.
pub fn check_spec(text: &str, files: &dyn Files) -> Checked {
    let mut diagnostics = Diagnostics::default();
    let raw = parse::parse(text, &mut diagnostics);
    // What could not be read is missing from the settings; judging the rest would blame the wrong
    // words.
    let spec =
        (!diagnostics.has_errors()).then(|| check::build(raw, text, files, &mut diagnostics));
    let spec = spec.filter(|_| !diagnostics.has_errors());
    Checked { spec, diagnostics }
}

/// Reads a specification. [`check_spec`] gives warnings and notes too.
///
/// # Errors
/// Everything that is wrong with the text or the files it names.
pub fn parse_spec(text: &str, files: &dyn Files) -> Result<LinkSpec, Diagnostics> {
    let Checked { spec, diagnostics } = check_spec(text, files);
    spec.ok_or(diagnostics)
}
