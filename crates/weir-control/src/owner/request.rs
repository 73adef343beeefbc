//! A parsed request: its commands, the diagnostics of its text, and the files that it contains.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use weir_core::dist::Distribution;
use weir_rules::command::{Command, NetConfigCommand, Spanned};
use weir_rules::ruleset::{Effect, Outcome, Query, Ruleset};
use weir_rules::{Budget, Files, Held, LinkSpec, ParsedFiles, SharedFiles, script};

use crate::api::{
    CommandOutcome, CommandReply, CommandRequest, DiagnosticView, OutcomeKind, SeverityView,
};
use crate::store::StoredFiles;

/// A request after parsing.
#[derive(Debug, Default)]
pub struct Prepared {
    commands: Vec<Spanned>,
    diagnostics: Vec<DiagnosticView>,
    /// Whether the text has errors.
    refused: bool,
    check_only: bool,
    /// The text of the request.
    lines: Arc<str>,
    name: Option<String>,
    /// The files of the request by the names that they have in the store.
    files: BTreeMap<String, String>,
    /// The part of the memory budget for values from files, which is released with the request.
    _held: Held,
    /// A value of the caller that is dropped with the request.
    _holding: Option<Box<dyn Debug + Send>>,
}

/// Effects of executing a request, in addition to its answer.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Whether the configuration has changed.
    pub(super) changed: bool,
    /// The rules with counters to reset.
    pub(super) zero: Vec<u32>,
    /// The queries, with the index of their command.
    pub(super) queries: Vec<(usize, Query)>,
    /// The number of warnings that the reply omits.
    omitted: usize,
}

impl Done {
    /// Adds an effect of the command at `place`. Moves the list of rules to reset out of `effect`.
    fn note(&mut self, effect: &mut Effect, place: usize) {
        match effect {
            Effect::Changed | Effect::Rule { .. } => self.changed = true,
            Effect::Zero(ids) => {
                self.zero.append(ids);
                *ids = Vec::new();
                if self.zero.len() > MOST_ZERO {
                    // Several commands may name the same rules.
                    self.zero.sort_unstable();
                    self.zero.dedup();
                }
            }
            Effect::Query(query) => self.queries.push((place, query.clone())),
            Effect::Nothing => {}
        }
    }
}

/// The files of a request. For a file that the request does not contain, the stored file is read.
struct Sources<'a> {
    sent: &'a BTreeMap<String, String>,
    stored: &'a dyn Files,
    /// Paths that name a stored file and are not relative to the state directory, each with the
    /// name of the stored file.
    elsewhere: RefCell<BTreeMap<String, String>>,
}

impl Files for Sources<'_> {
    fn read(&self, path: &str) -> std::io::Result<String> {
        Ok(self.read_quotable(path)?.0)
    }

    fn read_quotable(&self, path: &str) -> std::io::Result<(String, bool)> {
        if let Some(content) = self.sent.get(path) {
            // The client has sent this file, so messages may quote it.
            return Ok((content.clone(), true));
        }
        let read = self.stored.read_quotable(path)?;
        match StoredFiles::stored_name(path) {
            Some(name) if name != path => {
                self.elsewhere.borrow_mut().insert(path.to_owned(), name);
            }
            _ => {}
        }
        Ok(read)
    }
}

impl Prepared {
    /// Parses a request. `stored` has the files that the request does not contain. The values from
    /// files take their memory from `budget`.
    pub(super) fn new(request: &CommandRequest, stored: &dyn Files, budget: &Arc<Budget>) -> Self {
        let name = request.name.as_deref().unwrap_or("script");
        let sources = Sources { sent: &request.files, stored, elsewhere: RefCell::default() };
        let values = ParsedFiles::within(budget);
        let shared = SharedFiles::new(&sources, &values);
        let parsed = script::parse(&request.script, name, &shared);
        if parsed.commands.len() > MOST_COMMANDS {
            let message = format!("a request has up to {MOST_COMMANDS} commands: send it in parts");
            return Self {
                diagnostics: vec![refusal(request.name.clone(), message)],
                refused: true,
                ..Self::default()
            };
        }
        let mut stored_names = sources.elsewhere.into_inner();
        let mut files = BTreeMap::new();
        for (name, content) in &request.files {
            let stored_name = StoredFiles::name_of(name, content);
            stored_names.insert(name.clone(), stored_name.clone());
            files.insert(stored_name, content.clone());
        }
        let mut commands = parsed.commands;
        if !stored_names.is_empty() {
            let mut renamed = Renamed::default();
            for spanned in &mut commands {
                rename(&mut spanned.command, &stored_names, &mut renamed);
            }
        }
        Self {
            commands,
            refused: parsed.diagnostics.has_errors(),
            diagnostics: parsed
                .diagnostics
                .iter()
                .take(MOST_DIAGNOSTICS)
                .map(DiagnosticView::from)
                .collect(),
            check_only: request.check_only,
            lines: request.script.as_str().into(),
            name: request.name.clone(),
            files,
            _held: values.into_held(),
            _holding: None,
        }
    }

