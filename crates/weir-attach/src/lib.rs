//! Places an emulated link in front of programs that already run: the packets of a namespace, a
//! container, a control group or a user pass through two ports of the live loop.
//!
//! A [`Target`] is found as one or more [`Site`]s. An [`Attachment`] redirects the packets of
//! one interface of a site to two TAP devices, which are the ports. BPF programs redirect only
//! the packets that a [`Selection`] selects; all other packets never reach Weir. The kernel
//! detaches the programs when their descriptors close, so the traffic flows directly again when
//! Weir ends, in whatever manner ([ADR 0012](../../docs/adr/0012-attach.md)).

mod attachment;
mod cgroup;
mod engine;
mod error;
mod find;
mod nri;
mod pattern;
#[cfg(feature = "bpf")]
mod programs;
#[cfg(not(feature = "bpf"))]
#[path = "no_programs.rs"]
mod programs;
mod project;
mod selection;
mod starting;
mod target;

pub use attachment::{Attachment, Heartbeat, interfaces, try_out};
pub use engine::{Container, Engine, LONGEST_LABEL, Labels, MOST_LABELS, Seen, Watch};
pub use error::AttachError;
pub use find::Site;
pub use nri::{Nri, Pod, PodSeen};
pub use pattern::Pattern;
pub use project::{Member, Networks, docker_answers, members};
pub use selection::{Owner, PortRange, Prefix, Selection};
pub use starting::{Begun, Started, Starting};
pub use target::Target;
