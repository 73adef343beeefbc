//! A blocking client of the API, for the command line and for tests. It sends one request at a
//! time.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use crate::api::{
    CommandReply, CommandRequest, ConfigurationView, EventQuery, EventSample, Health, InstancePage,
    LengthsView, NetConfigView, PipeView, Problem, QueueView, RuleView, SchedView, TablePage,
    TableView,
};

/// Why a request to a daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon listens on the socket.
    #[error(
        "no daemon listens on {}; 'weir serve' starts one, --socket names another socket",
        path.display()
    )]
    NoDaemon {
        /// The socket.
        path: PathBuf,
    },
    /// The user has no permission to use the socket.
    #[error("you may not use {}; ask to be added to its group, or use sudo", path.display())]
    NotAllowed {
        /// The socket.
        path: PathBuf,
    },
    /// The connection failed.
    #[error("the connection to the daemon at {} failed: {message}", path.display())]
    Connection {
        /// The socket.
        path: PathBuf,
        /// The reason.
        message: String,
    },
    /// The daemon did not answer in time.
    #[error(
        "the daemon at {} did not answer within {} s{}; the daemon's log and /v1/health tell more",
        path.display(),
        .within.as_secs(),
        if *.change { ", so that the change may or may not be in force" } else { "" }
    )]
    NoAnswer {
        /// The socket.
        path: PathBuf,
        /// The time that the daemon was given.
        within: Duration,
        /// Whether the request was a change.
        change: bool,
    },
    /// The daemon refused the request.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The daemon's message.
        message: String,
    },
    /// This client does not understand the daemon's answer.
    #[error("the daemon's answer is not understood ({0}); are both of the same version?")]
    Answer(String),
}

/// A client of one daemon.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
    /// The longest wait for an answer; `None` for [`ANSWER`] or [`CHANGE`].
    within: Option<Duration>,
}

