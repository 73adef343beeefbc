//! Canonical form: one way to write each link, which reads back as the same link.

use core::fmt;

use weir_core::config::{Capacity, FlowsetConfig, Jitter, LinkConfig, Loss, QueueLimit};
use weir_core::device::{Completion, DeviceConfig, Done, DqlConfig};
use weir_core::link::Overhead;
use weir_core::sched;
use weir_core::units::{Nanos, Probability};

use crate::aqm;
use crate::keyword::lookup;
use crate::parse::OVERHEADS;
use crate::quantity::{write_loss, write_probability, write_rate, write_size, write_time};
use crate::{Gso, LinkSpec, lex, mask};

/// The specification in canonical form. A perfect link is the empty text.
///
/// Reading it gives the same link, as long as the files it names are the same.
pub fn canonical(spec: &LinkSpec) -> String {
    let mut words = Vec::new();
    rate(spec, &mut words);
    delay(&spec.pipe.link, &mut words);
    if let Some(card) = &spec.pipe.link.device {
        device(card, &mut words);
    }
    queue(&spec.pipe.queue, &mut words);
    if spec.gso == Gso::Whole {
        words.push("gso whole".to_owned());
    }
    words.join(" ")
}

/// [`canonical`].
impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&canonical(self))
    }
}

fn rate(spec: &LinkSpec, words: &mut Vec<String>) {
    let link = &spec.pipe.link;
    if let Capacity::Constant(rate) = link.capacity {
        words.push(format!("bw {}", write_rate(rate)));
    }
    if let Some(name) = &spec.files.trace {
        words.push(format!("trace {}", file(name)));
    }
    if let Some(name) = &spec.files.schedule {
        let repeats = link.schedule.as_ref().is_some_and(|s| s.period().is_some());
        words.push(format!("schedule {}{}", file(name), if repeats { " loop" } else { "" }));
    }
    if link.burst.0 > 0 {
        words.push(format!("burst {}", write_size(link.burst.0)));
    }
    if link.overhead != Overhead::NONE {
        words.push(overhead(link.overhead));
    }
    if let Some(name) = &spec.files.profile {
        words.push(format!("profile {}", file(name)));
    }
}

fn overhead(overhead: Overhead) -> String {
    if let Some((name, _)) = OVERHEADS.iter().find(|(_, known)| *known == overhead) {
        return format!("overhead {name}");
    }
    let minimum =
        if overhead.minimum > 0 { format!(" mpu {}", overhead.minimum) } else { String::new() };
    format!(
        "overhead {}{minimum}{}",
        overhead.per_packet,
        if overhead.atm_cells { " atm" } else { "" }
    )
}

fn delay(link: &LinkConfig, words: &mut Vec<String>) {
    if link.delay.0 > 0 {
        words.push(format!("delay {}", write_time(link.delay)));
    }
    if let Some(j) = &link.jitter {
        words.push(jitter(j));
    }
    if let Some(reorder) = link.reorder {
        let gap = if reorder.gap > 1 { format!(" gap {}", reorder.gap) } else { String::new() };
        words.push(format!(
            "reorder {}{gap}{}",
            write_probability(reorder.probability),
            correlation(reorder.correlation)
        ));
    }
    if link.loss != Loss::None {
        words.push(format!("loss {}", write_loss(link.loss)));
    }
    for (name, p) in [("dup", link.duplicate), ("corrupt", link.corrupt)] {
        if !p.is_zero() {
            words.push(format!("{name} {}", write_probability(p)));
        }
    }
}

fn jitter(jitter: &Jitter) -> String {
    let name = jitter.distribution.name();
    let shape = if name == "uniform" { String::new() } else { format!(" {}", file(name)) };
    let order = if jitter.may_reorder { " reorder" } else { "" };
    format!("jitter {}{shape}{}{order}", write_time(jitter.amount), correlation(jitter.correlation))
}

fn correlation(p: Probability) -> String {
    if p.is_zero() { String::new() } else { format!(" correlation {}", write_probability(p)) }
}

/// The words of a network card.
fn device(device: &DeviceConfig, words: &mut Vec<String>) {
    let sent = if device.completion.when == Done::Sent { " sent" } else { "" };
    words.push(format!("ring {}{sent}", places(device.ring.limit)));
    if let Some(DqlConfig { least, most, hold }) = device.dql {
        let default = DqlConfig::default();
        words.push("dql".to_owned());
        if least != default.least {
            words.push(format!("min {}", write_size(least.into())));
        }
        if most != default.most {
            words.push(format!("max {}", write_size(most.into())));
        }
        if hold != default.hold {
            words.push(format!("hold {}", write_time(hold)));
        }
    }
    let Completion { frames, time, .. } = device.completion;
    if frames > 0 {
        words.push(format!("coalesce {frames}/{}", write_time(time)));
    }
    if device.ring.service > Nanos::ZERO {
        words.push(format!("cpu {}", write_time(device.ring.service)));
    }
}

/// A number of packets or of bytes.
fn places(limit: QueueLimit) -> String {
    match limit {
        QueueLimit::Packets(n) => n.to_string(),
        QueueLimit::Bytes(n) => write_size(n),
    }
}

/// The words of a queue's settings.
pub(crate) fn queue(queue: &FlowsetConfig, words: &mut Vec<String>) {
    let default = FlowsetConfig::default();
    words.extend(queue.limit.map(|limit| format!("queue {}", places(limit))));
    if queue.loss != Loss::None {
        words.push(format!("plr {}", write_loss(queue.loss)));
    }
    if !queue.mask.is_empty() {
        words.push(format!("mask {}", mask::write(&queue.mask)));
    }
    words.extend(queue.max_flows.map(|most| format!("max_flows {most}")));
    for (name, value, default) in [
        ("weight", queue.weight, default.weight),
        ("lmax", queue.max_packet, default.max_packet),
        ("pri", queue.priority, default.priority),
    ] {
        if value != default {
            words.push(format!("{name} {value}"));
        }
    }
    flow(queue, words);
    // Behind it a word that is one of its settings would be taken for that.
    words.extend(queue.aqm.as_ref().map(aqm::write));
}

/// The words that only a queue in front of a scheduler has.
fn flow(queue: &FlowsetConfig, words: &mut Vec<String>) {
    for (name, rate) in [("rate", queue.rate), ("ceil", queue.ceil)] {
        words.extend(rate.map(|rate| format!("{name} {}", write_rate(rate))));
    }
    if queue.burst.0 > 0 {
        words.push(format!("burst {}", write_size(queue.burst.0)));
    }
    if queue.deadline > Nanos::ZERO {
        words.push(format!("deadline {}", write_time(queue.deadline)));
    }
}

fn file(name: &str) -> String {
    // `IN`, `OUT` and `expire` end a specification inside `netconfig`.
    let ends = |word: &str| {
        ["in", "out", "expire", "type", "pipe", "sched", "parent"]
            .iter()
            .any(|end| word.eq_ignore_ascii_case(end))
    };
    // Behind a scheduler's type, its settings may stand anywhere.
    let sets = |word: &str| {
        sched::TABLE
            .iter()
            .flat_map(|row| row.settings())
            .any(|setting| word.eq_ignore_ascii_case(setting.name))
    };
    lex::quote(name, |word| lookup(word).is_some() || ends(word) || sets(word))
}
