//! Checks the settings of traffic. Every setting is checked once, before anything is built.

use weir_core::Nanos;
use weir_rules::Files;

use crate::random::Variable;
use crate::units::{RateText, Size, Time};

use super::cbr::Constant;
use super::closed;
use super::modulated::{First, Modulated, State};
use super::placement::Begin;
use super::plan::{OpenLoop, Plan, Work};
use super::real;
use super::refusal::{Checked, Reason, SpecError, length, positive, refuse};
use super::renewal::{Mix, Renewal};
use super::replay::{Replay, Trace};
use super::settings::{Gaps, MarkovState, Periods, TraceFormat};
use super::site::TransportTraffic;
use super::spec::{self, Spec};

impl Spec {
    /// Checks all settings, and reads the files that they name.
    ///
    /// # Errors
    /// An invalid setting and the reason.
    pub fn check(&self, files: &dyn Files) -> Checked<Plan> {
        let begin = self.begin()?;
        let open = match self {
            Self::Cbr(spec) => cbr(spec)?,
            Self::Poisson(spec) => {
                let mean = gap("rate", spec.rate, spec.interval, spec.size)?;
                OpenLoop::Renewal(Renewal::new(
                    length("size", spec.size)?,
                    Variable::Exponential { mean },
                ))
            }
            Self::Pareto(spec) => pareto(spec)?,
            Self::OnOff(spec) => on_off(spec)?,
            Self::Markov(spec) => markov(spec)?,
            Self::Voip(spec) => voip(spec)?,
            Self::Imix(spec) => imix(spec)?,
            Self::Trace(spec) => trace(spec, files)?,
            Self::Probe(spec) => {
                let interval = positive("interval", spec.interval)?;
                OpenLoop::Constant(Constant::every(length("size", spec.size)?, interval))
            }
            Self::Ping(spec) => OpenLoop::Ping {
                len: length("size", spec.size)?,
                interval: positive("interval", spec.interval)?,
            },
            Self::Program(spec) if spec.command.trim().is_empty() => {
                return refuse("command", Reason::Missing("a program"));
            }
            Self::Program(_) => OpenLoop::Nothing,
            Self::Tcp(spec) => return self.over_transport(begin, closed::tcp(spec)?),
            Self::RealStack(spec) => {
                let (what, transport) = real::check(spec)?;
                return Ok(Plan { begin, work: Work::OverTransport(what, transport) });
            }
            Self::Flows(spec) => return self.over_transport(begin, closed::flows(spec, files)?),
            Self::Requests(spec) => {
                return self.over_transport(begin, closed::requests(spec, files)?);
            }
            Self::Web(spec) => return self.over_transport(begin, closed::web(spec, files)?),
            Self::Incast(spec) => return self.over_transport(begin, closed::incast(spec)?),
        };
        Ok(Plan { begin, work: Work::OpenLoop(open) })
    }

    /// Checks the transport's settings. Returns the plan of traffic over a transport.
    fn over_transport(&self, begin: Begin, what: TransportTraffic) -> Checked<Plan> {
        match self.transport() {
            Some(transport) => Ok(Plan {
                begin,
                work: Work::OverTransport(what, closed::transport(&transport, self.common().ecn)?),
            }),
            None => refuse("kind", Reason::Missing("a kind that goes over TCP")),
        }
    }

    /// Checks the settings that all kinds share.
    fn begin(&self) -> Checked<Begin> {
        let common = self.common();
        let spec::Common { start, stop, start_jitter, ecn, dscp, label, deadline, .. } = common;
        if stop.is_some_and(|stop| stop <= start) {
            return refuse("stop", Reason::Order);
        }
        if dscp > 63 {
            return refuse("dscp", Reason::Range("a DSCP is from 0 to 63"));
        }
        if label.is_some() && deadline.is_some() {
            return refuse("deadline", Reason::Twice("either `label` or `deadline`"));
        }
        if common.deadline_per_switch.is_some() && deadline.is_none() {
            return refuse("deadline_per_switch", Reason::Missing("`deadline`, to which it adds"));
        }
        let label = deadline.map_or(label.unwrap_or(0), Time::ns);
        Ok(Begin {
            start: start.0,
            jitter: start_jitter.0,
            until: stop.map_or(Nanos::MAX, |stop| stop.0),
            ecn: ecn.unwrap_or_default().into(),
            dscp,
            label,
            per_switch: common.deadline_per_switch.map_or(0, Time::ns),
        })
    }
}

