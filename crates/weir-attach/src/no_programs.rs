//! Stands in for the BPF programs in a build without them.

use weir_linux::sys::shared::SharedWords;

use crate::error::AttachError;
use crate::selection::Selection;

/// The interface and its two TAP devices, by number.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "only the programs use the numbers")]
pub(crate) struct Devices {
    pub(crate) interface: u32,
    pub(crate) is_loopback: bool,
    pub(crate) target: u32,
    pub(crate) network: u32,
}

/// No programs.
#[derive(Debug)]
pub(crate) struct Programs;

pub(crate) fn attach(_: Devices, _: &Selection) -> Result<(Programs, SharedWords), AttachError> {
    Err(AttachError::Unavailable)
}

pub(crate) const ALIVE_UNTIL: usize = 0;
pub(crate) const MISSED: usize = 9;
