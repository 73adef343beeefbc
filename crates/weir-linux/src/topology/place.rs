//! A namespace for programs: its settings, and its interface, which has a port at the other end.

use std::io;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::reports::Reports;
use super::{Backend, MAX_MTU, MIN_MTU, SetupError};
use crate::arena::BufferPool;
use crate::netlink::{Mac, Netlink};
use crate::netns::{NetNs, write_setting};
use crate::port::{AnyPort, PacketPort, TapPort};
use crate::process::Waiting;

/// The namespace in which the programs of one side run.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) netns: NetNs,
    /// The programs' `/etc/hosts`.
    pub(super) hosts: String,
    /// The programs' `/etc/resolv.conf`; `None` for the machine's own file.
    pub(super) resolv: Option<String>,
    /// The init process of the first program. It gets ready while the link is set up.
    pub(super) waiting: Option<Waiting>,
}

impl Place {
    /// A place with an init process that gets ready for the first program.
    pub(super) fn expecting_program(netns: NetNs, hosts: String) -> Self {
        // After an error, the start of the program tries again and reports the error.
        let waiting = Waiting::start(&netns).ok();
        Self { netns, hosts, resolv: None, waiting }
    }
}

/// The configuration of an interface to create.
pub(super) struct Attachment<'a> {
    /// The interface's name in its namespace.
    pub(super) name: &'a str,
    pub(super) mac: Mac,
    pub(super) mtu: u32,
    pub(super) addresses: &'a [(IpAddr, u8)],
    pub(super) gateways: &'a [IpAddr],
    /// Permanent entries for other hosts on the link.
    pub(super) neighbours: &'a [(IpAddr, Mac)],
}

/// A port with an interface that was just started.
#[derive(Debug)]
pub(super) struct FreshPort {
    pub(super) port: AnyPort,
    /// The reports of multicast groups that the kernel still sends on the interface.
    pub(super) reports: Reports,
}

/// A new network namespace with loopback up and `ping` permitted. IPv6 starts there without delays,
/// and the kernel sends no packets of its own except reports of multicast groups.
pub(super) fn quiet_netns() -> Result<NetNs, SetupError> {
    let netns = new_netns()?;
    quieten(&netns)?;
    Ok(netns)
}

/// Configures a namespace like those of [`quiet_netns`].
pub(super) fn quieten(netns: &NetNs) -> Result<(), SetupError> {
    netns.enter(|| {
        silence_kernel("default");
        // Inside a user namespace, the setting accepts only groups that are mapped there.
        let gid = rustix::process::getgid().as_raw();
        if write_setting("ipv4/ping_group_range", "0 2147483647").is_err() {
            best_effort("ipv4/ping_group_range", &format!("{gid} {gid}"));
        }
        let mut netlink = Netlink::open()?;
        let loopback = netlink.link("lo")?;
        Ok::<_, SetupError>(netlink.set_up(loopback.index)?)
    })
}

/// A new network namespace for interfaces that only ports use. The kernel sends no packets there.
pub(super) fn switch_netns() -> Result<NetNs, SetupError> {
    let netns = new_netns()?;
    netns.enter(|| {
        best_effort("ipv6/conf/default/disable_ipv6", "1");
        Ok::<_, io::Error>(())
    })?;
    Ok(netns)
}

fn new_netns() -> Result<NetNs, SetupError> {
    NetNs::create().map_err(|source| match source.raw_os_error() {
        Some(libc::EPERM | libc::ENOSPC) if !rustix::process::geteuid().is_root() => {
            SetupError::UserNamespace { source }
        }
        _ => SetupError::Namespace { kind: "network", source },
    })
}

/// Creates the interface in `target` and opens its port. The port is the TAP device itself, or a
/// packet socket on the other end of a veth pair, which is called `near` and is in `switch`.
pub(super) fn attach(
    target: &NetNs,
    switch: Option<&NetNs>,
    near: &str,
    attachment: &Attachment<'_>,
) -> Result<FreshPort, SetupError> {
    let port = match switch {
        None => target.enter(|| {
            let port = TapPort::create(attachment.name)?;
            let mut netlink = Netlink::open()?;
            let link = netlink.link(attachment.name)?;
            netlink.set_link(link.index, attachment.mac, attachment.mtu)?;
            Ok::<_, SetupError>(AnyPort::Tap(port))
        })?,
        Some(switch) => switch.enter(|| {
            let mut netlink = Netlink::open()?;
            netlink.create_veth(
                (
                    near,
                    NEAR_INDEX
                        + u32::from(u16::from_be_bytes([attachment.mac[4], attachment.mac[5]])),
                ),
                attachment.name,
                target.descriptor(),
                attachment.mac,
                attachment.mtu,
            )?;
            let link = netlink.link(near)?;
            netlink.set_up(link.index)?;
            Ok::<_, SetupError>(AnyPort::Packet(PacketPort::open(near)?))
        })?,
    };
    let reports = target.enter(|| configure(attachment))?;
    Ok(FreshPort { port, reports })
}

