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
mod diagnostic;
pub mod dist;
pub mod docs;
mod files;
pub mod keyword;
mod lex;
mod link;
pub mod manager;
mod mask;
mod parse;
pub mod presets;
mod print;
pub mod profile;
pub mod rule;
pub mod ruleset;
pub mod script;
mod setting;
pub mod show;
mod spec;
mod suggest;
pub mod table;
pub mod trace;

pub use diagnostic::{Code, Diagnostic, Diagnostics, Severity, Span};
pub use files::{Files, NoFiles};
pub use link::{FileNames, Gso, LinkSpec};
pub use print::canonical;
pub use spec::{Checked, check_spec, parse_spec};
pub use suggest::closest;
pub use weir_core::quantity::{self, decimal};
