//! A server of one resource, `GET /metrics`, on TCP: the metrics of many sessions. Prometheus
//! cannot read the sessions' own sockets, which are files.
//!
//! The number of connections and the duration of each are bounded. A text is made for each request.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::access::{Token, with_token};
use super::metrics::Format;
use super::reject::Reject;

/// Makes the text of the metrics. It may wait for sessions.
type Render = Arc<dyn Fn(Format) -> String + Send + Sync>;

/// A running server. It ends when it is dropped.
#[derive(Debug)]
pub struct Exporter {
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
    address: SocketAddr,
}

impl Exporter {
    /// Answers on the listener from now on. With a token, each request must present it.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub fn start(
        listener: StdTcpListener,
        token: Option<Token>,
        render: impl Fn(Format) -> String + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let router = Router::new()
            .route("/metrics", get(metrics))
            .fallback(|| async { Reject::new(StatusCode::NOT_FOUND, "there is only /metrics") })
            .with_state(Arc::new(render) as Render);
        let router = match token {
            Some(token) => with_token(router, token),
            None => router,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(AT_ONCE)
            .build()?;
        let (stop, mut stopped) = watch::channel(false);
        let thread =
            std::thread::Builder::new().name("weir-metrics".to_owned()).spawn(move || {
                runtime.block_on(async {
                    let Ok(listener) = TcpListener::from_std(listener) else { return };
                    tokio::select! {
                        () = accept(&listener, &router) => {}
                        _ = stopped.changed() => {}
                    }
                });
                runtime.shutdown_background();
            })?;
        Ok(Self { stop, thread: Some(thread), address })
    }

    /// The address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // The thread may have ended already.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Accepts connections, and serves each in a task.
async fn accept(listener: &TcpListener, router: &Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Further clients wait in the kernel.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // A client that stops reading is disconnected.
            let _ = timeout(CONNECTION, connection).await;
            drop(place);
        });
    }
}

async fn metrics(Shared(render): Shared<Render>, headers: HeaderMap) -> Result<Response, Reject> {
    let format = Format::of(&headers);
    let text = tokio::task::spawn_blocking(move || render(format)).await;
    let text = text.map_err(|_| Reject::new(StatusCode::INTERNAL_SERVER_ERROR, "no metrics"))?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}

/// Maximum number of texts that are made at the same time.
const AT_ONCE: usize = 2;
/// Maximum number of connections that are served at the same time.
const CONNECTIONS: usize = 16;
/// Pause after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Time limit for a request head.
const HEAD: Duration = Duration::from_secs(10);
/// Time limit for a whole connection.
const CONNECTION: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: weir\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn there_is_only_the_text_of_the_metrics() {
        let listener = StdTcpListener::bind("127.0.0.1:0").unwrap();
        let exporter =
            Exporter::start(listener, None, |format| format!("{format:?}\n# EOF\n")).unwrap();
        let answer = ask(exporter.address(), "/metrics");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("application/openmetrics-text") && answer.ends_with("# EOF\n"));
        for path in ["/", "/v1/session", "/metrics/x"] {
            let answer = ask(exporter.address(), path);
            assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
        }
        let address = exporter.address();
        drop(exporter);
        assert!(TcpStream::connect(address).is_err());
    }
}
