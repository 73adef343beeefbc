//! A network as other tools describe it, and its text as a scenario file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use weir_rules::{NoFiles, check_spec};

use super::error::ConvertError;

/// A network of nodes and links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lab {
    /// The name; empty for none.
    pub name: String,
    /// The nodes, with different names.
    pub nodes: Vec<LabNode>,
    /// The links between nodes that exist.
    pub links: Vec<LabLink>,
    /// Notes about settings without a counterpart that belong to no node or link.
    pub notes: Vec<String>,
    /// The names of nodes in the scenario, by their names in the description.
    pub(super) names: BTreeMap<String, String>,
    /// The names that nodes already have in the scenario.
    pub(super) node_names: Names,
    pub(super) link_names: Names,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabNode {
    /// The name in the description.
    pub name: String,
    /// Whether the node forwards packets and runs no program.
    pub is_router: bool,
    /// The image of its container; empty for none.
    pub image: String,
    /// The program, as a command for the shell; empty for none.
    pub command: String,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Files and directories that the program sees, as `HOST:INSIDE[:ro]`.
    pub volumes: Vec<String>,
    /// The nodes for which this node waits: the name in the description, and `:ended` if that node
    /// must have ended, or an empty text if it must be up.
    pub after: Vec<(String, &'static str)>,
    /// The entries of the health check's table, as TOML.
    pub health: Vec<(&'static str, String)>,
    /// Notes about settings without a counterpart.
    pub notes: Vec<String>,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabLink {
    /// The names of the two nodes in the description.
    pub between: [String; 2],
    /// The specification of both directions, in the language of links; empty for a perfect link.
    pub spec: String,
    /// Notes about settings without a counterpart.
    pub notes: Vec<String>,
    /// The name in the scenario.
    pub(super) name: String,
}

/// Gives names that differ from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    given: BTreeSet<String>,
    /// The last number that was appended to a name.
    numbers: BTreeMap<String, usize>,
}

impl Names {
    /// Returns the name, with a number if it is taken.
    fn give(&mut self, name: &str) -> String {
        let mut free = name.to_owned();
        while !self.given.insert(free.clone()) {
            let number = self.numbers.entry(name.to_owned()).or_insert(1);
            *number += 1;
            free = format!("{name}-{number}");
        }
        free
    }
}

impl Lab {
    /// Adds a node. A second node with the same name is left out, with a note.
    pub(super) fn add_node(&mut self, mut node: LabNode) -> Result<(), ConvertError> {
        if self.nodes.len() >= MOST_NODES {
            return Err(ConvertError::TooMany { most: MOST_NODES, what: "nodes" });
        }
        if self.names.contains_key(&node.name) {
            self.notes.push(format!("a second node {} is left out", node.name));
            return Ok(());
        }
        let name = self.node_names.give(&plain(&node.name));
        if name != node.name {
            node.notes.insert(0, format!("called {} before", node.name));
        }
        self.names.insert(node.name.clone(), name);
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a link. A link to a node that does not exist, or from a node to itself, is left out,
    /// with a note.
    pub(super) fn add_link(&mut self, mut link: LabLink) -> Result<(), ConvertError> {
        let [a, b] = &link.between;
        let (Some(from), Some(to)) = (self.names.get(a), self.names.get(b)) else {
            self.notes
                .push(format!("a link between {a} and {b} is left out: there is no such node"));
            return Ok(());
        };
        if a == b {
            self.notes.push(format!("a link from {a} to itself is left out"));
            return Ok(());
        }
        if self.links.len() >= MOST_LINKS {
            return Err(ConvertError::TooMany { most: MOST_LINKS, what: "links" });
        }
        link.name = self.link_names.give(&format!("{from}-{to}"));
        if !link.spec.is_empty() && check_spec(&link.spec, &NoFiles).spec.is_none() {
            link.notes.push(format!("its settings are not understood: {}", link.spec));
            link.spec.clear();
        }
        self.links.push(link);
        Ok(())
    }

    /// Whether the description has a node with this name.
    pub(super) fn has_node(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// The lab as a scenario file. A comment in the file names `source` as its origin.
    #[must_use]
    pub fn to_toml(&self, source: &str) -> String {
        let mut text = format!("# Converted from {}.\n", comment(source));
        for note in &self.notes {
            line(&mut text, &format!("# {}", comment(note)));
        }
        if !self.name.is_empty() {
            line(&mut text, &format!("name = {}", quoted(&plain(&self.name))));
        }
        line(&mut text, "duration = \"60s\"");
        for node in &self.nodes {
            self.print_node(&mut text, node);
        }
        for link in &self.links {
            self.print_link(&mut text, link);
        }
        text
    }

    fn print_node(&self, text: &mut String, node: &LabNode) {
        line(text, "\n[[node]]");
        for note in &node.notes {
            line(text, &format!("# {}", comment(note)));
        }
        line(text, &format!("name = {}", quoted(self.name_of(&node.name))));
        if node.is_router {
            line(text, "kind = \"router\"");
            return;
        }
        for (key, value) in [("image", &node.image), ("command", &node.command)] {
            if !value.is_empty() {
                line(text, &format!("{key} = {}", quoted(value)));
            }
        }
        if !node.env.is_empty() {
            let pair =
                |(key, value): &(String, String)| format!("{} = {}", quoted(key), quoted(value));
            let pairs: Vec<String> = node.env.iter().map(pair).collect();
            line(text, &format!("env = {{ {} }}", pairs.join(", ")));
        }
        if !node.volumes.is_empty() {
            line(text, &format!("volumes = {}", list(node.volumes.iter().map(String::as_str))));
        }
        let after: Vec<String> = node
            .after
            .iter()
            .filter(|(name, _)| self.has_node(name))
            .map(|(name, state)| format!("{}{state}", self.name_of(name)))
            .collect();
        if !after.is_empty() {
            line(text, &format!("after = {}", list(after.iter().map(String::as_str))));
        }
        if !node.health.is_empty() {
            let pairs: Vec<String> =
                node.health.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            line(text, &format!("health = {{ {} }}", pairs.join(", ")));
        }
    }

    fn print_link(&self, text: &mut String, link: &LabLink) {
        line(text, "\n[[link]]");
        for note in &link.notes {
            line(text, &format!("# {}", comment(note)));
        }
        line(text, &format!("name = {}", quoted(&link.name)));
        let names = link.between.each_ref().map(|name| self.name_of(name));
        line(text, &format!("between = {}", list(names)));
        if !link.spec.is_empty() {
            line(text, &format!("spec = {}", quoted(&link.spec)));
        }
    }

    fn name_of<'a>(&'a self, name: &'a str) -> &'a str {
        self.names.get(name).map_or(name, String::as_str)
    }
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

/// A name with the characters that a scenario permits, at most [`LONGEST_NAME`] of them.
fn plain(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
    let plain: String =
        name.chars().map(|c| if fits(c) { c } else { '-' }).take(LONGEST_NAME).collect();
    if plain.is_empty() { "node".to_owned() } else { plain }
}

/// A text as a string of TOML.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

pub(super) fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(quoted).collect();
    format!("[{}]", quoted.join(", "))
}

/// A text in one line of bounded length, without control characters.
fn comment(text: &str) -> String {
    let plain: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_COMMENT).collect();
    if plain.len() < text.len() { plain.trim_end().to_owned() + " …" } else { plain }
}

pub(super) const MOST_NODES: usize = 5000;
pub(super) const MOST_LINKS: usize = 10_000;
/// The longest name of a node, in characters.
const LONGEST_NAME: usize = 60;
/// The longest comment, in characters.
const LONGEST_COMMENT: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> LabNode {
        LabNode { name: name.to_owned(), ..LabNode::default() }
    }

    fn link(a: &str, b: &str, spec: &str) -> LabLink {
        let between = [a.to_owned(), b.to_owned()];
        LabLink { between, spec: spec.to_owned(), ..LabLink::default() }
    }

    #[test]
    fn names_become_permitted_and_stay_different() {
        let mut lab = Lab::default();
        for name in ["a.b", "a-b", "a b", ""] {
            lab.add_node(node(name)).unwrap();
        }
        lab.add_node(node("a.b")).unwrap();
        lab.add_link(link("a.b", "a b", "delay 10ms")).unwrap();
        lab.add_link(link("a.b", "a b", "")).unwrap();
        lab.add_link(link("a.b", "a.b", "")).unwrap();
        lab.add_link(link("a.b", "c", "")).unwrap();
        lab.add_link(link("a.b", "a-b", "nonsense 7")).unwrap();
        let text = lab.to_toml("x");
        for part in [
            "name = \"a-b\"\n",
            "# called a.b before\n",
            "name = \"a-b-2\"",
            "name = \"a-b-3\"",
            "name = \"node\"",
            "# a second node a.b is left out",
            "name = \"a-b-a-b-3\"\nbetween = [\"a-b\", \"a-b-3\"]\nspec = \"delay 10ms\"",
            "name = \"a-b-a-b-3-2\"\nbetween = [\"a-b\", \"a-b-3\"]\n\n",
            "# a link from a.b to itself is left out",
            "# a link between a.b and c is left out",
            "# its settings are not understood: nonsense 7",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn texts_cannot_leave_their_strings_and_comments() {
        let nasty = "x\"\n[[node]]\nname = \"y\\";
        let mut lab = Lab { name: nasty.to_owned(), ..Lab::default() };
        lab.notes.push(nasty.to_owned());
        let env = vec![(nasty.to_owned(), nasty.to_owned())];
        let volumes = vec![nasty.to_owned()];
        let command = nasty.to_owned();
        lab.add_node(LabNode { name: nasty.into(), command, env, volumes, ..LabNode::default() })
            .unwrap();
        let text = lab.to_toml(nasty);
        assert_eq!(text.matches("\n[[node]]").count(), 1, "{text}");
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["node"][0]["command"].as_str(), Some(nasty));
    }

    #[test]
    fn nodes_and_links_are_bounded() {
        let mut lab = Lab::default();
        for n in 0..MOST_NODES {
            lab.add_node(node(&format!("n{n}"))).unwrap();
        }
        assert!(lab.add_node(node("one-more")).is_err());
        for _ in 0..2000 {
            lab.add_link(link("n0", "n1", "")).unwrap();
        }
        for n in 2000..MOST_LINKS {
            lab.add_link(link(&format!("n{}", n % 4000), "n4999", "")).unwrap();
        }
        assert!(lab.add_link(link("n0", "n1", "")).is_err());
    }
}
