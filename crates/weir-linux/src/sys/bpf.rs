//! Attaches BPF programs to network devices. The BPF library has no call for this kind of link.

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

use super::check;

/// Which packets of a device a program examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Packets that the device receives.
    Ingress,
    /// Packets that the device is about to send.
    Egress,
}

/// Attaches a loaded program to the device with the interface index `device` in the calling
/// thread's network namespace. The program runs after those that are already attached. The kernel
/// detaches the program when the returned descriptor closes.
///
/// # Errors
/// `EINVAL` before Linux 6.6; `EPERM` without CAP_NET_ADMIN; `ENODEV` when there is no such device.
pub fn attach(
    program: BorrowedFd<'_>,
    device: u32,
    direction: Direction,
) -> Result<OwnedFd, Errno> {
    let mut attributes = LinkCreate {
        program: u32::try_from(program.as_raw_fd()).map_err(|_| Errno::BADF)?,
        device,
        kind: match direction {
            Direction::Ingress => BPF_TCX_INGRESS,
            Direction::Egress => BPF_TCX_EGRESS,
        },
        ..LinkCreate::default()
    };
    let size = std::mem::size_of::<LinkCreate>();
    // SAFETY: BPF_LINK_CREATE reads `size` bytes of attributes, which are valid and ours for the
    // call, and returns a new descriptor.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_CREATE, &raw mut attributes, size) };
    let fd = check(libc::c_int::try_from(result).unwrap_or(-1))?;
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The attributes of BPF_LINK_CREATE for a device, from `linux/bpf.h`.
#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    device: u32,
    kind: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    expected_revision: u64,
}

const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;