/// The mean interval between packets, from a rate or an interval, ns.
fn gap(
    setting: &'static str,
    rate: Option<RateText>,
    interval: Option<Time>,
    size: Size,
) -> Checked<f64> {
    match (rate, interval) {
        (Some(rate), None) => Ok(size.0 as f64 * 8e9 / rate.bps() as f64),
        (None, Some(interval)) => Ok(positive("interval", interval)?.0 as f64),
        (None, None) => refuse(setting, Reason::Missing("`rate` or `interval`")),
        (Some(_), Some(_)) => refuse("interval", Reason::Twice("either `rate` or `interval`")),
    }
}

fn cbr(spec: &spec::Cbr) -> Checked<OpenLoop> {
    let len = length("size", spec.size)?;
    gap("rate", spec.rate, spec.interval, spec.size)?;
    let constant = spec.rate.map_or_else(
        || Constant::every(len, spec.interval.unwrap_or_default().0),
        |rate| Constant::rate(len, rate.bps()),
    );
    Ok(OpenLoop::Constant(constant))
}

/// Checks that a Pareto shape gives a finite mean.
fn finite_shape(shape: f64) -> Checked<f64> {
    if shape > 1.0 && shape <= 1000.0 {
        Ok(shape)
    } else {
        refuse(
            "shape",
            Reason::Range("it must be above 1, where the mean is finite, and at most 1000"),
        )
    }
}

fn pareto(spec: &spec::Pareto) -> Checked<OpenLoop> {
    let len = length("size", spec.size)?;
    let shape = spec.shape;
    let gap = match spec.scale {
        Some(_) if spec.rate.is_some() || spec.interval.is_some() => {
            return refuse("scale", Reason::Twice("one of `rate`, `interval` and `scale`"));
        }
        Some(_) if !(0.1..=1000.0).contains(&shape) => {
            return refuse("shape", Reason::Range("it is from 0.1 to 1000"));
        }
        Some(scale) => Variable::Pareto { shape, scale: positive("scale", scale)?.0 as f64 },
        None => {
            let mean = gap("rate", spec.rate, spec.interval, spec.size)?;
            Variable::Pareto { shape: finite_shape(shape)?, scale: mean * (shape - 1.0) / shape }
        }
    };
    Ok(OpenLoop::Renewal(Renewal::new(len, gap)))
}

fn on_off(spec: &spec::OnOff) -> Checked<OpenLoop> {
    let len = length("size", spec.size)?;
    let shape =
        if spec.periods == Periods::Pareto { finite_shape(spec.shape)? } else { spec.shape };
    let period = |setting, time| {
        let mean = positive(setting, time)?.0 as f64;
        Ok(match spec.periods {
            Periods::Exponential => Variable::Exponential { mean },
            Periods::Pareto => Variable::Pareto { shape, scale: mean * (shape - 1.0) / shape },
            Periods::Constant => Variable::Fixed(mean),
        })
    };
    let (on, off) = (period("on", spec.on)?, period("off", spec.off)?);
    if f64::from(len) * 8e9 / spec.rate.bps() as f64 > spec.on.ns() as f64 * MAX_PERIODS {
        return refuse(
            "on",
            Reason::Range("a packet at `rate` takes more than 1000 times as long; make it longer"),
        );
    }
    Ok(OpenLoop::Modulated {
        modulated: Modulated::on_off(len, spec.rate.bps() as f64, on, off),
        header: 0,
    })
}

fn markov(spec: &spec::Markov) -> Checked<OpenLoop> {
    let len = length("size", spec.size)?;
    let count = spec.states.len();
    if !(1..=MAX_STATES).contains(&count) {
        return refuse("states", Reason::Range("there are from 1 to 1000 states"));
    }
    let states = spec
        .states
        .iter()
        .enumerate()
        .map(|(index, state)| markov_state(state, index, count))
        .collect::<Checked<Vec<_>>>()?;
    // Every state must lead to a sending state, or the source could become silent forever.
    let mut sends: Vec<bool> = states.iter().map(|state| state.bps > 0.0).collect();
    for _ in 0..count {
        for (index, state) in states.iter().enumerate() {
            sends[index] = sends[index]
                || state
                    .next
                    .iter()
                    .zip(&sends.clone())
                    .any(|(&weight, &sends)| weight > 0.0 && sends);
        }
    }
    if let Some(silent) = sends.iter().position(|&sends| !sends) {
        return refuse("states", Reason::Silent(silent + 1));
    }
    let exponential = spec.gaps == Gaps::Exponential;
    Ok(OpenLoop::Modulated {
        modulated: Modulated::new(states, len, exponential, First::Zero),
        header: 0,
    })
}

