//! Exit codes of the verbs, as in `sysexits.h`.

/// The command line is wrong.
pub(crate) const EX_USAGE: u8 = 64;
/// The command is wrong.
pub(super) const EX_DATAERR: u8 = 65;
/// A script cannot be read.
pub(super) const EX_NOINPUT: u8 = 66;
/// No daemon answers, or it refuses.
pub(super) const EX_UNAVAILABLE: u8 = 69;
/// The user has no permission.
pub(super) const EX_NOPERM: u8 = 77;
