//! Converts Mininet's scripts: their calls of `addHost`, `addNode`, `addSwitch` and `addLink` with
//! literal arguments. Computed arguments become comments. A script is read and not executed.

use std::collections::BTreeMap;

use super::error::ConvertError;
use super::lab::{Lab, LabLink, LabNode};
use super::python::{Kind, Token, tokens};

pub(super) fn convert(text: &str) -> Result<Lab, ConvertError> {
    let tokens = tokens(text)?;
    let mut script = Script::default();
    script.lab.notes.push(
        "The script was read and not executed: only calls of addHost, addSwitch and addLink with \
         literal arguments are here. The script has no duration: set `duration`. Switches are \
         routers, which forward in no time."
            .to_owned(),
    );
    let mut start = 0;
    for at in 0..tokens.len() {
        if tokens[at].kind == Kind::End {
            script.statement(&tokens[start..at])?;
            start = at + 1;
        }
    }
    if script.lab.nodes.is_empty() {
        let unread = script.lab.notes.iter().skip(1).take(3).map(|note| format!("\n{note}"));
        return Err(ConvertError::Missing(format!(
            "the script has no call of addHost or addSwitch with a literal name: it cannot be read \
             without executing it{}",
            unread.collect::<String>()
        )));
    }
    Ok(script.lab)
}

/// The value of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Number(String),
    Text(String),
    /// The value is known only when the script is executed.
    Unknown,
}

impl Setting {
    /// The text as a number if it is one, and otherwise as a text.
    pub(super) fn of_text(text: &str) -> Setting {
        match text.parse::<f64>() {
            Ok(_) => Setting::Number(text.to_owned()),
            Err(_) => Setting::Text(text.to_owned()),
        }
    }

    fn shown(&self) -> &str {
        match self {
            Setting::Number(text) | Setting::Text(text) => text,
            Setting::Unknown => "(computed)",
        }
    }
}

/// The settings of a Mininet link.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// The parts of the specification, such as `bw 10Mbit/s`, by their positions in it.
    words: BTreeMap<u8, String>,
    notes: Vec<String>,
}

impl Settings {
    /// Adds a setting. A setting without a counterpart becomes a note.
    pub(super) fn add(&mut self, key: &str, value: &Setting) {
        let word = match (key, value) {
            ("bw", Setting::Number(n)) => decimal(n).map(|n| (0, format!("bw {n}Mbit/s"))),
            ("delay", Setting::Number(_) | Setting::Text(_)) => {
                time(value.shown()).map(|t| (1, format!("delay {t}")))
            }
            ("jitter", Setting::Number(_) | Setting::Text(_)) => {
                time(value.shown()).map(|t| (2, format!("jitter {t} reorder")))
            }
            ("loss", Setting::Number(n)) => decimal(n).map(|n| (3, format!("loss {n}%"))),
            ("max_queue_size", Setting::Number(n)) => {
                n.parse::<u32>().ok().map(|n| (4, format!("queue {n}")))
            }
            _ => None,
        };
        match word {
            Some((place, word)) => {
                self.words.insert(place, word);
            }
            None => self.notes.push(format!("left out: {key} {}", value.shown())),
        }
    }

    /// The specification of both directions, and notes.
    pub(super) fn into_spec(mut self) -> (String, Vec<String>) {
        if !self.words.contains_key(&0)
            && let Some(queue) = self.words.remove(&4)
        {
            self.notes.push(format!("left out: {queue}: without a rate no packet waits"));
        }
        if !self.words.contains_key(&1)
            && let Some(jitter) = self.words.remove(&2)
        {
            self.notes.push(format!("left out: {jitter}: there is no delay that could vary"));
        }
        (self.words.into_values().collect::<Vec<_>>().join(" "), self.notes)
    }
}

/// A number without an exponent or sign.
fn decimal(text: &str) -> Option<&str> {
    let fits = text.len() <= 20
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (fits && text.parse::<f64>().is_ok_and(f64::is_finite)).then_some(text)
}

/// Converts a time in the notation of `tc` to that of Weir. A number without a unit is in
/// microseconds. Returns `None` for any other text.
fn time(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = match &text[end..] {
        "" | "us" | "usec" | "usecs" => "us",
        "ms" | "msec" | "msecs" => "ms",
        "s" | "sec" | "secs" => "s",
        _ => return None,
    };
    decimal(&text[..end]).map(|number| format!("{number}{unit}"))
}

/// A script while it is read.
#[derive(Default)]
struct Script {
    lab: Lab,
    /// The names of nodes, by the variables that hold them.
    variables: BTreeMap<String, String>,
}

/// An argument of a call: its keyword, if it has one, and its words.
type Argument<'a> = (Option<&'a str>, &'a [Token]);

