//! Turns a draft into a link: reads the files that the draft names, and checks its values together.

use std::sync::Arc;

use weir_core::config::{Capacity, LinkConfig, PipeConfig, QueueLimit};
use weir_core::link::Schedule;
use weir_core::units::Rate;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span};
use crate::files::Files;
use crate::keyword::draft::{At, Draft};
use crate::keyword::{
    AQM, BURST, BW, CPU, DELAY, JITTER, Keyword, LIMIT, LOSS, Object, PROFILE, REORDER, RING,
    SCHED, SCHEDULE, TRACE,
};
use crate::link::LinkSpec;
use crate::parsed::{ByName, MemoryError, ParsedFiles, Value};
use crate::trace::Table;
use crate::{dist, profile, quantity, trace};

/// Builds the link. The result is valid only if no error was reported.
pub(crate) fn build(
    draft: Draft,
    text: &str,
    files: &dyn Files,
    diagnostics: &mut Diagnostics,
) -> LinkSpec {
    let rate = constant_rate(&draft.spec);
    let own = ParsedFiles::default();
    let parsed = files.parsed().unwrap_or(&own);
    let mut builder = Builder { text, files, parsed, diagnostics, rate, draft };
    builder.trace_and_schedule();
    builder.reorder();
    builder.profile();
    builder.scheduler();
    builder.hints();
    builder.jitter();
    let mut spec = builder.draft.spec;
    let queue = &mut spec.pipe.queue;
    // In dummynet, the thresholds of RED have the unit of the queue's limit.
    if let (true, Some(QueueLimit::Bytes(_)), Some(policy)) =
        (builder.draft.thresholds_in_queue_unit, queue.limit, &mut queue.aqm)
    {
        policy.set("unit", "bytes").expect("`bytes` is an allowed unit");
    }
    spec
}

fn constant_rate(spec: &LinkSpec) -> Option<Rate> {
    match spec.pipe.link.capacity {
        Capacity::Constant(rate) => Some(rate),
        Capacity::Unlimited | Capacity::Trace(_) => None,
    }
}

