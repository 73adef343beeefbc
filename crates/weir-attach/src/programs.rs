//! The BPF programs of one interface: loaded, configured through shared memory, and attached.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Once;
use std::sync::atomic::Ordering::Relaxed;

use libbpf_rs::{ErrorKind, MapCore as _, MapFlags, Object, ObjectBuilder, PrintLevel};
use rustix::io::Errno;
use weir_linux::sys::bpf::{self, Direction};
use weir_linux::sys::shared::SharedWords;

use crate::error::AttachError;
use crate::selection::{Owner, Selection};

/// The interface and its two TAP devices, by the kernel's interface indexes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Devices {
    /// The shaped interface.
    pub(crate) interface: u32,
    /// Whether the interface is `lo`.
    pub(crate) is_loopback: bool,
    /// The TAP device that receives what the target sends.
    pub(crate) target: u32,
    /// The TAP device that receives what the network sends.
    pub(crate) network: u32,
}

/// The attached programs. Dropping this detaches them.
#[derive(Debug)]
pub(crate) struct Programs {
    /// The descriptors close in order, starting with those of the interface's programs.
    _links: Vec<OwnedFd>,
}

/// Loads the programs, and attaches them in the calling thread's network namespace. They pass all
/// packets until the first heartbeat. Returns the settings that the programs share with this
/// process.
///
/// # Errors
/// The kernel is too old, does not permit the programs, or refuses them.
pub(crate) fn attach(
    devices: Devices,
    selection: &Selection,
) -> Result<(Programs, SharedWords), AttachError> {
    check_kernel()?;
    let mut object = load()?;
    let settings = configure(&mut object, devices, selection)?;
    let mut links = Vec::new();
    let mut on = |name: &str, device: u32, direction| {
        let program = object.progs().find(|program| program.name() == name);
        let program = program.ok_or_else(|| missing(name))?;
        let link = bpf::attach(program.as_fd(), device, direction);
        links.push(link.map_err(|errno| refused_link(errno, name))?);
        Ok::<(), AttachError>(())
    };
    for tap in [devices.target, devices.network] {
        // The kernel and daemons also send packets to the TAP devices. The guard drops all packets
        // except those that Weir's programs redirected.
        on("guard", tap, Direction::Egress)?;
    }
    on("deliver", devices.target, Direction::Ingress)?;
    on("transmit", devices.network, Direction::Ingress)?;
    // On lo, the program for sent packets sees every packet.
    if !devices.is_loopback {
        on("ingress", devices.interface, Direction::Ingress)?;
    }
    on("egress", devices.interface, Direction::Egress)?;
    links.reverse();
    Ok((Programs { _links: links }, settings))
}

/// Checks whether this kernel has TCX links.
///
/// # Errors
/// [`AttachError::Kernel`] before Linux 6.6.
fn check_kernel() -> Result<(), AttachError> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < LEAST_KERNEL => {
            Err(AttachError::Kernel { release })
        }
        _ => Ok(()),
    }
}

fn load() -> Result<Object, AttachError> {
    static QUIET: Once = Once::new();
    // libbpf prints its messages, which would disturb the terminal. The errors say enough.
    QUIET.call_once(|| {
        let _ = libbpf_rs::set_print(Some((PrintLevel::Debug, |_, _| {})));
    });
    let open = ObjectBuilder::default().open_memory(OBJECT).map_err(|error| refused(&error))?;
    open.load().map_err(|error| refused(&error))
}

