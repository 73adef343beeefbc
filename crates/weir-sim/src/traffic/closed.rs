//! Checks the settings of traffic over a transport.

use std::sync::Arc;

use weir_rules::Files;

use crate::random::{Cdf, Variable};
use crate::tcp::{self, cc};
use crate::units::{Size, Time};

use super::flows::{Arrivals, Workload};
use super::refusal::{Checked, Reason, SpecError, length, positive, refuse};
use super::request::Habits;
use super::settings::{Distribution, Ecn, Published, Sizes};
use super::site::TransportTraffic;
use super::spec;
use super::tcp::Tcp;
use super::transport::Transport;
use super::web::Pages;

/// The transport that the settings describe.
pub(super) fn transport(
    spec: &spec::Transport<'_>,
    ecn: Option<Ecn>,
) -> Checked<Arc<dyn Transport>> {
    let within = |setting, value: u64, least, most, words| {
        if (least..=most).contains(&value) {
            Ok(value)
        } else {
            refuse(setting, Reason::Range(words))
        }
    };
    let mss =
        within("mss", spec.mss.0, 64, 65_000, "a segment carries from 64 to 65000 bytes")? as u32;
    let train = within("train", spec.train.into(), 1, 64, "it is from 1 to 64 segments")? as u8;
    if u64::from(mss) * u64::from(train) > 65_000 {
        return refuse(
            "train",
            Reason::Range("segments of one packet carry at most 65000 bytes together"),
        );
    }
    let window = within(
        "initial_window",
        spec.initial_window.into(),
        1,
        100_000,
        "it is from 1 to 100000 segments",
    )?;
    let every =
        within("ack_every", spec.ack_every.into(), 1, 1000, "it is from 1 to 1000 segments")?;
    let buffer = within(
        "receive_buffer",
        spec.receive_buffer.0,
        u64::from(mss),
        1 << 30,
        "it is from a segment to 1GiB",
    )?;
    let small = spec.small_queue.map(|most| {
        within("small_queue", most.0, u64::from(mss), 1 << 30, "it is from a segment to 1GiB")
    });
    Ok(Arc::new(Tcp::new(tcp::Config {
        control: cc::parse(spec.cc).map_err(|error| SpecError {
            setting: "cc",
            reason: Reason::Words(error.to_string()),
        })?,
        mss,
        initial_window: window as u32,
        handshake: spec.handshake,
        min_rto: positive("min_rto", spec.min_rto)?,
        ecn: ecn.map(|ecn| ecn != Ecn::None),
        pacing: spec.pacing,
        train,
        small_queue: small.transpose()?.map(|most| most as u32),
        receive_buffer: buffer as u32,
        ack_every: every as u32,
        ack_delay: spec.ack_delay.0,
        counts: false,
        ..tcp::Config::default()
    })))
}

fn above_zero(setting: &'static str, size: Size) -> Checked<u64> {
    if size.0 == 0 { refuse(setting, Reason::Range("it must be above 0")) } else { Ok(size.0) }
}

fn sizes(setting: &'static str, sizes: &Sizes, files: &dyn Files) -> Checked<Variable> {
    let bytes = |size: Size| above_zero(setting, size).map(|bytes| bytes as f64);
    let empirical = |text, path: &str| {
        let error =
            |error| SpecError { setting, reason: Reason::Cdf { path: path.to_owned(), error } };
        Cdf::read(text).map(Variable::Empirical).map_err(error)
    };
    Ok(match *sizes {
        Sizes::Named(Published::WebSearch) => empirical(WEB_SEARCH, "web-search")?,
        Sizes::Named(Published::DataMining) => empirical(DATA_MINING, "data-mining")?,
        Sizes::Fixed(size) => Variable::Fixed(bytes(size)?),
        Sizes::Drawn(ref drawn) => match *drawn {
            Distribution::Exponential { mean: size } => {
                Variable::Exponential { mean: bytes(size)? }
            }
            Distribution::LogNormal { mean: size, deviation } => {
                Variable::log_normal_of_mean(bytes(size)?, above_zero(setting, deviation)? as f64)
            }
            Distribution::Uniform { least, most } if least <= most => {
                Variable::Uniform(least.0 as f64, bytes(most)?)
            }
            Distribution::Uniform { .. } => {
                return refuse(setting, Reason::Range("`least` is at most `most`"));
            }
            Distribution::File { ref path } => {
                let text = files.read(path).map_err(|error| SpecError {
                    setting,
                    reason: Reason::File { path: path.clone(), error },
                })?;
                empirical(&text, path)?
            }
            Distribution::Pareto { shape, mean: size, scale, most } => {
                pareto(setting, shape, size, scale, most)?
            }
        },
    })
}

