//! Plans of the page: reading their text and checking their steps.

use std::time::Duration;

use weir_control::api::DiagnosticView;
use weir_control::dashboard::{LONGEST_PLAN, MOST_PLAN_TEXT, MOST_STEPS, PlanError, PlanStep};
use weir_core::Nanos;
use weir_rules::NoFiles;
use weir_rules::quantity::{self, QuantityError};

use crate::changes::Refusal;
use crate::plan::{Start, Step, Wrong, check, lines};
use crate::session::Link;

/// The steps of a plan, ordered by time, and at most [`MOST_REMARKS`] warnings and notes about
/// their words.
pub(super) fn read(
    text: &str,
    start: Start<'_>,
) -> Result<(Vec<PlanStep>, Vec<DiagnosticView>), PlanError> {
    if text.len() > MOST_PLAN_TEXT {
        let most = MOST_PLAN_TEXT >> 10;
        return Err(PlanError::Whole(format!("a plan has at most {most} KiB of text")));
    }
    let links: &[Link] = match start {
        Start::Links(links) => links,
        Start::Rules(_) => &[],
    };
    let mut steps: Vec<(usize, Step)> = Vec::new();
    for (line, time, action) in lines(text) {
        let wrong = |message: String| PlanError::Step { line, message, diagnostics: Vec::new() };
        if steps.len() >= MOST_STEPS {
            return Err(wrong(format!("a plan of the page has at most {MOST_STEPS} steps")));
        }
        let at = time_of(time).map_err(wrong)?;
        let step = Step::new(at, action, links).map_err(|why| wrong(why.to_owned()))?;
        steps.push((line, step));
    }
    if steps.is_empty() {
        let text = "a plan has a step in each line, such as `10s bw 1Mbit/s`";
        return Err(PlanError::Whole(text.to_owned()));
    }
    // Steps at the same time keep the order in which they are written.
    steps.sort_by_key(|(_, step)| step.at);
    let (line_of, steps): (Vec<usize>, Vec<Step>) = steps.into_iter().unzip();
    let mut remarks: Vec<DiagnosticView> = Vec::new();
    let done = check(start, &steps, &NoFiles, |position, diagnostics| {
        let line = line_of[position];
        remarks.extend(
            diagnostics.iter().map(|one| DiagnosticView { line, ..DiagnosticView::from(one) }),
        );
    });
    done.map_err(|Wrong { step, refusal }| refused(line_of[step], &refusal))?;
    remarks.truncate(MOST_REMARKS);
    let plan_step = |(step, line): (Step, usize)| {
        let Step { at, link, words } = step;
        PlanStep { at, link, words, line }
    };
    Ok((steps.into_iter().zip(line_of).map(plan_step).collect(), remarks))
}

fn time_of(text: &str) -> Result<Duration, String> {
    let most = Nanos(u64::try_from(LONGEST_PLAN.as_nanos()).unwrap_or(u64::MAX));
    let time = quantity::time_with_unit(text, most).map_err(|error| match error {
        QuantityError::Bare => {
            format!("a time needs its unit: {text} s is `{text}s`, {text} ms is `{text}ms`")
        }
        QuantityError::OutOfRange => "a plan takes at most 24 hours (86400s)".to_owned(),
        error => format!("`{text}` is no time: {error}; for example 30s or 500ms"),
    })?;
    Ok(Duration::from_nanos(time.0))
}

fn refused(line: usize, refusal: &Refusal) -> PlanError {
    match refusal {
        Refusal::Words(found) => {
            let mut diagnostics: Vec<DiagnosticView> = found.iter().map(Into::into).collect();
            let first = diagnostics.first().map(|one| one.message.clone()).unwrap_or_default();
            diagnostics.iter_mut().for_each(|one| one.line = line);
            PlanError::Step { line, message: first, diagnostics }
        }
        other => PlanError::Step { line, message: other.to_string(), diagnostics: Vec::new() },
    }
}

/// Maximum number of remarks that are shown.
const MOST_REMARKS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> [Link; 2] {
        ["up", "down"].map(|name| Link::new(name, weir_rules::LinkSpec::default()))
    }

    #[test]
    fn steps_are_sorted_by_time_and_keep_their_lines() {
        let links = links();
        let text = "20s reset\n5s down bw 1Mbit/s\n5s up loss 1%\n";
        let (steps, _) = read(text, Start::Links(&links)).unwrap();
        let told: Vec<_> =
            steps.iter().map(|step| (step.at.as_secs(), step.line, step.link.as_deref())).collect();
        assert_eq!(told, [(5, 2, Some("down")), (5, 3, Some("up")), (20, 1, None)]);
        assert_eq!(steps[2].words, None);
    }

    #[test]
    fn an_error_has_the_line_of_its_step_and_marks_the_wrong_word() {
        let links = links();
        for (text, line, part) in [
            ("10 reset", 1, "a time needs its unit: 10 s is `10s`"),
            ("1s reset\n\n2x reset", 3, "is no time"),
            ("1s down", 1, "say what to change"),
            ("1s bww 1Mbit/s", 1, "bww"),
            ("# nothing\n100000s reset", 2, "at most 24 hours"),
            ("1s trace \"/etc/passwd\"", 1, ""),
        ] {
            match read(text, Start::Links(&links)) {
                Err(PlanError::Step { line: found, message, .. }) => {
                    assert!(found == line && message.contains(part), "{text}: {found} {message}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        let wrong = read("1s down bww 1Mbit/s", Start::Links(&links)).unwrap_err();
        let PlanError::Step { diagnostics, .. } = wrong else { panic!("{wrong:?}") };
        let place = &diagnostics[0];
        assert_eq!(&place.text[place.start..place.end], "bww");
    }

    #[test]
    fn a_plan_is_bounded_and_not_empty() {
        let links = links();
        let whole = |text: &str| read(text, Start::Links(&links)).unwrap_err().to_string();
        assert!(whole("# nothing\n").contains("a step in each line"));
        assert!(whole(&"#".repeat(MOST_PLAN_TEXT + 1)).contains("at most 64 KiB"));
        assert!(whole(&"1s reset\n".repeat(MOST_STEPS + 1)).contains("at most 200 steps"));
    }

    #[test]
    fn a_step_is_checked_against_the_result_of_earlier_steps() {
        let rules = weir_rules::ruleset::Ruleset::default();
        let text = "1s add 100 pipe 1 ip from any to any\n2s delete 100\n3s delete 100";
        let error = read(text, Start::Rules(&rules)).unwrap_err();
        assert!(matches!(&error, PlanError::Step { line: 3, .. }), "{error}");
    }
}
