//! Rows of the table of keywords: the rate at which a link transmits packets.

use weir_core::config::Capacity;
use weir_core::link::Overhead;

use super::draft::{Draft, Object};
use super::reader::Reader;
use super::row::{Group, Keyword, Part, choice};
use super::value::{Place, Value, place};
use crate::link::LinkSpec;
use crate::quantity;

/// The base of the rows in this file.
const LINK: Keyword =
    Keyword { group: Group::Rate, objects: &[Object::Link], part: Part::Link, ..Keyword::EMPTY };

/// The rows, in the order of the reference.
pub(super) const ROWS: &[&Keyword] = &[&BW, &TRACE, &SCHEDULE, &BURST, &OVERHEAD, &PROFILE];

pub(crate) static BW: Keyword = Keyword {
    name: "bw",
    aliases: &["bandwidth"],
    argument: "RATE",
    choices: &[choice("unlimited", "no rate: transmission takes no time; `0` means the same")],
    value: Value::Rate(Place {
        get: |spec| match spec.pipe.link.capacity {
            Capacity::Constant(rate) => Some(rate),
            Capacity::Unlimited | Capacity::Trace(_) => None,
        },
        set: |spec, rate| {
            spec.pipe.link.capacity = rate.map_or(Capacity::Unlimited, Capacity::Constant);
        },
    }),
    note: "; `0` or `unlimited` for no limit",
    default: "unlimited",
    meaning: "Rate at which packets are transmitted. A bare number is in bit/s; `K M G T` are \
              powers of 1000, `Ki Mi Gi Ti` of 1024; units are `bit/s`, `b/s`, `bps`, `Byte/s`, \
              `B/s`, `Bps`. The rate counts bytes from the IP header on, unless `overhead` says \
              otherwise.",
    example: "bw 1.5Mbit/s",
    dummynet: "Whole numbers up to 2.1 or 4.3 Gbit/s. Neither program accepts an interface's name \
               as the clock.",
    ..LINK
};

pub(crate) static TRACE: Keyword = Keyword {
    name: "trace",
    argument: "FILE",
    value: Value::File(
        "a Mahimahi trace, or a table with a name that ends in `.csv`",
        Place { get: |spec| spec.files.trace.clone(), set: |spec, name| spec.files.trace = name },
    ),
    default: "none",
    meaning: "Rate over time from a file, which repeats at its end. Each line of a Mahimahi trace \
              is a time in ms at which 1504 bytes may depart. A `.csv` table has a header with \
              `time` and any of `rate`, `delay`, `loss`; its rows are at least 1 us apart. Units \
              are in the values (`2s`, `5Mbit/s`, `20ms`, `1%`) or in the header: under \
              `time_ms,rate_mbit`, values are bare numbers. A bare time under `time` is in \
              seconds.",
    example: "trace lte.up",
    dummynet: "Does not exist.",
    ..LINK
};

pub(crate) static SCHEDULE: Keyword = Keyword {
    name: "schedule",
    argument: "FILE [loop]",
    choices: &[choice("loop", "start again after the end")],
    value: Value::Custom {
        range: || "a table in the format of `trace`'s `.csv`".to_owned(),
        read: |reader, draft| {
            draft.spec.files.schedule = Some(reader.file()?);
            draft.schedule_repeats = reader.flag("loop");
            Some(())
        },
        print: |spec, quote| {
            let name = spec.files.schedule.as_deref().map(quote)?;
            let schedule = spec.pipe.link.schedule.as_ref();
            let repeats = schedule.is_some_and(|schedule| schedule.period().is_some());
            Some(if repeats { name + " loop" } else { name })
        },
    },
    default: "none",
    meaning: "Changes of rate, delay and loss at given times, at least 1 us apart. The last \
              values stay, unless `loop` is given.",
    example: "schedule outage.csv",
    dummynet: "Does not exist.",
    ..LINK
};

pub(crate) static BURST: Keyword = Keyword {
    name: "burst",
    argument: "SIZE",
    value: Value::Size(place!(pipe.link.burst)),
    default: "0",
    meaning: "Bytes that may depart at once, after an idle period in which the link could have \
              transmitted them.",
    example: "bw 4Mbit/s burst 15KB",
    dummynet: "`K` is 1024 there; here `KB` is 1000 and `KiB` 1024.",
    ..LINK
};

