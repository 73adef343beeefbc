//! The wire types of a session's control socket.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::DiagnosticView;

/// A running session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// The session's name, unique among the sessions of a user.
    #[schema(example = "curl")]
    pub name: String,
    /// The command that runs the links.
    pub kind: SessionKind,
    /// The programs or interfaces at the links, for people.
    #[schema(example = "curl -O https://example.org/file")]
    pub program: String,
    /// The process of the session, by its ID in the session's PID namespace. A client in another
    /// PID namespace replaces the ID by the one there; `None` if there is none.
    pub pid: Option<u32>,
    /// When the links started, RFC 3339.
    pub since: String,
    /// Time since the links started, in ns.
    pub uptime_ns: u64,
    /// Whether rules select the path of each packet. The links then have no specification, and
    /// changes are commands of the rules' language.
    pub rules: bool,
    /// The links.
    pub links: Vec<SessionLink>,
    /// Containers without the links that they should have, and container engines that do not
    /// answer: one line each, with the reason. Only an agent has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// The hosts of a lab; empty for other sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<SessionNode>,
    /// Version of the session's program.
    pub version: String,
}

/// The command that runs a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// `weir run`.
    Run,
    /// `weir pair`.
    Pair,
    /// `weir bridge`.
    Bridge,
    /// `weir live`.
    Live,
    /// `weir attach`.
    Attach,
    /// `weir serve`.
    Serve,
    /// `weir agent`.
    Agent,
}

impl fmt::Display for SessionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Run => "run",
            Self::Pair => "pair",
            Self::Bridge => "bridge",
            Self::Live => "live",
            Self::Attach => "attach",
            Self::Serve => "serve",
            Self::Agent => "agent",
        })
    }
}

/// A link of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionLink {
    /// The link's name.
    #[schema(example = "down")]
    pub name: String,
    /// The link's specification in canonical form; empty for a perfect link.
    #[schema(example = "bw 4Mbit/s delay 20ms")]
    pub spec: String,
    /// The name for both directions, if this is one direction of a link that has such a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<String>,
}

impl SessionView {
    /// Whether a word names links of this session. The word is the name of a link or of both its
    /// directions, or several names with commas between them. One known name is enough.
    #[must_use]
    pub fn names_links(&self, word: &str) -> bool {
        word.split(',').any(|name| {
            self.links.iter().any(|link| link.name == name || link.whole.as_deref() == Some(name))
        })
    }
}

/// A host of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionNode {
    /// The host's name.
    #[schema(example = "web")]
    pub name: String,
    /// What the host is.
    pub kind: NodeKind,
    /// The host's program, for people; empty without one.
    #[schema(example = "nginx -g 'daemon off;'")]
    pub program: String,
    /// The state of the program. A host without a program is up.
    pub state: NodeState,
    /// The program's exit code, once the program has ended.
    pub exit_code: Option<u8>,
    /// The process that holds the host's namespaces; absent for a container.
    pub pid: Option<u32>,
    /// The container engine: `docker` or `podman`.
    pub engine: Option<String>,
    /// The container's name.
    pub container: Option<String>,
}

/// What a host of a lab is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Namespaces with the files of the machine.
    Host,
    /// Namespaces with a root file system of their own.
    Rootfs,
    /// A container.
    Container,
}

/// The state of a host of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The program waits for other hosts.
    Waiting,
    /// The program was started, and the host is not up yet.
    Starting,
    /// The program is healthy, or has started if it has no health check.
    Up,
    /// The program has ended.
    Ended,
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Up => "up",
            Self::Ended => "ended",
        })
    }
}

/// A change of links. It replaces the settings that the field `words` names; all other settings
/// stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// Words of the language of links; with rules, commands of their language.
    #[schema(example = "loss 2% delay 80ms")]
    pub words: String,
    /// The contents of the files that the words name, by those names. The session reads no other
    /// file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// The result of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangeReply {
    /// Whether the change is in force. If not, nothing has changed.
    pub applied: bool,
    /// The changed links with the specifications that are now in force; empty with rules.
    pub links: Vec<SessionLink>,
    /// Errors, warnings and notes about the words.
    pub diagnostics: Vec<DiagnosticView>,
    /// The diagnostics as text, each with its line and the place of the fault in that line; empty
    /// if there are none.
    pub rendered: String,
}
