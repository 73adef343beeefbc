//! Every system call that needs `unsafe`, behind safe functions.
//!
//! rustix covers most system calls; this folder covers the others. A function takes slices and
//! descriptors with their lifetimes, builds the kernel's structures on its own stack, and returns
//! values. No raw pointer leaves this folder.
#![expect(
    unsafe_code,
    reason = "the one place for system calls that no safe library wraps; each block says why it \
              holds"
)]

pub mod bpf;
pub mod heap;
pub mod mmsg;
pub mod packet;
pub mod poll;
pub mod process;
pub mod redirect;
pub mod shared;
pub mod thread;
pub mod tun;

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// The MTU of the network interface called `name`, in the namespace of `socket`.
///
/// # Errors
/// `ENODEV` when there is no such interface; `EINVAL` when the name is invalid.
pub fn interface_mtu(socket: impl AsFd, name: &str) -> Result<u32, Errno> {
    let mut request = interface_request(name)?;
    // SAFETY: SIOCGIFMTU reads the name in the ifreq and writes an int into it. The ifreq is valid,
    // initialised and ours for the call.
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) })?;
    // SAFETY: the call succeeded, so the kernel has filled in `ifru_mtu`; any bit pattern is a
    // valid int.
    Ok(u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
}

/// An interface request with the name filled in.
fn interface_request(name: &str) -> Result<libc::ifreq, Errno> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.bytes().any(|b| b == 0) {
        return Err(Errno::INVAL);
    }
    // SAFETY: ifreq is plain data (a byte array and a union of plain data), for which all zeros is
    // a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// The result of a system call that returns -1 on failure.
fn check(result: libc::c_int) -> Result<libc::c_int, Errno> {
    if result < 0 { Err(last_error()) } else { Ok(result) }
}

/// The calling thread's `errno`.
fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