pub(crate) static OVERHEAD: Keyword = Keyword {
    name: "overhead",
    argument: "KIND|BYTES [mpu BYTES] [atm]",
    choices: &[
        choice("none", "the rate counts IP bytes"),
        choice("layer2", "14 bytes: Ethernet header, as `tbf` and `htb` count"),
        choice("ethernet", "38 bytes, at least 84: the frame on the cable with preamble and gap"),
        choice("atm", "40 bytes, then ATM cells of 53 bytes for every 48: ADSL with PPPoE"),
        choice("docsis", "18 bytes, at least 64: cable modem"),
        choice("ppp", "7 bytes: PPP over a serial line"),
    ],
    value: Value::Custom {
        range: || format!("-{MAX_OVERHEAD} to {MAX_OVERHEAD} bytes; mpu 0 to {MAX_MPU} bytes"),
        read: read_overhead,
        print: |spec, _| print_overhead(spec),
    },
    default: "none",
    meaning: "Bytes that framing adds to each packet before the packet is charged to the rate: a \
              kind of framing, or a number of bytes. `mpu` is the minimum size with these bytes; \
              `atm` then divides the result into cells.",
    example: "bw 8Mbit/s overhead 44 atm",
    dummynet: "Does not exist; `profile` comes closest.",
    ..LINK
};

pub(crate) static PROFILE: Keyword = Keyword {
    name: "profile",
    argument: "FILE",
    value: Value::File(
        "a dummynet profile file",
        Place {
            get: |spec| spec.files.profile.clone(),
            set: |spec, name| spec.files.profile = name,
        },
    ),
    default: "none",
    meaning: "A distribution of extra time during which each packet occupies the link: framing, \
              contention, retransmission. The file's rate applies if `bw` gives none.",
    example: "bw 20Mbit/s profile wlan.prof",
    dummynet: "Whole milliseconds, at most 1024 samples, and no effect without a rate.",
    ..LINK
};

fn read_overhead(reader: &mut Reader<'_>, draft: &mut Draft) -> Option<()> {
    let word = reader.word()?;
    let known = OVERHEADS.iter().find(|(name, _)| *name == word.text);
    let mut overhead = if let Some(&(_, known)) = known {
        known
    } else {
        let (sign, digits) =
            word.text.strip_prefix('-').map_or((1, word.text.as_str()), |digits| (-1, digits));
        if !digits.starts_with(|c: char| c.is_ascii_digit() || "-.+".contains(c)) {
            reader.bad_choice(&word);
            return None;
        }
        let bytes = reader.accept(&word, quantity::count(digits, MAX_OVERHEAD))?;
        Overhead { per_packet: sign * bytes as i32, ..Overhead::NONE }
    };
    reader.options(&["mpu", "atm"], |reader, option| {
        if option.text == "atm" {
            overhead.atm_cells = true;
        } else {
            let word = reader.word_of(option)?;
            overhead.minimum = reader.accept(&word, quantity::count(&word.text, MAX_MPU))?;
        }
        Some(())
    })?;
    draft.spec.pipe.link.overhead = overhead;
    Some(())
}

fn print_overhead(spec: &LinkSpec) -> Option<String> {
    let overhead = spec.pipe.link.overhead;
    if overhead == Overhead::NONE {
        return None;
    }
    if let Some((name, _)) = OVERHEADS.iter().find(|(_, known)| *known == overhead) {
        return Some((*name).to_owned());
    }
    let Overhead { per_packet, minimum, atm_cells } = overhead;
    let minimum = if minimum > 0 { format!(" mpu {minimum}") } else { String::new() };
    Some(format!("{per_packet}{minimum}{}", if atm_cells { " atm" } else { "" }))
}

/// Framings that have a name.
const OVERHEADS: &[(&str, Overhead)] = &[
    ("none", Overhead::NONE),
    ("layer2", Overhead::LAYER2),
    ("ethernet", Overhead::ETHERNET),
    ("atm", Overhead::ATM),
    ("docsis", Overhead::DOCSIS),
    ("ppp", Overhead::PPP),
];
/// Largest number of bytes that framing adds or removes.
const MAX_OVERHEAD: u32 = 1000;
/// Largest value of `mpu`, in bytes.
const MAX_MPU: u32 = 65_535;
