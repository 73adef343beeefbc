//! Replaces the module `programs` in a build without BPF programs.

use weir_linux::sys::shared::SharedWords;

use crate::error::AttachError;
use crate::selection::Selection;

/// The interface and its two TAP devices, by the kernel's interface indexes.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "only the programs use the numbers")]
pub(crate) struct Devices {
    pub(crate) interface: u32,
    pub(crate) is_loopback: bool,
    pub(crate) target: u32,
    pub(crate) network: u32,
}

/// A placeholder: a build without BPF programs attaches none.
#[derive(Debug)]
pub(crate) struct Programs;

pub(crate) fn attach(_: Devices, _: &Selection) -> Result<(Programs, SharedWords), AttachError> {
    Err(AttachError::Unavailable)
}

pub(crate) const ALIVE_UNTIL: usize = 0;
pub(crate) const MISSED: usize = 9;
