//! Reads a specification: the parser reads each keyword, and the checks examine the values
//! together.

use crate::check;
use crate::diagnostic::Diagnostics;
use crate::files::Files;
use crate::link::LinkSpec;
use crate::parse;

/// The result of reading a specification.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The link; `None` if there are errors.
    pub spec: Option<LinkSpec>,
    /// Errors, warnings and notes, in the order in which they were found.
    pub diagnostics: Diagnostics,
}

/// Reads a specification, and returns all diagnostics. An accepted specification may have warnings
/// and notes.
///
/// An empty text is a perfect link.
pub fn check_spec(text: &str, files: &dyn Files) -> Checked {
    let mut diagnostics = Diagnostics::default();
    let raw = parse::parse(text, &mut diagnostics);
    // A value that could not be read is missing from the draft, so the checks would report errors
    // at the wrong words.
    let spec =
        (!diagnostics.has_errors()).then(|| check::build(raw, text, files, &mut diagnostics));
    let spec = spec.filter(|_| !diagnostics.has_errors());
    Checked { spec, diagnostics }
}

/// Reads a specification. [`check_spec`] returns warnings and notes too.
///
/// # Errors
/// The errors in the text or in the files it names.
pub fn parse_spec(text: &str, files: &dyn Files) -> Result<LinkSpec, Diagnostics> {
    let Checked { spec, diagnostics } = check_spec(text, files);
    spec.ok_or(diagnostics)
}
