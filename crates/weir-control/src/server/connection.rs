//! The connections that are being served: their encryption, their limits, and their end.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as HyperService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::timeout;

use super::events::Endless;
use super::guard::{Activity, Guarded};
use super::pool::Rank;
use super::tally::Tally;
use super::tls::Tls;
use super::{access, stopping, web};

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// The connections that are being served.
pub(super) struct Connections {
    /// Becomes true when the server stops.
    pub(super) stopped: watch::Receiver<bool>,
    pub(super) tally: Arc<Tally>,
    /// Each connection holds a clone of this sender. `closed` reports when no clone is left.
    pub(super) open: mpsc::Sender<()>,
    closed: mpsc::Receiver<()>,
}

impl Connections {
    pub(super) fn new(stopped: watch::Receiver<bool>, tally: Arc<Tally>) -> Self {
        let (open, closed) = mpsc::channel(1);
        Self { stopped, tally, open, closed }
    }

    /// Starts a task that serves one connection, which has `place` in a pool.
    pub(super) fn serve(
        &self,
        stream: impl Stream,
        rank: Rank,
        router: Router,
        activity: Arc<Activity>,
        place: impl Send + Sync + 'static,
    ) {
        let client = self.client(rank, router, activity, place);
        let io = client.guard(stream);
        tokio::spawn(client.serve(io));
    }

    /// A client with a place in a pool.
    pub(super) fn client(
        &self,
        rank: Rank,
        router: Router,
        activity: Arc<Activity>,
        place: impl Send + Sync + 'static,
    ) -> Client {
        let (stopped, tally) = (self.stopped.clone(), Arc::clone(&self.tally));
        // An upgraded stream outlives its connection. The stream keeps a clone of this value, so it
        // keeps the place, and the end of the server waits for the stream.
        let held = web::Held(Arc::new((place, self.open.clone())));
        Client { rank, router, activity, tally, stopped, held }
    }

    /// Starts a task that refuses the first request of a connection. The task lasts at most
    /// [`REFUSAL`].
    pub(super) fn refuse(&self, stream: impl Stream, router: Router, permit: OwnedSemaphorePermit) {
        let (mut stopped, open) = (self.stopped.clone(), self.open.clone());
        tokio::spawn(async move {
            let mut http = http(REFUSAL);
            http.keep_alive(false);
            let connection =
                http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
            tokio::select! {
                _ = timeout(REFUSAL, connection) => {}
                () = stopping::stop(&mut stopped) => {}
            }
            drop((permit, open));
        });
    }

    /// Waits until all connections have ended, for at most [`GRACE`] + [`FLUSH`].
    pub(super) async fn end(mut self) {
        drop(self.open);
        let _ = timeout(GRACE + FLUSH, self.closed.recv()).await;
    }
}

/// What a task needs to serve the connection of a client.
pub(super) struct Client {
    rank: Rank,
    router: Router,
    activity: Arc<Activity>,
    tally: Arc<Tally>,
    stopped: watch::Receiver<bool>,
    /// Keeps the connection's place in its pool.
    held: web::Held,
}

impl Client {
    /// Limits the time for which a write to the client may be blocked.
    fn guard<S: Stream>(&self, stream: S) -> Guarded<S> {
        Guarded::new(stream, STALLED, Arc::clone(&self.tally), Arc::clone(&self.activity))
    }

    /// Serves the connection until it ends, is displaced, or the server stops.
    async fn serve(mut self, io: impl Stream) {
        let service =
            service(self.router, self.rank, self.held.clone(), Arc::clone(&self.activity));
        let connection = http(HEADERS).serve_connection(TokioIo::new(io), service).with_upgrades();
        let mut connection = std::pin::pin!(connection);
        let ends = tokio::select! {
            // An error of a client's connection concerns only that client.
            _ = connection.as_mut() => false,
            () = stopping::stop(&mut self.stopped) => true,
            () = self.activity.displaced() => true,
        };
        if ends {
            connection.as_mut().graceful_shutdown();
            let grace = if self.activity.is_answering() { GRACE } else { FLUSH };
            let _ = timeout(grace, connection).await;
        }
        drop(self.held);
    }

    /// Agrees on encryption with the client, and then serves the connection. Until then, the
    /// connection counts as one that waits for a request head: its time is limited, and a new
    /// client may displace it.
    pub(super) async fn serve_encrypted(mut self, stream: TcpStream, tls: Tls) {
        let mut stopped = self.stopped.clone();
        let activity = Arc::clone(&self.activity);
        let agreed = async {
            let mut first = [0];
            stream.peek(&mut first).await?;
            Ok::<_, io::Error>(if first == TLS_HANDSHAKE {
                Agreed::Encrypted(tls.accept(self.guard(stream)).await?)
            } else {
                Agreed::Plain(self.guard(stream))
            })
        };
        let agreed = tokio::select! {
            agreed = timeout(HEADERS, agreed) => agreed,
            () = stopping::stop(&mut stopped) => return,
            () = activity.displaced() => return,
        };
        match agreed {
            Ok(Ok(Agreed::Encrypted(io))) => self.serve(io).await,
            Ok(Ok(Agreed::Plain(io))) => {
                let why = "this server speaks TLS: put https:// before its address";
                self.router = access::refusing(StatusCode::BAD_REQUEST, why);
                self.serve(io).await;
            }
            // The client's handshake has failed, or took too long.
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

/// The stream of a client, encrypted or plain.
enum Agreed<T, P> {
    Encrypted(T),
    Plain(P),
}

/// The HTTP settings of a connection. `head` is the time limit for a request head.
fn http(head: Duration) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head).max_buf_size(HEADER_BYTES);
    builder
}

/// The service of one connection: it calls the router, and records in `activity` what the
/// connection is doing.
fn service(
    router: Router,
    rank: Rank,
    held: web::Held,
    activity: Arc<Activity>,
) -> impl HyperService<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> {
    let router = TowerToHyperService::new(router);
    service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(rank);
        request.extensions_mut().insert(held.clone());
        let activity = Arc::clone(&activity);
        activity.set_handling(true, false);
        let answer = router.call(request);
        async move {
            let answer = answer.await;
            let endless =
                answer.as_ref().is_ok_and(|answer| answer.extensions().get::<Endless>().is_some());
            activity.set_handling(false, endless);
            answer
        }
    })
}

/// Time after which the server disconnects a client that accepts no data.
pub const STALLED: Duration = Duration::from_secs(10);
/// Time for pending requests to finish when the server stops.
pub const GRACE: Duration = Duration::from_secs(2);
/// Time for writing finished answers, and for closing connections without an answer in progress,
/// when the server stops or another connection displaces them.
const FLUSH: Duration = Duration::from_millis(100);
/// Time for a refused client to receive the reason.
const REFUSAL: Duration = Duration::from_secs(1);
/// Time limit for a request head, and for a connection to be idle between requests.
const HEADERS: Duration = Duration::from_secs(10);
/// The first byte of a client that speaks TLS.
const TLS_HANDSHAKE: [u8; 1] = [22];
/// Maximum length of a request head, in bytes.
const HEADER_BYTES: usize = 64 * 1024;
