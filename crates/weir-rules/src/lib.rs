//! Weir's command language: link specifications, presets, scripts, and the trace, profile and
//! distribution files that they name. The crate also contains the classifier that scripts
//! configure.
//!
//! A specification is a line of words such as `bw 4Mbit/s delay 20ms queue 50`, or the short form
//! `4M/20ms`. [`check_spec`] turns it into the engine's configuration and reports each error at the
//! word that causes it. The keywords are rows of [`keyword::TABLE`]. The parser, the canonical
//! form, the diagnostics and the reference in `docs/link-spec.md` are derived from these rows.
//!
//! The crate opens no file and reads no clock: [`Files`] supplies the files that a specification
//! names.

mod amend;
mod aqm;
mod check;
pub mod classify;
pub mod command;
mod diagnostic;
pub mod dist;
pub mod docs;
mod files;
pub mod keyword;
mod lex;
mod link;
pub mod manager;
mod markdown;
mod mask;
pub mod named;
mod netem;
pub mod packet;
mod parse;
mod parsed;
pub mod presets;
mod print;
pub mod profile;
pub mod rule;
pub mod ruleset;
mod scheduler;
pub mod script;
mod setting;
mod shared;
pub mod show;
mod spec;
mod suggest;
pub mod table;
pub mod trace;

pub use amend::check_change;
pub use diagnostic::{Code, Diagnostic, Diagnostics, Severity, Span};
pub use files::{Files, NoFiles};
pub use link::{FileNames, Gso, LinkSpec};
pub use parsed::{Budget, Distinct, Held, MOST_MEMORY, MemoryError, ParsedFiles};
pub use print::canonical;
pub use shared::SharedFiles;
pub use spec::{Checked, check_spec, parse_spec};
pub use suggest::closest;
pub use weir_core::quantity::{self, decimal};
