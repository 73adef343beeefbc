//! Rows of the table of keywords: the queue before the link, and the treatment of frames.

use weir_core::config::{MAX_QUEUE_PACKETS, QueueLimit};
use weir_core::key::FlowMask;

use super::draft::{Draft, Object};
use super::reader::Reader;
use super::row::{Group, Keyword, Part, choice};
use super::value::{Place, Value, place, range_of_count, range_of_limit};
use crate::link::Gso;
use crate::mask;
use crate::quantity::write_size;

/// The base of the rows of keywords for links and queues.
const QUEUE: Keyword = Keyword {
    group: Group::Queue,
    objects: &[Object::Link, Object::Queue],
    part: Part::Queue,
    ..Keyword::EMPTY
};

/// The rows, in the order of the reference.
pub(super) const ROWS: &[&Keyword] =
    &[&LIMIT, &SCHED, &DROPTAIL, &MASK, &MAX_FLOWS, &WEIGHT, &LMAX, &PRI, &BUCKETS, &NOERROR, &GSO];

/// The base of the rows of keywords that are also accepted for an inner scheduler.
const ALL_OBJECTS: Keyword =
    Keyword { objects: &[Object::Link, Object::Queue, Object::InnerScheduler], ..QUEUE };

pub(crate) static LIMIT: Keyword = Keyword {
    name: "queue",
    part: Part::Limit,
    argument: "N [slots] or SIZE",
    choices: &[choice("slots", "packets; a bare number means the same")],
    value: Value::Custom {
        range: || range_of_limit(MAX_QUEUE_PACKETS),
        read: |reader, draft| {
            draft.spec.pipe.queue.limit = Some(reader.limit(MAX_QUEUE_PACKETS)?);
            Some(())
        },
        print: |spec, _| spec.pipe.queue.limit.map(print_limit),
    },
    default: "50 packets, or more at high rates: as many as the link carries in 100 ms or in \
              twice its delay, whichever is longer; none in front of a scheduler with its own \
              limit, such as `fq_codel`",
    meaning: "Limit of the queue in packets, or in bytes with a unit (`B`, `KB`, `KByte`, `MB`, \
              `KiB` …). Packets that arrive at a full queue are dropped.",
    example: "bw 4Mbit/s queue 64KB",
    dummynet: "At most 100 packets or 1 MiB unless sysctls say otherwise; `K` is 1024 there.",
    ..QUEUE
};

pub(crate) static SCHED: Keyword = Keyword {
    name: "sched",
    objects: &[Object::Link],
    part: Part::Aqm,
    argument: "NAME [SETTING VALUE …]",
    value: Value::Scheduler(
        "a scheduler that distinguishes flows by itself, with the settings that `weir algorithms` \
         lists",
    ),
    default: "none: packets depart in the order of their arrival",
    meaning: "The scheduler that shares the link among the flows of its packets: `fq_codel`, \
              `cake`, `fq_pie`, `sfq` or `dualpi2`. A setting is written `target 5ms` or \
              `target=5ms`. Settings follow the name directly. There, a word that is both a \
              setting and a keyword is the setting. Such a scheduler drops and marks packets \
              itself, so there is no `aqm` beside it. Schedulers that need a queue for each flow \
              are configured by rules: `sched N config type NAME`.",
    example: "bw 20Mbit/s delay 20ms sched fq_codel target=5ms",
    dummynet: "`sched N config type NAME`, with queues and rules.",
    ..QUEUE
};

pub(crate) static DROPTAIL: Keyword = Keyword {
    name: "droptail",
    value: Value::DropTail,
    default: "on",
    meaning: "No AQM: packets are dropped only when the queue is full. In a change, it removes the \
              AQM or scheduler.",
    example: "queue 50 droptail",
    dummynet: "The same.",
    ..QUEUE
};

pub(crate) static MASK: Keyword = Keyword {
    name: "mask",
    aliases: &["flow_mask", "sched_mask"],
    argument: "FIELD MASK … or all",
    choices: &[
        choice("all", "every field"),
        choice("src-ip", "IPv4 source, 32 bits"),
        choice("dst-ip", "IPv4 destination, 32 bits"),
        choice("src-ip6", "IPv6 source, 128 bits"),
        choice("dst-ip6", "IPv6 destination, 128 bits"),
        choice("src-port", "16 bits"),
        choice("dst-port", "16 bits"),
        choice("proto", "IP protocol, 8 bits"),
        choice("flow-id", "IPv6 flow label, 20 bits"),
        choice("vlan", "VLAN identifier, 12 bits"),
        choice("dscp", "6 bits"),
        choice("src-mac", "48 bits"),
        choice("dst-mac", "48 bits"),
    ],
    value: Value::Custom {
        range: || {
            "each MASK within its field: a number, `0x…`, an address, or `/N` for the first N bits"
                .to_owned()
        },
        read: read_mask,
        print: |spec, _| {
            let mask = &spec.pipe.queue.mask;
            (!mask.is_empty()).then(|| mask::write(mask))
        },
    },
    default: "none: one queue and one link for all",
    meaning: "The header bits that distinguish flows. Each combination of their values gets a \
              queue and a link of its own.",
    example: "bw 1Mbit/s mask src-ip 0x000000ff",
    dummynet: "No VLAN, DSCP or MAC. Except in IPv6 addresses, `/N` sets the last N bits in \
               dummynet and the first N here. `queue` in a mask means the queue number in \
               dummynet; here it begins the limit of the queue.",
    ..ALL_OBJECTS
};

