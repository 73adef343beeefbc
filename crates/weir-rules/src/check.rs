//! From settings to a link: reads the files they name and decides what they mean together.

use std::sync::Arc;

use weir_core::config::{Capacity, Jitter, LinkConfig, Loss, PipeConfig, QueueLimit};
use weir_core::device::{Completion, DeviceConfig, StageConfig};
use weir_core::dist::Distribution;
use weir_core::link::Step;
use weir_core::units::Bytes;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span};
use crate::keyword::Id;
use crate::raw::{At, Raw, RawJitter, Shape};
use crate::{FileNames, Files, LinkSpec, dist, profile, quantity, trace};

/// Builds the link; the result counts only when there are no errors.
pub(crate) fn build(
    raw: Raw,
    text: &str,
    files: &dyn Files,
    diagnostics: &mut Diagnostics,
) -> LinkSpec {
    let mut builder = Builder {
        text,
        files,
        diagnostics,
        names: FileNames::default(),
        link: LinkConfig::default(),
    };
    builder.rate(&raw);
    builder.over_time(&raw);
    builder.delay(&raw);
    builder.profile(&raw);
    builder.hints(&raw);
    builder.link.device = device(&raw).map(Arc::new);
    if let Some(jitter) = raw.jitter {
        builder.jitter(jitter);
    }
    let mut link = builder.link;
    link.loss = raw.loss.map_or(Loss::None, |at| at.value);
    link.duplicate = raw.duplicate;
    link.corrupt = raw.corrupt;
    link.overhead = raw.overhead.unwrap_or_default();
    let mut pipe = PipeConfig { link, ..PipeConfig::default() };
    pipe.queue.limit = raw.queue.map(|at| at.value);
    pipe.queue.aqm = raw.aqm.and_then(|at| at.value);
    if let (true, Some(QueueLimit::Bytes(_)), Some(policy)) =
        (raw.thresholds_as_queue, pipe.queue.limit, &mut pipe.queue.aqm)
    {
        policy.set("unit", "bytes").expect("lengths are in packets or bytes");
    }
    pipe.queue.loss = raw.plr.unwrap_or_default();
    pipe.queue.mask = raw.mask;
    pipe.queue.max_flows = raw.max_flows;
    pipe.queue.weight = raw.weight.unwrap_or(pipe.queue.weight);
    pipe.queue.max_packet = raw.max_packet.unwrap_or(pipe.queue.max_packet);
    pipe.queue.priority = raw.priority.unwrap_or(pipe.queue.priority);
    pipe.queue.rate = raw.flow_rate;
    pipe.queue.ceil = raw.flow_ceil;
    pipe.queue.burst = Bytes(raw.flow_burst.unwrap_or_default());
    pipe.queue.deadline = raw.deadline.unwrap_or_default();
    LinkSpec { pipe, gso: raw.gso, files: builder.names }
}

/// The network card, if any of its words is given.
fn device(raw: &Raw) -> Option<DeviceConfig> {
    if raw.ring.is_none() && raw.dql.is_none() && raw.coalesce.is_none() && raw.cpu.is_none() {
        return None;
    }
    let default = DeviceConfig::default();
    let (limit, when) =
        raw.ring.as_ref().map_or((default.ring.limit, default.completion.when), |at| at.value);
    Some(DeviceConfig {
        ring: StageConfig { limit, service: raw.cpu.unwrap_or_default(), ..default.ring },
        completion: Completion { when, ..raw.coalesce.unwrap_or_default() },
        dql: raw.dql,
        ..default
    })
}

struct Builder<'a> {
    text: &'a str,
    files: &'a dyn Files,
    diagnostics: &'a mut Diagnostics,
    names: FileNames,
    link: LinkConfig,
}

