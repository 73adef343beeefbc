//! Timed plans: the steps of `--plan`, `--at` and of the page, and their check. A step is a change
//! of links or rules at a time after the start. Each step is checked against the configuration that
//! the steps before it produce.

use std::time::Duration;

use weir_rules::ruleset::Ruleset;
use weir_rules::{Diagnostics, Files};

use crate::changes::{Changed, Refusal, changed, changed_rules, named, names_links};
use crate::session::Link;

/// A change at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time after the start.
    pub at: Duration,
    /// The links, with commas between their names; `None` for all links, and for rules.
    pub link: Option<String>,
    /// The words of the change; `None` for a return to the start.
    pub words: Option<String>,
}

impl Step {
    /// A step from its action, which may begin with the names of links.
    ///
    /// # Errors
    /// The action does not say what to change.
    pub fn new(at: Duration, action: &str, links: &[Link]) -> Result<Self, &'static str> {
        let action = action.trim();
        let (first, rest) = action.split_once(char::is_whitespace).unwrap_or((action, ""));
        let (link, words) = if names_links(links, first) {
            (Some(first.to_owned()), rest.trim())
        } else {
            (None, action)
        };
        if words.is_empty() {
            return Err("say what to change, such as `down bw 1Mbit/s`, or `reset`");
        }
        let words = (words != "reset").then(|| words.to_owned());
        Ok(Self { at, link, words })
    }
}

/// The lines of a plan that have a step, each with its number, its time and its action.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        // A quoted file name may contain `#`.
        let line = if line.contains('"') { line } else { line.split('#').next().unwrap_or("") };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (time, action) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        Some((number, time, action.trim()))
    })
}

/// The configuration with which a plan begins, and to which `reset` returns.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// Links.
    Links(&'a [Link]),
    /// Rules.
    Rules(&'a Ruleset),
}

/// A step that cannot be made.
#[derive(Debug)]
pub struct Wrong {
    /// The position of the step among all steps.
    pub step: usize,
    /// The reason.
    pub refusal: Refusal,
}

/// Checks steps in the order in which they are made. `remark` gets the position of a step, with the
/// warnings and notes about its words.
///
/// # Errors
/// The first step that cannot be made.
pub fn check(
    start: Start<'_>,
    steps: &[Step],
    files: &dyn Files,
    mut remark: impl FnMut(usize, &Diagnostics),
) -> Result<(), Wrong> {
    let mut tell = |step: usize, diagnostics: &Diagnostics| {
        if !diagnostics.is_empty() {
            remark(step, diagnostics);
        }
    };
    match start {
        Start::Links(start) => {
            let mut links = start.to_vec();
            for (position, step) in steps.iter().enumerate() {
                let wrong = |refusal| Wrong { step: position, refusal };
                let link = step.link.as_deref();
                let new = match &step.words {
                    None => named(start, link).map_err(wrong)?.into_iter().cloned().collect(),
                    Some(words) => {
                        let Changed { links, diagnostics, .. } =
                            changed(&links, link, words, files).map_err(wrong)?;
                        tell(position, &diagnostics);
                        links
                    }
                };
                replace(&mut links, new);
            }
        }
        Start::Rules(start) => {
            let mut rules = start.clone();
            for (position, step) in steps.iter().enumerate() {
                let Some(words) = &step.words else {
                    rules = start.clone();
                    continue;
                };
                let (new, _, diagnostics) = changed_rules(&rules, words, files)
                    .map_err(|refusal| Wrong { step: position, refusal })?;
                tell(position, &diagnostics);
                rules = new;
            }
        }
    }
    Ok(())
}

/// Replaces links by the new links with the same names.
fn replace(links: &mut [Link], new: Vec<Link>) {
    for link in new {
        if let Some(old) = links.iter_mut().find(|old| old.name == link.name) {
            *old = link;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_a_time_a_link_and_words() {
        let links = ["up", "down"].map(|name| Link::new(name, weir_rules::LinkSpec::default()));
        let step = |action: &str| Step::new(Duration::from_secs(10), action, &links);
        let down = step("down  bw 1Mbit/s loss 2%").unwrap();
        assert_eq!(down.at, Duration::from_secs(10));
        assert_eq!(down.link.as_deref(), Some("down"));
        assert_eq!(down.words.as_deref(), Some("bw 1Mbit/s loss 2%"));
        let all = step("reset").unwrap();
        assert_eq!((all.link, all.words), (None, None));
        assert_eq!(step("up reset").unwrap().link.as_deref(), Some("up"));
        assert_eq!(step("up,down loss 1%").unwrap().link.as_deref(), Some("up,down"));
        for action in ["", "down"] {
            assert!(step(action).unwrap_err().contains("say what to change"));
        }
    }

    #[test]
    fn a_plan_has_lines_with_comments() {
        let text = "# first\n10s down bw 1Mbit/s # slower\n\n 20s\treset\n30s trace \"a#b\"\n40s";
        assert_eq!(
            lines(text).collect::<Vec<_>>(),
            [
                (2, "10s", "down bw 1Mbit/s"),
                (4, "20s", "reset"),
                (5, "30s", "trace \"a#b\""),
                (6, "40s", "")
            ]
        );
    }
}