fn pareto(
    setting: &'static str,
    shape: f64,
    mean: Option<Size>,
    scale: Option<Size>,
    most: Option<Size>,
) -> Checked<Variable> {
    if !(0.1..=1000.0).contains(&shape) {
        return refuse(setting, Reason::Range("`shape` is from 0.1 to 1000"));
    }
    let unbounded = match (mean, scale) {
        (Some(mean), None) => Variable::pareto_of_mean(shape, above_zero(setting, mean)? as f64),
        (None, Some(scale)) => {
            Some(Variable::Pareto { shape, scale: above_zero(setting, scale)? as f64 })
        }
        _ => return refuse(setting, Reason::Missing("either `mean` or `scale`")),
    };
    let Some(Variable::Pareto { shape, scale }) = unbounded else {
        return refuse(
            setting,
            Reason::Range("with `mean`, `shape` is above 1: else the mean is infinite"),
        );
    };
    let variable = Variable::Pareto { shape, scale };
    match most.map(|most| most.0 as f64) {
        Some(most) if most >= 2.0 * scale => Ok(Variable::Within(Box::new(variable), scale, most)),
        Some(_) => refuse(setting, Reason::Range("`most` is at least twice the least size")),
        None => Ok(variable),
    }
}

pub(super) fn tcp(spec: &spec::Tcp) -> Checked<TransportTraffic> {
    Ok(TransportTraffic::Tcp {
        bytes: spec.bytes.map(|bytes| above_zero("bytes", bytes)).transpose()?,
    })
}

/// Checks when flows start and how large they are.
pub(super) fn flows(spec: &spec::Flows, files: &dyn Files) -> Checked<TransportTraffic> {
    let sizes = sizes("sizes", &spec.sizes, files)?;
    let given =
        [spec.rate.is_some(), spec.load.is_some(), spec.per_second.is_some(), spec.users.is_some()];
    if given.iter().filter(|&&given| given).count() != 1 {
        return refuse("rate", Reason::Missing("one of `rate`, `load`, `per_second` and `users`"));
    }
    if spec.users.is_none() && spec.think.is_some() {
        return refuse("think", Reason::Missing("`users` too: think times are those of users"));
    }
    let bps = match (spec.load, spec.of) {
        (Some(load), Some(of)) if load > 0.0 && load <= 100.0 => Some(load * of.bps() as f64),
        (Some(_), Some(_)) => {
            return refuse("load", Reason::Range("it is above 0 and at most 100; 0.6 is 60 %"));
        }
        (Some(_), None) => {
            return refuse("of", Reason::Missing("the rate that `load` is a part of"));
        }
        (None, Some(_)) => return refuse("load", Reason::Missing("the part of the rate `of`")),
        (None, None) => spec.rate.map(|rate| rate.bps() as f64),
    };
    let arrivals = if let Some(users) = spec.users {
        let users = number("users", u64::from(users), MAX_USERS)? as u32;
        Arrivals::Closed(thinking(spec.think.unwrap_or_default()), users)
    } else {
        let per_second = match bps {
            Some(bps) => {
                let mean = sizes.mean();
                let mean = mean.ok_or(SpecError {
                    setting: "sizes",
                    reason: Reason::Range("with a load, their mean must be finite"),
                })?;
                bps / 8.0 / mean
            }
            None => spec.per_second.unwrap_or_default(),
        };
        if !(per_second > 0.0 && per_second <= 1e8) {
            return refuse(
                "per_second",
                Reason::Range("the number of flows per second is above 0 and at most 100 million"),
            );
        }
        Arrivals::Open(Variable::Exponential { mean: 1e9 / per_second })
    };
    Ok(TransportTraffic::Flows(Workload { arrivals, sizes, most: spec.flows.unwrap_or(u64::MAX) }))
}