impl Script {
    /// Reads a statement and the call in it. A statement with several calls becomes a note.
    fn statement(&mut self, words: &[Token]) -> Result<(), ConvertError> {
        let call = |at: usize| match (&words[at].kind, words.get(at + 1).map(|next| &next.kind)) {
            (Kind::Name(name), Some(Kind::Sign('('))) => Some(&**name),
            _ => None,
        };
        // `def addHost(…)` is no call.
        let is_defined = |at: usize| at > 0 && words[at - 1].kind == Kind::Name("def".to_owned());
        let found = (0..words.len())
            .filter(|at| !is_defined(*at))
            .find_map(|at| call(at).filter(|name| CALLS.contains(name)).map(|name| (at, name)));
        let Some((at, name)) = found else { return Ok(()) };
        let line = words[at].line;
        let Some(arguments) = arguments(&words[at + 2..]) else {
            self.unread(line, name, "its brackets are not closed");
            return Ok(());
        };
        let several = (at + 1..words.len()).any(|at| call(at).is_some_and(|n| CALLS.contains(&n)));
        let repeated = words[at + 2..].iter().any(|word| word.kind == Kind::Name("for".to_owned()));
        if several || repeated {
            self.unread(line, name, "there are several calls in one statement");
            return Ok(());
        }
        match name {
            "addHost" | "addNode" => self.node(words, line, name, &arguments, false),
            "addSwitch" => self.node(words, line, name, &arguments, true),
            "addLink" => self.link(line, &arguments),
            _ => {
                self.lab.notes.push(format!("line {line}: left out: {name}"));
                Ok(())
            }
        }
    }

