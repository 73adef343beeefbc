//! Changes single keys in a scenario's text, for settings on the command line and for the points of
//! sweeps.
//!
//! The text itself is changed and then parsed as if it had been written in this form. Errors in a
//! value therefore show its line, and the changed text describes the run completely. A key is
//! addressed from the root: `duration`, `measure.interval`, `traffic.f1.rate`, `link[1].scheduler`.
//! An item of a list of tables is addressed by its name or by its number from 0; `*` addresses all
//! items, and `web*` all items with names that begin with `web`. If a value is in the language of
//! links, the key may continue with a word of that value: `link.bottleneck.spec.delay`.

use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_rules::quantity::{rate_unit, size, time_unit};
use weir_rules::{Diagnostic, Span, closest};

use super::names::free_name;
use super::read::{HEAD, SECTIONS};

/// A text with changed keys.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The changed text.
    pub text: String,
    /// For each line, its number before the changes; `None` for an added line.
    pub(super) lines: Vec<Option<usize>>,
}

/// Why a key cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text is not TOML; parsing it reports why.
    #[error("the file cannot be read")]
    Text,
    /// The key is malformed.
    #[error(
        "`{0}` is no key: write names with dots between them, such as `traffic.f1.rate` or \
         `link[0].spec.delay`"
    )]
    Form(String),
    /// The key addresses a part that does not exist.
    #[error("there is no `{name}` in `{key}`{meant}")]
    Missing {
        /// The missing part.
        name: String,
        /// The whole key.
        key: String,
        /// A suggestion that ends the sentence.
        meant: String,
    },
    /// The key is a table or a list of tables.
    #[error("`{0}` is more than one value: name a key in it")]
    Table(String),
    /// The key continues after a value that has no words.
    #[error("`{0}` has no part `{1}`: only values in the language of links have parts")]
    NoPart(String, String),
    /// The table is written in a form that cannot be extended.
    #[error(
        "`{0}` cannot be added where its table is written with dots: write the key into the file"
    )]
    Dotted(String),
}

impl Edited {
    /// A text without changes.
    pub fn new(text: &str) -> Self {
        let lines = text.matches('\n').count() + 1;
        Self { text: text.to_owned(), lines: (1..=lines).map(Some).collect() }
    }

    /// Changes a key. A value that is not TOML becomes a string.
    ///
    /// # Errors
    /// The key addresses nothing that can be set. Parsing the changed text shows whether the value
    /// is allowed.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), EditError> {
        let path = path(key)?;
        let mut changes = {
            let root = DeTable::parse(&self.text).map_err(|_| EditError::Text)?;
            find(&self.text, root.get_ref(), key, &path, value)?
        };
        // The last change in the text is made first, so that the positions of the other changes
        // remain valid.
        changes.sort_by_key(|change| std::cmp::Reverse(change.place.start));
        changes.iter().for_each(|change| self.replace(change));
        Ok(())
    }

    fn replace(&mut self, change: &Change) {
        let Change { place, text } = change;
        let first = self.text[..place.start].matches('\n').count();
        let old = self.text[place.clone()].matches('\n').count();
        let new = text.matches('\n').count();
        // An insertion with line ends adds whole lines, which have no number before the changes. A
        // replaced value keeps its line number.
        if place.is_empty() && new > 0 {
            let at = if self.text[..place.start].ends_with('\n') || place.start == 0 {
                first
            } else {
                first + 1
            };
            self.lines.splice(
                at.min(self.lines.len())..at.min(self.lines.len()),
                std::iter::repeat_n(None, new),
            );
        } else {
            let kept = self.lines.get(first).copied().flatten();
            self.lines.splice(first..=first + old, std::iter::repeat_n(kept, new + 1));
        }
        self.text.replace_range(place.clone(), text);
    }

    /// Restores the line number of a diagnostic about the changed text: the number before the
    /// changes. For a line that the changes added, `origin` replaces the file's name.
    pub(super) fn restore(&self, diagnostic: &mut Diagnostic, name: &str, origin: &str) {
        if diagnostic.file.as_deref() != Some(name) {
            return;
        }
        match self.lines.get(diagnostic.line.saturating_sub(1)) {
            Some(&Some(line)) => diagnostic.line = line,
            _ => {
                origin.clone_into(diagnostic.file.get_or_insert_default());
                diagnostic.line = 1;
            }
        }
    }
}

/// A replacement at one position of the text.
#[derive(Clone, Debug)]
struct Change {
    place: Span,
    text: String,
}

/// A step of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(String),
    Number(usize),
    /// All items of a list, written `*`.
    All,
}

