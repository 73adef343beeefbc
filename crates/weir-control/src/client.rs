//! The other side of the API: blocking, one request after another, for the command line and for
//! tests.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::api::{
    CommandReply, CommandRequest, ConfigurationView, EventQuery, EventSample, Health, InstancePage,
    LengthsView, NetConfigView, PipeView, Problem, QueueView, RuleView, SchedView, TablePage,
    TableView,
};

/// Why a daemon could not be asked, or did not answer as asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no daemon.
    #[error("no daemon listens on {}; 'weir serve' starts one, --socket names another socket", path.display())]
    NoDaemon {
        /// The socket.
        path: PathBuf,
    },
    /// The socket is not open to this user.
    #[error("{} may not be used by you; ask to be added to its group, or use sudo", path.display())]
    NotAllowed {
        /// The socket.
        path: PathBuf,
    },
    /// The connection failed.
    #[error("the connection to the daemon at {} failed: {message}", path.display())]
    Connection {
        /// The socket.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// The daemon refused.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What the daemon said.
        message: String,
    },
    /// The daemon said what this client does not understand.
    #[error("the daemon's answer is not understood ({0}); are both of the same version?")]
    Answer(String),
}

/// A client of one daemon.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// A client of the daemon that listens on this socket. Nothing is connected before something is
    /// asked.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends commands: all are carried out, or none. A refusal is a reply that is not `applied` and
    /// whose diagnostics say why.
    ///
    /// # Errors
    /// No daemon, no permission, or the daemon could not save.
    pub fn commands(&self, request: &CommandRequest) -> Result<CommandReply, ClientError> {
        let body =
            serde_json::to_vec(request).map_err(|error| ClientError::Answer(error.to_string()))?;
        let (status, bytes) = self.exchange(Method::POST, "/v1/commands", body)?;
        match status {
            StatusCode::OK | StatusCode::UNPROCESSABLE_ENTITY => decode(&bytes),
            _ => Err(refusal(status, &bytes)),
        }
    }

    /// How the daemon is.
    ///
    /// # Errors
    /// No daemon, or no permission; so it is with all of these.
    pub fn health(&self) -> Result<Health, ClientError> {
        self.get("/v1/health")
    }

    /// The configuration as a whole.
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

    /// A part of a table's entries.
    ///
    /// # Errors
    /// As with [`Client::health`]; [`ClientError::Refused`] with 404 when there is no such table.
    pub fn table(&self, name: &str, offset: usize, limit: usize) -> Result<TablePage, ClientError> {
        self.get(&format!("/v1/tables/{}?offset={offset}&limit={limit}", escape(name)))
    }

    /// A part of a pipe's (`pipes`), queue's (`queues`) or scheduler's (`scheds`) instances.
    ///
    /// # Errors
    /// As with [`Client::health`]; [`ClientError::Refused`] with 404 when there is no such object.
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

    /// The links made by `netconfig`.
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
        let (status, bytes) = self.exchange(Method::GET, "/metrics", Vec::new())?;
        if status != StatusCode::OK {
            return Err(refusal(status, &bytes));
        }
        String::from_utf8(bytes.into()).map_err(|error| ClientError::Answer(error.to_string()))
    }

    /// What waits in each queue now, over a connection of its own; [`Connection`] keeps one.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn lengths(&self) -> Result<LengthsView, ClientError> {
        self.get("/v1/lengths")
    }

    /// A connection that is kept, for who asks often. Nothing is connected before something is
    /// asked.
    ///
    /// # Errors
    /// Without the means for it.
    pub fn keep(&self) -> Result<Connection, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(|error| self.failed(error))?;
        Ok(Connection { client: self.clone(), runtime, sender: None })
    }

    /// Follows the counters until `each` breaks off or the daemon ends.
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
        self.run(async {
            let response = self.send(Method::GET, &path, Vec::new()).await?;
            let status = response.status();
            let mut body = response.into_body();
            if status != StatusCode::OK {
                return Err(refusal(status, &self.collect(body).await?));
            }
            let mut pending = Vec::new();
            while let Some(frame) = body.frame().await {
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

    /// Any resource, as JSON.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let (status, bytes) = self.exchange(Method::GET, path, Vec::new())?;
        if status == StatusCode::OK { decode(&bytes) } else { Err(refusal(status, &bytes)) }
    }

    fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        self.run(async {
            let response = self.send(method, path, body).await?;
            let status = response.status();
            Ok((status, self.collect(response.into_body()).await?))
        })
    }

    fn run<T>(&self, work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(|error| self.failed(error))?;
        runtime.block_on(work)
    }

    async fn connect(&self) -> Result<Sender, ClientError> {
        let stream =
            UnixStream::connect(&self.path).await.map_err(|error| self.not_connected(&error))?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.failed(error))?;
        // What goes wrong there is told where the answer is waited for.
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, ClientError> {
        self.send_over(&mut self.connect().await?, method, path, body).await
    }

    async fn lengths_over(&self, sender: &mut Sender) -> Result<LengthsView, ClientError> {
        sender.ready().await.map_err(|error| self.failed(error))?;
        let response = self.send_over(sender, Method::GET, "/v1/lengths", Vec::new()).await?;
        let status = response.status();
        let bytes = self.collect(response.into_body()).await?;
        if status == StatusCode::OK { decode(&bytes) } else { Err(refusal(status, &bytes)) }
    }

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

/// A connection to a daemon that is kept between questions, and made again when the daemon has
/// closed it.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    runtime: tokio::runtime::Runtime,
    sender: Option<Sender>,
}

