//! Changes a link by words of its language. The words replace the values that they name; all other
//! values stay.
//!
//! The parser starts from the link in force, so each keyword replaces its own value. Some keywords
//! share a value, and a change that names one of them replaces what another had set. `bw` and
//! `trace` both set the rate, except a `trace` that is a table without rates. `schedule` and a
//! `trace` that is a table both set the link's only table. A scheduler, an AQM and `droptail` all
//! set the management of the queue.

use weir_core::config::Capacity;

use crate::check;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::files::Files;
use crate::keyword::draft::Draft;
use crate::keyword::{BW, DROPTAIL, Group, Keyword, SCHED, SCHEDULE, TRACE};
use crate::link::LinkSpec;
use crate::parse;
use crate::spec::Checked;

/// Reads words that change the link `base`, and returns the changed link with all diagnostics. The
/// files that `base` names are not read again.
///
/// A text without words changes nothing.
pub fn check_change(base: &LinkSpec, text: &str, files: &dyn Files) -> Checked {
    let mut diagnostics = Diagnostics::default();
    let (mut draft, seen) = parse::parse_over(Draft::over(base.clone()), text, &mut diagnostics);
    if diagnostics.has_errors() {
        return Checked { spec: None, diagnostics };
    }
    let names = |name: &str| seen.iter().any(|(row, _)| row.name == name);
    let (rate, trace, schedule) = (names(BW.name), names(TRACE.name), names(SCHEDULE.name));
    if trace || schedule {
        make_room(&mut draft.spec, base, trace, schedule);
    }
    if rate && !trace && traces_rate(base) {
        forget_trace(&mut draft.spec);
    }
    let manages = |row: &Keyword| row.group == Group::Aqm || row.name == DROPTAIL.name;
    let (sched, aqm) = (names(SCHED.name), seen.iter().any(|(row, _)| manages(row)));
    if sched && !aqm {
        draft.spec.pipe.queue.aqm = None;
    } else if aqm && !sched {
        draft.spec.pipe.scheduler = None;
    }
    let mut spec = check::build(draft, text, files, &mut diagnostics);
    if trace && !rate && schedules_rate(&spec) {
        // The rates of the table replace the rate of the link.
        spec.pipe.link.capacity = Capacity::Unlimited;
    }
    if rate && !trace && !schedule && schedules_rate(&spec) {
        let span = seen.iter().find(|(row, _)| row.name == BW.name).map(|(_, span)| span.clone());
        let name = spec.files.schedule.as_deref().or(spec.files.trace.as_deref());
        let message = format!("the rates of `{}` stay in force", name.unwrap_or_default());
        let note = Diagnostic::new(Code::Overridden, text, span.unwrap_or_default(), message)
            .label("not used while the table has a rate")
            .help("name another table as well: `schedule FILE`");
        diagnostics.push(note);
    }
    let spec = (!diagnostics.has_errors()).then_some(spec);
    Checked { spec, diagnostics }
}

/// Removes the values of `base` that a new trace or schedule replaces.
fn make_room(spec: &mut LinkSpec, base: &LinkSpec, trace: bool, schedule: bool) {
    let old = base.files.trace.as_deref();
    let old_is_table = old.is_some_and(check::is_table);
    if trace && matches!(base.pipe.link.capacity, Capacity::Trace(_)) {
        spec.pipe.link.capacity = Capacity::Unlimited;
    }
    let brings_table = schedule || spec.files.trace.as_deref().is_some_and(check::is_table);
    if (trace && old_is_table) || brings_table {
        spec.pipe.link.schedule = None;
    }
    if schedule && old_is_table && !trace {
        spec.files.trace = None;
    }
    if trace && !schedule && brings_table {
        spec.files.schedule = None;
    }
}

/// Whether the rate of a link follows a trace.
fn traces_rate(spec: &LinkSpec) -> bool {
    let is_table = spec.files.trace.as_deref().is_some_and(check::is_table);
    matches!(spec.pipe.link.capacity, Capacity::Trace(_)) || (is_table && schedules_rate(spec))
}

fn schedules_rate(spec: &LinkSpec) -> bool {
    let schedule = spec.pipe.link.schedule.as_ref();
    schedule.is_some_and(|table| table.has_capacity())
}

