//! The server of the API: HTTP/1.1 on a Unix socket, and on TCP for clients with a token.
//!
//! One thread serves all connections; other threads gather counters and parse long scripts. A
//! client costs the daemon a bounded amount of memory and no packets: connections, requests and
//! their sizes are limited, a client that accepts no data is disconnected after [`STALLED`], and
//! counters are gathered at most once per [`SAMPLE_AGE`], however many clients request them.

mod access;
mod events;
mod guard;
mod metrics;
mod reject;
mod routes;
mod socket;
mod state;

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub use access::{Access, Token, TokenError};
pub use routes::openapi;
pub use socket::{ControlSocket, SocketError};
pub use state::SAMPLE_AGE;

use crate::owner::Owner;
use crate::plane::Plane;
use state::{State, Tally};

/// The addresses of the API. Both are bound before the daemon drops its privileges.
#[derive(Debug)]
pub struct Endpoints {
    /// The Unix socket, and the users that may connect to it.
    pub socket: (ControlSocket, Access),
    /// The TCP listener, and the token that its clients must present.
    pub http: Option<(StdTcpListener, Token)>,
}

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
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_name("weir-control")
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let state = Arc::new(State::new(owner, plane, stopped.clone()));
        let address =
            endpoints.http.as_ref().map(|(listener, _)| listener.local_addr()).transpose()?;
        let serving = {
            let _inside = runtime.enter();
            Serving::new(endpoints, state, stopped)?
        };
        let thread =
            std::thread::Builder::new().name("weir-control".to_owned()).spawn(move || {
                runtime.block_on(serving.run());
                // Do not wait for threads that still gather counters.
                runtime.shutdown_timeout(Duration::from_millis(100));
            })?;
        Ok(Self { stop, thread: Some(thread), address })
    }

    /// The TCP address of the server, if it has one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Whether the server's thread has ended, which only a panic causes before [`Server::stop`].
    #[must_use]
    pub fn has_panicked(&self) -> bool {
        self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }

    /// Stops the server: it accepts no new connection, gives pending requests [`GRACE`] to finish,
    /// and removes the socket.
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

/// The server on its thread.
struct Serving {
    socket: ControlSocket,
    unix: UnixListener,
    access: Access,
    tcp: Option<TcpListener>,
    local: Router,
    /// The router for clients that must present a token.
    remote: Router,
    connections: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
    tally: Arc<Tally>,
}

impl Serving {
    fn new(
        endpoints: Endpoints,
        state: Arc<State>,
        stopped: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let (mut socket, access) = endpoints.socket;
        let unix = UnixListener::from_std(socket.take_listener()?)?;
        let tally = Arc::clone(&state.tally);
        let local = routes::router(state);
        let (tcp, remote) = match endpoints.http {
            Some((listener, token)) => {
                listener.set_nonblocking(true)?;
                (Some(TcpListener::from_std(listener)?), access::with_token(local.clone(), token))
            }
            None => (None, Router::new()),
        };
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        Ok(Self { socket, unix, access, tcp, local, remote, connections, stopped, tally })
    }

    async fn run(mut self) {
        loop {
            let Ok(permit) = Arc::clone(&self.connections).acquire_owned().await else { break };
            tokio::select! {
                _ = self.stopped.changed() => break,
                accepted = self.unix.accept() => match accepted {
                    Ok((stream, _)) => {
                        let router = match self.access.admit(&stream) {
                            Ok(()) => self.local.clone(),
                            Err(why) => {
                                self.tally.refused_connections.fetch_add(1, Ordering::Relaxed);
                                access::refusing(&why)
                            }
                        };
                        self.serve(stream, router, permit);
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
                },
                accepted = accept(self.tcp.as_ref()) => match accepted {
                    Ok((stream, _)) => self.serve(stream, self.remote.clone(), permit),
                    Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
                },
            }
        }
        self.socket.remove();
        let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
        // A request that is not answered within this time is abandoned.
        let _ = tokio::time::timeout(GRACE, self.connections.acquire_many(all)).await;
    }

    /// Serves one connection until it ends.
    fn serve<S>(&self, stream: S, router: Router, permit: OwnedSemaphorePermit)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(guard::Guarded::new(stream, STALLED, Arc::clone(&self.tally)));
        let mut stopped = self.stopped.clone();
        tokio::spawn(async move {
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS)
                .max_buf_size(HEADER_BYTES);
            let connection = builder.serve_connection(io, TowerToHyperService::new(router));
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                // An error of a client's connection concerns only that client.
                _ = connection.as_mut() => {}
                _ = stopped.changed() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
            drop(permit);
        });
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<(tokio::net::TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Time after which the server disconnects a client that accepts no data.
pub const STALLED: Duration = Duration::from_secs(10);
/// Time for pending requests to finish when the daemon ends.
pub const GRACE: Duration = Duration::from_secs(2);
/// Maximum number of connections.
const CONNECTIONS: usize = 256;
/// Number of threads for work that would block other connections.
const BLOCKING_THREADS: usize = 16;
/// Time limit for the head of a request, and for a connection to be idle between requests.
const HEADERS: Duration = Duration::from_secs(30);
/// Maximum length of the head of a request.
const HEADER_BYTES: usize = 64 * 1024;
/// Pause after a connection could not be accepted because no descriptors are left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