impl Client {
    /// Creates a client of the daemon on this socket. It connects with the first request.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), within: None }
    }

    /// Returns a client that waits at most `within` for each answer, instead of the default: a
    /// minute for commands, 20 s for everything else.
    #[must_use]
    pub fn time_out(self, within: Duration) -> Self {
        Self { within: Some(within), ..self }
    }

    /// The socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends commands: either all are executed, or none. A refusal is a reply that is not
    /// `applied`; its diagnostics give the reason.
    ///
    /// # Errors
    /// As with [`Client::health`], or the daemon could not save the change.
    pub fn commands(&self, request: &CommandRequest) -> Result<CommandReply, ClientError> {
        let body =
            serde_json::to_vec(request).map_err(|error| ClientError::Answer(error.to_string()))?;
        let (status, bytes) = self.exchange(&Method::POST, "/v1/commands", body)?;
        match status {
            StatusCode::OK | StatusCode::UNPROCESSABLE_ENTITY => decode(&bytes),
            _ => Err(refusal(status, &bytes)),
        }
    }

    /// The state of the daemon.
    ///
    /// # Errors
    /// No daemon listens, the user has no permission, the daemon does not answer in time, or its
    /// answer is not as expected. The other requests fail in the same cases.
    pub fn health(&self) -> Result<Health, ClientError> {
        self.get("/v1/health")
    }

    /// The whole configuration.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn configuration(&self) -> Result<ConfigurationView, ClientError> {
        self.get("/v1/configuration")
    }

    /// The pipes with their counters.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn pipes(&self) -> Result<Vec<PipeView>, ClientError> {
        self.get("/v1/pipes")
    }

    /// The queues with their counters.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn queues(&self) -> Result<Vec<QueueView>, ClientError> {
        self.get("/v1/queues")
    }

    /// The schedulers with their counters.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn scheds(&self) -> Result<Vec<SchedView>, ClientError> {
        self.get("/v1/scheds")
    }

    /// The rules with their counters, the default rule last.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn rules(&self) -> Result<Vec<RuleView>, ClientError> {
        self.get("/v1/rules")
    }

    /// The tables, without their entries.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn tables(&self) -> Result<Vec<TableView>, ClientError> {
        self.get("/v1/tables")
    }

    /// A page of a table's entries.
    ///
    /// # Errors
    /// As with [`Client::health`]; [`ClientError::Refused`] with 404 if there is no such table.
    pub fn table(&self, name: &str, offset: usize, limit: usize) -> Result<TablePage, ClientError> {
        self.get(&format!("/v1/tables/{}?offset={offset}&limit={limit}", escape(name)))
    }

    /// A page of the instances of a pipe (`pipes`), queue (`queues`) or scheduler (`scheds`).
    ///
    /// # Errors
    /// As with [`Client::health`]; [`ClientError::Refused`] with 404 if there is no such object.
    pub fn instances(
        &self,
        list: &str,
        number: u16,
        after: Option<u64>,
        limit: usize,
    ) -> Result<InstancePage, ClientError> {
        let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
        self.get(&format!("/v1/{list}/{number}/instances?limit={limit}{after}"))
    }

    /// The links that `netconfig` created.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn netconfigs(&self) -> Result<Vec<NetConfigView>, ClientError> {
        self.get("/v1/netconfigs")
    }

    /// The counters as OpenMetrics text.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn metrics(&self) -> Result<String, ClientError> {
        let (status, bytes) = self.exchange(&Method::GET, "/metrics", Vec::new())?;
        if status != StatusCode::OK {
            return Err(refusal(status, &bytes));
        }
        String::from_utf8(bytes.into()).map_err(|error| ClientError::Answer(error.to_string()))
    }

    /// The current length of each queue, over a new connection. A [`Connection`] keeps its
    /// connection for further requests.
    pub fn lengths(&self) -> Result<LengthsView, ClientError> {
        self.get("/v1/lengths")
    }

    /// A persistent connection, for frequent requests. It connects with the first request.
    ///
    /// # Errors
    /// The system cannot provide the resources for it.
    pub fn keep(&self) -> Result<Connection, ClientError> {
        let runtime = self.runtime()?;
        Ok(Connection { client: self.clone(), runtime, sender: None, listener: None })
    }

    /// Follows the counters until `each` breaks, the daemon has sent the number of samples that the
    /// query asks for, or the daemon ends.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn events(
        &self,
        query: EventQuery,
        mut each: impl FnMut(EventSample) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let mut path = format!("/v1/events?period={}", query.period.unwrap_or(1000));
        if let Some(count) = query.count {
            path.push_str(&format!("&count={count}"));
        }
        let period = Duration::from_millis(query.period.unwrap_or(1000).into());
        self.runtime()?.block_on(async {
            let answer = self.send(Method::GET, &path, Vec::new());
            let response = self.in_time(&Method::GET, Duration::ZERO, answer).await?;
            let status = response.status();
            let mut body = response.into_body();
            if status != StatusCode::OK {
                return Err(refusal(status, &self.collect(body).await?));
            }
            let mut pending = Vec::new();
            loop {
                let frame = async { Ok(body.frame().await) };
                let Some(frame) = self.in_time(&Method::GET, period, frame).await? else { break };
                let frame = frame.map_err(|error| self.failed(error))?;
                pending.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                while let Some(end) = pending.windows(2).position(|pair| pair == b"\n\n") {
                    let event: Vec<u8> = pending.drain(..end + 2).collect();
                    let data = event
                        .split(|byte| *byte == b'\n')
                        .find_map(|line| line.strip_prefix(b"data: "));
                    if let Some(data) = data
                        && each(decode(data)?).is_break()
                    {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }

    /// The resource at `path`, decoded from JSON.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let (status, bytes) = self.exchange(&Method::GET, path, Vec::new())?;
        if status == StatusCode::OK { decode(&bytes) } else { Err(refusal(status, &bytes)) }
    }

    fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let exchange = async {
            let response = self.send(method.clone(), path, body).await?;
            let status = response.status();
            Ok((status, self.collect(response.into_body()).await?))
        };
        self.runtime()?.block_on(self.in_time(method, Duration::ZERO, exchange))
    }

    fn runtime(&self) -> Result<Runtime, ClientError> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_io().enable_time().build().map_err(|error| self.failed(error))
    }

    /// Runs `work`, which must finish within the time for an answer to `method` plus `more`.
    async fn in_time<T>(
        &self,
        method: &Method,
        more: Duration,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let change = *method != Method::GET;
        let within = self.within.unwrap_or(if change { CHANGE } else { ANSWER }) + more;
        let late = |_| ClientError::NoAnswer { path: self.path.clone(), within, change };
        tokio::time::timeout(within, work).await.map_err(late)?
    }

    /// Connects. Also returns the ID of the process that listens, if it has one in this process's
    /// PID namespace.
    async fn connect(&self) -> Result<(Sender, Option<u32>), ClientError> {
        let stream =
            UnixStream::connect(&self.path).await.map_err(|error| self.not_connected(&error))?;
        let listener = visible_peer(&stream);
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.failed(error))?;
        // The task that waits for the answer reports an error of the connection.
        tokio::spawn(connection);
        Ok((sender, listener))
    }

    /// Sends a request over a new connection.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, ClientError> {
        self.send_over(&mut self.connect().await?.0, method, path, body).await
    }

    /// Sends a request over `sender`, and waits for the whole answer.
    async fn exchange_over(
        &self,
        sender: &mut Sender,
        method: &Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let exchange = async {
            sender.ready().await.map_err(|error| self.failed(error))?;
            let response = self.send_over(sender, method.clone(), path, body).await?;
            Ok((response.status(), self.collect(response.into_body()).await?))
        };
        self.in_time(method, Duration::ZERO, exchange).await
    }

    /// Sends a request over `sender`.
    async fn send_over(
        &self,
        sender: &mut Sender,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, ClientError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "weir")
            .header(CONTENT_TYPE, "application/json");
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| ClientError::Answer(error.to_string()))?;
        sender.send_request(request).await.map_err(|error| self.failed(error))
    }

    async fn collect(&self, body: Incoming) -> Result<Bytes, ClientError> {
        Ok(body.collect().await.map_err(|error| self.failed(error))?.to_bytes())
    }

    /// The error for a connection that could not be made.
    fn not_connected(&self, error: &io::Error) -> ClientError {
        let path = self.path.clone();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::NoDaemon { path }
            }
            io::ErrorKind::PermissionDenied => ClientError::NotAllowed { path },
            _ => ClientError::Connection { path, message: error.to_string() },
        }
    }

    fn failed(&self, error: impl std::error::Error) -> ClientError {
        let reason = error.source().map(|source| format!(" ({source})")).unwrap_or_default();
        ClientError::Connection { path: self.path.clone(), message: format!("{error}{reason}") }
    }
}