    /// The request with a value, such as a part of a budget, that is dropped together with it.
    pub(crate) fn holding(self, value: impl Debug + Send + 'static) -> Self {
        Self { _holding: Some(Box::new(value)), ..self }
    }

    /// A request that is refused unread, because its script is longer than [`MOST_SCRIPT`].
    pub(super) fn too_long(request: &CommandRequest) -> Self {
        let message = format!(
            "the script has {} bytes, and up to {} MiB are allowed: send it in parts",
            request.script.len(),
            MOST_SCRIPT >> 20
        );
        Self {
            diagnostics: vec![refusal(request.name.clone(), message)],
            refused: true,
            check_only: request.check_only,
            name: request.name.clone(),
            ..Self::default()
        }
    }

    /// The files that the request contains, with their names in the store.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(name, content)| (name.as_str(), content.as_str()))
    }

    /// Executes the commands on a configuration, all or none.
    pub(super) fn execute(&self, ruleset: &mut Ruleset) -> (CommandReply, Done) {
        self.execute_within(ruleset, Bounds::default())
    }

    fn execute_within(&self, ruleset: &mut Ruleset, bounds: Bounds) -> (CommandReply, Done) {
        let mut reply =
            CommandReply { diagnostics: self.diagnostics.clone(), ..CommandReply::default() };
        let mut done = Done::default();
        if self.refused {
            return (reply, done);
        }
        let mut trial = ruleset.clone();
        let mut outcomes = Vec::with_capacity(self.commands.len());
        let (mut cost, mut warnings) = (0u64, 0);
        for spanned in &self.commands {
            cost = cost.saturating_add(trial.cost(&spanned.command));
            if cost > bounds.cost {
                reply.diagnostics.push(self.refusal(spanned, TOO_COSTLY.to_owned()));
                break;
            }
            match trial.apply(&spanned.command) {
                Ok(mut outcome) => {
                    cost = cost.saturating_add(outcome.cost());
                    done.note(&mut outcome.effect, outcomes.len());
                    warnings += outcome.warnings.len();
                    if warnings > bounds.warnings {
                        done.omitted += outcome.warnings.len();
                        outcome.warnings = Vec::new();
                    }
                    outcomes.push((spanned, outcome));
                }
                Err(error) => {
                    reply.diagnostics.push(self.refusal(spanned, error.to_string()));
                    break;
                }
            }
        }
        let mut all = outcomes.len() == self.commands.len();
        if all && let Err((index, error)) = trial.share_files(&self.commands) {
            reply.diagnostics.push(self.refusal(&self.commands[index], error.to_string()));
            outcomes.truncate(index);
            all = false;
        }
        reply.outcomes.extend(outcomes.into_iter().map(|(spanned, mut outcome)| {
            outcome.settle(&trial);
            describe(spanned, &outcome)
        }));
        if self.check_only || !all {
            return (reply, Done::default());
        }
        *ruleset = trial;
        if done.omitted > 0 {
            let notice = format!("{} further warnings are not listed", done.omitted);
            reply.notices.push(notice);
        }
        reply.applied = true;
        (reply, done)
    }

    /// The diagnostic of a refused command.
    fn refusal(&self, spanned: &Spanned, message: String) -> DiagnosticView {
        let (start, end) =
            (spanned.span.start.min(self.lines.len()), spanned.span.end.min(self.lines.len()));
        let first =
            self.lines.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let text = self.lines.get(first..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        DiagnosticView {
            severity: SeverityView::Error,
            code: "refused".to_owned(),
            message,
            file: self.name.clone(),
            line: spanned.line,
            text: text.to_owned(),
            start: start - first,
            end: (end - first).min(text.len()),
            label: String::new(),
            help: Vec::new(),
        }
    }
}

fn describe(spanned: &Spanned, outcome: &Outcome) -> CommandOutcome {
    let mut rule = None;
    let result = match &outcome.effect {
        Effect::Nothing => OutcomeKind::Nothing,
        Effect::Changed => OutcomeKind::Changed,
        Effect::Zero(_) => OutcomeKind::Zeroed,
        Effect::Rule { number, .. } => {
            rule = Some(*number);
            OutcomeKind::Changed
        }
        Effect::Query(_) => OutcomeKind::Query,
    };
    let warnings = outcome.warnings.iter().map(ToString::to_string).collect();
    CommandOutcome {
        line: spanned.line,
        command: script::print(&spanned.command),
        result,
        rule,
        answer: None,
        warnings,
    }
}

/// Distributions that have the names of their stored copies. The keys are the client's names.
type Renamed = BTreeMap<String, Arc<Distribution>>;

