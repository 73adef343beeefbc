//! The timed plan of a run: `--at TIME ACTION` and `--plan FILE`. A plan is checked before anything
//! starts; a thread of its own carries it out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_live::changes::{Changed, Changes, Refusal, changed, changed_rules, named, names_links};
use weir_live::{Emulation, Link};
use weir_rules::ruleset::Ruleset;
use weir_rules::{Diagnostics, Files as _};
use weir_sim::disk::Disk;

use crate::args::{PlanArgs, parse_time};
use crate::files::Recorded;
use crate::output::{Failure, USAGE, colour, say};

/// The steps of a plan, in the order of their times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    steps: Vec<Step>,
    /// The contents of the files that the steps name.
    files: BTreeMap<String, String>,
}

/// A change, with its time after the start of the links.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    at: Duration,
    /// The link; `None` for all links.
    link: Option<String>,
    /// The words of the change; `None` resets the link to its first configuration.
    words: Option<String>,
    /// Where the step is written, for messages.
    place: String,
}

impl Plan {
    /// Reads the plan of a command, and checks each step against the links or rules that the steps
    /// before it lead to.
    pub(crate) fn read(args: &PlanArgs, emulation: &Emulation) -> Result<Self, Failure> {
        match emulation {
            Emulation::Links(links) => Self::of_links(args, links.as_slice()),
            Emulation::Rules { ruleset, .. } => {
                Self::checked(args, &[], |steps, files| check_rules(steps, ruleset, files))
            }
            Emulation::Lanes(lanes) => {
                let links: Vec<Link> = lanes.links.iter().map(|named| named.link.clone()).collect();
                Self::of_links(args, &links)
            }
        }
    }

    /// Does the same for a session with these links.
    pub(crate) fn of_links(args: &PlanArgs, links: &[Link]) -> Result<Self, Failure> {
        Self::checked(args, links, |steps, files| check_links(steps, links, files))
    }

    fn checked(
        args: &PlanArgs,
        links: &[Link],
        check: impl FnOnce(&[Step], &Recorded<Disk>) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
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
            Step::new(place, &time, &action, links)
        };
        let mut steps = written.into_iter().map(step).collect::<Result<Vec<_>, _>>()?;
        // Steps at the same time keep the order in which they are written.
        steps.sort_by_key(|step| step.at);
        let files = Recorded::new(Disk);
        check(&steps, &files)?;
        Ok(Self { steps, files: files.into_contents() })
    }

    /// Carries the plan out from now on; `None` if it has no steps.
    pub(crate) fn start(self, changes: &Changes) -> Option<Running> {
        if self.steps.is_empty() {
            return None;
        }
        let (stop, stopped) = channel::<()>();
        let changes = changes.clone();
        let thread = std::thread::Builder::new().name("weir-plan".to_owned()).spawn(move || {
            let total = self.steps.len();
            for (done, step) in self.steps.into_iter().enumerate() {
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
                        return Some(format!("the links ended before {}", step.place));
                    }
                    // Another change may have altered the link so that these words are no longer
                    // valid.
                    Err(error) => {
                        return Some(format!("the plan ended at {}: {error}", step.place));
                    }
                }
            }
            None
        });
        Some(Running { stop: Some(stop), thread: thread.ok() })
    }
}

/// A plan that is being carried out. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    stop: Option<Sender<()>>,
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

impl Step {
    fn new(place: String, time: &str, action: &str, links: &[Link]) -> Result<Self, Failure> {
        let refuse = |why: &str| Failure::new(USAGE, format!("{place}: {why}"));
        let at = parse_time(time).map_err(|why| refuse(&why))?;
        let action = action.trim();
        let (first, rest) = action.split_once(char::is_whitespace).unwrap_or((action, ""));
        let (link, words) = if names_links(links, first) {
            (Some(first.to_owned()), rest.trim())
        } else {
            (None, action)
        };
        if words.is_empty() {
            return Err(refuse("say what to change, such as `down bw 1Mbit/s`, or `reset`"));
        }
        let words = (words != "reset").then(|| words.to_owned());
        Ok(Self { at, link, words, place })
    }
}

