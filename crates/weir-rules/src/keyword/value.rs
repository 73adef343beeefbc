//! The value of a keyword: its bounds, where it is stored, and how it is read and printed.

use std::ops::RangeInclusive;

use weir_core::config::Loss;
use weir_core::units::{Bytes, Nanos, Probability, Rate};

use super::draft::Draft;
use super::reader::Reader;
use crate::link::LinkSpec;
use crate::quantity::{
    self, MAX_DELAY, MAX_SIZE, QuantityError, write_loss, write_rate, write_share, write_size,
    write_time,
};

/// The value of a keyword.
///
/// A value of a common kind needs only its bounds and a [`Place`]; [`Value::Custom`] has functions
/// of its own. A value is printed if it differs from the default link's value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A rate up to the engine's maximum; 0 is stored as `None`.
    Rate(Place<Option<Rate>>),
    /// A time up to a maximum.
    Time(Nanos, Place<Nanos>),
    /// A size in bytes, up to [`MAX_SIZE`].
    Size(Place<Bytes>),
    /// A whole number.
    Count(RangeInclusive<u32>, Place<u32>),
    /// A probability.
    Probability(Place<Probability>),
    /// Random loss, and its parser. The loss is one probability or the four of the Gilbert-Elliott
    /// model.
    Loss(Place<Loss>, fn(&str) -> Result<Loss, QuantityError>),
    /// The name of a file, and a description of the file's content.
    File(&'static str, Place<Option<String>>),
    /// An AQM with its settings, and a description of the allowed values. The parser of AQMs reads
    /// the argument.
    Aqm(&'static str),
    /// A scheduler with its settings, and a description of the allowed values. The parser of
    /// schedulers reads the argument.
    Scheduler(&'static str),
    /// No value: the queue has no AQM.
    DropTail,
    /// A value of any other kind.
    Custom {
        /// The allowed values in words, derived from the bounds that `read` uses.
        range: fn() -> String,
        /// Reads the argument into the draft; returns `None` after it has reported an error.
        read: fn(&mut Reader<'_>, &mut Draft) -> Option<()>,
        /// Prints the argument in the form that `read` accepts; `None` for the default value.
        print: Print,
    },
}

/// Prints an argument. The [`Quote`] function writes the names of files in it.
pub(crate) type Print = fn(&LinkSpec, Quote) -> Option<String>;

/// Writes a word so that it is read back as one word and not as a keyword.
pub(crate) type Quote = fn(&str) -> String;

/// The place where a value is stored.
#[derive(Clone, Debug)]
pub(crate) struct Place<T> {
    pub(crate) get: fn(&LinkSpec) -> T,
    pub(crate) set: fn(&mut LinkSpec, T),
}

/// The place of a field of [`LinkSpec`]: `place!(pipe.link.delay)`.
macro_rules! place {
    ($($field:ident).+) => {
        Place { get: |spec| spec.$($field).+, set: |spec, value| spec.$($field).+ = value }
    };
}
pub(super) use place;

impl<T: PartialEq> Place<T> {
    /// The value, if it differs from the default.
    fn changed(&self, spec: &LinkSpec) -> Option<T> {
        let value = (self.get)(spec);
        (value != (self.get)(&LinkSpec::default())).then_some(value)
    }
}

impl Value {
    /// The allowed values in words.
    pub(super) fn range(&self) -> String {
        match self {
            Self::Rate(_) => format!("1 bit/s to {}", Rate::MAX),
            Self::Time(most, _) => range_of_time(*most),
            Self::Size(_) => format!("0 to {}", size(MAX_SIZE)),
            Self::Count(range, _) => range_of_count(range),
            Self::Probability(_) | Self::Loss(..) => RANGE_OF_PROBABILITY.to_owned(),
            Self::File(range, _) | Self::Aqm(range) | Self::Scheduler(range) => (*range).to_owned(),
            Self::DropTail => String::new(),
            Self::Custom { range, .. } => range(),
        }
    }

    /// Reads the argument into the draft; returns `None` after it has reported an error.
    pub(crate) fn read(&self, reader: &mut Reader<'_>, draft: &mut Draft) -> Option<()> {
        let spec = &mut draft.spec;
        match self {
            Self::Rate(place) => (place.set)(spec, reader.quantity(quantity::rate)?),
            Self::Time(most, place) => {
                (place.set)(spec, reader.quantity(|text| quantity::time(text, *most))?);
            }
            Self::Size(place) => (place.set)(spec, Bytes(reader.quantity(quantity::size)?)),
            Self::Count(range, place) => (place.set)(spec, reader.count(range)?),
            Self::Probability(place) => (place.set)(spec, reader.quantity(quantity::share)?),
            Self::Loss(place, parse) => (place.set)(spec, reader.quantity(parse)?),
            Self::File(_, place) => (place.set)(spec, Some(reader.file()?)),
            Self::Aqm(_) | Self::Scheduler(_) | Self::DropTail => {}
            Self::Custom { read, .. } => return read(reader, draft),
        }
        Some(())
    }

    /// The argument in canonical form; `None` for the default value.
    pub(crate) fn print(&self, spec: &LinkSpec, quote: Quote) -> Option<String> {
        match self {
            Self::Rate(place) => place.changed(spec).flatten().map(write_rate),
            Self::Time(_, place) => place.changed(spec).map(write_time),
            Self::Size(place) => place.changed(spec).map(|Bytes(bytes)| write_size(bytes)),
            Self::Count(_, place) => place.changed(spec).map(|number| number.to_string()),
            Self::Probability(place) => place.changed(spec).map(write_share),
            Self::Loss(place, _) => place.changed(spec).map(|loss| match loss {
                Loss::Bernoulli(p) => write_share(p),
                other => write_loss(other),
            }),
            Self::File(_, place) => place.changed(spec).flatten().map(|name| quote(&name)),
            Self::Aqm(_) | Self::Scheduler(_) | Self::DropTail => None,
            Self::Custom { print, .. } => print(spec, quote),
        }
    }
}

/// The range of a time, such as `0 to 1 hour`.
pub(super) fn range_of_time(most: Nanos) -> String {
    format!("0 to {}", time(most))
}

/// The range of a count, such as `1 to 65536`.
pub(super) fn range_of_count(range: &RangeInclusive<u32>) -> String {
    format!("{} to {}", range.start(), range.end())
}

/// The range of a limit of a queue or ring: up to `packets`, or a number of bytes.
pub(super) fn range_of_limit(packets: u32) -> String {
    format!("1 to {packets} packets, or 1 B to {}", size(MAX_SIZE))
}

/// A maximum time in words, such as `1 hour`.
pub(super) fn time(time: Nanos) -> String {
    if time == MAX_DELAY { "1 hour".to_owned() } else { write_time(time) }
}

/// A maximum size in the largest unit that divides it, such as `1 TB`.
pub(super) fn size(bytes: u64) -> String {
    let units = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "KB")];
    let (unit, name) =
        units.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit)).unwrap_or((1, "B"));
    format!("{} {name}", bytes / unit)
}

pub(super) const RANGE_OF_PROBABILITY: &str = "0 to 1 or 0% to 100%";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_from_bounds() {
        assert_eq!(range_of_time(MAX_DELAY), "0 to 1 hour");
        assert_eq!(range_of_time(Nanos::from_millis(250)), "0 to 250ms");
        assert_eq!(range_of_limit(9), "1 to 9 packets, or 1 B to 1 TB");
        assert_eq!(size(1_500_000), "1500 KB");
        assert_eq!(size(1501), "1501 B");
    }
}
