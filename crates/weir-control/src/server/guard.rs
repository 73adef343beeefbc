//! A connection that fails when its peer does not accept data.
//!
//! All output of the server waits in bounded buffers. A client that does not read would keep its
//! connection and these buffers occupied for ever. This wrapper limits the time for which a write
//! may wait.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep};

use super::tally::Tally;

/// A stream that fails when a write waits too long.
pub(super) struct Guarded<S> {
    stream: S,
    /// The longest time for which a write may be blocked.
    longest: Duration,
    /// Set while a write is blocked.
    deadline: Option<Pin<Box<Sleep>>>,
    tally: Arc<Tally>,
    activity: Arc<Activity>,
}

/// What a connection is doing. The server checks it when the server stops, and when a new
/// connection needs this connection's place.
#[derive(Debug)]
pub(super) struct Activity {
    /// Whether an answer is being prepared.
    handling: AtomicBool,
    /// Whether a write waits until the client reads.
    blocked: AtomicBool,
    /// Whether the last answer is a stream without an end ([`super::events::Endless`]).
    endless: AtomicBool,
    began: Instant,
    /// When the last request arrived or its answer was ready, in ns after `began`; zero before the
    /// first request.
    handled: AtomicU64,
    /// Notified when the connection has lost its place.
    displaced: Notify,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            handling: AtomicBool::default(),
            blocked: AtomicBool::default(),
            endless: AtomicBool::default(),
            began: Instant::now(),
            handled: AtomicU64::default(),
            displaced: Notify::new(),
        }
    }
}

impl Activity {
    /// Records that a request has arrived (`handling`), or that its answer is ready. `endless` says
    /// that this answer is a stream without an end.
    pub(super) fn set_handling(&self, handling: bool, endless: bool) {
        self.handling.store(handling, Ordering::Relaxed);
        self.endless.store(endless, Ordering::Relaxed);
        let handled = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.handled.store(handled, Ordering::Relaxed);
    }

    /// The time for which the connection has been waiting for a complete request head; `None` while
    /// it prepares or sends an answer.
    pub(super) fn waiting(&self) -> Option<Duration> {
        let waits = ![&self.handling, &self.blocked, &self.endless]
            .into_iter()
            .any(|flag| flag.load(Ordering::Relaxed));
        let handled = Duration::from_nanos(self.handled.load(Ordering::Relaxed));
        waits.then(|| self.began.elapsed().saturating_sub(handled))
    }

    /// Tells the connection that another connection takes its place.
    pub(super) fn displace(&self) {
        self.displaced.notify_one();
    }

    /// Returns when another connection takes the place of this one.
    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }

    /// Whether an answer is being prepared, or waits until the client reads it. An endless answer
    /// does not count.
    pub(super) fn is_answering(&self) -> bool {
        let load = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        !load(&self.endless) && (load(&self.handling) || load(&self.blocked))
    }
}

impl<S> Guarded<S> {
    pub(super) fn new(
        stream: S,
        longest: Duration,
        tally: Arc<Tally>,
        activity: Arc<Activity>,
    ) -> Self {
        Self { stream, longest, deadline: None, tally, activity }
    }

    /// Returns the result of a write, and limits the time for which the write may be blocked.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.activity.blocked.store(written.is_pending(), Ordering::Relaxed);
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let longest = self.longest;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(longest)));
        ready!(deadline.as_mut().poll(context));
        // Without a new deadline, a further poll would count the client again.
        deadline.as_mut().reset(Instant::now() + longest);
        self.tally.stalled.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes no data")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    #[test]
    fn only_a_client_that_accepts_no_data_is_disconnected() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let tally = Arc::new(Tally::default());
            let (near, mut far) = tokio::io::duplex(64);
            let mut guarded =
                Guarded::new(near, Duration::from_millis(30), Arc::clone(&tally), Arc::default());
            guarded.write_all(&[0; 64]).await.unwrap();
            let reader = tokio::spawn(async move {
                let mut bytes = [0; 64];
                tokio::io::AsyncReadExt::read_exact(&mut far, &mut bytes).await.unwrap();
                far
            });
            guarded.write_all(&[0; 64]).await.unwrap();
            let far = reader.await.unwrap();
            assert_eq!(tally.stalled.load(Ordering::Relaxed), 0);
            assert_eq!(
                guarded.write_all(&[0; 1]).await.unwrap_err().kind(),
                io::ErrorKind::TimedOut
            );
            assert_eq!(tally.stalled.load(Ordering::Relaxed), 1);
            drop(far);
        });
    }
}