/// The lines of a plan's file, each with its place, its time and its action.
fn lines_of(path: &Path) -> Result<Vec<(String, String, String)>, Failure> {
    let name = path.display().to_string();
    let text = Disk
        .read(&name)
        .map_err(|error| Failure::new(USAGE, format!("--plan {name}: cannot read it: {error}")))?;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        // A quoted file name may contain `#`.
        let line = if line.contains('"') { line } else { line.split('#').next().unwrap_or("") };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (time, action) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        lines.push((format!("{name}:{number}"), time.to_owned(), action.to_owned()));
        if lines.len() > MAX_STEPS {
            break;
        }
    }
    Ok(lines)
}

fn check_links(steps: &[Step], start: &[Link], files: &Recorded<Disk>) -> Result<(), Failure> {
    let mut links = start.to_vec();
    for step in steps {
        let Some(words) = &step.words else {
            let back =
                named(start, step.link.as_deref()).map_err(|refusal| refused(step, &refusal))?;
            replace(&mut links, back.into_iter().cloned());
            continue;
        };
        let Changed { links: new, diagnostics, .. } =
            changed(&links, step.link.as_deref(), words, files)
                .map_err(|refusal| refused(step, &refusal))?;
        remark(step, &diagnostics);
        replace(&mut links, new);
    }
    Ok(())
}

fn replace(links: &mut [Link], new: impl IntoIterator<Item = Link>) {
    for link in new {
        if let Some(old) = links.iter_mut().find(|old| old.name == link.name) {
            *old = link;
        }
    }
}

fn check_rules(steps: &[Step], start: &Ruleset, files: &Recorded<Disk>) -> Result<(), Failure> {
    let mut rules = start.clone();
    for step in steps {
        let Some(words) = &step.words else {
            rules = start.clone();
            continue;
        };
        let (new, _, diagnostics) =
            changed_rules(&rules, words, files).map_err(|refusal| refused(step, &refusal))?;
        remark(step, &diagnostics);
        rules = new;
    }
    Ok(())
}

fn refused(step: &Step, refusal: &Refusal) -> Failure {
    let text = match refusal {
        Refusal::Words(diagnostics) => format!(
            "weir: {} cannot be used\n{}\n",
            step.place,
            diagnostics.render(colour()).trim_end()
        ),
        other => format!("{}: {other}", step.place),
    };
    Failure::new(USAGE, text)
}

fn remark(step: &Step, diagnostics: &Diagnostics) {
    if !diagnostics.is_empty() {
        let text = diagnostics.render(colour());
        say(format_args!("weir: about {}:\n{}\n", step.place, text.trim_end()));
    }
}

/// Maximum number of steps of a plan.
const MAX_STEPS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn step(time: &str, action: &str) -> Result<Step, String> {
        let links = ["up", "down"].map(|name| Link::new(name, weir_rules::LinkSpec::default()));
        Step::new("here".to_owned(), time, action, &links).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_step_has_a_time_a_link_and_words() {
        let down = step("10s", "down  bw 1Mbit/s loss 2%").unwrap();
        assert_eq!(down.at, Duration::from_secs(10));
        assert_eq!(down.link.as_deref(), Some("down"));
        assert_eq!(down.words.as_deref(), Some("bw 1Mbit/s loss 2%"));
        let all = step("500ms", "reset").unwrap();
        assert_eq!((all.link, all.words), (None, None));
        assert_eq!(step("1s", "up reset").unwrap().link.as_deref(), Some("up"));
        assert_eq!(step("1s", "up,down loss 1%").unwrap().link.as_deref(), Some("up,down"));
        for (time, action, why) in [
            ("10", "reset", "a time needs its unit"),
            ("soon", "reset", "here: "),
            ("1s", "", "say what to change"),
            ("1s", "down", "say what to change"),
        ] {
            let error = step(time, action).unwrap_err();
            assert!(error.contains(why), "{time} {action}: {error}");
        }
    }
}
