//! Container engines, asked through their API sockets: Docker, and Podman, which has the same API.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::error::AttachError;
use crate::pattern::Pattern;

/// A container engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Docker => "docker",
            Engine::Podman => "podman",
        })
    }
}

/// A running container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// The number of its first process.
    pub(crate) pid: u32,
}

/// The running containers with matching names, in the order of their names. A name may also be the
/// start of an identifier.
///
/// # Errors
/// The engine does not answer.
pub(crate) fn running(engine: Engine, pattern: &Pattern) -> Result<Vec<Container>, AttachError> {
    let api = Api::of(engine)?;
    let listed: Vec<Listed> = api.get("/containers/json?all=1")?;
    let mut containers = Vec::new();
    for item in listed.iter().filter(|item| item.fits(pattern)) {
        if containers.len() >= MOST_CONTAINERS {
            return Err(AttachError::Engine(format!(
                "more than {MOST_CONTAINERS} containers match {engine}:{pattern}"
            )));
        }
        // A container may vanish between the two requests.
        let Ok(inspected) = api.get::<Inspected>(&format!("/containers/{}/json", item.id)) else {
            continue;
        };
        if !inspected.state.running || inspected.state.pid == 0 {
            continue;
        }
        containers.push(Container { name: item.name().to_owned(), pid: inspected.state.pid });
    }
    if containers.is_empty() {
        let stopped = listed.iter().any(|item| item.fits(pattern));
        let mut names: Vec<&str> =
            listed.iter().filter(|item| item.state == "running").map(Listed::name).collect();
        names.sort_unstable();
        names.truncate(MOST_NAMES);
        let known = match names.len() {
            0 => format!("; {engine} runs none"),
            _ => format!("; {engine} runs {}", names.join(", ")),
        };
        let what = match pattern {
            Pattern::Name(name) if stopped => format!("running container {name} (it has stopped)"),
            pattern => format!("running container {pattern}"),
        };
        return Err(AttachError::Missing { what, known });
    }
    containers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(containers)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    state: String,
}

impl Listed {
    fn name(&self) -> &str {
        self.names.first().map_or(&*self.id, |name| name.trim_start_matches('/'))
    }

    fn fits(&self, pattern: &Pattern) -> bool {
        let by_id = match pattern {
            Pattern::Name(name) => name.len() >= SHORTEST_ID && self.id.starts_with(name.as_str()),
            Pattern::Expression(_) => false,
        };
        let by_name = |name: &String| pattern.fits(name.trim_start_matches('/'));
        let is_plain = self.id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_plain && (by_id || self.names.iter().any(by_name))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    state: State,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    running: bool,
    pid: u32,
}

/// The API of an engine.
struct Api {
    engine: Engine,
    socket: PathBuf,
}

impl Api {
    fn of(engine: Engine) -> Result<Api, AttachError> {
        let (variable, usual) = match engine {
            Engine::Docker => ("DOCKER_HOST", "/var/run/docker.sock"),
            Engine::Podman => ("CONTAINER_HOST", "/run/podman/podman.sock"),
        };
        let socket = match std::env::var(variable) {
            Ok(address) if !address.is_empty() => match address.strip_prefix("unix://") {
                Some(path) => path.into(),
                None => {
                    return Err(AttachError::Engine(format!(
                        "{variable} is {address}: Weir must run on the machine of the containers, \
                         and reaches the engine through a Unix socket (unix:///path)"
                    )));
                }
            },
            _ => usual_socket(engine, usual),
        };
        Ok(Api { engine, socket })
    }

    /// The answer to a request, as JSON.
    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, AttachError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(AttachError::Io)?;
        let answer = runtime.block_on(async {
            tokio::time::timeout(WITHIN, self.request(path)).await.unwrap_or_else(|_| {
                Err(self.failed(&format!("it did not answer within {} s", WITHIN.as_secs())))
            })
        })?;
        serde_json::from_slice(&answer)
            .map_err(|error| self.failed(&format!("its answer is not understood: {error}")))
    }

    async fn request(&self, path: &str) -> Result<Bytes, AttachError> {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| self.no_socket(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.failed(&error.to_string()))?;
        // The request reports an error of the connection.
        tokio::spawn(connection);
        let request = Request::get(path)
            .header(HOST, "weir")
            .body(Empty::<Bytes>::new())
            .map_err(|error| self.failed(&error.to_string()))?;
        let response =
            sender.send_request(request).await.map_err(|error| self.failed(&error.to_string()))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| self.failed(&error.to_string()))?.to_bytes();
        if !status.is_success() {
            return Err(self.failed(&format!("it answers {status}")));
        }
        Ok(body)
    }

    fn no_socket(&self, error: &io::Error) -> AttachError {
        let socket = self.socket.display();
        AttachError::Engine(match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("you may not use {socket}, the socket of {}: try sudo", self.engine)
            }
            _ => {
                let start = match self.engine {
                    Engine::Docker => "systemctl start docker; DOCKER_HOST names another socket",
                    Engine::Podman => {
                        "start its API (systemctl start podman.socket, or podman system service -t \
                         0); CONTAINER_HOST names another socket"
                    }
                };
                format!("{} does not listen on {socket}: {start}", self.engine)
            }
        })
    }

    fn failed(&self, reason: &str) -> AttachError {
        AttachError::Engine(format!("{} at {}: {reason}", self.engine, self.socket.display()))
    }
}

/// The engine's usual socket. Podman has one for each user beside that of root.
fn usual_socket(engine: Engine, usual: &str) -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR")
        .map(|directory| Path::new(&directory).join("podman/podman.sock"));
    match own {
        Some(own) if engine == Engine::Podman && !Path::new(usual).exists() && own.exists() => own,
        _ => usual.into(),
    }
}

/// The longest wait for an answer.
const WITHIN: Duration = Duration::from_secs(3);
/// The most bytes of an answer.
const LARGEST_ANSWER: usize = 16 << 20;
/// The most containers that one pattern may match.
const MOST_CONTAINERS: usize = 1000;
/// The most names in an error.
const MOST_NAMES: usize = 20;
/// The fewest characters of an identifier that select a container.
const SHORTEST_ID: usize = 6;

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
    }
}