/// Replaces the file names in a command by the names of the stored copies. All uses of a
/// distribution share one copy with the new name.
fn rename(command: &mut Command, stored_names: &BTreeMap<String, String>, renamed: &mut Renamed) {
    let mut rename_link = |link: &mut LinkSpec| {
        let names = &mut link.files;
        for name in
            [&mut names.profile, &mut names.trace, &mut names.schedule].into_iter().flatten()
        {
            if let Some(stored_name) = stored_names.get(name.as_str()) {
                name.clone_from(stored_name);
            }
        }
        let Some(jitter) = &mut link.pipe.link.jitter else { return };
        let name = jitter.distribution.name();
        if let Some(known) = renamed.get(name) {
            jitter.distribution = Arc::clone(known);
        } else if let Some(stored_name) = stored_names.get(name)
            && let Ok(other) =
                Distribution::from_table(stored_name.clone(), jitter.distribution.table().to_vec())
        {
            let other = Arc::new(other);
            renamed.insert(name.to_owned(), Arc::clone(&other));
            jitter.distribution = other;
        }
    };
    match command {
        Command::ConfigPipe(_, link) => rename_link(link),
        Command::ConfigSched(_, sched) => rename_link(&mut sched.link),
        Command::NetConfig(NetConfigCommand::Config(config)) => {
            rename_link(&mut config.inbound);
            rename_link(&mut config.outbound);
        }
        _ => {}
    }
}

/// An error about a request as a whole.
fn refusal(file: Option<String>, message: String) -> DiagnosticView {
    DiagnosticView {
        severity: SeverityView::Error,
        code: "too-much".to_owned(),
        message,
        file,
        line: 1,
        text: String::new(),
        start: 0,
        end: 0,
        label: String::new(),
        help: Vec::new(),
    }
}

/// Maximum length of a request's script, in bytes. A parsed script takes up to 50 times as much
/// memory.
pub(crate) const MOST_SCRIPT: usize = 16 << 20;
/// Maximum number of commands in a request.
const MOST_COMMANDS: usize = 500_000;
/// Bounds of the execution of a request.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Maximum cost of the commands (see [`Ruleset::cost`]).
    cost: u64,
    /// The number of warnings after which those of further commands are only counted.
    warnings: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        // About ten seconds of work.
        Self { cost: 1 << 33, warnings: 100_000 }
    }
}

/// The refusal of a command that costs too much.
const TOO_COSTLY: &str = "the commands up to this one visit too many rules and objects for one \
                          request: send them in parts, or use ranges of numbers";
/// When there are more rules to reset than this, duplicates are removed.
const MOST_ZERO: usize = 1 << 20;
/// Maximum number of diagnostics in a reply.
const MOST_DIAGNOSTICS: usize = 100;

#[cfg(test)]
mod tests {
    use weir_rules::NoFiles;

    use super::*;

    fn prepared(script: &str) -> Prepared {
        let request = CommandRequest { script: script.to_owned(), ..CommandRequest::default() };
        Prepared::new(&request, &NoFiles, &Arc::default())
    }

    #[test]
    fn commands_that_cost_too_much_are_refused_before_they_run() {
        let rules: String =
            (1..=1000).map(|n| format!("add {n} allow ip from any to any\n")).collect();
        let mut ruleset = Ruleset::default();
        let most = Bounds { cost: 1_000_000, ..Bounds::default() };
        assert!(prepared(&rules).execute_within(&mut ruleset, most).0.applied);
        let before = ruleset.clone();
        for line in ["zero", "show", "set move 1 to 2", "zero 1 2 3 4 5"] {
            let text = format!("{line}\n").repeat(1100);
            let (reply, done) = prepared(&text).execute_within(&mut ruleset, most);
            assert!(!reply.applied && done.zero.is_empty() && done.queries.is_empty(), "{line}");
            assert!(reply.diagnostics[0].message.contains("in parts"), "{:?}", reply.diagnostics);
            assert!(reply.diagnostics[0].line > 1, "the first line is allowed");
            assert_eq!(ruleset, before);
        }
    }

    #[test]
    fn rules_that_are_reset_many_times_are_kept_once() {
        let mut done = Done::default();
        for _ in 0..50 {
            let mut effect = Effect::Zero((0..60_000).collect());
            done.note(&mut effect, 0);
            assert_eq!(effect, Effect::Zero(Vec::new()), "the outcome keeps no rules");
            assert!(done.zero.len() <= MOST_ZERO);
        }
        done.zero.sort_unstable();
        done.zero.dedup();
        assert_eq!(done.zero, (0..60_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_request_holds_its_part_of_the_budget_until_it_is_dropped() {
        let part = Arc::new(());
        let request = prepared("pipe 1 config bw 1M\n").holding(Arc::clone(&part));
        assert!(request.execute(&mut Ruleset::default()).0.applied);
        assert_eq!(Arc::strong_count(&part), 2);
        drop(request);
        assert_eq!(Arc::strong_count(&part), 1);
    }

    #[test]
    fn further_warnings_are_counted() {
        let text: String =
            (1..=50).map(|n| format!("add {n} pipe {n} ip from any to any\n")).collect();
        let few = Bounds { warnings: 20, ..Bounds::default() };
        let (reply, _) = prepared(&text).execute_within(&mut Ruleset::default(), few);
        let listed: usize = reply.outcomes.iter().map(|outcome| outcome.warnings.len()).sum();
        assert_eq!(
            (listed, &reply.notices[..]),
            (20, &["30 further warnings are not listed".to_owned()][..])
        );
    }
}
