//! Why a session could not be set up, and the remedy.

use std::io;

use crate::netlink::NetlinkError;
use crate::port::OpenError;

/// Why [`super::run`], [`super::pair`], [`super::network`] or [`super::bridge`] failed. The machine
/// is unchanged in every case.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The kernel refuses user namespaces to this user.
    #[error(
        "the kernel gives this user no user namespace ({source}): run as root, or allow them with \
         'sysctl -w user.max_user_namespaces=10000' (also 'kernel.unprivileged_userns_clone=1' on \
         older Debian and 'kernel.apparmor_restrict_unprivileged_userns=0' on Ubuntu)"
    )]
    UserNamespace {
        /// The kernel's error.
        source: io::Error,
    },
    /// This process has several threads; only a process with one thread can enter a user namespace.
    #[error(
        "a session without root must be set up before this program starts threads (it has {count})"
    )]
    Threads {
        /// The number of threads.
        count: usize,
    },
    /// Creating or entering a namespace failed.
    #[error("cannot make a {kind} namespace: {source}")]
    Namespace {
        /// The kind of the namespace: network, mount, process.
        kind: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The requested MTU is not possible.
    #[error(
        "an MTU of {mtu} bytes is not possible: allowed are {} to {}",
        super::MIN_MTU,
        super::MAX_MTU
    )]
    Mtu {
        /// The requested MTU.
        mtu: u32,
    },
    /// A frame port could not be opened.
    #[error(transparent)]
    Port(#[from] OpenError),
    /// The kernel refused an interface, an address or a route.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// There are too many hosts for one machine.
    #[error("{count} hosts are too many for one machine: allowed are up to {most}")]
    Hosts {
        /// The requested number of hosts.
        count: usize,
        /// The largest permitted number.
        most: u16,
    },
    /// All address ranges are in use.
    #[error(
        "no free address range for the link: every candidate of {ranges} is routed on this \
         machine or used by another session"
    )]
    NoAddresses {
        /// The ranges that were tried.
        ranges: &'static str,
    },
    /// An interface to be bridged does not exist.
    #[error("there is no interface {name} here: 'ip link' lists {present}")]
    NoInterface {
        /// The requested name.
        name: String,
        /// The existing names, separated by commas.
        present: String,
    },
    /// Both ends of a bridge are the same interface.
    #[error("both ends of the bridge are {name}: a bridge joins two different interfaces")]
    SameInterface {
        /// The name of that interface.
        name: String,
    },
    /// An interface already belongs to a bridge, a bond or the like.
    #[error(
        "{name} belongs to another device (bridge, bond or team): release it with 'ip link set \
         {name} nomaster' first"
    )]
    Enslaved {
        /// The interface.
        name: String,
    },
    /// Bridging the machine's interfaces needs privileges.
    #[error("bridging interfaces needs root (CAP_NET_ADMIN and CAP_NET_RAW): run it with sudo")]
    NotPrivileged,
    /// A port cannot be published.
    #[error("cannot publish port {port} of this machine: {why}")]
    Publish {
        /// The port, with its address and protocol.
        port: String,
        /// The reason, and the remedy if there is one.
        why: String,
    },
    /// The state directory or its lock cannot be used.
    #[error("cannot keep the session's state in {path}: {source}")]
    State {
        /// The file or directory.
        path: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A helper process could not be started.
    #[error("cannot start the {helper} process: {source}")]
    Helper {
        /// The kind of helper.
        helper: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// The kernel refused something elementary: a thread or a descriptor.
    #[error("cannot prepare the session: {0}")]
    System(#[from] io::Error),
}
