//! Changes of a running session, from its control socket, its web page or a timed plan. A change is
//! the words of a specification or, with rules, commands in their language.
//!
//! Changes are made one after another, so two clients that change different words of a link at the
//! same time both succeed. Every change is noted, or counted if there are many, because results are
//! misleading without the changes that led to them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_control::dashboard::{ChangeView, EditError, Log, differences};
use weir_linux::clock;
use weir_linux::live::NoAnswer;
use weir_rules::ruleset::{Effect, Outcome, Ruleset};
use weir_rules::{Diagnostics, Files, LinkSpec, canonical, check_change, script};

use crate::session::{ChangeError, Control, Link};

/// Changes the links or rules of one session. Clones change the same session.
#[derive(Clone, Debug)]
pub struct Changes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    control: Control,
    /// The links as they were at the start.
    start: Vec<Link>,
    /// The rules as they were at the start; `None` if the session has links.
    rules: Option<Arc<Ruleset>>,
    /// The links in force. This copy can be read without waiting for the thread that moves packets.
    current: Mutex<Vec<Link>>,
    /// The moment from which the times in notes and plans count.
    began: Mutex<Instant>,
    /// Locked during a change, so that simultaneous changes do not overwrite one another.
    noted: Mutex<Noted>,
}

/// The changes so far.
#[derive(Debug, Default)]
struct Noted {
    notes: Vec<String>,
    /// Number of changes without a note.
    more: u64,
    log: Log<Saved>,
}

/// The result of a change, or of its check.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// The links that were named, with their new specifications; empty with rules.
    pub links: Vec<Link>,
    /// Warnings and notes about the words.
    pub diagnostics: Diagnostics,
    /// The commands in canonical form; empty if the change was not made by commands.
    pub commands: Vec<String>,
    /// The number of the change in [`Changes::log`]; `None` if nothing changed.
    pub number: Option<u64>,
}

/// A configuration to which a session can return.
#[derive(Clone, Debug)]
pub enum Saved {
    /// Links.
    Links(Vec<Link>),
    /// Rules.
    Rules(Arc<Ruleset>),
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The words are wrong.
    #[error("{}", .0.render(false).trim_end())]
    Words(Diagnostics),
    /// There is no link with this name.
    #[error("there is no link {name}; {}", known_links(.known))]
    NoSuchLink {
        /// The requested name.
        name: String,
        /// The names of the existing links.
        known: Vec<String>,
    },
    /// The change is impossible while the session runs.
    #[error("{0}")]
    Impossible(String),
    /// The live loop has ended or did not answer in time. A loop that works again later takes the
    /// change.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

/// The names of links as words: `there are up, down`.
#[must_use]
pub fn known_links(names: &[String]) -> String {
    match names {
        [] => "the session has rules and no links".to_owned(),
        [one] => format!("there is {one}"),
        several => format!("there are {}", several.join(", ")),
    }
}

impl Changes {
    /// The changes of a session that has just started: its current links or rules are those to
    /// which [`Self::reset`] returns.
    #[must_use]
    pub fn new(control: &Control) -> Self {
        let start = control.current_links();
        Self(Arc::new(Inner {
            current: Mutex::new(start.clone()),
            rules: if start.is_empty() { control.rules() } else { None },
            start,
            control: control.clone(),
            began: Mutex::new(Instant::now()),
            noted: Mutex::default(),
        }))
    }

    /// The control of the session.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.0.control
    }

    /// Whether changes are commands of the rules' language, because rules select the path of each
    /// packet.
    #[must_use]
    pub fn by_rules(&self) -> bool {
        self.0.start.is_empty()
    }