/// Gives the interface its addresses, routes and neighbours and switches it on. Returns the reports
/// of multicast groups that the kernel then sends.
fn configure(attachment: &Attachment<'_>) -> Result<Reports, SetupError> {
    silence_kernel(attachment.name);
    let mut netlink = Netlink::open()?;
    let link = netlink.link(attachment.name)?;
    for ipv6 in [false, true] {
        // A namespace without IPv6 has no such table, so the error is ignored.
        let _ = netlink.trust_neighbours(link.index, ipv6);
    }
    // The kernel reports the groups of these addresses together when the interface starts.
    for &(address, prefix) in attachment.addresses {
        netlink.add_address(link.index, address, prefix)?;
    }
    netlink.set_up(link.index)?;
    let reports = Reports::expected(attachment.name);
    for &gateway in attachment.gateways {
        netlink.add_default_route(link.index, gateway)?;
    }
    for &(address, mac) in attachment.neighbours {
        netlink.add_neighbour(link.index, address, mac)?;
    }
    Ok(reports)
}

/// Keeps the kernel from sending its own packets on an interface (`default` means all future
/// interfaces). Such packets would use random draws of the link, and the same seed would then lose
/// different packets in every run.
fn silence_kernel(interface: &str) {
    for name in ["accept_dad", "accept_ra", "autoconf", "router_solicitations"] {
        best_effort(&format!("ipv6/conf/{interface}/{name}"), "0");
    }
    // Reports of multicast groups cannot be switched off. They are therefore sent at once, before
    // the live loop uses the link.
    for setting in [
        "ipv6/conf/IF/mldv1_",
        "ipv6/conf/IF/mldv2_",
        "ipv4/conf/IF/igmpv2_",
        "ipv4/conf/IF/igmpv3_",
    ] {
        best_effort(
            &format!("{}unsolicited_report_interval", setting.replace("IF", interface)),
            SOON_MS,
        );
    }
}

/// Waits for the packets that the kernels send after the start of an interface, and discards them.
/// The wait ends when all expected reports were sent. It also ends after a long silence if each
/// interface has begun to report.
pub(super) fn settle(ports: &mut [FreshPort]) {
    let mut pool = BufferPool::default();
    let mut frames = Vec::new();
    let deadline = Instant::now() + SETTLE;
    let mut silent_polls = 0;
    while Instant::now() < deadline {
        silent_polls += 1;
        for FreshPort { port, reports } in &mut *ports {
            // A port that fails here fails again in the loop, which reports the fault.
            let _ = port.receive(&mut pool, &mut frames);
            if !frames.is_empty() {
                silent_polls = 0;
            }
            for frame in frames.drain(..) {
                let bytes = frame.buffer.bytes();
                reports.note(bytes.get(frame.start..frame.start + frame.len).unwrap_or_default());
                pool.give(frame.buffer);
            }
        }
        let all = |test: fn(&Reports) -> bool| ports.iter().all(|port| test(&port.reports));
        if all(Reports::are_complete) || silent_polls >= SILENCE && all(Reports::have_begun) {
            break;
        }
        thread::sleep(POLL);
    }
}

/// The namespace for the ports' ends of veth pairs; `None` if the backend needs none.
pub(super) fn switch_for(backend: Backend) -> Result<Option<NetNs>, SetupError> {
    let tap = match backend {
        Backend::Tap => true,
        Backend::Packet | Backend::Auto => false,
    };
    if tap { Ok(None) } else { switch_netns().map(Some) }
}

pub(super) fn check_mtu(mtu: u32) -> Result<(), SetupError> {
    if (MIN_MTU..=MAX_MTU).contains(&mtu) { Ok(()) } else { Err(SetupError::Mtu { mtu }) }
}

/// Whether a link with this MTU carries IPv6 on this machine.
pub(super) fn has_ipv6(mtu: u32) -> bool {
    mtu >= IPV6_MIN_MTU && std::path::Path::new("/proc/sys/net/ipv6").exists()
}

/// Writes an optional setting, which makes the session quieter or faster. The error is ignored,
/// because old kernels lack some settings.
pub(super) fn best_effort(setting: &str, value: &str) {
    let _ = write_setting(setting, value);
}

/// Base of the interface indexes of the `near` interfaces, far above the indexes that the kernel
/// chooses; see [`Netlink::create_veth`]. The index is this base plus the last two bytes of the
/// Ethernet address.
const NEAR_INDEX: u32 = 1 << 30;
/// The interval of multicast reports in ms; the kernel repeats a report after a random part of this
/// interval.
const SOON_MS: &str = "1";
/// If a kernel does not send all expected reports, the ports are settled after this many polls
/// without a frame. The number is large because the kernel's worker threads run late on a busy
/// machine.
const SILENCE: u32 = 300;
/// The longest wait. On a busy machine the reports may begin this late, because a kernel-wide lock
/// serialises the changes of all interfaces.
const SETTLE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(1);
/// The smallest MTU of IPv6 (RFC 8200, section 5).
const IPV6_MIN_MTU: u32 = 1280;
