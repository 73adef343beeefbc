//! Why a target cannot be put behind a link, and what to do.

use std::io;

use weir_linux::netlink::NetlinkError;
use weir_linux::port::OpenError;

/// Why an attachment failed. The target's traffic is then as before.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// This program was built without BPF programs.
    #[error(
        "this weir was built without programs for the kernel; install clang, libelf-dev and \
         zlib1g-dev and build it again"
    )]
    Unavailable,
    /// The kernel is too old.
    #[error(
        "the kernel ({release}) cannot attach programs to an interface with BPF links (TCX); Weir \
         needs Linux 6.6 or newer"
    )]
    Kernel {
        /// The kernel's release.
        release: String,
    },
    /// The kernel does not permit a step.
    #[error("{what} needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_ADMIN): try sudo")]
    Rights {
        /// The attempted step.
        what: String,
    },
    /// The programs cannot be loaded.
    #[error("the kernel refuses Weir's programs: {reason}")]
    Load {
        /// The reason.
        reason: String,
    },
    /// The target does not exist.
    #[error("there is no {what}{known}")]
    Missing {
        /// The target in words.
        what: String,
        /// What exists instead, or how to list it, beginning with a semicolon; may be empty.
        known: String,
    },
    /// Several targets have this name.
    #[error("{what} is the name of {one} and of {other}; name one of them with `cgroup:PATH`")]
    Ambiguous {
        /// The target in words.
        what: String,
        /// The path of one target.
        one: String,
        /// The path of another one.
        other: String,
    },
    /// The target has no network of its own.
    #[error("{what} has no network of its own: {advice}")]
    Shared {
        /// The target in words.
        what: String,
        /// The reason, and what to do instead.
        advice: String,
    },
    /// There is no suitable interface.
    #[error(
        "{target} has no interface that is up and carries Ethernet frames{known}; select one with \
         --interface"
    )]
    NoInterfaces {
        /// The target.
        target: String,
        /// The existing interfaces, beginning with a semicolon.
        known: String,
    },
    /// There is no interface with this name.
    #[error("{target} has no interface {name}; it has {known}")]
    NoInterface {
        /// The target.
        target: String,
        /// The requested name.
        name: String,
        /// The existing interfaces, separated by commas.
        known: String,
    },
    /// Another process of Weir shapes this interface.
    #[error(
        "{interface} of {target} is already shaped by {other}; change or end that attachment (two \
         attachments would shape the packets one after the other)"
    )]
    Taken {
        /// The target.
        target: String,
        /// The interface.
        interface: String,
        /// The other process in words.
        other: String,
    },
    /// The interface has as many programs as the kernel allows.
    #[error(
        "the interface has 64 programs already, the most that the kernel runs on one interface; \
         end another attachment, or replace several by one whose target is a group above theirs"
    )]
    Crowded,
    /// The targets have too many interfaces for one session.
    #[error("these targets have {count} interfaces; one session shapes at most {most}")]
    TooMany {
        /// The number of interfaces.
        count: usize,
        /// The largest permitted number.
        most: usize,
    },
    /// The limit of open files is too low.
    #[error(
        "these targets have {count} interfaces, which need {needed} open files; the limit is \
         {most} (`ulimit -Hn`)"
    )]
    Files {
        /// The number of interfaces.
        count: usize,
        /// The needed descriptors.
        needed: u64,
        /// The limit.
        most: u64,
    },
    /// A container engine cannot be asked, or its answer is an error or cannot be used.
    #[error("{0}")]
    Engine(String),
    /// A step failed.
    #[error("{what}: {source}")]
    System {
        /// The attempted step.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A netlink request failed: a query of interfaces or routes, or a change of an interface.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// A TAP device cannot be created.
    #[error(transparent)]
    Port(#[from] OpenError),
    /// A thread cannot be started, or a descriptor cannot be opened.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl AttachError {
    /// The error of a step, which becomes [`AttachError::Rights`] if permission is missing.
    pub(crate) fn of(what: impl Into<String>, source: io::Error) -> AttachError {
        let what = what.into();
        if source.kind() == io::ErrorKind::PermissionDenied {
            AttachError::Rights { what }
        } else {
            AttachError::System { what, source }
        }
    }
}