struct Builder<'a> {
    text: &'a str,
    files: &'a dyn Files,
    /// The values of the files that were read before.
    parsed: &'a ParsedFiles,
    diagnostics: &'a mut Diagnostics,
    /// The rate that `bw` specifies; `None` without `bw` and for `bw unlimited`.
    rate: Option<Rate>,
    draft: Draft,
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

    /// Returns the value of a file, and what the file contains beside it. Reads and parses the file
    /// unless `parsed` already has the value. Reports faults.
    fn value<T: Value, A: Clone>(
        &mut self,
        known: fn(&ParsedFiles) -> &ByName<T, A>,
        (name, repeats): (&str, bool),
        span: &Span,
        parse: impl FnOnce(&str, bool) -> Result<(T, A), Box<Diagnostic>>,
    ) -> Option<(Arc<T>, A)> {
        let (parsed, key) = (self.parsed, (name.to_owned(), repeats));
        let before = known(parsed).borrow().get(&key).cloned();
        let result = match before {
            Some(result) => result,
            None => {
                if let Some(error) = parsed.refused() {
                    self.too_much(span, error);
                    return None;
                }
                let (content, quotable) = self.read(name, span)?;
                let result = match parse(&content, quotable) {
                    Ok((value, also)) => match parsed.keep(value) {
                        Ok(value) => Ok((value, also)),
                        Err(error) => {
                            self.too_much(span, error);
                            return None;
                        }
                    },
                    Err(error) if quotable => Err(*error),
                    Err(error) => Err(error.without_quotes()),
                };
                known(parsed).borrow_mut().insert(key, result.clone());
                result
            }
        };
        result.map_err(|diagnostic| self.diagnostics.push(diagnostic)).ok()
    }

    fn too_much(&mut self, span: &Span, error: MemoryError) {
        let help = match error {
            MemoryError::Own { .. } => {
                "use fewer or shorter files; uses of one file share its memory"
            }
            MemoryError::Others { .. } => "try again in a moment",
        };
        self.say(Code::TooMuch, span, error.to_string(), "this file is not read", help);
    }

    /// Reads a file. Returns its text, and whether messages may quote it.
    fn read(&mut self, name: &str, span: &Span) -> Option<(String, bool)> {
        if name.contains(char::is_control) {
            self.say(
                Code::BadValue,
                span,
                "a file's name must not contain control characters, such as line breaks and tabs",
                "this name",
                "rename the file",
            );
            return None;
        }
        match self.files.read_quotable(name) {
            Ok(read) => Some(read),
            Err(error) => {
                let message = format!("cannot read `{name}`: {error}");
                let mut diagnostic =
                    Diagnostic::new(Code::Unreadable, self.text, span.clone(), message)
                        .label("this file");
                if error.kind() == std::io::ErrorKind::NotFound && !name.starts_with('/') {
                    diagnostic =
                        diagnostic.help("the name is taken relative to the current directory");
                }
                self.diagnostics.push(diagnostic);
                None
            }
        }
    }

    fn link(&mut self) -> &mut LinkConfig {
        &mut self.draft.spec.pipe.link
    }

    /// The place of a keyword's value, if the keyword is given.
    fn place(&self, row: &Keyword) -> Option<Span> {
        self.draft.places(row.name).map(|places| places.value.clone())
    }

    fn trace_and_schedule(&mut self) {
        if let (Some(name), Some(span)) = (self.draft.spec.files.trace.clone(), self.place(&TRACE))
        {
            self.trace(&name, &span);
        }
        let (Some(name), Some(span)) =
            (self.draft.spec.files.schedule.clone(), self.place(&SCHEDULE))
        else {
            return;
        };
        if self.link().schedule.is_some() {
            let help = "put both into one table, or use a Mahimahi trace for the rate";
            return self.say(
                Code::Contradiction,
                &span,
                "two tables for one link",
                "`trace` has named a table already",
                help,
            );
        }
        self.table(&name, self.draft.schedule_repeats, &span);
    }

    fn trace(&mut self, name: &str, span: &Span) {
        let has_rate = if is_table(name) {
            self.table(name, true, span)
        } else {
            let parse = |text: &str, _| trace::parse_mahimahi(text, name).map(|trace| (trace, ()));
            let trace = self.value(|parsed| &parsed.traces, (name, false), span, parse);
            if let Some((trace, ())) = &trace {
                self.link().capacity = Capacity::Trace(Arc::clone(trace));
            }
            trace.is_some()
        };
        if let (true, Some(bw)) = (has_rate, self.place(&BW)) {
            let help = "remove `bw`, or the trace";
            self.say(
                Code::Contradiction,
                &bw,
                "a constant rate and a rate trace exclude each other",
                "the trace gives the rate",
                help,
            );
        }
    }

    /// Adds a table of changes to the link. Returns whether the table contains rates.
    fn table(&mut self, name: &str, repeats: bool, span: &Span) -> bool {
        let parse = |text: &str, quotable: bool| {
            let Table { schedule, mut notes } = trace::parse_csv(text, name, repeats)?;
            if !quotable {
                notes = notes.into_iter().map(Diagnostic::without_quotes).collect();
            }
            Ok((schedule, notes))
        };
        let table = self.value(|parsed| &parsed.schedules, (name, repeats), span, parse);
        let Some((schedule, notes)) = table else { return false };
        notes.into_iter().for_each(|note| self.diagnostics.push(note));
        let has_rate = schedule.has_capacity();
        let first =
            schedule.steps().first().filter(|(at, _)| at.0 == 0).map(|(_, step)| step.clone());
        let first = first.unwrap_or_default();
        let has_trace = self.draft.spec.files.trace.is_some();
        for (row, replaced) in [
            (&BW, first.capacity.is_some() && !has_trace),
            (&DELAY, first.delay.is_some()),
            (&LOSS, first.loss.is_some()),
        ] {
            let Some(span) = self.place(row).filter(|_| replaced) else { continue };
            let help = "remove it here, or let the table begin later than 0";
            self.say(
                Code::Overridden,
                &span,
                format!("`{name}` replaces this from the first moment"),
                "never used",
                help,
            );
        }
        if has_rate && matches!(self.link().capacity, Capacity::Trace(_)) {
            let help = "leave the rate column out";
            self.say(
                Code::Overridden,
                span,
                format!("the rates of `{name}` replace the trace"),
                "has a rate column",
                help,
            );
        }
        self.link().schedule = Some(schedule);
        has_rate
    }

    /// Whether the link has a schedule for which `what` holds.
    fn schedule_has(&self, what: fn(&Schedule) -> bool) -> bool {
        let schedule = self.draft.spec.pipe.link.schedule.as_ref();
        schedule.is_some_and(|schedule| what(schedule))
    }

    fn reorder(&mut self) {
        let Some(places) = self.draft.places(REORDER.name).cloned() else { return };
        let scheduled = self.schedule_has(Schedule::has_delay);
        let link = self.link();
        if link.delay.0 == 0 && link.jitter.is_none() && !scheduled {
            let help = "give a `delay`: packets that skip it overtake those in flight";
            self.say(
                Code::NoEffect,
                &places.keyword,
                "`reorder` without a delay changes nothing",
                "nothing can be overtaken",
                help,
            );
        }
    }

    /// Warns of jitter without a delay. If the distribution of the jitter is in a file, reads the
    /// file.
    fn jitter(&mut self) {
        let alone = self.link().delay.0 == 0 && !self.schedule_has(Schedule::has_delay);
        if let (true, Some(span)) = (alone, self.place(&JITTER)) {
            self.say(
                Code::JitterAlone,
                &span,
                "`jitter` without a delay: deviations below zero have no effect",
                "about half of the packets are not delayed",
                "give a delay that is at least as long, for example `delay 20ms jitter 5ms`",
            );
        }
        let Some(At { value: name, span }) = self.draft.jitter_file.take() else { return };
        let parse = |text: &str, _| dist::parse(text, &name).map(|distribution| (distribution, ()));
        let read = self.value(|parsed| &parsed.distributions, (&name, false), &span, parse);
        if let (Some((distribution, ())), Some(jitter)) = (read, &mut self.link().jitter) {
            jitter.distribution = distribution;
        }
    }

    fn profile(&mut self) {
        let (Some(name), Some(span)) =
            (self.draft.spec.files.profile.clone(), self.place(&PROFILE))
        else {
            return;
        };
        let parse =
            |text: &str, _| profile::parse(text, &name).map(|file| (file.profile, file.rate));
        let read = self.value(|parsed| &parsed.profiles, (&name, false), &span, parse);
        let Some((profile, rate)) = read else { return };
        self.link().profile = Some(profile);
        let Some(rate) = rate else { return };
        let varies =
            self.link().schedule.is_some() || matches!(self.link().capacity, Capacity::Trace(_));
        let given = match self.rate {
            _ if varies => "the trace or schedule".to_owned(),
            None if self.place(&BW).is_none() => {
                self.link().capacity = Capacity::Constant(rate);
                return;
            }
            None => "`bw unlimited`".to_owned(),
            Some(given) if given == rate => return,
            Some(given) => format!("`bw {}`", quantity::write_rate(given)),
        };
        let message = format!("the rate {} of `{name}` is not used", quantity::write_rate(rate));
        let help = format!("{given} has precedence");
        self.say(Code::ProfileRate, &span, message, "a profile with a rate", &help);
    }

    /// Refuses an AQM together with a scheduler. The AQM would see the packets of all flows as one
    /// queue in order of arrival, but the scheduler takes them in another order.
    fn scheduler(&mut self) {
        let PipeConfig { scheduler, queue, .. } = &self.draft.spec.pipe;
        let (Some(scheduler), Some(policy)) = (scheduler, &queue.aqm) else { return };
        let (sched, aqm) = (scheduler.row().name, policy.row().name);
        let Some(span) = self.place(&AQM) else { return };
        let message = format!("`{aqm}` and `{sched}` would both drop packets of one queue");
        let help = format!(
            "`{sched}` drops and marks by itself, in the queue of each flow; its settings follow \
             its name"
        );
        self.say(Code::Contradiction, &span, message, "a second AQM", &help);
    }

    /// Adds warnings about values that are accepted but have no effect or an unexpected effect.
    fn hints(&mut self) {
        let scheduled = self.schedule_has(Schedule::has_capacity);
        let link = &self.draft.spec.pipe.link;
        let constant = matches!(link.capacity, Capacity::Constant(_));
        let unlimited = matches!(link.capacity, Capacity::Unlimited)
            && !scheduled
            && link.profile.is_none()
            && self.draft.object == Object::Link;
        if let (1.., Some(span)) = (link.burst.0, self.place(&BURST))
            && !constant
            && !scheduled
        {
            self.no_rate(
                &span,
                "`burst` without a rate changes nothing",
                "there is nothing to save up",
                "a burst is credit for an idle link of constant rate",
            );
        }
        if let (Some(policy), Some(span)) = (&self.draft.spec.pipe.queue.aqm, self.place(&AQM))
            && unlimited
        {
            let message = format!("`{}` without a rate has nothing to do", policy.row().name);
            self.no_rate(
                &span,
                &message,
                "the queue is always empty",
                "packets do not wait before a link without a rate",
            );
        }
        if let (Some(scheduler), Some(span)) = (&self.draft.spec.pipe.scheduler, self.place(&SCHED))
            && unlimited
            && self.place(&RING).is_none()
        {
            let message = format!("`{}` without a rate has nothing to do", scheduler.row().name);
            self.no_rate(
                &span,
                &message,
                "the queue is always empty",
                "packets do not wait before a link without a rate",
            );
        }
        if let Some(span) = self.place(&RING)
            && unlimited
            && self.place(&CPU).is_none()
        {
            self.no_rate(
                &span,
                "`ring` without a rate has nothing to hold",
                "the ring is always empty",
                "packets do not wait for a wire without a rate",
            );
        }
        if let (Some(QueueLimit::Bytes(bytes @ ..FULL_SIZE)), Some(span)) =
            (self.draft.spec.pipe.queue.limit, self.place(&LIMIT))
        {
            let message = format!("a queue of {bytes} bytes holds no full-size packet");
            self.say(
                Code::SmallQueue,
                &span,
                message,
                "packets larger than this are dropped while the link is busy",
                "1500 bytes or more hold a full-size packet",
            );
        }
    }

    /// Adds a warning that a keyword has no effect without a rate.
    fn no_rate(&mut self, span: &Span, message: &str, label: &str, why: &str) {
        let help = format!("{why}: give `{}`", BW.example);
        self.say(Code::NoEffect, span, message, label, &help);
    }
}

/// Whether the name of a trace file indicates a table.
pub(crate) fn is_table(name: &str) -> bool {
    name.len() > 4 && name.as_bytes()[name.len() - 4..].eq_ignore_ascii_case(b".csv")
}

/// Bytes of a full-size packet.
const FULL_SIZE: u64 = 1500;

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    struct Unreadable(io::ErrorKind);

    impl Files for Unreadable {
        fn read(&self, _: &str) -> io::Result<String> {
            Err(self.0.into())
        }
    }

    #[test]
    fn the_directory_of_a_name_is_explained_only_if_the_file_is_missing() {
        let helps = |kind, text: &str| -> usize {
            let diagnostics = crate::check_spec(text, &Unreadable(kind)).diagnostics;
            diagnostics.iter().map(|diagnostic| diagnostic.help.len()).sum()
        };
        assert_eq!(helps(io::ErrorKind::NotFound, "trace rates.up"), 1);
        assert_eq!(helps(io::ErrorKind::NotFound, "trace /nowhere/rates.up"), 0);
        assert_eq!(helps(io::ErrorKind::PermissionDenied, "trace rates.up"), 0);
    }
}