    fn node(
        &mut self,
        words: &[Token],
        line: usize,
        call: &str,
        arguments: &[Argument<'_>],
        is_router: bool,
    ) -> Result<(), ConvertError> {
        let is_name = |at: usize, keyword: &Option<&str>| match keyword {
            None => at == 0,
            Some(keyword) => *keyword == "name",
        };
        let named = (0..arguments.len()).find(|&at| is_name(at, &arguments[at].0));
        let Some(Setting::Text(name)) = named.map(|at| value(arguments[at].1)) else {
            self.unread(line, call, "its name is no literal");
            return Ok(());
        };
        if let [Token { kind: Kind::Name(variable), .. }, Token { kind: Kind::Sign('='), .. }, ..] =
            words
        {
            self.variables.insert(variable.clone(), name.clone());
        }
        let mut node = LabNode { name, is_router, ..LabNode::default() };
        for (at, (keyword, words)) in arguments.iter().enumerate() {
            if Some(at) != named {
                let key = keyword.unwrap_or("argument");
                node.notes.push(format!("left out: {key} {}", shown(words)));
            }
        }
        self.lab.add_node(node)
    }

    fn link(&mut self, line: usize, arguments: &[Argument<'_>]) -> Result<(), ConvertError> {
        let mut ends = Vec::new();
        let mut settings = Settings::default();
        for (keyword, words) in arguments {
            match keyword {
                None if ends.len() < 2 && !is_spread(words) => ends.push(self.end(words)),
                Some("node1" | "node2") => ends.push(self.end(words)),
                // These only select how Mininet implements the link.
                Some("cls" | "use_htb" | "use_tbf" | "use_hfsc") => {}
                Some(key) => match value(words) {
                    Setting::Unknown => settings.add(key, &Setting::Text(shown(words))),
                    value => settings.add(key, &value),
                },
                None => settings.add("argument", &Setting::Text(shown(words))),
            }
        }
        let (spec, mut notes) = settings.into_spec();
        notes.iter_mut().for_each(|note| *note = format!("line {line}: {note}"));
        match &ends[..] {
            [Some(a), Some(b)] => {
                let between = [a.clone(), b.clone()];
                self.lab.add_link(LabLink { between, spec, notes, ..LabLink::default() })
            }
            _ => {
                self.unread(line, "addLink", "its nodes are no literals");
                Ok(())
            }
        }
    }

    /// The name of the node to which an argument of `addLink` refers.
    fn end(&self, words: &[Token]) -> Option<String> {
        match words {
            [Token { kind: Kind::Text(name), .. }] => Some(name.clone()),
            [Token { kind: Kind::Name(variable), .. }] => self.variables.get(variable).cloned(),
            // net['h1'], net.get('h1')
            [
                ..,
                Token { kind: Kind::Sign('[' | '('), .. },
                Token { kind: Kind::Text(name), .. },
                Token { kind: Kind::Sign(']' | ')'), .. },
            ] => Some(name.clone()),
            _ => None,
        }
    }

    fn unread(&mut self, line: usize, call: &str, why: &str) {
        self.lab.notes.push(format!("line {line}: {call} is not read: {why}"));
    }
}

/// The arguments of a call, from the words after its opening bracket; `None` if no bracket closes
/// the call.
fn arguments(words: &[Token]) -> Option<Vec<Argument<'_>>> {
    let mut arguments = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (at, word) in words.iter().enumerate() {
        let ends = match word.kind {
            Kind::Sign('(' | '[' | '{') => {
                depth += 1;
                false
            }
            Kind::Sign(')' | ']' | '}') if depth > 0 => {
                depth -= 1;
                false
            }
            Kind::Sign(')' | ']' | '}') => true,
            Kind::Sign(',') => depth == 0,
            _ => false,
        };
        if !ends {
            continue;
        }
        let part = &words[start..at];
        start = at + 1;
        match part {
            [] => {}
            [
                Token { kind: Kind::Name(name), .. },
                Token { kind: Kind::Sign('='), .. },
                value @ ..,
            ] if !matches!(value.first(), Some(Token { kind: Kind::Sign('='), .. })) => {
                arguments.push((Some(&**name), value));
            }
            part => arguments.push((None, part)),
        }
        if word.kind != Kind::Sign(',') {
            return Some(arguments);
        }
    }
    None
}

/// Whether an argument is `*list` or `**map`.
fn is_spread(words: &[Token]) -> bool {
    matches!(words.first(), Some(Token { kind: Kind::Sign('*'), .. }))
}

/// The value of a literal.
fn value(words: &[Token]) -> Setting {
    match words {
        [Token { kind: Kind::Text(text), .. }] => Setting::Text(text.clone()),
        [Token { kind: Kind::Number(number), .. }] => Setting::Number(number.clone()),
        _ => Setting::Unknown,
    }
}

/// Words as a text for a comment.
fn shown(words: &[Token]) -> String {
    let shown = words.iter().take(MOST_SHOWN).map(|word| match &word.kind {
        Kind::Name(text) | Kind::Number(text) => text.clone(),
        Kind::Text(text) => format!("'{text}'"),
        Kind::Computed => "(string)".to_owned(),
        Kind::Sign(sign) => sign.to_string(),
        Kind::End => String::new(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// The calls that are read, and the calls that become notes.
const CALLS: [&str; 12] = [
    "addHost",
    "addNode",
    "addSwitch",
    "addLink",
    "addController",
    "addNAT",
    "cmd",
    "cmdPrint",
    "sendCmd",
    "popen",
    "setIP",
    "configLinkStatus",
];
/// Maximum number of words of an argument in a comment.
const MOST_SHOWN: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../../examples/convert/script.py");

    #[test]
    fn literal_calls_become_a_scenario_and_other_calls_comments() {
        let text = convert(EXAMPLE).unwrap().to_toml("two.py");
        let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
        let names: Vec<&str> = table["node"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|node| node["name"].as_str())
            .collect();
        assert_eq!(names, ["h1", "h2", "s1"], "{text}");
        let links = table["link"].as_array().unwrap();
        assert_eq!(links.len(), 4, "{text}");
        assert_eq!(links[0]["spec"].as_str(), Some("bw 10Mbit/s delay 5ms loss 2% queue 1000"));
        assert_eq!(links[1]["spec"].as_str(), Some("delay 500us jitter 1ms reorder"));
        assert_eq!(links[3]["between"][1].as_str(), Some("h2"));
        for part in [
            "# left out: ip '10.0.0.7/8'",
            "# line 11: left out: bw BW",
            "# line 13: addHost is not read: its name is no literal",
            "# line 14: addLink is not read: its nodes are no literals",
            "# line 15: left out: argument * * opts",
            "# line 16: left out: addController",
            "# line 17: left out: cmd",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("line 19"), "a definition is no call: {text}");
    }

    #[test]
    fn a_script_without_literal_nodes_is_refused_with_the_reason() {
        for text in ["", "print('hello')", "h = [net.addHost('h%d' % i) for i in range(9)]"] {
            let error = convert(text).unwrap_err().to_string();
            assert!(error.contains("without executing"), "{text}: {error}");
        }
        let error = convert("net.addHost(name)").unwrap_err().to_string();
        assert!(error.contains("line 1: addHost is not read"), "{error}");
    }

    #[test]
    fn settings_that_make_no_link_become_notes() {
        let of = |settings: &[(&str, &str)]| {
            let mut all = Settings::default();
            settings.iter().for_each(|(key, value)| all.add(key, &Setting::of_text(value)));
            all.into_spec()
        };
        assert_eq!(of(&[("delay", "10ms"), ("bw", "1")]).0, "bw 1Mbit/s delay 10ms");
        assert_eq!(of(&[("delay", "20")]).0, "delay 20us");
        for settings in [
            ("bw", "fast"),
            ("bw", "-1"),
            ("bw", "1e9"),
            ("bw", "inf"),
            ("delay", "5 parsecs"),
            ("delay", "ms"),
            ("loss", "nan"),
            ("max_queue_size", "1.5"),
            ("max_queue_size", "9"),
            ("jitter", "1ms"),
        ] {
            let (spec, notes) = of(&[settings]);
            assert!(spec.is_empty() && notes.len() == 1, "{settings:?}: {spec} {notes:?}");
        }
    }

    #[test]
    fn broken_calls_do_no_harm() {
        for text in
            ["addHost(", "addLink((((", "x.addLink(,,)", "addHost('h1'", "addHost('a')addHost("]
        {
            let _ = convert(text);
        }
    }
}