impl Builder<'_> {
    fn say(
        &mut self,
        code: Code,
        span: &Span,
        message: impl Into<String>,
        label: &str,
        help: &str,
    ) {
        let diagnostic =
            Diagnostic::new(code, self.text, span.clone(), message).label(label).help(help);
        self.diagnostics.push(diagnostic);
    }

    fn read(&mut self, name: &str, span: &Span) -> Option<String> {
        if name.contains(char::is_control) {
            self.say(
                Code::BadValue,
                span,
                "a file's name has no line breaks and no tabs",
                "this name",
                "rename the file",
            );
            return None;
        }
        match self.files.read(name) {
            Ok(text) => Some(text),
            Err(error) => {
                let message = format!("cannot read `{name}`: {error}");
                self.say(
                    Code::Unreadable,
                    span,
                    message,
                    "this file",
                    "the name is taken relative to the current directory",
                );
                None
            }
        }
    }

    /// The content of a file, or its diagnostic.
    fn accept<T>(&mut self, result: Result<T, Box<Diagnostic>>) -> Option<T> {
        result.map_err(|error| self.diagnostics.push(*error)).ok()
    }

    fn rate(&mut self, raw: &Raw) {
        if let Some(At { value: Some(rate), .. }) = raw.rate {
            self.link.capacity = Capacity::Constant(rate);
        }
        self.link.burst.0 = raw.burst.as_ref().map_or(0, |at| at.value);
    }

    fn over_time(&mut self, raw: &Raw) {
        if let Some(At { value: name, span }) = &raw.trace {
            self.trace(name, span, raw);
        }
        let Some(At { value: (name, repeats), span }) = &raw.schedule else { return };
        if self.link.schedule.is_some() {
            let help = "put both into one table, or use a Mahimahi trace for the rate";
            return self.say(
                Code::Contradiction,
                span,
                "two tables for one link",
                "`trace` has named a table already",
                help,
            );
        }
        let Some(content) = self.read(name, span) else { return };
        self.table(name, &content, *repeats, span, raw);
        self.names.schedule = Some(name.clone());
    }

    fn trace(&mut self, name: &str, span: &Span, raw: &Raw) {
        let Some(content) = self.read(name, span) else { return };
        self.names.trace = Some(name.to_owned());
        let has_rate = if is_table(name) {
            self.table(name, &content, true, span, raw)
        } else if let Some(trace) = self.accept(trace::parse_mahimahi(&content, name)) {
            self.link.capacity = Capacity::Trace(Arc::new(trace));
            true
        } else {
            false
        };
        if let (true, Some(rate)) = (has_rate, &raw.rate) {
            let help = "remove `bw`, or the trace";
            self.say(
                Code::Contradiction,
                &rate.span,
                "a constant rate and a rate trace exclude each other",
                "the trace gives the rate",
                help,
            );
        }
    }

    /// Takes a table of changes; says whether it has rates.
    fn table(&mut self, name: &str, content: &str, repeats: bool, span: &Span, raw: &Raw) -> bool {
        let Some(table) = self.accept(trace::parse_csv(content, name, repeats)) else {
            return false;
        };
        if let Some(outage) = table.outage {
            self.diagnostics.push(*outage);
        }
        let has =
            |what: fn(&Step) -> bool| table.schedule.steps().iter().any(|(_, step)| what(step));
        let has_rate = has(|step| step.capacity.is_some());
        let first = table
            .schedule
            .steps()
            .first()
            .filter(|(at, _)| at.0 == 0)
            .map(|(_, step)| step.clone())
            .unwrap_or_default();
        let loses = raw.loss.as_ref().map(|at| &at.span).filter(|_| first.loss.is_some());
        let delays = raw.delay.as_ref().map(|at| &at.span).filter(|_| first.delay.is_some());
        let rates = raw
            .rate
            .as_ref()
            .map(|at| &at.span)
            .filter(|_| first.capacity.is_some() && raw.trace.is_none());
        for span in [rates, delays, loses].into_iter().flatten() {
            let help = "remove it here, or let the table begin later than 0";
            self.say(
                Code::Overridden,
                span,
                format!("`{name}` replaces this from the first moment"),
                "never used",
                help,
            );
        }
        if has_rate && matches!(self.link.capacity, Capacity::Trace(_)) {
            let help = "leave the rate column out";
            self.say(
                Code::Overridden,
                span,
                format!("the rates of `{name}` replace the trace"),
                "has a rate column",
                help,
            );
        }
        self.link.schedule = Some(Arc::new(table.schedule));
        has_rate
    }

    fn delay(&mut self, raw: &Raw) {
        self.link.delay = raw.delay.as_ref().map(|at| at.value).unwrap_or_default();
        let Some(reorder) = &raw.reorder else { return };
        self.link.reorder = Some(reorder.value);
        let scheduled = self
            .link
            .schedule
            .as_ref()
            .is_some_and(|s| s.steps().iter().any(|(_, step)| step.delay.is_some()));
        if self.link.delay.0 == 0 && raw.jitter.is_none() && !scheduled {
            let help = "give a `delay`: packets that skip it overtake those under way";
            self.say(
                Code::NoEffect,
                &reorder.span,
                "`reorder` without a delay changes nothing",
                "nothing can be overtaken",
                help,
            );
        }
    }

    fn jitter(&mut self, jitter: RawJitter) {
        let distribution = match jitter.shape {
            Shape::Uniform => Distribution::uniform(),
            Shape::Normal => Distribution::normal(),
            Shape::Pareto => Distribution::pareto(),
            Shape::ParetoNormal => Distribution::pareto_normal(),
            Shape::File(At { value: name, span }) => {
                let Some(content) = self.read(&name, &span) else { return };
                let Some(distribution) = self.accept(dist::parse(&content, &name)) else { return };
                distribution
            }
        };
        self.link.jitter = Some(Jitter {
            amount: jitter.amount,
            distribution: Arc::new(distribution),
            correlation: jitter.correlation,
            may_reorder: jitter.may_reorder,
        });
    }

    fn profile(&mut self, raw: &Raw) {
        let Some(At { value: name, span }) = &raw.profile else { return };
        let Some(content) = self.read(name, span) else { return };
        self.names.profile = Some(name.clone());
        let Some(file) = self.accept(profile::parse(&content, name)) else { return };
        self.link.profile = Some(Arc::new(file.profile));
        let Some(rate) = file.rate else { return };
        let given = match &raw.rate {
            _ if self.link.schedule.is_some()
                || matches!(self.link.capacity, Capacity::Trace(_)) =>
            {
                Some("the trace or schedule".to_owned())
            }
            None => None,
            Some(At { value: Some(given), .. }) if *given == rate => return,
            Some(At { value, .. }) => Some(format!(
                "`bw {}`",
                value.map_or_else(|| "unlimited".to_owned(), quantity::write_rate)
            )),
        };
        match given {
            None => self.link.capacity = Capacity::Constant(rate),
            Some(given) => {
                let message = format!(
                    "`{name}` has the rate {}, which is not used",
                    quantity::write_rate(rate)
                );
                self.say(
                    Code::ProfileRate,
                    span,
                    message,
                    "its rate differs",
                    &format!("{given} wins"),
                );
            }
        }
    }

    /// What is accepted, but does not do what it seems to say.
    fn hints(&mut self, raw: &Raw) {
        let constant = matches!(self.link.capacity, Capacity::Constant(_));
        let scheduled = self
            .link
            .schedule
            .as_ref()
            .is_some_and(|s| s.steps().iter().any(|(_, step)| step.capacity.is_some()));
        if let Some(At { value: 1.., span }) = &raw.burst
            && !constant
            && !scheduled
        {
            let help = format!(
                "a burst is credit for an idle link of constant rate: give `{}`",
                Id::Bw.row().example
            );
            self.say(
                Code::NoEffect,
                span,
                "`burst` without a rate changes nothing",
                "there is nothing to save up",
                &help,
            );
        }
        let unlimited = matches!(self.link.capacity, Capacity::Unlimited)
            && !scheduled
            && self.link.profile.is_none();
        if let Some(At { value: Some(policy), span }) = &raw.aqm
            && unlimited
            && raw.of_link
        {
            let message = format!("`{}` without a rate has nothing to do", policy.row().name);
            let help = format!(
                "packets do not wait before a link without a rate: give `{}`",
                Id::Bw.row().example
            );
            self.say(Code::NoEffect, span, message, "the queue is always empty", &help);
        }
        if let Some(At { span, .. }) = &raw.ring
            && unlimited
            && raw.of_link
            && raw.cpu.is_none()
        {
            let help = format!(
                "packets do not wait for a wire without a rate: give `{}`",
                Id::Bw.row().example
            );
            self.say(
                Code::NoEffect,
                span,
                "`ring` without a rate has nothing to hold",
                "the ring is always empty",
                &help,
            );
        }
        if let Some(At { value: QueueLimit::Bytes(bytes), span }) = &raw.queue
            && *bytes < FULL_SIZE
        {
            let message = format!("a queue of {bytes} bytes holds no full-size packet");
            self.say(
                Code::SmallQueue,
                span,
                message,
                "larger packets are always dropped when one is being sent",
                "1500 bytes or more hold one",
            );
        }
    }
}

/// Whether a trace's name says that it is a table.
fn is_table(name: &str) -> bool {
    name.len() > 4 && name.as_bytes()[name.len() - 4..].eq_ignore_ascii_case(b".csv")
}

/// Bytes of a full-size packet.
const FULL_SIZE: u64 = 1500;
