//! Tests of links that an ordinary user starts: connections, rate, cleanup and missing tools.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::thread::{self, sleep};
use std::time::Duration;

use super::{Machine, as_nobody, kill, skip, with_surround};

/// A machine with python3, pasta and user namespaces for ordinary users. If one is missing, reports
/// it and returns `None`.
fn machine(name: &str) -> Option<Machine> {
    let machine = Machine::new(name)?;
    for tool in ["python3", "pasta"] {
        if !machine.output(&["sh", "-c", &format!("command -v {tool}")]).status.success() {
            skip(name, &format!("{tool} is not installed"));
            return None;
        }
    }
    if !machine.output(&as_nobody(&["unshare", "--user", "--net", "true"])).status.success() {
        skip(name, "the kernel gives ordinary users no user namespace");
        return None;
    }
    Some(machine)
}

/// Calls `serve` for every connection to a loopback address of the machine, for as long as the test
/// process lives. Returns the port number.
fn serve(
    machine: &Machine,
    address: &'static str,
    serve: impl Fn(TcpStream) + Send + Sync + Copy + 'static,
) -> u16 {
    let listener = machine.inside(move || TcpListener::bind(address).expect("loopback is there"));
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || serve(client));
        }
    });
    port
}

fn echo(mut client: TcpStream) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        if client.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

/// Runs a Python program behind a link, as user nobody. Returns the program's output and the link's
/// messages.
fn python(machine: &Machine, options: &[&str], program: &str) -> (String, String) {
    let words = [&["run"], options, &["--", "python3", "-c", program]].concat();
    let output = machine.output(&as_nobody(&with_surround(&words)));
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{program}: {stdout} {stderr}");
    (stdout, stderr)
}

#[test]
fn a_download_over_a_slow_link_has_the_rate_of_the_link() {
    let Some(machine) = machine("rootless_download") else { return };
    let port = serve(&machine, "127.0.0.1:0", |mut client| {
        // The client may close early; then the test fails because of the missing data.
        let _ = client.write_all(&vec![7; DOWNLOAD]);
    });
    let program = format!(
        "import socket, time; start = time.monotonic()
c = socket.create_connection(('host', {port}), 30); n = 0
while b := c.recv(65536): n += len(b)
print(n, int(n * 8 / (time.monotonic() - start)))"
    );
    let (stdout, stderr) = python(&machine, &["slow", "count"], &program);
    let numbers: Vec<usize> = stdout.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(numbers[0], DOWNLOAD);
    assert!(numbers[1] >= 4_000_000 / 100 * 85, "{} bit/s of 4,000,000", numbers[1]);
    let line = stderr
        .lines()
        .find_map(|line| line.strip_prefix("end down "))
        .expect("counters were asked for");
    let counters: Vec<usize> = line.split(' ').map(|word| word.parse().unwrap()).collect();
    let (packets, dropped) = (counters[0], counters[2]);
    assert!(
        packets > DOWNLOAD / 1500 && dropped * 5 < packets,
        "the sender overruns the queue: {line}"
    );
}

#[test]
fn many_connections_at_once_each_get_their_own_answer() {
    let Some(machine) = machine("rootless_many") else { return };
    let users_have_tap = machine.users_may_open_tun("rootless_many");
    for (address, family) in [("127.0.0.1:0", "AF_INET"), ("[::1]:0", "AF_INET6")] {
        let port = serve(&machine, address, echo);
        let program = format!(
            "import socket, threading
target = socket.getaddrinfo('host', {port}, socket.{family}, socket.SOCK_STREAM)[0][4]
right = []
def one(i):
    c = socket.socket(socket.{family}); c.settimeout(30); c.connect(target)
    text = (b'%06d' % i) * 5000; got = b''
    threading.Thread(target=lambda: (c.sendall(text), c.shutdown(socket.SHUT_WR))).start()
    while b := c.recv(65536): got += b
    right.append(got == text)
threads = [threading.Thread(target=one, args=(i,)) for i in range(50)]
for t in threads: t.start()
for t in threads: t.join()
print(right.count(True))"
        );
        for backend in
            ["tap", "packet"].into_iter().filter(|&backend| backend != "tap" || users_have_tap)
        {
            assert_eq!(python(&machine, &[backend], &program).0.trim(), "50", "{family} {backend}");
        }
    }
}

