//! Reasons why settings of traffic are invalid, and checks that several kinds of traffic share.

use std::io;

use weir_core::Nanos;

use super::replay::TraceError;
use crate::random::CdfError;
use crate::units::{Size, Time};

/// An invalid setting and the reason.
#[derive(Debug, thiserror::Error)]
#[error("`{setting}`: {reason}")]
pub struct SpecError {
    /// The setting's name.
    pub setting: &'static str,
    /// The reason.
    pub reason: Reason,
}

/// The reason why a setting is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// The setting is missing, or all alternatives are.
    #[error("missing; give {0}")]
    Missing(&'static str),
    /// Several settings exclude one another.
    #[error("says the same as another setting; give {0}")]
    Twice(&'static str),
    /// The value is out of range.
    #[error("out of range; {0}")]
    Range(&'static str),
    /// The end is not after the start.
    #[error("must be later than `start`")]
    Order,
    /// A list has the wrong number of entries.
    #[error("has {has} entries; it needs one for each of the {needs} states")]
    Entries {
        /// The number of entries present.
        has: usize,
        /// The number of entries needed.
        needs: usize,
    },
    /// A Markov chain has a state from which no sending state can be reached.
    #[error(
        "state {0} leads to no state that sends; give one of the states a `rate`, and let state \
         {0} lead to it"
    )]
    Silent(usize),
    /// A file cannot be read.
    #[error("cannot read `{path}`: {error}")]
    File {
        /// The file's name.
        path: String,
        /// The reason.
        error: io::Error,
    },
    /// A file is not a trace.
    #[error("`{path}`: {error}")]
    Trace {
        /// The file's name.
        path: String,
        /// The reason.
        error: TraceError,
    },
    /// A file is not a cumulative distribution function.
    #[error("`{path}`: {error}")]
    Cdf {
        /// The file's name.
        path: String,
        /// The reason.
        error: CdfError,
    },
    /// Any other reason, in words.
    #[error("{0}")]
    Words(String),
}

/// The result of a check: the valid value or the error.
pub(super) type Checked<T> = Result<T, SpecError>;

pub(super) fn refuse<T>(setting: &'static str, reason: Reason) -> Checked<T> {
    Err(SpecError { setting, reason })
}

/// Checks the length of a packet, in network-layer bytes.
pub(super) fn length(setting: &'static str, size: Size) -> Checked<u32> {
    match u32::try_from(size.0) {
        Ok(len @ LEAST_PACKET..=MAX_PACKET) => Ok(len),
        _ => refuse(setting, Reason::Range("a packet has from 28 bytes, its headers, to 65535")),
    }
}

/// Checks that a time is above zero.
pub(super) fn positive(setting: &'static str, time: Time) -> Checked<Nanos> {
    if time.ns() == 0 { refuse(setting, Reason::Range("it must be above 0")) } else { Ok(time.0) }
}

/// The length of a packet that consists of IPv4 and UDP headers only.
const LEAST_PACKET: u32 = 28;
const MAX_PACKET: u32 = 65_535;
