//! Clients that hold connections open: the daemon still serves other clients, and its end does not
//! wait for the held connections.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;
use weir_control::server::{Access, GRACE};

use super::Lab;

#[test]
fn half_sent_heads_on_tcp_leave_the_unix_socket_free() {
    let _alone = alone();
    let lab = Lab::on_tcp();
    let address = lab.server.as_ref().unwrap().address().unwrap();
    let held: Vec<_> = (0..MANY)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            // The server may refuse and close at once.
            let _ = stream.write_all(HALF_A_HEAD);
            stream
        })
        .collect();
    assert_healthy(&lab);
    // Clients on TCP are not kept out either, with or without the token.
    for _ in 0..3 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(HEALTH).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer:?}");
    }
    // The last connections still wait. The first ones were displaced, and their tasks close them.
    let is_open = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let error = stream.peek(&mut [0]).err();
        error.is_some_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    let end = Instant::now() + PATIENCE;
    while is_open(&held[0]) {
        assert!(Instant::now() < end, "the first connection is still open");
        sleep(Duration::from_millis(5));
    }
    assert!(is_open(&held[MANY - 1]));
    drop(held);
}

#[test]
fn event_streams_of_one_user_leave_connections_to_root() {
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: needs root to be two users");
    }
    let _alone = alone();
    let access = Access { uid: geteuid().as_raw(), gid: Some(GROUP), groups_of: member };
    let lab = Lab::with(None, access);
    let path = lab.socket();
    // The file system admits everyone here, so that only the server decides.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let member = std::thread::spawn(move || {
        let uid = Uid::from_raw(MEMBER);
        set_thread_res_uid(uid, uid, uid).unwrap();
        let held: Vec<_> = (0..MANY).map(|_| UnixStream::connect(&path).unwrap()).collect();
        for mut stream in &held {
            // The server may refuse and close at once.
            let _ = stream.write_all(b"GET /v1/events?period=60000 HTTP/1.1\r\nHost: weir\r\n\r\n");
        }
        let refused = held.iter().filter(|stream| !answer(stream).starts_with("HTTP/1.1 200"));
        (refused.count(), held)
    });
    let (refused, held) = member.join().unwrap();
    assert!(refused > 0 && refused < MANY, "{refused} of {MANY} refused");
    assert_healthy(&lab);
    drop(held);
}

#[test]
fn a_user_with_too_many_connections_is_told_so() {
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: needs root to be two users");
    }
    let _alone = alone();
    let access = Access { uid: geteuid().as_raw(), gid: Some(GROUP), groups_of: member };
    let lab = Lab::with(None, access);
    let path = lab.socket();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let member = std::thread::spawn(move || {
        let uid = Uid::from_raw(MEMBER);
        set_thread_res_uid(uid, uid, uid).unwrap();
        let held: Vec<_> = (0..QUOTA).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mut last = UnixStream::connect(&path).unwrap();
        last.write_all(HEALTH).unwrap();
        let refusal = answer(&last);
        drop(held);
        refusal
    });
    let refusal = member.join().unwrap();
    assert!(refusal.starts_with("HTTP/1.1 429"), "{refusal}");
    assert!(refusal.contains("user 65534") && refusal.contains("connections"), "{refusal}");
}

#[test]
fn only_root_and_the_daemons_user_see_its_session() {
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: needs root to be two users");
    }
    let _alone = alone();
    let access = Access { uid: geteuid().as_raw(), gid: Some(GROUP), groups_of: member };
    let lab = Lab::with(None, access);
    let path = lab.socket();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let ask = |path: &std::path::Path, request: &str| {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(format!("{request} HTTP/1.1\r\nHost: weir\r\n\r\n").as_bytes()).unwrap();
        answer(&stream)
    };
    let seen = ask(&path, "GET /session/v1/session");
    assert!(seen.starts_with("HTTP/1.1 200") && seen.contains("\"curl\""), "{seen}");
    let lost = ask(&path, "GET /session/v1/nothing");
    assert!(lost.starts_with("HTTP/1.1 404"), "{lost}");
    let member = std::thread::spawn(move || {
        let uid = Uid::from_raw(MEMBER);
        set_thread_res_uid(uid, uid, uid).unwrap();
        let all = ["GET /session/v1/session", "POST /session/v1/stop", "GET /v1/health"];
        all.map(|request| ask(&path, request))
    });
    let [view, stop, health] = member.join().unwrap();
    assert!(view.starts_with("HTTP/1.1 404") && stop.starts_with("HTTP/1.1 404"), "{view} {stop}");
    assert!(health.starts_with("HTTP/1.1 200"), "a member uses the rest: {health}");
}

