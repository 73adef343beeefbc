//! Rows of the table of keywords: properties of a scheduler's flow, which is a `queue N` or an
//! inner scheduler.

use super::draft::Object;
use super::row::{Group, Keyword, Part};
use super::value::{Place, Value, place};
use crate::quantity::MAX_DELAY;

/// The base of the rows in this file.
const FLOW: Keyword = Keyword {
    group: Group::Flow,
    objects: &[Object::Queue, Object::InnerScheduler],
    part: Part::Flow,
    ..Keyword::EMPTY
};

/// The rows, in the order of the reference.
pub(super) const ROWS: &[&Keyword] = &[&RATE, &CEIL, &BURST, &DEADLINE];

pub(crate) static RATE: Keyword = Keyword {
    name: "rate",
    argument: "RATE",
    value: Value::Rate(place!(pipe.queue.rate)),
    note: "; `0` for none",
    default: "none",
    meaning: "Guaranteed rate of a flow, for schedulers with such a guarantee. Only for a `queue \
              N` or an inner scheduler; a link's rate is `bw`.",
    example: "rate 2Mbit/s ceil 10Mbit/s",
    dummynet: "Does not exist.",
    ..FLOW
};

pub(crate) static CEIL: Keyword = Keyword {
    name: "ceil",
    argument: "RATE",
    value: Value::Rate(place!(pipe.queue.ceil)),
    note: "; `0` for none",
    default: "none: all of the link",
    meaning: "Rate that a flow never exceeds, for schedulers that shape.",
    example: "rate 2Mbit/s ceil 10Mbit/s burst 15KB",
    dummynet: "Does not exist; a pipe for each flow comes closest.",
    ..FLOW
};

pub(crate) static BURST: Keyword = Keyword {
    name: "burst",
    argument: "SIZE",
    value: Value::Size(place!(pipe.queue.burst)),
    default: "0",
    meaning: "Bytes of each flow that may depart at once after an idle period, for schedulers \
              that shape. More than 4 GB counts as 4 GB.",
    example: "rate 2Mbit/s ceil 10Mbit/s burst 15KB",
    dummynet: "Does not exist.",
    ..FLOW
};

pub(crate) static DEADLINE: Keyword = Keyword {
    name: "deadline",
    argument: "TIME",
    value: Value::Time(MAX_DELAY, place!(pipe.queue.deadline)),
    default: "0: none",
    meaning: "Time from a packet's arrival to its deadline, for schedulers with deadlines.",
    example: "deadline 5ms",
    dummynet: "Does not exist.",
    ..FLOW
};