fn configure(
    object: &mut Object,
    devices: Devices,
    selection: &Selection,
) -> Result<SharedWords, AttachError> {
    let mut flags = 0;
    let remotes = map(object, "remotes")?;
    for prefix in &selection.to {
        flags |= SELECT_ADDRESS;
        let (length, address) = prefix.mapped();
        let key: Vec<u8> = length.to_ne_bytes().into_iter().chain(address).collect();
        remotes.update(&key, &[1], MapFlags::ANY).map_err(|error| refused(&error))?;
    }
    if !selection.ports.is_empty() {
        flags |= SELECT_PORT;
        let mut bits = vec![0u64; 1024];
        for port in selection.ports.iter().flat_map(|range| range.0.clone()) {
            bits[usize::from(port >> 6)] |= 1 << (port & 63);
        }
        let ports = map(object, "ports")?;
        for (word, bits) in (0u32..).zip(bits).filter(|(_, bits)| *bits != 0) {
            let (key, value) = (word.to_ne_bytes(), bits.to_ne_bytes());
            ports.update(&key, &value, MapFlags::ANY).map_err(|error| refused(&error))?;
        }
    }
    let words = SharedWords::map(map(object, "settings")?.as_fd(), WORDS)
        .map_err(|errno| AttachError::of("sharing memory with a program", errno.into()))?;
    match selection.owner {
        Some(Owner::Cgroup { id, level }) => {
            flags |= SELECT_CGROUP;
            words[CGROUP].store(id, Relaxed);
            words[LEVEL].store(level.unwrap_or(0), Relaxed);
        }
        Some(Owner::User(number)) => {
            flags |= SELECT_USER;
            words[USER].store(number.into(), Relaxed);
        }
        None => {}
    }
    if devices.is_loopback {
        flags |= LOOPBACK;
    }
    words[FLAGS].store(flags, Relaxed);
    words[MARK].store(MARK_FAMILY | u64::from(devices.target) & 0xff_ffff, Relaxed);
    words[INTERFACE].store(devices.interface.into(), Relaxed);
    words[TARGET_TAP].store(devices.target.into(), Relaxed);
    words[NETWORK_TAP].store(devices.network.into(), Relaxed);
    Ok(words)
}

fn map<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Map<'a>, AttachError> {
    object.maps().find(|map| map.name() == name).ok_or_else(|| missing(name))
}

fn missing(name: &str) -> AttachError {
    AttachError::Load { reason: format!("the object file has no {name}") }
}

fn refused(error: &libbpf_rs::Error) -> AttachError {
    if error.kind() == ErrorKind::PermissionDenied {
        return AttachError::Rights { what: "loading programs into the kernel".into() };
    }
    AttachError::Load { reason: format!("{error:#}") }
}

fn refused_link(errno: Errno, name: &str) -> AttachError {
    // The kernel runs at most 64 programs on one interface and direction.
    if errno == Errno::RANGE {
        return AttachError::Crowded;
    }
    if errno == Errno::NODEV {
        let what = format!("attaching the program {name} to an interface that is gone");
        return AttachError::of(what, errno.into());
    }
    AttachError::of(format!("attaching the program {name} to an interface"), errno.into())
}

/// The first kernel with TCX links.
const LEAST_KERNEL: (u32, u32) = (6, 6);
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/attach.bpf.o"));

// The positions of the fields of `struct settings` in bpf/kernel.h, and the flags.
/// The time until which packets are redirected, in monotonic ns.
pub(crate) const ALIVE_UNTIL: usize = 0;
const FLAGS: usize = 1;
const MARK: usize = 2;
const INTERFACE: usize = 3;
const TARGET_TAP: usize = 4;
const NETWORK_TAP: usize = 5;
const CGROUP: usize = 6;
const LEVEL: usize = 7;
const USER: usize = 8;
/// Packets that passed because the heartbeat was late.
pub(crate) const MISSED: usize = 9;
const WORDS: usize = 10;
const SELECT_ADDRESS: u64 = 1;
const SELECT_PORT: u64 = 2;
const SELECT_CGROUP: u64 = 4;
const SELECT_USER: u64 = 8;
const LOOPBACK: u64 = 16;
const MARK_FAMILY: u64 = 0x5700_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_the_kernel_say_what_to_do() {
        let words = |errno| refused_link(errno, "egress").to_string();
        assert!(words(Errno::RANGE).contains("64 programs already"));
        assert!(words(Errno::ACCESS).contains("try sudo"));
        assert!(words(Errno::NODEV).contains("the program egress to an interface that is gone"));
    }
}