    /// The links with the specifications in force. The call never waits for the thread that moves
    /// packets.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        self.current().clone()
    }

    /// Lets all times count from `at`, which may be in the future. Without a call, they count from
    /// [`Self::new`].
    pub fn begin(&self, at: Instant) {
        *self.0.began.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Time since the start of the session; zero before.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(self.began())
    }

    /// The time until the session has run for `at`; zero after that.
    #[must_use]
    pub fn until(&self, at: Duration) -> Duration {
        (self.began() + at).saturating_duration_since(Instant::now())
    }

    /// Changes a link, or all links if `link` is `None`: the words replace the settings that they
    /// name; all other settings stay. `link` may be several names with commas between them. With
    /// rules, `words` are commands, and `link` must be `None`.
    ///
    /// # Errors
    /// See [`Refusal`]. After an error nothing has changed, except perhaps after
    /// [`Refusal::NoAnswer`].
    pub fn change(
        &self,
        link: Option<&str>,
        words: &str,
        files: &dyn Files,
    ) -> Result<Changed, Refusal> {
        let mut noted = self.noted();
        if self.by_rules() {
            return self.change_rules(link, words, files, &mut noted);
        }
        let changed = changed(&self.links(), link, words, files)?;
        self.put(changed, &mut noted, None)
    }

    /// Checks a change without making it: the result has the links as they would be.
    ///
    /// # Errors
    /// As with [`Self::change`].
    pub fn check(
        &self,
        link: Option<&str>,
        words: &str,
        files: &dyn Files,
    ) -> Result<Changed, Refusal> {
        if !self.by_rules() {
            return changed(&self.links(), link, words, files);
        }
        let (_, _, diagnostics) = changed_rules(&*self.rules(link)?, words, files)?;
        Ok(Changed {
            diagnostics,
            commands: canonical_commands(words, files),
            ..Changed::default()
        })
    }

    /// Takes back the change with this number, which must be the newest change still in force.
    ///
    /// # Errors
    /// Another change is the newest, or no change is in force. The inner result is that of
    /// [`Self::change`].
    pub fn undo(&self, number: u64) -> Result<Result<Changed, Refusal>, EditError> {
        let mut noted = self.noted();
        let before = noted.log.undoable(number)?.1.clone();
        let done = match before {
            Saved::Links(links) => {
                self.put(Changed { links, ..Changed::default() }, &mut noted, Some(number))
            }
            Saved::Rules(rules) => {
                self.put_rules(&rules, "before the last change", &mut noted, Some(number))
            }
        };
        if done.is_ok() {
            noted.log.undone(number);
        }
        Ok(done)
    }

    /// The number of changes so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.noted().log.count()
    }

    /// The changes with numbers above `after`, and the number of changes that are no longer kept.
    #[must_use]
    pub fn log(&self, after: u64) -> (Vec<ChangeView>, u64) {
        self.noted().log.after(after)
    }

    /// Restores a link, or all links if `link` is `None`, as it was at the start of the session.
    /// With rules, this restores all rules, and `link` must be `None`.
    ///
    /// # Errors
    /// As with [`Self::change`].
    pub fn reset(&self, link: Option<&str>) -> Result<Changed, Refusal> {
        let mut noted = self.noted();
        if self.by_rules() {
            return self.reset_rules(link, &mut noted);
        }
        let links = named(&self.0.start, link)?.into_iter().cloned().collect();
        self.put(Changed { links, ..Changed::default() }, &mut noted, None)
    }

    /// The configuration in force.
    ///
    /// # Errors
    /// The session has neither links nor rules.
    pub fn saved(&self) -> Result<Saved, Refusal> {
        if self.by_rules() {
            Ok(Saved::Rules(self.rules(None)?))
        } else {
            Ok(Saved::Links(self.links()))
        }
    }

    /// Restores a link, or all links if `link` is `None`, as saved at the start of a plan. With
    /// rules, this restores all rules, and `link` must be `None`.
    ///
    /// # Errors
    /// As with [`Self::change`].
    pub fn restore(&self, saved: &Saved, link: Option<&str>) -> Result<Changed, Refusal> {
        let mut noted = self.noted();
        match saved {
            Saved::Links(links) => {
                let links = named(links, link)?.into_iter().cloned().collect();
                self.put(Changed { links, ..Changed::default() }, &mut noted, None)
            }
            Saved::Rules(rules) => {
                self.rules(link)?;
                self.put_rules(rules, "of the start of the plan", &mut noted, None)
            }
        }
    }

    /// Notes for the results: one for each of the first [`MOST_NOTED`] changes, in order, and one
    /// with the number of further changes. A change of several links counts once for each link.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let noted = self.noted();
        let mut notes = noted.notes.clone();
        if noted.more > 0 {
            notes.push(format!("and {} more changes while it ran", noted.more));
        }
        notes
    }

    /// Puts changed links in force, and notes the change. `undoes` is the number of the change that
    /// this change takes back.
    fn put(
        &self,
        mut changed: Changed,
        noted: &mut Noted,
        undoes: Option<u64>,
    ) -> Result<Changed, Refusal> {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        let mut failed = None;
        for link in &changed.links {
            let Link { name, spec, .. } = link;
            let before = self.0.control.link(name);
            if before.as_ref() == Some(spec) {
                continue;
            }
            if let Err(error) = self.0.control.set_link(name, spec) {
                // The earlier links have changed, so the log needs them.
                failed = Some(refused(error));
                break;
            }
            if let Some(link) = self.current().iter_mut().find(|link| link.name == *name) {
                link.spec = spec.clone();
            }
            noted.add(self.elapsed(), &format!("{name} became {}", text_of(spec)));
            new.push(link.clone());
            old.extend(before.map(|spec| Link { spec, ..link.clone() }));
        }
        if !new.is_empty() {
            let lines = |links: &[Link], verb: &str| {
                let line = |link: &Link| format!("{}{verb} {}", link.name, text_of(&link.spec));
                links.iter().map(line).collect::<Vec<_>>().join("\n")
            };
            let change = ChangeView {
                at_ns: clock::now().0,
                what: lines(&new, " became"),
                before: lines(&old, ""),
                after: lines(&new, ""),
                undoes,
                ..ChangeView::default()
            };
            // A change that takes another one back cannot be taken back itself.
            let back = undoes.is_none().then_some(Saved::Links(old));
            changed.number = Some(noted.log.add(change, back));
        }
        failed.map_or(Ok(changed), Err)
    }

    fn change_rules(
        &self,
        link: Option<&str>,
        words: &str,
        files: &dyn Files,
        noted: &mut Noted,
    ) -> Result<Changed, Refusal> {
        let rules = self.rules(link)?;
        let (new, outcomes, diagnostics) = changed_rules(&rules, words, files)?;
        let new = Arc::new(new);
        self.0.control.set_rules(&new).map_err(refused)?;
        for outcome in outcomes {
            if let Effect::Zero(ids) = outcome.effect {
                self.0.control.engine().zero_rules(Some(&ids))?;
            }
        }
        noted.add(self.elapsed(), words.trim());
        let number = Some(noted.log_rules(words.trim(), &rules, &new, None));
        let commands = canonical_commands(words, files);
        Ok(Changed { links: Vec::new(), diagnostics, commands, number })
    }

    fn reset_rules(&self, link: Option<&str>, noted: &mut Noted) -> Result<Changed, Refusal> {
        self.rules(link)?;
        let start = self.0.rules.as_ref().ok_or(ChangeError::NoRules).map_err(refused)?;
        self.put_rules(start, "of the start", noted, None)
    }

    /// Puts earlier rules in force again. `which` says for the notes which rules these are.
    fn put_rules(
        &self,
        rules: &Ruleset,
        which: &str,
        noted: &mut Noted,
        undoes: Option<u64>,
    ) -> Result<Changed, Refusal> {
        let now = self.rules(None)?;
        // The identities of rules are never reused, because counters belong to identities.
        let back = Arc::new(Ruleset { next_id: now.next_id, ..rules.clone() });
        let mut changed = Changed::default();
        if self.0.control.set_rules(&back).map_err(refused)? {
            let what = format!("the rules became those {which}");
            noted.add(self.elapsed(), &what);
            changed.number = Some(noted.log_rules(&what, &now, &back, undoes));
        }
        Ok(changed)
    }

    /// The rules in force. A session with rules has no links to name.
    fn rules(&self, link: Option<&str>) -> Result<Arc<Ruleset>, Refusal> {
        if let Some(name) = link {
            return Err(Refusal::NoSuchLink { name: name.to_owned(), known: Vec::new() });
        }
        self.0.control.rules().ok_or(ChangeError::NoRules).map_err(refused)
    }

    fn began(&self) -> Instant {
        *self.0.began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> MutexGuard<'_, Vec<Link>> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Noted {
    /// Adds a change of rules to the log, and returns its number.
    fn log_rules(
        &mut self,
        what: &str,
        old: &Arc<Ruleset>,
        new: &Ruleset,
        undoes: Option<u64>,
    ) -> u64 {
        let (before, after) = differences(old, new);
        let change = ChangeView {
            at_ns: clock::now().0,
            what: what.to_owned(),
            before,
            after,
            undoes,
            ..ChangeView::default()
        };
        self.log.add(change, undoes.is_none().then(|| Saved::Rules(Arc::clone(old))))
    }

    /// Adds a note, or counts the change if there are already [`MOST_NOTED`] notes.
    fn add(&mut self, at: Duration, what: &str) {
        if self.notes.len() < MOST_NOTED {
            let more = if what.chars().nth(LONGEST_NOTE).is_some() { "…" } else { "" };
            let what: String = what.chars().take(LONGEST_NOTE).collect();
            self.notes.push(format!("at {:.3} s: {what}{more}", at.as_secs_f64()));
        } else {
            self.more += 1;
        }
    }
}

