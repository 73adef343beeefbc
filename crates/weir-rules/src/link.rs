//! One direction of a link in terms of the language, with the names of the files that describe it.

use weir_core::config::PipeConfig;

/// One direction of a link, as a specification describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSpec {
    /// The queue and the link.
    pub pipe: PipeConfig,
    /// The treatment of offload trains.
    pub gso: Gso,
    /// The files that the specification names; they are needed to print the specification.
    pub files: FileNames,
}

/// The names of the files in a specification. The name of a jitter table is stored as the name of
/// its distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileNames {
    /// The air-time profile.
    pub profile: Option<String>,
    /// The rate trace.
    pub trace: Option<String>,
    /// The schedule.
    pub schedule: Option<String>,
}

/// The treatment of offload trains. A train is one large frame that stands for several wire
/// packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gso {
    /// Each wire packet is shaped separately.
    #[default]
    Split,
    /// The train is shaped as one packet.
    Whole,
}