fn forget_trace(spec: &mut LinkSpec) {
    if spec.files.trace.take().is_some_and(|name| check::is_table(&name)) {
        spec.pipe.link.schedule = None;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::files::NoFiles;
    use crate::print::canonical;
    use crate::spec::check_spec;

    fn files() -> BTreeMap<String, String> {
        [
            ("rates.csv", "time,rate\n0,3M\n1,1M\n2,\n"),
            ("delays.csv", "time,delay\n0,30\n1,10\n"),
            ("cell.up", "0\n4\n9\n"),
        ]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into()
    }

    /// The canonical form after a change, which reads back as the same link.
    fn changed(base: &str, words: &str) -> String {
        let files = files();
        let base = check_spec(base, &files).spec.expect("a specification");
        let Checked { spec, diagnostics } = check_change(&base, words, &files);
        let spec = spec.unwrap_or_else(|| panic!("{words}: {diagnostics}"));
        let text = canonical(&spec);
        let again = check_spec(&text, &files);
        let read = again.spec.unwrap_or_else(|| panic!("{text}: {}", again.diagnostics));
        assert_eq!(read, spec, "{text}");
        text
    }

    #[test]
    fn named_words_change_and_the_rest_stays() {
        let base = "bw 4Mbit/s delay 20ms loss 1% queue 50 aqm codel target=10ms";
        assert_eq!(
            changed(base, "loss 2% delay 80ms"),
            "bw 4Mbit/s delay 80ms loss 0.02 queue 50 aqm codel target 10ms"
        );
        assert_eq!(changed(base, "8M/5ms"), changed(base, "delay 5ms bw 8Mbit/s"));
        assert_eq!(changed(base, "droptail loss 0"), "bw 4Mbit/s delay 20ms queue 50");
        assert_eq!(changed(base, ""), changed(base, "bw 4Mbit/s"));
        assert_eq!(
            changed("bw 1Mbit/s mask src-ip 0xff", "mask dst-ip 0x0f"),
            "bw 1Mbit/s mask dst-ip 0x0000000f"
        );
        assert_eq!(changed("delay 9ms", "jitter 2ms"), "delay 9ms jitter 2ms");
    }

    #[test]
    fn rates_and_tables_replace_one_another() {
        assert_eq!(changed("trace cell.up delay 1ms", "bw 2Mbit/s"), "bw 2Mbit/s delay 1ms");
        assert_eq!(changed("trace rates.csv", "bw 2Mbit/s"), "bw 2Mbit/s");
        assert_eq!(changed("bw 2Mbit/s delay 1ms", "trace cell.up"), "trace cell.up delay 1ms");
        assert_eq!(changed("bw 2Mbit/s", "trace rates.csv"), "trace rates.csv");
        assert_eq!(changed("trace cell.up", "trace rates.csv"), "trace rates.csv");
        assert_eq!(changed("trace rates.csv", "trace cell.up"), "trace cell.up");
        assert_eq!(
            changed("bw 2Mbit/s trace delays.csv", "bw 3Mbit/s"),
            "bw 3Mbit/s trace delays.csv"
        );
        assert_eq!(changed("trace delays.csv", "schedule rates.csv"), "schedule rates.csv");
        assert_eq!(changed("schedule delays.csv", "trace rates.csv"), "trace rates.csv");
        assert_eq!(
            changed("schedule delays.csv bw 1Mbit/s", "loss 1%"),
            "bw 1Mbit/s schedule delays.csv loss 0.01"
        );
    }

    #[test]
    fn a_rate_that_a_table_overrides_is_reported() {
        let files = files();
        let base = check_spec("schedule rates.csv", &files).spec.expect("a specification");
        let change = |words| check_change(&base, words, &files).diagnostics.to_string();
        let warning = change("delay 1ms bw 3Mbit/s");
        assert!(warning.contains("the rates of `rates.csv` stay in force"), "{warning}");
        assert!(warning.contains("bw 3Mbit/s\n  |           ^^ not used"), "{warning}");
        assert_eq!(change("delay 1ms"), "");
        assert_eq!(change("bw 3Mbit/s schedule delays.csv"), "");
    }

    #[test]
    fn a_scheduler_and_an_aqm_replace_one_another() {
        let (codel, fq_codel) =
            ("bw 2Mbit/s queue 90 aqm codel", "bw 2Mbit/s queue 90 sched fq_codel");
        assert_eq!(changed(codel, "sched fq_codel"), fq_codel);
        assert_eq!(changed(fq_codel, "codel"), codel);
        assert_eq!(changed(fq_codel, "droptail"), "bw 2Mbit/s queue 90");
        assert_eq!(changed(fq_codel, "sched cake bw 1Mbit/s"), "bw 1Mbit/s queue 90 sched cake");
        assert_eq!(changed(fq_codel, "loss 1%"), "bw 2Mbit/s loss 0.01 queue 90 sched fq_codel");
        let base = check_spec(codel, &NoFiles).spec.expect("a specification");
        let both = check_change(&base, "sched fq_codel aqm pie", &NoFiles);
        assert!(both.spec.is_none(), "a change cannot name both");
    }

    #[test]
    fn files_of_the_link_in_force_are_not_read_again() {
        let base = check_spec("trace cell.up", &files()).spec.expect("a specification");
        let spec = check_change(&base, "delay 5ms", &NoFiles).spec.expect("a change");
        assert_eq!(canonical(&spec), "trace cell.up delay 5ms");
        assert_eq!(spec.pipe.link.capacity, base.pipe.link.capacity);
    }

    #[test]
    fn a_wrong_word_changes_nothing_and_hints_see_the_whole_link() {
        let base = check_spec("bw 4Mbit/s delay 20ms", &NoFiles).spec.expect("a specification");
        let refused = check_change(&base, "los 2%", &NoFiles);
        assert!(refused.spec.is_none() && refused.diagnostics.has_errors());
        let whole = check_change(&base, "jitter 5ms", &NoFiles);
        assert!(whole.diagnostics.is_empty(), "the link has a delay: {}", whole.diagnostics);
        let both = check_change(&base, "bw 1Mbit/s trace cell.up", &files());
        assert!(both.spec.is_none(), "a change cannot name both");
    }
}