/// A specification in words.
fn text_of(spec: &LinkSpec) -> String {
    let text = canonical(spec);
    if text.is_empty() { "a perfect link".to_owned() } else { text }
}

fn canonical_commands(words: &str, files: &dyn Files) -> Vec<String> {
    let parsed = script::parse(words, "the command", files);
    parsed.commands.iter().map(|one| script::print(&one.command)).collect()
}

/// Changes the specification of a link, or of all links if `link` is `None`, without putting it in
/// force: the words replace the settings that they name; all other settings stay.
///
/// # Errors
/// The words are wrong, there is no such link, or the change would affect the handling of offload
/// trains.
pub fn changed(
    links: &[Link],
    link: Option<&str>,
    words: &str,
    files: &dyn Files,
) -> Result<Changed, Refusal> {
    let mut done = Changed::default();
    for link @ Link { name, spec, .. } in named(links, link)? {
        let checked = check_change(spec, words, files);
        let Some(new) = checked.spec else { return Err(Refusal::Words(checked.diagnostics)) };
        if spec.gso != new.gso {
            return Err(refused(ChangeError::Offloads { name: name.clone() }));
        }
        // The words are the same for each link, and so are most remarks. The remarks about one link
        // suffice.
        if done.diagnostics.is_empty() {
            done.diagnostics = checked.diagnostics;
        }
        done.links.push(Link { spec: new, ..link.clone() });
    }
    Ok(done)
}

