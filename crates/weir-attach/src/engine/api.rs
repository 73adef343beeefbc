//! The API of an engine on its socket: requests with limits for the length and the time of the
//! answer, and the stream of events.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::HOST;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use super::kind::Engine;
use crate::error::AttachError;

/// The API of an engine.
#[derive(Debug)]
pub(crate) struct Api {
    engine: Engine,
    socket: PathBuf,
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// No engine listens, or this user may not use its socket.
    Silent(String),
    /// The engine has no such object.
    Missing(String),
    /// The engine's answer is an error, is not understood, or does not arrive in time.
    Answer(String),
}

impl Fault {
    pub(crate) fn into_text(self) -> String {
        let (Fault::Silent(text) | Fault::Missing(text) | Fault::Answer(text)) = self;
        text
    }
}

impl From<Fault> for AttachError {
    fn from(fault: Fault) -> AttachError {
        AttachError::Engine(fault.into_text())
    }
}

impl Api {
    /// The API at the socket that the environment names, or at the engine's usual socket.
    pub(crate) fn of(engine: Engine) -> Result<Api, AttachError> {
        let variable = match engine {
            Engine::Docker => "DOCKER_HOST",
            Engine::Podman => "CONTAINER_HOST",
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
            _ => engine.usual_socket(),
        };
        Ok(Api { engine, socket })
    }

    pub(crate) fn at(engine: Engine, socket: PathBuf) -> Api {
        Api { engine, socket }
    }

    /// The answer to a request for this path, read from JSON.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, AttachError> {
        Ok(runtime().map_err(AttachError::Io)?.block_on(self.ask(path))?)
    }

    /// As [`Api::get`], inside a runtime.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, Fault> {
        let answer = self.timed(async {
            let response = self.request(path).await?;
            let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
            Ok(body.map_err(|error| self.failed(&error.to_string()))?.to_bytes())
        });
        serde_json::from_slice(&answer.await?)
            .map_err(|error| self.failed(&format!("its answer is not understood: {error}")))
    }

    /// The stream of events about containers, from now on.
    pub(crate) async fn events(&self) -> Result<Incoming, Fault> {
        Ok(self.timed(self.request(EVENTS)).await?.into_body())
    }

    async fn timed<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        tokio::time::timeout(WITHIN, work).await.unwrap_or_else(|_| {
            Err(self.failed(&format!("it did not answer within {} s", WITHIN.as_secs())))
        })
    }

    async fn request(&self, path: &str) -> Result<Response<Incoming>, Fault> {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| self.no_socket(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.failed(&error.to_string()))?;
        // `send_request` reports errors of the connection.
        tokio::spawn(connection);
        let request = Request::get(path)
            .header(HOST, "weir")
            .body(Empty::<Bytes>::new())
            .map_err(|error| self.failed(&error.to_string()))?;
        let response =
            sender.send_request(request).await.map_err(|error| self.failed(&error.to_string()))?;
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND => Err(Fault::Missing(format!("{} has no {path}", self.engine))),
            status => Err(self.failed(&format!("it answers {status}"))),
        }
    }

    fn no_socket(&self, error: &io::Error) -> Fault {
        let socket = self.socket.display();
        Fault::Silent(match error.kind() {
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

    pub(crate) fn failed(&self, reason: &str) -> Fault {
        Fault::Answer(format!("{} at {}: {reason}", self.engine, self.socket.display()))
    }
}

/// A Tokio runtime that runs requests on the calling thread.
pub(crate) fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()
}

impl Engine {
    /// The socket that the environment names, or the engine's usual socket.
    ///
    /// # Errors
    /// The environment names an address that is no Unix socket.
    pub fn socket(self) -> Result<PathBuf, AttachError> {
        Api::of(self).map(|api| api.socket)
    }

    /// The engine's socket if the environment names none. Podman has a socket for each user and one
    /// for root; the user's socket is used if root's does not exist.
    #[must_use]
    pub fn usual_socket(self) -> PathBuf {
        let usual = match self {
            Engine::Docker => "/var/run/docker.sock",
            Engine::Podman => "/run/podman/podman.sock",
        };
        let own = std::env::var_os("XDG_RUNTIME_DIR")
            .map(|directory| Path::new(&directory).join("podman/podman.sock"));
        match own {
            Some(own) if self == Engine::Podman && !Path::new(usual).exists() && own.exists() => {
                own
            }
            _ => usual.into(),
        }
    }
}

const EVENTS: &str = "/events?filters=%7B%22type%22%3A%5B%22container%22%5D%7D";
/// The longest wait for an answer.
const WITHIN: Duration = Duration::from_secs(3);
/// Maximum length of an answer in bytes.
const LARGEST_ANSWER: usize = 16 << 20;
