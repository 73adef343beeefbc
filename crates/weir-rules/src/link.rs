//! A link as the language describes it: one direction, with the names of the files it was read from.

use weir_core::config::PipeConfig;

/// A link as a specification describes it: one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSpec {
    /// The queue and the link.
    pub pipe: PipeConfig,
    /// What happens to offload trains.
    pub gso: Gso,
    /// The files that the specification names; needed to print it again.
    pub files: FileNames,
}

/// Names of the files that a specification was read from. A jitter table's name is the name of its
/// distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileNames {
    /// Air-time profile.
    pub profile: Option<String>,
    /// Rate trace.
    pub trace: Option<String>,
    /// Schedule.
    pub schedule: Option<String>,
}

/// What a link does with a segmentation-offload train: one large frame that stands for several wire
/// packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gso {
    /// Every wire packet is shaped separately.
    #[default]
    Split,
    /// The train is shaped as one packet.
    Whole,
}
