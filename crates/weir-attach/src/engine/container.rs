//! Containers as an engine lists and describes them. Their labels are bounded in number and length.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::pattern::Pattern;

/// The labels of a container.
pub type Labels = BTreeMap<String, String>;

/// A running container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The engine's identifier of the container.
    pub id: String,
    /// The container's name.
    pub name: String,
    /// The number of its first process.
    pub pid: u32,
    /// Whether it uses the network of the machine.
    pub on_host: bool,
    /// The labels that begin with `weir.`, at most [`MOST_LABELS`] of them. A name or value longer
    /// than [`LONGEST_LABEL`] bytes is cut, but stays longer than the limit, so that a reader
    /// recognises that it was too long.
    pub labels: Labels,
    /// The time of its start, as the engine writes it. Together with `pid`, it distinguishes two
    /// runs of a container.
    pub(super) started: String,
}

/// The request for a container's description.
pub(super) fn inspect(id: &str) -> String {
    format!("/containers/{id}/json")
}

/// A container in the engine's list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Listed {
    pub(super) id: String,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    pub(super) state: String,
    #[serde(default)]
    pub(super) labels: Option<Labels>,
}

impl Listed {
    pub(super) fn name(&self) -> &str {
        self.names.first().map_or(&*self.id, |name| plain_name(name))
    }

    /// Whether the pattern matches a name of the container, or is the beginning of its identifier.
    pub(super) fn fits(&self, pattern: &Pattern) -> bool {
        let by_id = match pattern {
            Pattern::Name(name) => name.len() >= SHORTEST_ID && self.id.starts_with(name.as_str()),
            Pattern::Expression(_) => false,
        };
        let by_name = |name: &String| pattern.fits(plain_name(name));
        is_identifier(&self.id) && (by_id || self.names.iter().any(by_name))
    }
}

/// A container's description.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Inspected {
    #[serde(default)]
    id: String,
    #[serde(default)]
    pub(super) name: String,
    state: State,
    host_config: HostConfig,
    #[serde(default)]
    pub(super) config: Config,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    running: bool,
    pid: u32,
    #[serde(default)]
    started_at: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HostConfig {
    network_mode: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Config {
    #[serde(default)]
    pub(super) labels: Option<Labels>,
}

impl Inspected {
    /// The container; `None` if it does not run.
    pub(super) fn running(self) -> Option<Container> {
        let State { running, pid, started_at: started } = self.state;
        (running && pid != 0).then(|| Container {
            id: self.id,
            name: plain_name(&self.name).to_owned(),
            pid,
            on_host: self.host_config.network_mode == "host",
            labels: kept(self.config.labels.unwrap_or_default()),
            started,
        })
    }
}

/// Keeps the labels of Weir, in bounded number and length.
fn kept(labels: Labels) -> Labels {
    let ours = labels.into_iter().filter(|(name, _)| name.starts_with(PREFIX));
    let cut = |(mut name, mut value): (String, String)| {
        shorten(&mut name);
        shorten(&mut value);
        (name, value)
    };
    ours.take(MOST_LABELS).map(cut).collect()
}

/// Cuts a text that is longer than [`LONGEST_LABEL`]. The result is still longer than this limit.
pub(crate) fn shorten(text: &mut String) {
    if text.len() > LONGEST_LABEL {
        let end = (LONGEST_LABEL + 1..).find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(text.len()));
        text.shrink_to_fit();
    }
}

/// A name without the slash that engines put before it.
pub(super) fn plain_name(name: &str) -> &str {
    name.trim_start_matches('/')
}

/// Whether a text may be part of a request's path.
pub(super) fn is_identifier(id: &str) -> bool {
    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

pub(super) const LIST: &str = "/containers/json?all=1";
/// The start of the names of Weir's labels.
const PREFIX: &str = "weir.";
/// Maximum number of labels of a container that are kept.
pub const MOST_LABELS: usize = 16;
/// Maximum length of a label's name and of its value, in bytes.
pub const LONGEST_LABEL: usize = 4096;
/// Maximum number of containers that one pattern may match, and of containers or pods that one
/// watch follows.
pub(crate) const MOST_CONTAINERS: usize = 1000;
/// Minimum number of characters of an identifier that select a container.
const SHORTEST_ID: usize = 6;
/// Maximum length of an identifier in characters.
const LONGEST_ID: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_selected_by_name_expression_and_identifier() {
        let listed: Listed = serde_json::from_str(
            r#"{"Id":"0123456789abcdef","Names":["/web-1"],"State":"exited"}"#,
        )
        .expect("a container of the list");
        let fits = |text: &str| listed.fits(&text.parse().expect("a pattern"));
        assert!(fits("web-1") && fits("re:^web-") && fits("012345") && fits("0123456789abcdef"));
        assert!(!fits("web") && !fits("0123") && !fits("re:^0123") && !fits("123456"));
        assert_eq!(listed.name(), "web-1");
    }

    #[test]
    fn an_identifier_with_a_path_is_never_requested() {
        let listed: Listed =
            serde_json::from_str(r#"{"Id":"../../x?a=","Names":["/web"]}"#).expect("it is JSON");
        assert!(!listed.fits(&"web".parse().expect("a pattern")));
        assert!(!is_identifier("") && !is_identifier(&"a".repeat(129)) && is_identifier("0a"));
    }

    #[test]
    fn labels_are_bounded_in_number_and_length() {
        let mut labels: Labels = (0..100).map(|n| (format!("weir.{n:03}"), "ü".into())).collect();
        labels.insert("weir.000".into(), "ü".repeat(50_000));
        labels.insert("other".into(), "x".into());
        let kept = kept(labels);
        assert_eq!(kept.len(), MOST_LABELS);
        assert!(kept.keys().all(|name| name.starts_with("weir.")));
        let longest = kept.values().map(String::len).max();
        assert!((LONGEST_LABEL + 1..LONGEST_LABEL + 5).contains(&longest.expect("some")));
    }
}
