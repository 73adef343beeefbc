//! The server of the API: HTTP/1.1 on a Unix socket, and on TCP for clients with a token.
//!
//! One thread serves all connections; other threads gather counters and parse scripts. Connections,
//! requests and their sizes are limited, a client that accepts no data is disconnected after
//! [`STALLED`], and counters are gathered at most once per [`SAMPLE_AGE`], however many clients
//! request them.
//!
//! The socket, TCP and the page have a pool of connections each. Some connections of a pool are
//! reserved: on the socket for root and the server's user, on TCP and the page for clients on this
//! machine. Every other user or address has a quota. Request heads and bodies have deadlines. If a
//! pool on TCP is full, a new client displaces the connection that has waited longest for a request
//! head. The end of the server waits for answers in progress, but not for connections that clients
//! only hold open.

mod access;
mod askers;
mod budget;
mod connection;
mod events;
mod exporter;
mod guard;
mod health;
mod metrics;
mod pool;
mod reject;
mod routes;
mod session;
mod socket;
mod state;
mod stopping;
mod tally;
mod tls;
mod upload;
mod web;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};

pub use access::{Access, Token, TokenError};
pub use connection::{GRACE, STALLED};
pub use exporter::Exporter;
pub use metrics::{Format as MetricsFormat, of_sessions as session_metrics};
pub use routes::openapi;
pub use session::session_openapi;
pub use socket::{ControlSocket, SocketError, is_listening, listener};
pub use state::SAMPLE_AGE;
pub use tls::{Tls, TlsError, Validity};
pub use web::{StudiesOrWhy, Web, WebAccess};

use crate::owner::Owner;
use crate::plane::Plane;
use crate::session::Session;
use crate::session_client::DAEMON_PREFIX;
use connection::{Connections, Stream};
use guard::Activity;
use pool::{Bounds, Full, Pool, Rank};
use state::State;
use tally::Tally;

/// The addresses of the API. Both are bound before the daemon drops its privileges.
#[derive(Debug)]
pub struct Endpoints {
    /// The Unix socket, and the users that may connect to it.
    pub socket: (ControlSocket, Access),
    /// The TCP listener, and the token that its clients must present.
    pub http: Option<(StdTcpListener, Token)>,
}

/// The server of the web page: its TCP listener, and what the page shows.
pub type WebEndpoint = (StdTcpListener, Web);

/// A running server. It ends when it is dropped or [`Server::stop`]ped.
#[derive(Debug)]
pub struct Server {
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// The address for TCP clients.
    address: Option<SocketAddr>,
}

impl Server {
    /// Starts the server.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub fn start(endpoints: Endpoints, owner: Owner, plane: Arc<dyn Plane>) -> io::Result<Self> {
        Self::serve(endpoints, None, |stopped| {
            let state = Arc::new(State::new(owner, plane, stopped));
            let tally = Arc::clone(&state.tally);
            (tally, Routes { session: None, page: None, all: routes::router(state) })
        })
    }

    /// Starts the server of a daemon that is also a session: root and the daemon's user find the
    /// session's resources below [`DAEMON_PREFIX`] on the Unix socket.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub fn start_with_session(
        endpoints: Endpoints,
        owner: Owner,
        plane: Arc<dyn Plane>,
        session: Arc<dyn Session>,
        web: Option<WebEndpoint>,
    ) -> io::Result<Self> {
        Self::serve(endpoints, web, |stopped| {
            let state = Arc::new(State::new(owner, plane, stopped.clone()));
            let all = routes::router(Arc::clone(&state));
            let of_session = session::plain_router(Arc::clone(&session), stopped.clone());
            let routes = Routes {
                page: Some(of_session.merge(all.clone())),
                session: Some(session::router(session, stopped).1),
                all,
            };
            (Arc::clone(&state.tally), routes)
        })
    }

    /// Starts the server of a session's links, for the users that `access` admits.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub fn start_session(
        socket: ControlSocket,
        access: Access,
        session: Arc<dyn Session>,
        web: Option<WebEndpoint>,
    ) -> io::Result<Self> {
        let endpoints = Endpoints { socket: (socket, access), http: None };
        Self::serve(endpoints, web, |stopped| {
            let (tally, all) = session::router(session, stopped);
            (tally, Routes { session: None, page: None, all })
        })
    }

    /// Starts a server with the resources that `route` makes. `route` receives the value that
    /// becomes true when the server stops.
    fn serve(
        endpoints: Endpoints,
        web: Option<WebEndpoint>,
        route: impl FnOnce(watch::Receiver<bool>) -> (Arc<Tally>, Routes),
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_name("weir-control")
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let (tally, routes) = route(stopped.clone());
        let address =
            endpoints.http.as_ref().map(|(listener, _)| listener.local_addr()).transpose()?;
        let serving = {
            let _inside = runtime.enter();
            Serving::new(endpoints, web, routes, Connections::new(stopped, tally))?
        };
        let thread =
            std::thread::Builder::new().name("weir-control".to_owned()).spawn(move || {
                runtime.block_on(serving.run());
                // Threads that still gather counters may outlive the server.
                runtime.shutdown_timeout(Duration::from_millis(100));
            })?;
        Ok(Self { stop, thread: Some(thread), address })
    }

    /// The TCP address of the server, if it has one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Whether the server's thread has ended. Before [`Server::stop`], only a panic ends it.
    #[must_use]
    pub fn has_panicked(&self) -> bool {
        self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }

    /// Stops the server: it accepts no new connection, gives requests that are being answered
    /// [`GRACE`] to finish, closes all other connections, and removes the socket.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // The thread may have ended already.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