/// Applies commands to a copy of the rules, without putting it in force. Also returns the outcome
/// of each command and remarks about the words.
///
/// # Errors
/// The words are wrong, a command cannot be applied, or one is a query.
pub fn changed_rules(
    rules: &Ruleset,
    words: &str,
    files: &dyn Files,
) -> Result<(Ruleset, Vec<Outcome>, Diagnostics), Refusal> {
    let parsed = script::parse(words, "the command", files);
    if parsed.diagnostics.has_errors() {
        return Err(Refusal::Words(parsed.diagnostics));
    }
    let mut new = rules.clone();
    let outcomes = new
        .apply_all(&parsed.commands)
        .map_err(|error| Refusal::Impossible(error.error.to_string()))?;
    if outcomes.iter().any(|outcome| matches!(outcome.effect, Effect::Query(_))) {
        let why = "a change shows nothing; `weir stats` shows what the links do";
        return Err(Refusal::Impossible(why.to_owned()));
    }
    Ok((new, outcomes, parsed.diagnostics))
}

/// Whether a word names links. The word may be several names with commas between them. At least one
/// of them must be the name of a link, or the common name of a link's two directions.
#[must_use]
pub fn names_links(links: &[Link], word: &str) -> bool {
    word.split(',').any(|name| {
        links.iter().any(|link| link.name == name || link.whole.as_deref() == Some(name))
    })
}