/// Parses a key into its steps: `link[1].spec` is `link`, 1, `spec`. Every dot separates two steps.
/// A key in `sweep` is refused.
fn path(key: &str) -> Result<Vec<Step>, EditError> {
    let refused = || EditError::Form(key.to_owned());
    let mut steps = Vec::new();
    for part in key.trim().split('.') {
        let (name, numbers) = part.find('[').map_or((part, ""), |at| part.split_at(at));
        match name {
            "" => return Err(refused()),
            "*" => steps.push(Step::All),
            name => steps.push(Step::Name(name.to_owned())),
        }
        let mut rest = numbers;
        while !rest.is_empty() {
            let (number, behind) =
                rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).ok_or_else(refused)?;
            steps.push(if number == "*" {
                Step::All
            } else {
                Step::Number(number.parse().map_err(|_| refused())?)
            });
            rest = behind;
        }
    }
    if matches!(steps.first(), Some(Step::Name(name)) if name == "sweep") {
        Err(refused())
    } else {
        Ok(steps)
    }
}

/// Finds the changes that set a key.
fn find(
    text: &str,
    root: &DeTable<'_>,
    key: &str,
    path: &[Step],
    value: &str,
) -> Result<Vec<Change>, EditError> {
    let finder = Finder { text, key, value };
    let (Some(Step::Name(first)), rest) = (path.first(), &path[1..]) else {
        return Err(EditError::Form(key.to_owned()));
    };
    if let Some(found) = root.get(first.as_str()) {
        return finder.value(found, first, rest);
    }
    match rest {
        // A new key is added before all tables.
        [] if HEAD.contains(&first.as_str()) => {
            Ok(vec![Change { place: 0..0, text: format!("{first} = {}\n", finder.literal(None)) }])
        }
        [Step::Name(last)] if first == "measure" => {
            let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            Ok(vec![Change {
                place: text.len()..text.len(),
                text: format!("{gap}[measure]\n{last} = {}\n", finder.literal(None)),
            }])
        }
        _ => Err(finder.missing(first, HEAD.into_iter().chain(SECTIONS).chain(["measure"]))),
    }
}

struct Finder<'a> {
    text: &'a str,
    key: &'a str,
    value: &'a str,
}

impl Finder<'_> {
    fn missing<'n>(&self, name: &str, known: impl IntoIterator<Item = &'n str>) -> EditError {
        let meant = closest(name, known)
            .map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
        EditError::Missing { name: name.to_owned(), key: self.key.to_owned(), meant }
    }

    /// Follows the rest of the key from a value.
    fn value(
        &self,
        found: &Spanned<DeValue<'_>>,
        name: &str,
        rest: &[Step],
    ) -> Result<Vec<Change>, EditError> {
        match (found.get_ref(), rest) {
            (DeValue::Table(table), [Step::Name(next), rest @ ..]) => {
                self.table(table, found.span(), next, rest)
            }
            (DeValue::Array(list), [step, rest @ ..]) => self.list(list, name, step, rest),
            (DeValue::Table(_), _) => Err(EditError::Table(self.key.to_owned())),
            (DeValue::Array(list), []) if list.iter().any(|item| item.get_ref().is_table()) => {
                Err(EditError::Table(self.key.to_owned()))
            }
            (old, []) => Ok(vec![Change { place: found.span(), text: self.literal(Some(old)) }]),
            (DeValue::String(words), [Step::Name(word)]) if WORDS.contains(&name) => {
                Ok(vec![Change {
                    place: found.span(),
                    text: quoted(&with_word(words, word, self.value)),
                }])
            }
            (_, [step, ..]) => {
                let part = match step {
                    Step::Name(part) => part.clone(),
                    Step::Number(n) => format!("[{n}]"),
                    Step::All => "*".to_owned(),
                };
                Err(EditError::NoPart(name.to_owned(), part))
            }
        }
    }

    fn table(
        &self,
        table: &DeTable<'_>,
        span: Span,
        next: &str,
        rest: &[Step],
    ) -> Result<Vec<Change>, EditError> {
        if let Some(found) = table.get(next) {
            return self.value(found, next, rest);
        }
        let text = match rest {
            [] => self.literal(None),
            [Step::Name(word)] if WORDS.contains(&next) => quoted(&with_word("", word, self.value)),
            _ => return Err(self.missing(next, table.keys().map(|key| key.get_ref().as_ref()))),
        };
        let source = &self.text[span.clone()];
        if source.starts_with('{') {
            let place = span.end - 1;
            let comma = if table.is_empty() { "" } else { "," };
            return Ok(vec![Change {
                place: place..place,
                text: format!("{comma} {next} = {text} "),
            }]);
        }
        if !source.starts_with('[') {
            return Err(EditError::Dotted(self.key.to_owned()));
        }
        let (place, gap) = match self.text[span.start..].find('\n') {
            Some(end) => (span.start + end + 1, ""),
            None => (self.text.len(), "\n"),
        };
        Ok(vec![Change { place: place..place, text: format!("{gap}{next} = {text}\n") }])
    }

    fn list(
        &self,
        list: &[Spanned<DeValue<'_>>],
        name: &str,
        step: &Step,
        rest: &[Step],
    ) -> Result<Vec<Change>, EditError> {
        let names = names_of(list, name);
        let chosen: Vec<usize> = match step {
            Step::All => (0..list.len()).collect(),
            Step::Number(number) if *number < list.len() => vec![*number],
            Step::Number(number) => return Err(self.missing(&format!("[{number}]"), [])),
            Step::Name(wanted) if wanted.ends_with('*') => {
                let prefix = wanted.trim_end_matches('*');
                let chosen: Vec<usize> =
                    (0..list.len()).filter(|&n| names[n].starts_with(prefix)).collect();
                if chosen.is_empty() {
                    return Err(self.missing(wanted, names.iter().map(String::as_str)));
                }
                chosen
            }
            Step::Name(wanted) => match names.iter().position(|name| name == wanted) {
                Some(number) => vec![number],
                None => return Err(self.missing(wanted, names.iter().map(String::as_str))),
            },
        };
        let mut changes = Vec::new();
        for number in chosen {
            changes.extend(self.value(&list[number], name, rest)?);
        }
        Ok(changes)
    }

    /// The new value as TOML. If the old value is a string, so is the new one.
    fn literal(&self, old: Option<&DeValue<'_>>) -> String {
        let value = self.value.trim();
        let is_one_line = !value.contains(['\n', '\r']);
        match DeValue::parse(value) {
            Ok(new)
                if is_one_line
                    && (new.get_ref().is_str() || !old.is_some_and(DeValue::is_str))
                    && !new.get_ref().is_datetime() =>
            {
                value.to_owned()
            }
            _ => quoted(self.value),
        }
    }
}

