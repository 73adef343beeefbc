//! Why a description of a network cannot be converted.

/// Why a description cannot be converted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The text is longer than [`LARGEST`].
    #[error("the file has more than {} KiB", LARGEST >> 10)]
    TooLarge,
    /// The text is not in the expected format.
    #[error("line {line}: {reason}")]
    Syntax {
        /// The line, from 1 on.
        line: usize,
        /// The parser's reason.
        reason: String,
    },
    /// A bound is exceeded.
    #[error("the file has more than {most} {what}")]
    TooMany {
        /// The largest permitted number.
        most: usize,
        /// What there is too much of.
        what: &'static str,
    },
    /// Something that every description has is missing.
    #[error("{0}")]
    Missing(String),
}

/// The most bytes of a description.
pub const LARGEST: usize = 1 << 20;
