//! Rows of the table of keywords: loss, duplication and corruption.

use super::draft::Object;
use super::row::{Group, Keyword, Part};
use super::value::{Place, Value, place};
use crate::quantity;

/// The base of the rows in this file.
const LINK: Keyword = Keyword {
    group: Group::Impairment,
    objects: &[Object::Link],
    part: Part::Link,
    ..Keyword::EMPTY
};

/// The rows, in the order of the reference.
pub(super) const ROWS: &[&Keyword] = &[&LOSS, &PLR, &DUP, &CORRUPT];

pub(crate) static LOSS: Keyword = Keyword {
    name: "loss",
    argument: "P or K,p,H,r",
    value: Value::Loss(place!(pipe.link.loss), quantity::loss),
    default: "0",
    meaning: "Loss on the link: a lost packet has waited in the queue and used the link's time. \
              One number is an independent probability for each packet. Four numbers are a \
              Gilbert-Elliott model: K is the loss in the good state, p the transition from good \
              to bad, H the loss in the bad state, r the transition from bad to good. Loss of \
              every packet is `100%`; a bare `1` is refused, because it could mean 1 %.",
    example: "loss 0,0.01,1,0.25",
    dummynet: "Does not exist; `plr` is loss before the queue.",
    ..LINK
};

pub(crate) static PLR: Keyword = Keyword {
    name: "plr",
    objects: &[Object::Link, Object::Queue],
    part: Part::Queue,
    argument: "P or K,p,H,r",
    value: Value::Loss(place!(pipe.queue.loss), quantity::loss_fraction),
    default: "0",
    meaning: "Loss before the queue: a lost packet uses neither queue nor link. Numbers as for \
              `loss`.",
    example: "plr 0.01",
    dummynet: "The same, without percent. `plr 1` is the loss of every packet in both.",
    ..LINK
};

pub(crate) static DUP: Keyword = Keyword {
    name: "dup",
    aliases: &["duplicate"],
    argument: "P",
    value: Value::Probability(place!(pipe.link.duplicate)),
    default: "0",
    meaning: "Probability that a packet arrives twice.",
    example: "dup 0.5%",
    dummynet: "Does not exist.",
    ..LINK
};

pub(crate) static CORRUPT: Keyword = Keyword {
    name: "corrupt",
    argument: "P",
    value: Value::Probability(place!(pipe.link.corrupt)),
    default: "0",
    meaning: "Probability that one bit of a packet is inverted.",
    example: "corrupt 0.1%",
    dummynet: "Does not exist.",
    ..LINK
};