/// The names of the items of a list. A default name that is taken gets a number, as in
/// [`super::check`].
fn names_of(list: &[Spanned<DeValue<'_>>], section: &str) -> Vec<String> {
    let given = |item: &Spanned<DeValue<'_>>| item.get_ref().get("name").is_some();
    let name = |(number, item)| name_of(Spanned::get_ref(item), section, number);
    let mut names: Vec<String> = list.iter().enumerate().map(name).collect();
    if section == "link" {
        let given: Vec<bool> = list.iter().map(given).collect();
        let is_given = |number: &usize| given[*number];
        let mut taken: BTreeSet<String> =
            (0..list.len()).filter(is_given).map(|number| names[number].clone()).collect();
        for number in (0..list.len()).filter(|number| !is_given(number)) {
            names[number] = free_name(&names[number], &taken);
            taken.insert(names[number].clone());
        }
    }
    names
}

/// The name of an item of a list: the name in the file, or the default.
fn name_of(item: &DeValue<'_>, section: &str, number: usize) -> String {
    let text = |key: &str| item.get(key).and_then(|value| value.get_ref().as_str());
    let between = |n: usize| {
        item.get("between")
            .and_then(|list| list.get_ref().get(n))
            .and_then(|value| value.get_ref().as_str())
    };
    match (text("name"), section) {
        (Some(name), _) => name.to_owned(),
        (None, "traffic") => format!("traffic{}", number + 1),
        (None, "link") => {
            format!("{}-{}", between(0).unwrap_or_default(), between(1).unwrap_or_default())
        }
        (None, "route") => {
            format!("{}-{}", text("from").unwrap_or_default(), text("to").unwrap_or_default())
        }
        (None, _) => String::new(),
    }
}

/// The text with `word` set to `value`. A missing word is added at the end.
fn with_word(words: &str, word: &str, value: &str) -> String {
    let mut list: Vec<&str> = words.split_whitespace().collect();
    match list.iter().position(|other| *other == word) {
        None => list.extend([word, value]),
        Some(at) => {
            let number = list
                .get(at + 1)
                .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
            let has_unit = |unit: &&&str| {
                rate_unit(unit).or(time_unit(unit)).is_some() || size(&format!("1{unit}")).is_ok()
            };
            let with_unit = number && list.get(at + 2).filter(has_unit).is_some();
            let end = (at + 2 + usize::from(with_unit)).min(list.len());
            list.splice(at + 1..end, [value]);
        }
    }
    list.retain(|word| !word.is_empty());
    list.join(" ")
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Keys with values in the language of links.
const WORDS: [&str; 5] = ["spec", "forward", "back", "scheduler", "scheduler_back"];

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"duration = "2s" # long
node = [{ name = "h1" }, { name = "h2" }]

[[link]] # the only one
between = ["h1", "h2"]
spec = "bw 10 Mbit/s delay 10ms"

[[traffic]]
name = "f1"
rate = "5Mbit/s"
class = 1
[[traffic]]
name = "f2"
rate = "5Mbit/s""#;

    /// The lines that the changes added or modified.
    fn changed(changes: &[(&str, &str)]) -> Vec<String> {
        let mut edited = Edited::new(TEXT);
        changes.iter().for_each(|(key, value)| edited.set(key, value).unwrap());
        assert!(DeTable::parse(&edited.text).is_ok(), "{}", edited.text);
        assert_eq!(edited.lines.len(), edited.text.matches('\n').count() + 1, "{}", edited.text);
        let before: Vec<&str> = TEXT.lines().collect();
        for (line, was) in edited.text.lines().zip(&edited.lines) {
            if let Some(was) = was {
                assert!(
                    before[was - 1] == line
                        || before[was - 1].split('=').next() == line.split('=').next(),
                    "{line}"
                );
            }
        }
        edited.text.lines().filter(|line| !before.contains(line)).map(str::to_owned).collect()
    }

    #[test]
    fn a_replaced_value_keeps_its_type() {
        assert_eq!(changed(&[("duration", "60s")]), ["duration = \"60s\" # long"]);
        assert_eq!(changed(&[("traffic.f1.rate", "1000")]), ["rate = \"1000\""]);
        assert_eq!(changed(&[("traffic.f1.class", "3")]), ["class = 3"]);
        assert_eq!(changed(&[("traffic[1].rate", "\"7Mbit/s\"")]), ["rate = \"7Mbit/s\""]);
        assert_eq!(changed(&[("traffic.*.rate", "7Mbit/s")]).len(), 2);
    }

    #[test]
    fn words_of_a_link_are_set_one_by_one() {
        assert_eq!(
            changed(&[("link[0].spec.delay", "50ms")]),
            ["spec = \"bw 10 Mbit/s delay 50ms\""]
        );
        assert_eq!(
            changed(&[("link.h1-h2.spec.bw", "5Mbit/s")]),
            ["spec = \"bw 5Mbit/s delay 10ms\""]
        );
        assert_eq!(
            changed(&[("link.h1-h2.spec.queue", "50")]),
            ["spec = \"bw 10 Mbit/s delay 10ms queue 50\""]
        );
    }

    #[test]
    fn parallel_links_are_named_as_in_results() {
        let links = "[[link]]\nbetween = [\"a\", \"b\"]\nmtu = 1\n".repeat(2)
            + "[[link]]\nname = \"a-b\"\nbetween = [\"a\", \"b\"]\nmtu = 1\n";
        for (key, line) in [("a-b", 10), ("a-b+2", 3), ("a-b+3", 6)] {
            let mut edited = Edited::new(&links);
            edited.set(&format!("link.{key}.mtu"), "2").unwrap();
            let changed = edited.text.lines().position(|line| line == "mtu = 2").unwrap() + 1;
            assert_eq!(changed, line, "{key}");
        }
    }

    #[test]
    fn missing_keys_are_added_to_their_tables() {
        assert_eq!(changed(&[("runs", "5")]), ["runs = 5"]);
        assert_eq!(changed(&[("link[0].scheduler", "fq_codel")]), ["scheduler = \"fq_codel\""]);
        assert_eq!(
            changed(&[("node.h2.kind", "router")]),
            ["node = [{ name = \"h1\" }, { name = \"h2\" , kind = \"router\" }]"]
        );
        assert_eq!(
            changed(&[("measure.interval", "1s"), ("traffic.f2.class", "2")]),
            ["rate = \"5Mbit/s\"", "class = 2", "[measure]", "interval = \"1s\""][1..]
        );
    }

    #[test]
    fn a_key_that_does_not_exist_is_refused_with_a_suggestion() {
        let message = |key: &str| Edited::new(TEXT).set(key, "1").unwrap_err().to_string();
        assert_eq!(
            message("trafic.f1.rate"),
            "there is no `trafic` in `trafic.f1.rate`; did you mean `traffic`?"
        );
        assert_eq!(
            message("traffic.f3.rate"),
            "there is no `f3` in `traffic.f3.rate`; did you mean `f1`?"
        );
        assert_eq!(message("traffic[2].rate"), "there is no `[2]` in `traffic[2].rate`");
        for key in ["", "traffic..rate", "traffic[x]", "sweep.a", "traffic[0"] {
            assert!(message(key).contains("is no key"), "{key}");
        }
        assert!(message("traffic").contains("name a key in it"));
        assert!(message("traffic.f1").contains("name a key in it"));
        assert!(message("traffic.f1.rate.unit").contains("no part `unit`"));
    }
}
