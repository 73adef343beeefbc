//! Rows of the table of keywords: the device between the queue and the wire. Each of these keywords
//! adds a device to the link, unless the link already has one.

use std::sync::Arc;

use weir_core::device::{DQL_MAX, DeviceConfig, Done, DqlConfig};
use weir_core::units::Nanos;

use super::draft::{Draft, Object};
use super::queue::print_limit;
use super::reader::Reader;
use super::row::{Group, Keyword, Part, choice};
use super::value::{Place, Value, range_of_limit, size, time};
use crate::diagnostic::Code;
use crate::link::LinkSpec;
use crate::quantity::{self, MAX_DELAY, QuantityError, write_size, write_time};

/// The base of the rows in this file.
const DEVICE: Keyword = Keyword {
    group: Group::Device,
    objects: &[Object::Link],
    part: Part::Device,
    ..Keyword::EMPTY
};

/// The rows, in the order of the reference.
pub(super) const ROWS: &[&Keyword] = &[&RING, &DQL, &COALESCE, &CPU];

pub(crate) static RING: Keyword = Keyword {
    name: "ring",
    argument: "N or SIZE [sent]",
    choices: &[choice(
        "sent",
        "a place becomes free when the transmission of its packet ends; without `sent`, when it \
         starts",
    )],
    value: Value::Custom {
        range: || range_of_limit(MAX_RING),
        read: |reader, draft| {
            let limit = reader.limit(MAX_RING)?;
            let device = device(&mut draft.spec);
            device.ring.limit = limit;
            device.completion.when = if reader.flag("sent") { Done::Sent } else { Done::Read };
            Some(())
        },
        print: |spec, _| {
            let device = spec.pipe.link.device.as_deref()?;
            let sent = if device.completion.when == Done::Sent { " sent" } else { "" };
            Some(print_limit(device.ring.limit) + sent)
        },
    },
    default: "none; 256 with any other keyword of the network card",
    meaning: "A network card's transmission ring between the queue and the wire. Packets in it \
              have left the queue; schedulers and AQMs no longer affect them. The queue fills the \
              ring while the ring has room.",
    example: "bw 1Gbit/s ring 64",
    dummynet: "Does not exist.",
    ..DEVICE
};

pub(crate) static DQL: Keyword = Keyword {
    name: "dql",
    aliases: &["bql"],
    argument: "[min SIZE] [max SIZE] [hold TIME]",
    choices: &[
        choice("min", "least limit"),
        choice("max", "greatest limit"),
        choice("hold", "time for which the limit must be too large before it is reduced"),
    ],
    value: Value::Custom {
        range: || format!("up to {}; hold up to {}", size(DQL_MAX.into()), time(MAX_DELAY)),
        read: read_dql,
        print: |spec, _| print_dql(spec),
    },
    default: "off; min 0, max 1879048192 B, hold 1s",
    meaning: "Dynamic queue limits, as in Linux: the ring holds no more bytes than were found \
              necessary to keep the wire busy.",
    example: "bw 1Gbit/s ring 256 dql",
    dummynet: "Does not exist.",
    ..DEVICE
};

pub(crate) static COALESCE: Keyword = Keyword {
    name: "coalesce",
    argument: "N/TIME",
    value: Value::Custom {
        range: || format!("1 to {MAX_COALESCED} packets, TIME up to {}", time(MAX_DELAY)),
        read: |reader, draft| {
            let (frames, time) = reader.quantity(coalesce)?;
            let completion = &mut device(&mut draft.spec).completion;
            (completion.frames, completion.time) = (frames, time);
            Some(())
        },
        print: |spec, _| {
            let completion = spec.pipe.link.device.as_deref()?.completion;
            let printed = || format!("{}/{}", completion.frames, write_time(completion.time));
            (completion.frames > 0).then(printed)
        },
    },
    default: "off: each packet separately",
    meaning: "The card reports transmitted packets, and so frees their places, once per N \
              packets, but no later than TIME after the first of them. A bare TIME is in ms.",
    example: "bw 1Gbit/s ring 64 coalesce 16/50us",
    dummynet: "Does not exist.",
    ..DEVICE
};

pub(crate) static CPU: Keyword = Keyword {
    name: "cpu",
    argument: "TIME",
    value: Value::Time(
        Nanos::from_secs(1),
        Place {
            get: |spec| spec.pipe.link.device.as_deref().map_or(Nanos::ZERO, |d| d.ring.service),
            set: |spec, time| device(spec).ring.service = time,
        },
    ),
    default: "0",
    meaning: "Processor time to put a packet into the ring, one packet at a time; the card's \
              reports wait until the processor has finished a packet. A ring that is too small to \
              cover this time runs empty.",
    example: "bw 1Gbit/s ring 64 cpu 2us",
    dummynet: "Does not exist.",
    ..DEVICE
};

/// The link's device, which is created if there is none.
fn device(spec: &mut LinkSpec) -> &mut DeviceConfig {
    Arc::make_mut(spec.pipe.link.device.get_or_insert_default())
}

fn read_dql(reader: &mut Reader<'_>, draft: &mut Draft) -> Option<()> {
    let mut dql = DqlConfig::default();
    reader.options(&["min", "max", "hold"], |reader, option| {
        match option.text.as_str() {
            "min" => dql.least = reader.quantity_of(option, limit)?,
            "max" => dql.most = reader.quantity_of(option, limit)?,
            _ => dql.hold = reader.quantity_of(option, |text| quantity::time(text, MAX_DELAY))?,
        }
        Some(())
    })?;
    if dql.least > dql.most {
        let error = reader.error(
            Code::Contradiction,
            &reader.keyword.span,
            "the least limit is above the greatest".to_owned(),
        );
        let error = error.label("its `min` is above its `max`");
        reader.diagnostics.push(error.help("give a smaller `min`, or a larger `max`"));
    }
    device(&mut draft.spec).dql = Some(dql);
    Some(())
}

fn print_dql(spec: &LinkSpec) -> Option<String> {
    let (DqlConfig { least, most, hold }, default) =
        (spec.pipe.link.device.as_deref()?.dql?, DqlConfig::default());
    let mut words = Vec::new();
    if least != default.least {
        words.push(format!("min {}", write_size(least.into())));
    }
    if most != default.most {
        words.push(format!("max {}", write_size(most.into())));
    }
    if hold != default.hold {
        words.push(format!("hold {}", write_time(hold)));
    }
    Some(words.join(" "))
}

/// Reads a limit of [`DqlConfig`].
fn limit(text: &str) -> Result<u32, QuantityError> {
    let bytes = u32::try_from(quantity::size(text)?).ok().filter(|&bytes| bytes <= DQL_MAX);
    bytes.ok_or(QuantityError::OutOfRange)
}

/// Reads `N/TIME`.
fn coalesce(text: &str) -> Result<(u32, Nanos), QuantityError> {
    let (frames, time) = text.split_once('/').ok_or(QuantityError::NotANumber)?;
    match quantity::count(frames, MAX_COALESCED)? {
        0 => Err(QuantityError::OutOfRange),
        frames => Ok((frames, quantity::time(time, MAX_DELAY)?)),
    }
}

/// Maximum size of a ring in packets.
const MAX_RING: u32 = 1_000_000;
/// Maximum number of packets in one completion report.
const MAX_COALESCED: u32 = 65_535;