/// The links that a request is about: all of them, or those with the given names.
///
/// # Errors
/// [`Refusal::NoSuchLink`].
pub fn named<'a>(links: &'a [Link], names: Option<&str>) -> Result<Vec<&'a Link>, Refusal> {
    let Some(names) = names else { return Ok(links.iter().collect()) };
    let mut chosen: Vec<&Link> = Vec::new();
    for name in names.split(',') {
        let exact: Vec<&Link> = links.iter().filter(|link| link.name == name).collect();
        let both = || links.iter().filter(|link| link.whole.as_deref() == Some(name)).collect();
        let found = if exact.is_empty() { both() } else { exact };
        if found.is_empty() {
            let known = links.iter().map(|link| link.name.clone()).collect();
            return Err(Refusal::NoSuchLink { name: name.to_owned(), known });
        }
        for link in found {
            if !chosen.iter().any(|known| known.name == link.name) {
                chosen.push(link);
            }
        }
    }
    Ok(chosen)
}

fn refused(error: ChangeError) -> Refusal {
    match error {
        ChangeError::NoAnswer(error) => Refusal::NoAnswer(error),
        error => Refusal::Impossible(error.to_string()),
    }
}

/// Maximum number of changes that results note one by one.
pub const MOST_NOTED: usize = 100;
/// Maximum length of the text of a note in characters.
const LONGEST_NOTE: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_named_alone_by_their_common_name_or_in_a_list() {
        let link = |name: &str, whole: &str| {
            Link::new(name, weir_rules::LinkSpec::default()).direction_of(whole)
        };
        let links = [
            link("a>b", "a-b"),
            link("b>a", "a-b"),
            Link::new("line", weir_rules::LinkSpec::default()),
            Link::new("line.back", weir_rules::LinkSpec::default()),
        ];
        let names = |names: Option<&str>| match named(&links, names) {
            Ok(found) => found.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(" "),
            Err(refusal) => refusal.to_string(),
        };
        assert_eq!(names(None), "a>b b>a line line.back");
        assert_eq!(names(Some("b>a")), "b>a");
        assert_eq!(names(Some("a-b")), "a>b b>a");
        assert_eq!(names(Some("line")), "line");
        assert_eq!(names(Some("line,line.back,line")), "line line.back");
        assert_eq!(names(Some("line,a-b,a>b")), "line a>b b>a");
        for (wrong, part) in [("", ""), ("line,", ""), ("line,lne", "lne"), ("a", "a")] {
            let error = names(Some(wrong));
            assert!(
                error.starts_with(&format!("there is no link {part}; there are a>b")),
                "{error}"
            );
        }
        for (word, known) in [("line", true), ("lne,a-b", true), ("bw", false), ("", false)] {
            assert_eq!(names_links(&links, word), known, "{word}");
        }
    }

    #[test]
    fn notes_are_bounded_in_number_and_length() {
        let mut noted = Noted::default();
        for _ in 0..MOST_NOTED + 7 {
            noted.add(Duration::from_millis(1500), &"ü".repeat(10_000));
        }
        assert_eq!((noted.notes.len(), noted.more), (MOST_NOTED, 7));
        assert!(noted.notes[0].starts_with("at 1.500 s: ü"), "{}", noted.notes[0]);
        assert_eq!(noted.notes[0].chars().count(), "at 1.500 s: ".len() + LONGEST_NOTE + 1);
    }
}