pub(crate) static MAX_FLOWS: Keyword = Keyword {
    name: "max_flows",
    aliases: &["max-flows"],
    argument: "N",
    value: Value::Count(
        1..=10_000_000,
        Place {
            get: |spec| spec.pipe.queue.max_flows.unwrap_or_default(),
            set: |spec, most| spec.pipe.queue.max_flows = Some(most),
        },
    ),
    default: "as many as memory allows",
    meaning: "Maximum number of flows that the mask creates at once. Further flows are refused \
              until idle flows have expired: their packets are dropped and counted.",
    example: "bw 1Mbit/s mask src-ip 0xffffffff max_flows 10000",
    dummynet: "Does not exist.",
    ..QUEUE
};

pub(crate) static WEIGHT: Keyword = Keyword {
    name: "weight",
    argument: "N",
    value: Value::Count(1..=65_536, place!(pipe.queue.weight)),
    default: "1",
    meaning: "Share of the link relative to other flows, for schedulers with weights.",
    example: "weight 10",
    dummynet: "At most 100 with WF2Q+.",
    ..ALL_OBJECTS
};

pub(crate) static LMAX: Keyword = Keyword {
    name: "lmax",
    aliases: &["maxlen"],
    argument: "BYTES",
    value: Value::Count(64..=65_536, place!(pipe.queue.max_packet)),
    default: "1500",
    meaning: "Largest packet of a flow, for schedulers that work with timestamps.",
    example: "lmax 1500",
    dummynet: "At most 2000 with QFQ, 2048 with round robin.",
    ..ALL_OBJECTS
};

pub(crate) static PRI: Keyword = Keyword {
    name: "pri",
    aliases: &["priority"],
    argument: "N",
    value: Value::Count(0..=63, place!(pipe.queue.priority)),
    note: ", 0 first",
    default: "0",
    meaning: "Priority, for the priority scheduler.",
    example: "pri 2",
    dummynet: "Accepted and printed, but without effect; `weight` is used instead.",
    ..ALL_OBJECTS
};

pub(crate) static BUCKETS: Keyword = Keyword {
    name: "buckets",
    argument: "N",
    value: Value::Custom {
        range: || range_of_count(&HASH_SIZE),
        read: |reader, _| {
            reader.count(&HASH_SIZE)?;
            reader.ignored("tables grow automatically");
            Some(())
        },
        print: |_, _| None,
    },
    meaning: "Size of a hash table. Accepted and ignored: tables grow automatically.",
    example: "buckets 64",
    dummynet: "Sets the size.",
    ..ALL_OBJECTS
};

pub(crate) static NOERROR: Keyword = Keyword {
    name: "noerror",
    value: Value::Custom {
        range: String::new,
        read: |reader, _| {
            reader.ignored("senders are not informed of drops");
            Some(())
        },
        print: |_, _| None,
    },
    meaning: "In dummynet, does not report drops to the sender. Accepted and ignored: packets come \
              from a wire, so senders are never informed of drops.",
    example: "noerror",
    dummynet: "A local sender sees an error without it.",
    ..ALL_OBJECTS
};

pub(crate) static GSO: Keyword = Keyword {
    name: "gso",
    group: Group::Frames,
    objects: &[Object::Link],
    part: Part::Frames,
    argument: "split|whole",
    choices: &[
        choice("split", "every wire packet is shaped separately"),
        choice("whole", "the train is shaped as one packet"),
    ],
    value: Value::Custom {
        range: String::new,
        read: |reader, draft| {
            let word = reader.word()?;
            draft.spec.gso = match word.text.as_str() {
                "split" => Gso::Split,
                "whole" => Gso::Whole,
                _ => {
                    reader.bad_choice(&word);
                    return None;
                }
            };
            Some(())
        },
        print: |spec, _| (spec.gso == Gso::Whole).then(|| "whole".to_owned()),
    },
    default: "split",
    meaning: "Treatment of segmentation-offload trains, large frames that become several packets \
              on the wire.",
    example: "gso whole",
    dummynet: "Always whole.",
    ..QUEUE
};

fn read_mask(reader: &mut Reader<'_>, draft: &mut Draft) -> Option<()> {
    let mask = &mut draft.spec.pipe.queue.mask;
    *mask = FlowMask::default();
    if reader.flag("all") {
        *mask = mask::all();
        return Some(());
    }
    let (mut given, mut word) = (Vec::new(), reader.word()?);
    loop {
        let Some(field) = mask::Field::named(&word.text) else {
            reader.bad_choice(&word);
            return None;
        };
        let value = reader.word_of(&word)?;
        let Some(bits) = field.parse(&value.text) else {
            reader.bad_mask(&value, field.name, field.bits);
            return None;
        };
        field.set(mask, bits);
        reader.once(&mut given, field.name, &word.span);
        match reader.peek() {
            Some(next) if !reader.is_keyword(next) => word = reader.word()?,
            _ => return Some(()),
        }
    }
}

/// A limit in the form in which the reader reads it.
pub(super) fn print_limit(limit: QueueLimit) -> String {
    match limit {
        QueueLimit::Packets(n) => n.to_string(),
        QueueLimit::Bytes(n) => write_size(n),
    }
}

/// The allowed sizes of hash tables.
const HASH_SIZE: std::ops::RangeInclusive<u32> = 1..=65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keyword_names_every_field() {
        let named: Vec<_> = MASK.choices.iter().skip(1).map(|c| c.name).collect();
        assert_eq!(named, mask::FIELDS.iter().map(|f| f.name).collect::<Vec<_>>());
    }
}