struct Routes {
    /// The resources for all clients.
    all: Router,
    /// The resources of the web page, if they differ from `all`.
    page: Option<Router>,
    /// More resources for root and the server's user, below [`DAEMON_PREFIX`].
    session: Option<Router>,
}

/// The server on its thread.
struct Serving {
    socket: ControlSocket,
    unix: UnixListener,
    access: Access,
    tcp: Option<TcpListener>,
    /// The router for users of the socket other than root and the server's user.
    local: Router,
    /// The router for root and the server's user.
    privileged: Router,
    /// The router for clients that must present a token.
    remote: Router,
    /// The listener and the router of the page, and its encryption.
    web: Option<(TcpListener, Router, Option<Tls>)>,
    /// The connections of each user of the socket.
    users: Arc<Pool<u32>>,
    /// The connections of each client address on TCP.
    addresses: Arc<Pool<IpAddr>>,
    /// The connections of each browser's address. A browser opens several for each tab.
    browsers: Arc<Pool<IpAddr>>,
    /// Connections of refused clients, which receive only the reason.
    refusals: Arc<Semaphore>,
    connections: Connections,
}

impl Serving {
    fn new(
        endpoints: Endpoints,
        web: Option<WebEndpoint>,
        routes: Routes,
        connections: Connections,
    ) -> io::Result<Self> {
        let Routes { all: local, page, session } = routes;
        let web = match web {
            Some((listener, web)) => {
                listener.set_nonblocking(true)?;
                let bound = listener.local_addr()?;
                let of_session = page.is_none();
                let api = page.unwrap_or_else(|| local.clone());
                let Connections { stopped, open, .. } = &connections;
                let tls = web.access.tls.clone();
                let router = web::router(web, api, of_session, bound, stopped, open);
                Some((TcpListener::from_std(listener)?, router, tls))
            }
            None => None,
        };
        let privileged = match session {
            Some(session) => local.clone().nest(DAEMON_PREFIX, session),
            None => local.clone(),
        };
        let (mut socket, access) = endpoints.socket;
        let unix = UnixListener::from_std(socket.take_listener()?)?;
        let (tcp, remote) = match endpoints.http {
            Some((listener, token)) => {
                listener.set_nonblocking(true)?;
                (Some(TcpListener::from_std(listener)?), access::with_token(local.clone(), token))
            }
            None => (None, Router::new()),
        };
        Ok(Self {
            socket,
            unix,
            access,
            tcp,
            local,
            privileged,
            remote,
            web,
            users: Pool::new(USERS),
            addresses: Pool::new(ADDRESSES),
            browsers: Pool::new(BROWSERS),
            refusals: Arc::new(Semaphore::new(REFUSALS)),
            connections,
        })
    }

    /// Serves clients until the server stops.
    async fn run(self) {
        let mut stopped = self.connections.stopped.clone();
        tokio::select! {
            () = stopping::stop(&mut stopped) => {}
            () = self.accept_users() => {}
            () = self.accept_addresses() => {}
            () = self.accept_browsers() => {}
        }
        self.socket.remove();
        self.connections.end().await;
    }

    /// Serves the clients of the Unix socket.
    async fn accept_users(&self) {
        loop {
            match self.unix.accept().await {
                Ok((stream, _)) => self.serve_user(stream),
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            }
        }
    }