#[test]
fn the_end_does_not_wait_for_half_sent_heads() {
    ends_promptly(|lab| hold(lab, HALF_A_HEAD));
}

#[test]
fn the_end_does_not_wait_for_event_streams() {
    ends_promptly(|lab| hold(lab, b"GET /v1/events?period=60000 HTTP/1.1\r\nHost: weir\r\n\r\n"));
}

#[test]
fn the_end_does_not_wait_for_half_sent_bodies() {
    ends_promptly(|lab| {
        hold(
            lab,
            b"POST /v1/commands HTTP/1.1\r\nHost: weir\r\nContent-Type: \
                    application/json\r\nContent-Length: 9999\r\n\r\n{",
        )
    });
}

/// Checks that a server does not wait for these connections when it ends: it ends in less than the
/// time that it grants to requests in progress.
fn ends_promptly(hold: impl FnOnce(&Lab) -> Vec<UnixStream>) {
    let _alone = alone();
    let mut lab = Lab::new();
    let held = hold(&lab);
    // Gives the server time to read the requests.
    std::thread::sleep(Duration::from_millis(300));
    let server = lab.server.take().unwrap();
    let (ended, end) = channel();
    std::thread::spawn(move || {
        server.stop();
        ended.send(()).unwrap();
    });
    end.recv_timeout(GRACE - Duration::from_millis(200)).expect("the server ends promptly");
    drop(held);
}

/// As many connections as the server serves, each with this beginning of a request.
fn hold(lab: &Lab, beginning: &[u8]) -> Vec<UnixStream> {
    let held: Vec<_> = (0..MOST).map(|_| UnixStream::connect(lab.socket()).unwrap()).collect();
    for mut stream in &held {
        stream.write_all(beginning).unwrap();
    }
    held
}

fn assert_healthy(lab: &Lab) {
    let mut stream = UnixStream::connect(lab.socket()).unwrap();
    stream.write_all(HEALTH).unwrap();
    let answer = answer(&stream);
    assert!(answer.starts_with("HTTP/1.1 200"), "no answer within {PATIENCE:?}: {answer:?}");
}

/// The beginning of the answer; empty if there is none within [`PATIENCE`].
fn answer(mut stream: &UnixStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; 1024];
    let n = stream.read(&mut bytes).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..n]).into_owned()
}

/// Lets one test at a time run, because all of them together need more descriptors than a process
/// may have.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every client is a member of the group.
fn member(_socket: BorrowedFd<'_>) -> std::io::Result<Vec<u32>> {
    Ok(vec![GROUP])
}

const HALF_A_HEAD: &[u8] = b"GET /v1/health HTTP/1.1\r\nHost: we";
const HEALTH: &[u8] = b"GET /v1/health HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n";
/// Maximum number of connections on the Unix socket.
const MOST: usize = 256;
/// Maximum number of connections of one user.
const QUOTA: usize = 64;
/// More connections than the server serves.
const MANY: usize = 300;
/// The group with access to the socket.
const GROUP: u32 = 4242;
/// A user other than root, as a member of the group.
const MEMBER: u32 = 65_534;
/// Time for an answer: far more than a busy machine needs, and less than the deadline of a request
/// head.
const PATIENCE: Duration = Duration::from_secs(5);