impl Connection {
    /// What waits in each queue now.
    ///
    /// # Errors
    /// As with [`Client::health`].
    pub fn lengths(&mut self) -> Result<LengthsView, ClientError> {
        let Self { client, runtime, sender } = self;
        runtime.block_on(async {
            loop {
                let was_kept = sender.is_some();
                let connected = match sender {
                    Some(kept) => kept,
                    None => sender.insert(client.connect().await?),
                };
                match client.lengths_over(connected).await {
                    // The daemon closes what was quiet for long, or has been started again.
                    Err(ClientError::Connection { .. }) if was_kept => *sender = None,
                    answer => return answer,
                }
            }
        })
    }
}

/// Where the daemon of this user listens unless it is told otherwise: of root
/// `/run/weir/weir.sock`, of others in their runtime directory.
#[must_use]
pub fn default_socket() -> PathBuf {
    own_socket().unwrap_or_else(|| PathBuf::from(SYSTEM_SOCKET))
}

/// Where a client looks for a daemon: at `WEIR_SOCKET`, at this user's own socket if there is one,
/// else at the system's.
#[must_use]
pub fn find_socket() -> PathBuf {
    if let Some(named) = std::env::var_os("WEIR_SOCKET").filter(|named| !named.is_empty()) {
        return named.into();
    }
    own_socket().filter(|own| own.exists()).unwrap_or_else(|| PathBuf::from(SYSTEM_SOCKET))
}

/// Where the daemon of this user keeps its configuration unless it is told otherwise.
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

fn own_socket() -> Option<PathBuf> {
    let runtime =
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    runtime
        .filter(|_| !rustix::process::geteuid().is_root())
        .map(|directory| directory.join("weir.sock"))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(bytes).map_err(|error| ClientError::Answer(error.to_string()))
}

fn refusal(status: StatusCode, bytes: &[u8]) -> ClientError {
    let message = decode::<Problem>(bytes)
        .map_or_else(|_| format!("the daemon answered {status}"), |problem| problem.error);
    ClientError::Refused { status: status.as_u16(), message }
}

/// A name as a part of a path.
fn escape(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

const SYSTEM_SOCKET: &str = "/run/weir/weir.sock";