    fn serve_user(&self, stream: UnixStream) {
        let (uid, rank) = match self.access.admit(&stream) {
            Ok(admitted) => admitted,
            Err(why) => {
                self.connections.tally.refused_connections.fetch_add(1, Ordering::Relaxed);
                return self.refuse(stream, StatusCode::FORBIDDEN, &why);
            }
        };
        let activity = Arc::<Activity>::default();
        match self.users.take(uid, rank, &activity) {
            Ok(place) => {
                let router = match rank {
                    Rank::Privileged => &self.privileged,
                    Rank::Other => &self.local,
                };
                self.connections.serve(stream, rank, router.clone(), activity, place);
            }
            Err(full) => self.refuse_full(stream, full, &format!("user {uid}")),
        }
    }

    /// Serves the clients on TCP.
    async fn accept_addresses(&self) {
        loop {
            match accept(self.tcp.as_ref()).await {
                Ok((stream, address)) => self.serve_address(stream, address.ip()),
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            }
        }
    }

    fn serve_address(&self, stream: TcpStream, address: IpAddr) {
        // A proxy on this machine has one address for all its clients, so this address has no
        // quota.
        let rank = if address.is_loopback() { Rank::Privileged } else { Rank::Other };
        let activity = Arc::<Activity>::default();
        match self.addresses.displace(address, rank, &activity) {
            Ok(place) => {
                // A local address is privileged only in the pool; its requests are not.
                self.connections.serve(stream, Rank::Other, self.remote.clone(), activity, place);
            }
            Err(full) => self.refuse_full(stream, full, &address.to_string()),
        }
    }

    /// Serves the clients of the page.
    async fn accept_browsers(&self) {
        let Some((listener, router, tls)) = &self.web else { return std::future::pending().await };
        loop {
            let Ok((stream, address)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            };
            let rank = if address.ip().is_loopback() { Rank::Privileged } else { Rank::Other };
            // Small messages leave at once. Data that the kernel buffers for a slow client is old
            // when it arrives, so the buffer is small. A socket that refuses these settings is only
            // slower.
            let _ = stream.set_nodelay(true);
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER);
            let activity = Arc::<Activity>::default();
            match (self.browsers.displace(address.ip(), rank, &activity), tls) {
                (Ok(place), None) => {
                    self.connections.serve(stream, Rank::Other, router.clone(), activity, place);
                }
                (Ok(place), Some(tls)) => {
                    let client =
                        self.connections.client(Rank::Other, router.clone(), activity, place);
                    tokio::spawn(client.serve_encrypted(stream, tls.clone()));
                }
                (Err(full), None) => self.refuse_full(stream, full, &address.ip().to_string()),
                // An answer with the reason would need a handshake.
                (Err(_), Some(_)) => {
                    self.connections.tally.excess_connections.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Refuses a client for which the pool has no connection.
    fn refuse_full<S: Stream>(&self, stream: S, full: Full, client: &str) {
        self.connections.tally.excess_connections.fetch_add(1, Ordering::Relaxed);
        let (status, why) = match full {
            Full::Quota(most) => (
                StatusCode::TOO_MANY_REQUESTS,
                format!(
                    "{client} has {most} connections, the most that one client may have; close some"
                ),
            ),
            Full::All(most) => (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("all of the {most} connections are taken or reserved; try again later"),
            ),
        };
        self.refuse(stream, status, &why);
    }

    /// Sends a client the reason for its refusal. If too many refused clients are connected, closes
    /// the connection at once.
    fn refuse<S: Stream>(&self, stream: S, status: StatusCode, why: &str) {
        if let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() {
            self.connections.refuse(stream, access::refusing(status, why), permit);
        }
    }
}

/// Accepts a connection. Without a listener, waits for ever.
async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Bounds of the connections on the Unix socket. A watch or dashboard has one or two.
const USERS: Bounds = Bounds { all: 256, reserve: 32, each: 64 };
/// Bounds of the connections on TCP. Connections without a valid token count too, but a connection
/// that only waits loses its place to a new connection. The reserve is for clients on this machine,
/// where a proxy may be.
const ADDRESSES: Bounds = Bounds { all: 128, reserve: 32, each: 32 };
/// Bounds of the connections of the page. A tab has a stream, and a browser up to six connections
/// besides.
const BROWSERS: Bounds = Bounds { all: 256, reserve: 32, each: 96 };
/// Bytes that the kernel keeps for a client of the page that does not take them.
const SEND_BUFFER: usize = 128 << 10;
/// Maximum number of connections of refused clients.
const REFUSALS: usize = 16;
/// Number of threads for work that would block other connections.
const BLOCKING_THREADS: usize = 18;
/// Pause after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
