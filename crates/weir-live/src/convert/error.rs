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
        /// The kind of items of which there are too many.
        what: &'static str,
    },
    /// The description lacks a part that every description has.
    #[error("{0}")]
    Missing(String),
}

/// Maximum length of a description in bytes.
pub const LARGEST: usize = 1 << 20;