pub(super) fn requests(spec: &spec::Requests, files: &dyn Files) -> Checked<TransportTraffic> {
    let habits = Habits { sizes: sizes("sizes", &spec.sizes, files)?, think: thinking(spec.think) };
    let users = number("users", spec.users.into(), MAX_USERS)? as u32;
    Ok(TransportTraffic::Requests {
        habits,
        users,
        request: length("request", spec.request)?,
        persistent: spec.persistent,
    })
}

pub(super) fn web(spec: &spec::Web, files: &dyn Files) -> Checked<TransportTraffic> {
    let within = |mu, sigma, least| {
        Variable::Within(Box::new(Variable::LogNormal { mu, sigma }), least, 2e6)
    };
    let given = |setting, given: &Option<Sizes>, otherwise| {
        given.as_ref().map_or(Ok(otherwise), |given| sizes(setting, given, files))
    };
    let (objects, fewer) = match spec.objects {
        // `number` refuses 0, but a page may have no objects.
        Some(0) => (Variable::Fixed(0.0), 0.0),
        Some(objects) => (Variable::Fixed(number("objects", objects.into(), 100_000)? as f64), 0.0),
        None => {
            (Variable::AtMost(Box::new(Variable::Pareto { shape: 1.1, scale: 2.0 }), 55.0), 2.0)
        }
    };
    let pages = Pages {
        document: given("document", &spec.document, within(8.37, 1.37, 100.0))?,
        objects,
        fewer,
        object: given("object", &spec.object, within(6.17, 2.36, 50.0))?,
        parse: thinking(spec.parse),
        read: thinking(spec.read),
    };
    let connections = number("connections", spec.connections.into(), 1000)? as u32;
    Ok(TransportTraffic::Web { pages, connections, request: length("request", spec.request)? })
}

pub(super) fn incast(spec: &spec::Incast) -> Checked<TransportTraffic> {
    let (size, shared) = match (spec.size, spec.total) {
        (Some(size), None) => (above_zero("size", size)?, false),
        (None, Some(total)) => (above_zero("total", total)?, true),
        (None, None) => return refuse("size", Reason::Missing("`size` or `total`")),
        (Some(_), Some(_)) => return refuse("total", Reason::Twice("either `size` or `total`")),
    };
    let queries = spec.queries.unwrap_or(u64::MAX);
    let request = length("request", spec.request)?;
    Ok(TransportTraffic::Incast {
        size,
        shared,
        interval: spec.interval.0,
        queries,
        request,
        persistent: spec.persistent,
    })
}

/// An exponentially distributed time; always zero if its mean is zero.
fn thinking(mean: Time) -> Variable {
    if mean.ns() == 0 {
        Variable::Fixed(0.0)
    } else {
        Variable::Exponential { mean: mean.ns() as f64 }
    }
}

fn number(setting: &'static str, number: u64, most: u64) -> Checked<u64> {
    match number {
        0 => refuse(setting, Reason::Range("it must be above 0")),
        _ if number > most => {
            refuse(setting, Reason::Words(format!("{number} is too many; at most {most}")))
        }
        _ => Ok(number),
    }
}

const WEB_SEARCH: &str = include_str!("../../data/web-search.csv");
const DATA_MINING: &str = include_str!("../../data/data-mining.csv");
/// Maximum number of users of one traffic entry.
const MAX_USERS: u64 = 100_000;