fn markov_state(state: &MarkovState, index: usize, count: usize) -> Checked<State> {
    let bps = state.rate.map_or(0.0, |rate| rate.bps() as f64);
    let weights = |weights: &Vec<f64>, setting| {
        let mut weights = weights.clone();
        if weights.len() != count {
            return refuse(setting, Reason::Entries { has: weights.len(), needs: count });
        }
        if setting == "leave" {
            weights[index] = 0.0;
        }
        let total: f64 = weights.iter().sum();
        if weights.iter().any(|weight| weight.is_nan() || *weight < 0.0)
            || !(total > 0.0 && total <= 1e6)
        {
            return refuse(
                setting,
                Reason::Range("its entries are 0 or more, not all 0, and at most 1e6 together"),
            );
        }
        Ok((weights, total))
    };
    let (hold, next) = match (state.hold, &state.next, &state.leave) {
        (Some(hold), None, None) => {
            let others =
                (0..count).map(|other| f64::from(u8::from(other != index || count == 1))).collect();
            (positive("hold", hold)?.0 as f64, others)
        }
        (Some(hold), Some(next), None) => {
            (positive("hold", hold)?.0 as f64, weights(next, "next")?.0)
        }
        (None, None, Some(leave)) => {
            let (weights, total) = weights(leave, "leave")?;
            (1e9 / total, weights)
        }
        (None, _, None) => {
            return refuse("states", Reason::Missing("each state `hold`, or `leave`"));
        }
        (_, _, Some(_)) => return refuse("states", Reason::Twice("each state `hold`, or `leave`")),
    };
    Ok(State { bps, hold: Variable::Exponential { mean: hold }, next })
}

fn voip(spec: &spec::Voip) -> Checked<OpenLoop> {
    let (interval, payload) = spec.codec.frame();
    let len = payload + u32::from(RTP_HEADER);
    let bps = f64::from(len) * 8e9 / interval.ns() as f64;
    let talk = Variable::Exponential { mean: positive("talk", spec.talk)?.0 as f64 };
    if spec.talk.ns() < interval.ns() / 1000 {
        return refuse(
            "talk",
            Reason::Range("a talk spurt takes at least a thousandth of a frame"),
        );
    }
    let modulated = if spec.silence.ns() == 0 {
        Modulated::new(vec![State { bps, hold: talk, next: vec![1.0] }], len, false, First::Zero)
    } else {
        Modulated::on_off(len, bps, talk, Variable::Exponential { mean: spec.silence.ns() as f64 })
    };
    Ok(OpenLoop::Modulated { modulated, header: RTP_HEADER })
}

fn imix(spec: &spec::Imix) -> Checked<OpenLoop> {
    let mix = spec
        .mix
        .iter()
        .map(|&(size, weight)| Ok((length("mix", size)?, weight)))
        .collect::<Checked<Vec<_>>>()?;
    let total: f64 = mix.iter().map(|&(_, weight)| weight).sum();
    if mix.iter().any(|&(_, weight)| weight.is_nan() || weight < 0.0)
        || !(total > 0.0 && total < 1e12)
    {
        return refuse("mix", Reason::Range("weights are 0 or more, and not all 0"));
    }
    Ok(OpenLoop::Mix(Mix::new(&mix, spec.rate.bps(), spec.gaps == Gaps::Exponential)))
}

fn trace(spec: &spec::Trace, files: &dyn Files) -> Checked<OpenLoop> {
    if !(spec.speed >= 1e-6 && spec.speed <= 1e6) {
        return refuse("speed", Reason::Range("it is from 0.000001 to 1000000"));
    }
    let path = &spec.file;
    let ends = |end: &str| path.to_ascii_lowercase().ends_with(end);
    let format = spec.format.or_else(|| match () {
        () if ends(".csv") || ends(".txt") => Some(TraceFormat::Csv),
        () if ends(".pcap") || ends(".pcapng") || ends(".cap") => Some(TraceFormat::Pcap),
        () => None,
    });
    let unread =
        |error| SpecError { setting: "file", reason: Reason::File { path: path.clone(), error } };
    let read = match format {
        None => {
            return refuse(
                "format",
                Reason::Missing("`csv` or `pcap`: the file's name does not show it"),
            );
        }
        Some(TraceFormat::Csv) => Trace::csv(&files.read(path).map_err(unread)?),
        Some(TraceFormat::Pcap) => Trace::capture(&files.read_bytes(path).map_err(unread)?),
    };
    let trace = read.map_err(|error| SpecError {
        setting: "file",
        reason: Reason::Trace { path: path.clone(), error },
    })?;
    Ok(OpenLoop::Replay(Replay::new(trace, spec.speed, spec.repeat)))
}

/// Bytes of the IP, UDP and RTP headers.
const RTP_HEADER: u8 = 40;
/// Maximum number of states of a Markov chain.
const MAX_STATES: usize = 1000;
/// Maximum number of on periods that one packet may take.
const MAX_PERIODS: f64 = 1000.0;
