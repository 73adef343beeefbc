//! Rows of the table of keywords: active queue management. The keywords here introduce an AQM. The
//! AQMs and their settings are rows of the engine's table.

use super::draft::Object;
use super::row::{Group, Keyword, Part};
use super::value::Value;

/// The base of the rows in this file.
const AQMS: Keyword = Keyword {
    group: Group::Aqm,
    objects: &[Object::Link, Object::Queue],
    part: Part::Aqm,
    default: "drop tail",
    ..Keyword::EMPTY
};

/// The rows, in the order of the reference.
pub(super) const ROWS: &[&Keyword] = &[&RED, &GRED, &CODEL, &PIE, &AQM];

pub(crate) static RED: Keyword = Keyword {
    name: "red",
    argument: "W_Q/MIN_TH/MAX_TH/MAX_P [SETTING …]",
    value: Value::Aqm(
        "W_Q and MAX_P above 0 up to 1; thresholds in packets, or in bytes if `queue` is in bytes",
    ),
    meaning: "Random early detection as dummynet configures it: weight of the average, the two \
              thresholds, and the probability at the upper one. The same as `aqm red` with these \
              settings.",
    example: "bw 10Mbit/s queue 100 red 0.002/30/80/0.1 ecn",
    dummynet: "With `ecn`, every packet is marked while the average is above MIN_TH, or dropped \
               if it cannot be marked; here only with the probability that follows from MAX_P.",
    ..AQMS
};

pub(crate) static GRED: Keyword = Keyword {
    name: "gred",
    argument: "W_Q/MIN_TH/MAX_TH/MAX_P [SETTING …]",
    value: Value::Aqm("as for `red`"),
    meaning: "Gentle `red`: above MAX_TH the probability rises from MAX_P to 1 at twice MAX_TH.",
    example: "bw 10Mbit/s queue 200 gred 0.002/30/80/0.1",
    dummynet: "As for `red`.",
    ..AQMS
};

pub(crate) static CODEL: Keyword = Keyword {
    name: "codel",
    argument: "[target TIME] [interval TIME] [ecn|noecn] [SETTING …]",
    value: Value::Aqm("a bare number is in ms"),
    meaning: "CoDel: drops according to the sojourn time of packets. The same as `aqm codel`; its \
              other settings may follow.",
    example: "bw 10Mbit/s codel target 5ms interval 100ms ecn",
    dummynet: "Times of at most 5 s; the word and its settings must come last.",
    ..AQMS
};

pub(crate) static PIE: Keyword = Keyword {
    name: "pie",
    argument: "[target TIME] [tupdate TIME] [alpha N] [beta N] [max_burst TIME] [max_ecnth P] \
               [SETTING …]",
    value: Value::Aqm("a bare number is in ms"),
    meaning: "dummynet's PIE. The same as `aqm pie variant dummynet`; its other settings may \
              follow: `ecn`, `noecn`, `capdrop`, `nocapdrop`, `drand`, `nodrand`, `onoff`, `dre`, \
              `ts`.",
    example: "bw 10Mbit/s pie target 15ms tupdate 15ms alpha 0.125 beta 1.25 noecn",
    dummynet: "The manual says `drand`, the program accepts only `derand`. Here both are accepted.",
    ..AQMS
};

pub(crate) static AQM: Keyword = Keyword {
    name: "aqm",
    argument: "NAME [SETTING VALUE …]",
    value: Value::Aqm("the names and settings that `weir algorithms` lists"),
    meaning: "The algorithm that drops or marks packets before the queue reaches its limit. A \
              setting is written `target 5ms` or `target=5ms`; a switch also `ecn` or `noecn`. \
              Settings follow the name directly. There, a word that is both a setting and a \
              keyword is the setting. Each flow of the queue has its own AQM.",
    example: "bw 10Mbit/s aqm codel target=5ms ecn",
    dummynet: "`red`, `gred`, `codel`, `pie`, and schedulers `fq_codel` and `fq_pie`.",
    ..AQMS
};
