//! Exit codes of the `ipfw` and `dnctl` commands, with the values of `sysexits.h`.

/// The arguments of `weir` are wrong: an unknown option, or a missing argument.
pub(crate) const EX_USAGE: u8 = 64;
/// The command for the daemon, or a line of a script, is wrong.
pub(super) const EX_DATAERR: u8 = 65;
/// The script cannot be read.
pub(super) const EX_NOINPUT: u8 = 66;
/// No daemon answers, or the daemon refuses the command.
pub(super) const EX_UNAVAILABLE: u8 = 69;
/// The user may not connect to the daemon.
pub(super) const EX_NOPERM: u8 = 77;
