//! Rows of the table of keywords: the delay of packets on the link.

use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

use weir_core::config::{Jitter, Reorder};
use weir_core::dist::Distribution;
use weir_core::units::Probability;

use super::draft::{At, Draft, Object};
use super::reader::Reader;
use super::row::{Group, Keyword, Part, choice};
use super::value::{
    Place, Quote, RANGE_OF_PROBABILITY, Value, place, range_of_count, range_of_time,
};
use crate::lex::Word;
use crate::link::LinkSpec;
use crate::quantity::{self, MAX_DELAY, write_probability, write_share, write_time};

/// The base of the rows in this file.
const LINK: Keyword =
    Keyword { group: Group::Delay, objects: &[Object::Link], part: Part::Link, ..Keyword::EMPTY };

/// The rows, in the order of the reference.
pub(super) const ROWS: &[&Keyword] = &[&DELAY, &JITTER, &REORDER];

pub(crate) static DELAY: Keyword = Keyword {
    name: "delay",
    argument: "TIME",
    value: Value::Time(MAX_DELAY, place!(pipe.link.delay)),
    default: "0",
    meaning: "Propagation delay, after transmission. A bare number is in ms; units are `s`, `ms`, \
              `us`, `ns`; fractions are exact to 1 ns.",
    example: "delay 0.25ms",
    dummynet: "Whole milliseconds up to 10000, rounded to the clock's tick.",
    ..LINK
};

pub(crate) static JITTER: Keyword = Keyword {
    name: "jitter",
    argument: "TIME [DISTRIBUTION] [correlation P] [ordered|reorder]",
    choices: &[
        choice("uniform", "between −TIME and +TIME"),
        choice("normal", "normal with standard deviation TIME"),
        choice("pareto", "Pareto of shape 3 with standard deviation TIME"),
        choice("paretonormal", "a quarter normal, three quarters Pareto"),
        choice("FILE.dist", "a table in netem's format"),
        choice("correlation", "correlation of consecutive deviations, a probability"),
        choice("ordered", "a late packet delays the packets after it"),
        choice("reorder", "packets may overtake one another"),
    ],
    value: Value::Custom {
        range: || format!("{}; correlation 0 to 1", range_of_time(MAX_DELAY)),
        read: read_jitter,
        print: print_jitter,
    },
    default: "none; uniform, correlation 0, ordered",
    meaning: "Random deviation from the delay; the sum is never below zero. Without a `delay`, \
              deviations below zero have no effect, so that about half of the packets are not \
              delayed; a warning says so. `reorder` followed by a number is the keyword `reorder`, \
              not a word of `jitter`.",
    example: "delay 40ms jitter 5ms normal correlation 25%",
    dummynet: "Does not exist.",
    ..LINK
};

pub(crate) static REORDER: Keyword = Keyword {
    name: "reorder",
    argument: "P [gap N] [correlation P]",
    choices: &[
        choice(
            "gap",
            "N − 1 packets at the start, and after each reordered packet, are not reordered",
        ),
        choice("correlation", "correlation of consecutive draws"),
    ],
    value: Value::Custom {
        range: || format!("{RANGE_OF_PROBABILITY}; gap {}", range_of_count(&GAP)),
        read: read_reorder,
        print: |spec, _| {
            let Reorder { probability, gap, correlation } = spec.pipe.link.reorder?;
            let gap = if gap > 1 { format!(" gap {gap}") } else { String::new() };
            Some(write_share(probability) + &gap + &print_correlation(correlation))
        },
    },
    default: "none; gap 1, correlation 0",
    meaning: "Probability that a packet skips the delay and so overtakes packets in transit.",
    example: "delay 20ms reorder 1% gap 5",
    dummynet: "Does not exist; the usual substitute is `prob` rules over two pipes.",
    ..LINK
};

fn read_jitter(reader: &mut Reader<'_>, draft: &mut Draft) -> Option<()> {
    let mut jitter = Jitter {
        amount: reader.quantity(|text| quantity::time(text, MAX_DELAY))?,
        distribution: Arc::clone(&UNIFORM),
        correlation: Probability::ZERO,
        may_reorder: false,
    };
    let mut given = Vec::new();
    while let Some(word) = reader.peek().cloned() {
        // `reorder 1%` is the keyword of that name, not the option.
        let is_option = word.text == "reorder" && !reader.number_follows();
        if reader.is_keyword(&word) && !is_option {
            break;
        }
        reader.at += 1;
        let part = match word.text.as_str() {
            "correlation" => {
                jitter.correlation = reader.quantity_of(&word, quantity::probability)?;
                "correlation"
            }
            "ordered" => "order",
            "reorder" => {
                jitter.may_reorder = true;
                "order"
            }
            _ => {
                read_distribution(reader, &word, &mut jitter, draft)?;
                "distribution"
            }
        };
        reader.once(&mut given, part, &word.span);
    }
    draft.spec.pipe.link.jitter = Some(jitter);
    Some(())
}

/// Reads the distribution that `word` names. A distribution from a file remains uniform until the
/// file is read.
fn read_distribution(
    reader: &mut Reader<'_>,
    word: &Word,
    jitter: &mut Jitter,
    draft: &mut Draft,
) -> Option<()> {
    jitter.distribution = Arc::clone(match word.text.as_str() {
        "uniform" => &UNIFORM,
        "normal" => &NORMAL,
        "pareto" => &PARETO,
        "paretonormal" => &PARETO_NORMAL,
        name if name.ends_with(".dist") => {
            draft.jitter_file = Some(At { value: name.into(), span: word.span.clone() });
            &UNIFORM
        }
        _ => {
            reader.bad_choice(word);
            return None;
        }
    });
    Some(())
}

fn print_jitter(spec: &LinkSpec, quote: Quote) -> Option<String> {
    let Jitter { amount, distribution, correlation, may_reorder } =
        spec.pipe.link.jitter.as_ref()?;
    let name = distribution.name();
    let shape = if name == "uniform" { String::new() } else { format!(" {}", quote(name)) };
    let order = if *may_reorder { " reorder" } else { "" };
    Some(format!("{}{shape}{}{order}", write_time(*amount), print_correlation(*correlation)))
}

fn read_reorder(reader: &mut Reader<'_>, draft: &mut Draft) -> Option<()> {
    let mut reorder = Reorder {
        probability: reader.quantity(quantity::share)?,
        gap: 1,
        correlation: Probability::ZERO,
    };
    reader.options(&["gap", "correlation"], |reader, option| {
        if option.text == "gap" {
            reorder.gap = reader.count_of(option, &GAP)?;
        } else {
            reorder.correlation = reader.quantity_of(option, quantity::probability)?;
        }
        Some(())
    })?;
    draft.spec.pipe.link.reorder = Some(reorder);
    Some(())
}

fn print_correlation(p: Probability) -> String {
    if p.is_zero() { String::new() } else { format!(" correlation {}", write_probability(p)) }
}

/// The allowed values of `gap`: the least number of packets from one reordered packet to the next.
const GAP: RangeInclusive<u32> = 1..=1_000_000;

// The built-in distributions. Each is computed once, and shared by all links that use it.
static UNIFORM: LazyLock<Arc<Distribution>> = LazyLock::new(|| Arc::new(Distribution::uniform()));
static NORMAL: LazyLock<Arc<Distribution>> = LazyLock::new(|| Arc::new(Distribution::normal()));
static PARETO: LazyLock<Arc<Distribution>> = LazyLock::new(|| Arc::new(Distribution::pareto()));
static PARETO_NORMAL: LazyLock<Arc<Distribution>> =
    LazyLock::new(|| Arc::new(Distribution::pareto_normal()));
