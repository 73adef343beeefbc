//! The timed plan of a run: `--at TIME ACTION` and `--plan FILE`. A plan is checked before anything
//! starts; a thread of its own carries it out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use weir_live::changes::{Changes, Refusal};
use weir_live::plan::{Start, Step, Wrong, check, lines};
use weir_live::{Emulation, Link};
use weir_report::format::printable;
use weir_rules::{Diagnostics, Files as _};
use weir_sim::disk::Disk;

use crate::args::{PlanArgs, parse_time};
use crate::files::Recorded;
use crate::output::{Failure, USAGE, colour, say_coloured};

/// The steps of a plan, in the order of their times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    steps: Vec<Step>,
    /// Where each step is written, for messages.
    places: Vec<String>,
    /// The contents of the files that the steps name.
    files: BTreeMap<String, String>,
}

impl Plan {
    /// Reads the plan of a command, and checks each step against the links or rules as the steps
    /// before it leave them.
    pub(crate) fn read(args: &PlanArgs, emulation: &Emulation) -> Result<Self, Failure> {
        match emulation {
            Emulation::Links(links) => Self::of_links(args, links.as_slice()),
            Emulation::Rules { ruleset, .. } => Self::checked(args, &[], Start::Rules(ruleset)),
            Emulation::Lanes(lanes) => {
                let links: Vec<Link> = lanes.links.iter().map(|named| named.link.clone()).collect();
                Self::of_links(args, &links)
            }
        }
    }

    /// Reads and checks the plan of a session with these links.
    pub(crate) fn of_links(args: &PlanArgs, links: &[Link]) -> Result<Self, Failure> {
        Self::checked(args, links, Start::Links(links))
    }

    fn checked(args: &PlanArgs, links: &[Link], start: Start<'_>) -> Result<Self, Failure> {
        let mut written: Vec<(String, String, String)> = args
            .at
            .chunks_exact(2)
            .map(|pair| (format!("--at {}", pair[0]), pair[0].clone(), pair[1].clone()))
            .collect();
        if let Some(path) = &args.plan {
            written.extend(lines_of(path)?);
        }
        if written.len() > MAX_STEPS {
            return Err(Failure::new(USAGE, format!("a plan has at most {MAX_STEPS} steps")));
        }
        let step = |(place, time, action): (String, String, String)| {
            let step = step(&place, &time, &action, links)?;
            Ok((step, place))
        };
        let mut steps = written.into_iter().map(step).collect::<Result<Vec<_>, Failure>>()?;
        // Steps at the same time keep the order in which they are written.
        steps.sort_by_key(|(step, _)| step.at);
        let (steps, places): (Vec<Step>, Vec<String>) = steps.into_iter().unzip();
        let files = Recorded::new(Disk);
        check(start, &steps, &files, |step, found| remark(&places[step], found))
            .map_err(|Wrong { step, refusal }| refused(&places[step], &refusal))?;
        Ok(Self { steps, places, files: files.into_contents() })
    }

    /// Starts a thread that carries the plan out. The times of the steps count from the start of
    /// the session, or from the time given to [`Changes::begin`]. Returns `None` if the plan has no
    /// steps.
    pub(crate) fn start(self, changes: &Changes) -> Option<Running> {
        if self.steps.is_empty() {
            return None;
        }
        let (stop, stopped) = channel::<()>();
        let changes = changes.clone();
        let thread = std::thread::Builder::new().name("weir-plan".to_owned()).spawn(move || {
            let total = self.steps.len();
            for (done, (step, place)) in self.steps.into_iter().zip(self.places).enumerate() {
                let wait = changes.until(step.at);
                if !matches!(stopped.recv_timeout(wait), Err(RecvTimeoutError::Timeout)) {
                    let left = total - done;
                    let (steps, were) = if left == 1 { ("step", "was") } else { ("steps", "were") };
                    return Some(format!("{left} {steps} of the plan {were} not reached"));
                }
                let link = step.link.as_deref();
                let result = match &step.words {
                    Some(words) => changes.change(link, words, &self.files),
                    None => changes.reset(link),
                };
                match result {
                    Ok(_) => {}
                    Err(Refusal::NoAnswer(_)) => {
                        return Some(format!("the links ended before {place}"));
                    }
                    // Another change may have altered the link so that these words are no longer
                    // valid.
                    Err(error) => {
                        return Some(format!("the plan ended at {place}: {error}"));
                    }
                }
            }
            None
        });
        Some(Running { stop: Some(stop), thread: thread.ok() })
    }
}

/// A plan that is being carried out. Dropping it ends the plan.
#[derive(Debug)]
pub(crate) struct Running {
    /// Dropping the sender ends the thread.
    stop: Option<Sender<()>>,
    /// The thread returns a note if a part of the plan was not carried out.
    thread: Option<JoinHandle<Option<String>>>,
}

impl Running {
    /// Ends the plan. Returns a note if a part of it was not carried out.
    pub(crate) fn finish(mut self) -> Option<String> {
        drop(self.stop.take());
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or_else(|_| Some("the plan panicked".to_owned())),
            None => Some("the plan was not carried out: no thread could be started".to_owned()),
        }
    }
}

/// Parses a step. `place` says where it is written.
fn step(place: &str, time: &str, action: &str, links: &[Link]) -> Result<Step, Failure> {
    let refuse = |why: &str| Failure::new(USAGE, format!("{place}: {why}"));
    let at = parse_time(time).map_err(|why| refuse(&why))?;
    Step::new(at, action, links).map_err(refuse)
}

/// The lines of a plan's file, each with its place, its time and its action.
fn lines_of(path: &Path) -> Result<Vec<(String, String, String)>, Failure> {
    let name = path.display().to_string();
    let text = Disk
        .read(&name)
        .map_err(|error| Failure::new(USAGE, format!("--plan {name}: cannot read it: {error}")))?;
    let step = |(number, time, action): (usize, &str, &str)| {
        (format!("{name}:{number}"), time.to_owned(), action.to_owned())
    };
    Ok(lines(&text).take(MAX_STEPS + 1).map(step).collect())
}

fn refused(place: &str, refusal: &Refusal) -> Failure {
    let text = match refusal {
        Refusal::Words(diagnostics) => {
            let shown = diagnostics.render(colour());
            format!("weir: {} cannot be used\n{}\n", printable(place), shown.trim_end())
        }
        other => format!("{place}: {other}"),
    };
    Failure::new(USAGE, text)
}

fn remark(place: &str, diagnostics: &Diagnostics) {
    let text = diagnostics.render(colour());
    say_coloured(format_args!("weir: about {}:\n{}\n", printable(place), text.trim_end()));
}

const MAX_STEPS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_step_is_named_with_its_place() {
        let links = ["up", "down"].map(|name| Link::new(name, weir_rules::LinkSpec::default()));
        for (time, action, why) in [
            ("10", "reset", "a time needs its unit"),
            ("soon", "reset", "here: "),
            ("1s", "", "say what to change"),
            ("1s", "down", "say what to change"),
        ] {
            let error = step("here", time, action, &links).unwrap_err().to_string();
            assert!(error.contains(why), "{time} {action}: {error}");
        }
        assert_eq!(step("here", "10s", "down loss 1%", &links).unwrap().at.as_secs(), 10);
    }
}