#[test]
fn refusals_resets_and_half_closed_connections_are_passed_on() {
    let Some(machine) = machine("rootless_ends") else { return };
    let counting = serve(&machine, "127.0.0.1:0", |mut client| {
        let mut received = Vec::new();
        if client.read_to_end(&mut received).is_ok() {
            let _ = client.write_all(received.len().to_string().as_bytes());
        }
    });
    let resetting = serve(&machine, "127.0.0.1:0", |mut client| {
        let _ = client.read(&mut [0; 1]);
        // Closing a connection with unread data sends a reset.
    });
    let closed =
        machine.inside(|| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
    let program = format!(
        "import socket
for family, target in ((socket.AF_INET, 'host'), (socket.AF_INET6, 'host'),
        (socket.AF_INET, '192.0.2.2')):
    c = socket.socket(family); c.settimeout(10)
    try: c.connect(socket.getaddrinfo(target, {closed}, family)[0][4]); print('connected')
    except ConnectionRefusedError: print('refused')
c = socket.create_connection(('host', {counting}), 10); c.sendall(bytes(100000))
c.shutdown(socket.SHUT_WR); print(c.recv(99).decode())
c = socket.create_connection(('host', {resetting}), 10); c.sendall(bytes(1000))
try: print(c.recv(1))
except ConnectionResetError: print('reset')"
    );
    let (stdout, _) = python(&machine, &[], &program);
    assert_eq!(
        stdout.split_whitespace().collect::<Vec<_>>(),
        ["refused", "refused", "refused", "100000", "reset"]
    );
}

#[test]
fn pings_and_datagrams_reach_the_machine() {
    let Some(machine) = machine("rootless_datagrams") else { return };
    for family in ["-4", "-6"] {
        let ping = machine.output(&as_nobody(&with_surround(&[
            "run", "--", "ping", family, "-c1", "-W5", "host",
        ])));
        assert!(ping.status.success(), "{family}: {ping:?}");
    }
    if !machine.users_may_open_tun("rootless_datagrams") {
        return;
    }
    // pasta uses IPv6 only if the machine has an IPv6 route.
    let add_route =
        "ip -6 address add 2001:db8::2/64 dev up0 nodad && ip -6 route add default via 2001:db8::1";
    assert!(machine.output(&["sh", "-c", add_route]).status.success());
    for (address, family) in [("127.0.0.1:0", "AF_INET"), ("[::1]:0", "AF_INET6")] {
        let socket = machine.inside(move || UdpSocket::bind(address).unwrap());
        let port = socket.local_addr().unwrap().port();
        thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok((count, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..count], from);
            }
        });
        let program = format!(
            "import socket; s = socket.socket(socket.{family}, socket.SOCK_DGRAM); s.settimeout(10)
target = socket.getaddrinfo('host', {port}, socket.{family}, socket.SOCK_DGRAM)[0][4]
s.sendto(b'question', target); print(s.recvfrom(99)[0].decode())"
        );
        assert_eq!(python(&machine, &[], &program).0.trim(), "question", "{family}");
    }
}

#[test]
fn session_killed_while_its_connections_are_busy_leaves_nothing() {
    let Some(machine) = machine("rootless_killed") else { return };
    let port =
        serve(&machine, "127.0.0.1:0", |mut client| while client.write_all(&[7; 4096]).is_ok() {});
    let program = format!(
        "import socket; cs = [socket.create_connection(('host', {port}), 30) for _ in range(5)]
while True: [c.recv(65536) for c in cs]"
    );
    let before = machine.snapshot();
    for delay in [30, 90, 200, 600, 900] {
        let words = with_surround(&["run", "slow", "--", "python3", "-c", &program]);
        let mut child = machine
            .command(&as_nobody(&words))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        sleep(Duration::from_millis(delay));
        kill(child.id(), "KILL");
        child.wait().unwrap();
        machine.assert_as_before(&before, &format!("killed after {delay} ms"));
    }
}

#[test]
fn an_upload_arrives_complete() {
    let Some(machine) = machine("rootless_upload") else { return };
    let (sender, receiver) = std::sync::mpsc::channel::<usize>();
    let listener = machine.inside(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut received = Vec::new();
        let read = listener.accept().and_then(|(mut client, _)| client.read_to_end(&mut received));
        let _ = sender.send(read.map_or(0, |_| received.len()));
    });
    let program = format!(
        "import socket; c = socket.create_connection(('host', {port}), 10)
c.sendall(bytes(2000000)); c.shutdown(socket.SHUT_WR)
c.settimeout(20); c.recv(1)"
    );
    python(&machine, &[], &program);
    assert_eq!(receiver.recv_timeout(super::PATIENCE), Ok(2_000_000));
}

#[test]
fn without_its_tools_a_session_is_limited_and_notes_it() {
    let Some(machine) = machine("rootless_tools") else { return };
    if !machine.users_may_open_tun("rootless_tools") {
        return;
    }
    let port = serve(&machine, "127.0.0.1:0", echo);
    let program = format!(
        "import socket; c = socket.create_connection(('host', {port}), 10); \
         c.sendall(b'question'); print(c.recv(99).decode())"
    );
    // Runs a command in a session without these tools. Returns whether it succeeded, its output,
    // and the messages.
    let hidden = |tools: &[&str], options: &[&str], command: &[&str]| {
        let mounts: String = tools
            .iter()
            .filter(|tool| **tool != "nftables")
            .map(|tool| format!("mount --bind /dev/null $(command -v {tool}); "))
            .collect();
        let words = with_surround(&[&["run"], options, &["--"], command].concat());
        let hide: &[&str] =
            if tools.contains(&"nftables") { &["python3", "-c", WITHOUT_NFTABLES] } else { &[] };
        let script = format!("set -e; PATH=$PATH:/usr/sbin:/sbin; {mounts} exec \"$@\"");
        let output = machine.output(
            &[&["unshare", "--mount", "sh", "-c", &script, "sh"], hide, &as_nobody(&words)[..]]
                .concat(),
        );
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    for backend in ["tap", "packet"] {
        let python = ["python3", "-c", &program];
        let (_, out, words) = hidden(&["nftables"], &[backend], &python);
        assert!(
            out.trim() == "question" && words.contains("refuses the nftables rules"),
            "{backend}: {out} {words}"
        );
        let (_, out, words) = hidden(&["pasta"], &[backend], &python);
        assert!(
            out.trim() == "question" && words.contains("apt-get install passt"),
            "{backend}: {out} {words}"
        );
        let (answered, _, words) =
            hidden(&["nftables", "pasta"], &[backend], &["ping", "-c1", "-W5", "host"]);
        assert!(answered && words.contains("apt-get install passt"), "{backend}: {words}");
    }
}

/// A Python program that runs a command as on a kernel without nftables.
const WITHOUT_NFTABLES: &str = include_str!("without_nftables.py");

/// Bytes of a download, which take four seconds at 4 Mbit/s.
const DOWNLOAD: usize = 2_000_000;