type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

/// A persistent connection to a daemon or session. It reconnects after the other side has closed
/// it.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    runtime: Runtime,
    /// The open connection, if there is one.
    sender: Option<Sender>,
    /// The process that listened on the socket when the connection was opened, as [`visible_peer`].
    listener: Option<u32>,
}

impl Connection {
    /// The current length of each queue.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn lengths(&mut self) -> Result<LengthsView, ClientError> {
        self.get("/v1/lengths")
    }

    /// The resource at `path`, decoded from JSON.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        let (status, bytes) = self.exchange(&Method::GET, path, &[])?;
        if status == StatusCode::OK { decode(&bytes) } else { Err(refusal(status, &bytes)) }
    }

    /// The ID of the process that listened on the socket when the last request was sent; `None` if
    /// it has none in this process's PID namespace.
    pub(crate) fn listener(&self) -> Option<u32> {
        self.listener
    }

    /// Sends a request, and returns the status and the body of the answer. If the other side has
    /// closed the connection in the meantime, the request is sent again, so repeating it must be
    /// harmless.
    pub(crate) fn exchange(
        &mut self,
        method: &Method,
        path: &str,
        body: &[u8],
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let Self { client, runtime, sender, listener } = self;
        runtime.block_on(async {
            loop {
                let was_kept = sender.is_some();
                let connected = match sender {
                    Some(kept) => kept,
                    None => {
                        let (opened, by) = client.connect().await?;
                        *listener = by;
                        sender.insert(opened)
                    }
                };
                match client.exchange_over(connected, method, path, body.to_vec()).await {
                    // The daemon closes idle connections, or it may have been restarted.
                    Err(ClientError::Connection { .. }) if was_kept => *sender = None,
                    answer => return answer,
                }
            }
        })
    }
}

/// The default socket of this user's daemon: `WEIR_SOCKET`, else a file in the runtime directory,
/// or `/run/weir/weir.sock` for root and for users without a runtime directory.
#[must_use]
pub fn default_socket() -> PathBuf {
    named_socket().or_else(own_socket).unwrap_or_else(|| PathBuf::from(SYSTEM_SOCKET))
}

/// The socket on which a client looks for a daemon: `WEIR_SOCKET`, else this user's own socket if
/// it exists, else the system's.
#[must_use]
pub fn find_socket() -> PathBuf {
    let own = || own_socket().filter(|own| own.exists());
    named_socket().or_else(own).unwrap_or_else(|| PathBuf::from(SYSTEM_SOCKET))
}

/// The default state directory of this user's daemon.
#[must_use]
pub fn default_state() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/weir");
    }
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    state.unwrap_or_else(|| PathBuf::from(".")).join("weir")
}

/// The socket that the environment names.
fn named_socket() -> Option<PathBuf> {
    std::env::var_os("WEIR_SOCKET").filter(|named| !named.is_empty()).map(PathBuf::from)
}

/// The socket of this user's own daemon; `None` for root, and without a runtime directory.
fn own_socket() -> Option<PathBuf> {
    let runtime =
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    runtime
        .filter(|_| !rustix::process::geteuid().is_root())
        .map(|directory| directory.join("weir.sock"))
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(bytes).map_err(|error| ClientError::Answer(error.to_string()))
}

/// The error for an answer that is a refusal.
pub(crate) fn refusal(status: StatusCode, bytes: &[u8]) -> ClientError {
    let message = decode::<Problem>(bytes)
        .map_or_else(|_| format!("the daemon answered {status}"), |problem| problem.error);
    ClientError::Refused { status: status.as_u16(), message }
}

/// The ID of the process that listens at the other end of a client's connection; `None` if it has
/// none in this process's PID namespace.
pub(crate) fn visible_peer(stream: &UnixStream) -> Option<u32> {
    // The kernel reports 0 for a process outside the namespace.
    u32::try_from(stream.peer_cred().ok()?.pid()?).ok().filter(|pid| *pid > 0)
}

/// Escapes a name for use in a path.
pub(crate) fn escape(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The longest wait for the answer to a request that changes nothing. The daemon itself gives up
/// after some seconds.
const ANSWER: Duration = Duration::from_secs(20);
/// The longest wait for the answer to commands, which may wait for a slow disk.
const CHANGE: Duration = Duration::from_secs(60);
/// The socket of the system's daemon, which root runs.
const SYSTEM_SOCKET: &str = "/run/weir/weir.sock";
