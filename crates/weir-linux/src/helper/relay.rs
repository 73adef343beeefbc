//! One connection through the proxy or the forwarder: two sockets, and the bytes in transit between
//! them.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, shutdown, sockopt};

/// The client's connection (end 0), joined with the connection to the server (end 1).
#[derive(Debug)]
pub(super) struct Relay {
    ends: [OwnedFd; 2],
    directions: [Direction; 2],
}

/// The state after [`Relay::turn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// No byte can move until the kernel reports an event.
    Waiting,
    /// More bytes can move, but other relays have their turn first.
    Busy,
    /// Both directions have ended and the relay can be dropped.
    Over,
}

#[derive(Debug, Default)]
struct Direction {
    /// Bytes of the last read that the receiver did not accept at once, at most [`SCRATCH`]. The
    /// direction reads nothing more until they are written.
    pending: Vec<u8>,
    /// How many bytes of `pending` have been written.
    written: usize,
    /// Whether the sender has closed its direction of the connection.
    ended: bool,
    /// Whether the receiver was told that the sender has closed its direction.
    shut: bool,
}

impl Relay {
    pub(super) fn new(client: OwnedFd, server: OwnedFd) -> Relay {
        for end in [&client, &server] {
            // With this option, the socket sends small pieces at once. The relay also works with a
            // socket that refuses the option.
            let _ = sockopt::set_tcp_nodelay(end, true);
        }
        Relay { ends: [client, server], directions: Default::default() }
    }

    pub(super) fn ends(&self) -> &[OwnedFd; 2] {
        &self.ends
    }

    /// Moves as many bytes as possible in both directions, with at most [`SHARE`] reads in each.
    ///
    /// # Errors
    /// One end was reset or failed: the relay must be [aborted](Relay::abort).
    pub(super) fn turn(&mut self, scratch: &mut [u8; SCRATCH]) -> io::Result<Turn> {
        let mut busy = false;
        for (direction, (from, to)) in self.directions.iter_mut().zip([(0, 1), (1, 0)]) {
            busy |= direction.advance(&self.ends[from], &self.ends[to], scratch)?;
        }
        Ok(match (busy, self.directions.iter().all(|direction| direction.shut)) {
            (_, true) => Turn::Over,
            (true, false) => Turn::Busy,
            (false, false) => Turn::Waiting,
        })
    }

    /// Closes both sockets with a reset.
    pub(super) fn abort(self) {
        for end in &self.ends {
            reset_on_close(end);
        }
    }
}

impl Direction {
    /// Moves bytes in one direction. Returns whether it stopped only because it used up its
    /// [`SHARE`] of reads.
    fn advance(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        scratch: &mut [u8; SCRATCH],
    ) -> io::Result<bool> {
        for _ in 0..SHARE {
            while self.written < self.pending.len() {
                match send(to, &self.pending[self.written..])? {
                    Some(count) => self.written += count,
                    None => return Ok(false),
                }
            }
            self.pending.clear();
            self.written = 0;
            if self.ended {
                if !self.shut {
                    // This fails only for a socket that is already closed, which needs no shutdown.
                    let _ = shutdown(to, Shutdown::Write);
                    self.shut = true;
                }
                return Ok(false);
            }
            match rustix::io::read(from, &mut scratch[..]) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    let sent = send(to, &scratch[..count])?.unwrap_or(0);
                    self.pending.extend_from_slice(&scratch[sent..count]);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }
}

/// Makes closing the socket send a reset.
pub(super) fn reset_on_close(socket: &OwnedFd) {
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// Writes as many bytes as the socket accepts; `None` when it accepts none.
fn send(to: &OwnedFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    match rustix::io::retry_on_intr(|| rustix::net::send(to, bytes, SendFlags::NOSIGNAL)) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Maximum number of bytes that one direction reads ahead.
pub(super) const SCRATCH: usize = 64 << 10;
/// Maximum number of reads of one direction before other relays have their turn.
const SHARE: usize = 8;

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A relay with the far ends of its two connections.
    fn between() -> (Relay, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || {
            let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let near = listener.accept().unwrap().0;
            near.set_nonblocking(true).unwrap();
            (OwnedFd::from(near), far)
        };
        let ((client, far_client), (server, far_server)) = (pair(), pair());
        (Relay::new(client, server), far_client, far_server)
    }

    fn turn_until(relay: &mut Relay, wanted: impl Fn(&io::Result<Turn>) -> bool) {
        let mut scratch = Box::new([0; SCRATCH]);
        for _ in 0..2000 {
            let turn = relay.turn(&mut scratch);
            if wanted(&turn) {
                return;
            }
            turn.unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("the relay did not reach the expected state");
    }

    #[test]
    fn each_direction_ends_independently() {
        let (mut relay, mut client, mut server) = between();
        client.write_all(b"question").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let far = std::thread::spawn(move || {
            let mut received = String::new();
            server.read_to_string(&mut received).unwrap();
            server.write_all(b"answer").unwrap();
            received
        });
        turn_until(&mut relay, |turn| matches!(turn, Ok(Turn::Over)));
        assert_eq!(far.join().unwrap(), "question");
        let mut received = String::new();
        client.read_to_string(&mut received).unwrap();
        assert_eq!(received, "answer");
    }

    #[test]
    fn a_slow_reader_stops_the_writer_and_a_reset_is_passed_on() {
        let (mut relay, mut client, server) = between();
        client.set_nonblocking(true).unwrap();
        let mut scratch = Box::new([0; SCRATCH]);
        let mut taken = 0usize;
        let mut idle = 0;
        while idle < 50 {
            idle += 1;
            while let Ok(count) = client.write(&[7; 4096]) {
                taken += count;
                idle = 0;
            }
            relay.turn(&mut scratch).unwrap();
            assert!(taken < 64 << 20, "nothing held the writer back");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(relay.directions[0].pending.len() <= SCRATCH);
        // Unread bytes make this close a reset.
        drop(server);
        turn_until(&mut relay, Result::is_err);
        relay.abort();
        client.set_nonblocking(false).unwrap();
        assert_eq!(client.read(&mut [0; 1]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
