//! Passes commands to a worker, and its answers back, without making the worker wait.
//!
//! A worker with real-time priority may displace another thread from a processor at any
//! instruction, and that thread continues there only when the worker sleeps. A worker that waited
//! for such a thread, even for a few instructions, would block itself. A channel of the standard
//! library has this problem: its receiver spins while a sender is between reserving a slot and
//! filling it. The kernel's limit for real-time threads ends that wait only after up to 0.95 s, and
//! due packets wait for that long.
//!
//! The worker therefore takes a command only if no other thread holds the lock of the queue, and
//! puts its answer into a place that the asking thread reads only after the worker has left it. A
//! command that the worker could not take is not lost: its sender wakes the worker afterwards.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A queue of messages to one worker.
pub(super) struct Mailbox<T> {
    /// Messages that were sent, or are being sent, and that the worker has not yet taken.
    waiting: AtomicUsize,
    queue: Mutex<Queue<T>>,
}

struct Queue<T> {
    messages: VecDeque<T>,
    /// Whether the worker has ended, so that messages are refused.
    closed: bool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        let queue = Queue { messages: VecDeque::new(), closed: false };
        Self { waiting: AtomicUsize::new(0), queue: Mutex::new(queue) }
    }
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

impl<T> Mailbox<T> {
    /// Adds a message. After this, the caller must wake the worker. Returns the message if the
    /// worker has ended.
    pub(super) fn post(&self, message: T) -> Result<(), T> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.closed {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(message);
        }
        queue.messages.push_back(message);
        Ok(())
    }

    /// Takes the oldest message. `None` if there is no message, and also while another thread adds
    /// a message. That thread wakes the worker afterwards.
    #[inline]
    pub(super) fn try_take(&self) -> Option<T> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut queue = match self.queue.try_lock() {
            Ok(queue) => queue,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let message = queue.messages.pop_front()?;
        drop(queue);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        Some(message)
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Refuses all further messages, and drops those that wait.
    pub(super) fn close(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.closed = true;
        let messages = std::mem::take(&mut queue.messages);
        drop(queue);
        self.waiting.fetch_sub(messages.len(), Ordering::AcqRel);
    }
}

/// Creates the two ends for one answer to the calling thread.
pub(super) fn question<T>() -> (Answer<T>, Reply<T>) {
    let place = Arc::new(Place {
        done: AtomicBool::new(false),
        value: Mutex::new(None),
        asker: thread::current(),
    });
    (Answer(Arc::clone(&place)), Reply { place, _here: PhantomData })
}

/// The place of one answer.
#[derive(Debug)]
struct Place<T> {
    /// Whether the answering thread is finished with the place. Until then only that thread locks
    /// `value`, so it never waits for the lock.
    done: AtomicBool,
    value: Mutex<Option<T>>,
    asker: Thread,
}

/// The sending end of an answer. Dropping it before [`Answer::send`] means that there is no answer.
#[derive(Debug)]
pub(super) struct Answer<T>(Arc<Place<T>>);

impl<T> Answer<T> {
    /// Answers, and wakes the asking thread.
    pub(super) fn send(self, value: T) {
        *self.0.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.0.done.store(true, Ordering::Release);
        self.0.asker.unpark();
    }
}

/// The receiving end of an answer. It stays on the asking thread, which is the thread that the
/// answer wakes.
#[derive(Debug)]
pub(super) struct Reply<T> {
    place: Arc<Place<T>>,
    _here: PhantomData<*const ()>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// No answer will arrive.
    Never,
    /// No answer has arrived yet.
    NotYet,
}

impl<T> Reply<T> {
    /// Waits for the answer, at most for `limit`.
    pub(super) fn wait(&self, limit: Duration) -> Result<T, Missing> {
        let deadline = Instant::now() + limit;
        while !self.place.done.load(Ordering::Acquire) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Missing::NotYet);
            }
            thread::park_timeout(left);
        }
        let mut value = self.place.value.lock().unwrap_or_else(PoisonError::into_inner);
        value.take().ok_or(Missing::Never)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_does_not_wait_for_a_sender_that_was_interrupted() {
        let mailbox = Mailbox::default();
        assert_eq!(mailbox.post(1), Ok(()));
        // A second sender has announced its message and loses its processor before it adds the
        // message.
        mailbox.waiting.fetch_add(1, Ordering::AcqRel);
        let interrupted = mailbox.queue.lock().unwrap();
        assert_eq!(mailbox.try_take(), None);
        drop(interrupted);
        assert_eq!(mailbox.try_take(), Some(1));
        assert_eq!((mailbox.try_take(), mailbox.waiting()), (None, 1));
    }

    #[test]
    fn messages_are_taken_in_order_until_the_mailbox_closes() {
        let mailbox = Mailbox::default();
        (0..3).for_each(|n| mailbox.post(n).unwrap());
        assert_eq!((mailbox.try_take(), mailbox.try_take()), (Some(0), Some(1)));
        mailbox.close();
        assert_eq!((mailbox.waiting(), mailbox.try_take(), mailbox.post(7)), (0, None, Err(7)));
    }

    #[test]
    fn many_senders_lose_no_message() {
        let mailbox = Mailbox::default();
        let mut taken: Vec<u32> = Vec::new();
        thread::scope(|scope| {
            for sender in 0..SENDERS {
                let mailbox = &mailbox;
                scope.spawn(move || {
                    for n in 0..EACH {
                        mailbox.post(sender * EACH + n).unwrap();
                    }
                });
            }
            while taken.len() < (SENDERS * EACH) as usize {
                taken.extend(mailbox.try_take());
            }
        });
        for sender in 0..SENDERS {
            let own: Vec<u32> = taken.iter().copied().filter(|n| n / EACH == sender).collect();
            assert!(own.is_sorted() && own.len() == EACH as usize, "sender {sender}");
        }
        assert_eq!((mailbox.waiting(), mailbox.try_take()), (0, None));
    }

    #[test]
    fn an_answer_arrives_from_another_thread_or_never() {
        let long = Duration::from_secs(60);
        let (answer, reply) = question();
        assert_eq!(reply.wait(Duration::from_millis(1)), Err(Missing::NotYet));
        thread::scope(|scope| {
            scope.spawn(move || answer.send(5));
            assert_eq!(reply.wait(long), Ok(5));
        });
        let (answer, reply) = question::<u8>();
        thread::scope(|scope| {
            scope.spawn(move || drop(answer));
            assert_eq!(reply.wait(long), Err(Missing::Never));
        });
    }

    const SENDERS: u32 = 4;
    const EACH: u32 = 2_000;
}
