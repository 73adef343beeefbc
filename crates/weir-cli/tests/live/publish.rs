//! Tests ports of the machine that lead to a program (`--publish`), and names that only the
//! machine's loopback resolver knows.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::common::{
    Copies, Done, Lab, NOBODY, Need, Running, at_once, link, number, output_of, trial, until,
};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "a_published_port_leads_to_the_program_over_the_link",
            &[Need::Root, Need::Program("setpriv"), Need::Program("perl")],
            published,
        ),
        trial("a_port_in_use_is_an_error_before_the_program_starts", &[], in_use),
        trial("a_published_port_is_free_after_kill_9", &[], killed),
        trial("a_refusal_reaches_the_client_of_a_published_port", &[], refused),
        trial(
            "names_resolve_with_a_resolver_that_listens_on_loopback_only",
            &[Need::Root],
            loopback_resolver,
        ),
        trial("without_any_resolver_a_quiet_run_says_so", &[Need::Root], no_resolver),
    ]
}

/// A port of the machine that no program uses.
fn free_port() -> u16 {
    let listener = TcpListener::bind("[::]:0").expect("listen");
    listener.local_addr().expect("an address").port()
}

/// Whether a program listens on a port of the machine.
fn is_open(port: u16) -> bool {
    TcpListener::bind(("0.0.0.0", port)).is_err() || UdpSocket::bind(("0.0.0.0", port)).is_err()
}

fn published(lab: &Lab) {
    let Copies { weir, load, home } = &Copies::make(lab);
    at_once(2, ["root", "user"], |who| {
        let [tcp, udp] = [free_port(), free_port()].map(|port| port.to_string());
        let server = format!("{load} echo --bind 0.0.0.0:9000 & perl -e '{COUNTER}'");
        let json = format!("{home}/{who}.json");
        let mut command = Command::new(if who == "root" { "env" } else { NOBODY[0] });
        command.args(if who == "root" { &[][..] } else { &NOBODY[1..] });
        command.args([weir, "run", "-q", "--link", "delay 20ms", "--json", &json]);
        command.args([
            "--publish",
            &format!("{tcp}:9001"),
            "--publish",
            &format!("{udp}:9000/udp"),
        ]);
        let run = lab.launch(command.args(["--", "sh", "-c", &server]));
        for client in ["127.0.0.1", "[::1]"] {
            let ping = format!("{load} ping --to {client}:{udp} --count 3 --json");
            let answers = || serde_json::from_str::<Value>(&output_of(&ping)).unwrap_or_default();
            until("datagrams are answered", || answers()["lost"] == 0);
            let answers = answers();
            assert!(number(&answers["rtt_ns"], "min") >= 40_000_000, "over the link: {answers}");
        }
        let tcp: u16 = tcp.parse().expect("a port");
        until("an upload arrives", || upload(tcp).is_ok_and(|answer| answer == "300000"));
        let done = run.finish();
        assert_eq!(done.code, 0, "{who}: {done:?}");
        let result = lab.document(&format!("home/{who}.json"));
        assert!(number(link(&result, "down"), "bytes_out") > 300_000, "{who}: {result}");
        let udp = udp.parse().expect("a port");
        assert!(![tcp, udp].into_iter().any(is_open), "{who}: the ports are closed after the end");
    });
}

/// Sends data to a port of the machine; returns the answer.
fn upload(port: u16) -> std::io::Result<String> {
    let mut client = TcpStream::connect(("127.0.0.1", port))?;
    client.write_all(&[7; 300_000])?;
    client.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A program that answers one client with the number of bytes that the client has sent.
const COUNTER: &str = "use IO::Socket::INET; \
    my $s = IO::Socket::INET->new(Listen => 9, LocalPort => 9001, ReuseAddr => 1); \
    my $c = $s->accept; my $n = 0; \
    while ((my $r = sysread($c, my $b, 65536)) > 0) { $n += $r } print $c $n; close $c;";

fn in_use(lab: &Lab) {
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
    let (tcp, udp) = (tcp.expect("listen"), udp.expect("bind"));
    let ports = [
        (tcp.local_addr().expect("an address").port(), ""),
        (udp.local_addr().expect("an address").port(), "/udp"),
    ];
    for (port, kind) in ports {
        let publish = format!("{port}:80{kind}");
        let done = lab.weir(["run", "--publish", &publish, "--", "echo", "started"]);
        assert_eq!((done.code, &*done.stdout), (125, ""), "{done:?}");
        assert!(
            done.stderr.contains(&port.to_string()) && done.stderr.contains("in use"),
            "{done:?}"
        );
    }
    let done = lab.weir(["run", "--publish", "80", "--", "true"]);
    assert!(done.code == 2 && done.stderr.contains("80:80"), "{done:?}");
}

/// Starts a run with a published port and a program that never listens.
fn idle(lab: &Lab, port: u16) -> Running {
    let ready = lab.path("ready").display().to_string();
    let publish = format!("{port}:9001");
    let program = format!("echo > {ready}; sleep 60");
    let run = lab.start(["run", "-q", "--publish", &publish, "--", "sh", "-c", &program]);
    until("the program runs", || lab.path("ready").exists());
    run
}

fn killed(lab: &Lab) {
    let port = free_port();
    let run = idle(lab, port);
    assert!(is_open(port), "the port is open while the program runs");
    nix::sys::signal::kill(run.pid(), Signal::SIGKILL).expect("weir runs");
    until("the port is free", || !is_open(port));
}

fn refused(lab: &Lab) {
    let port = free_port();
    let run = idle(lab, port);
    let began = Instant::now();
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("weir accepts");
    client.set_read_timeout(Some(Duration::from_secs(10))).expect("a time limit");
    let error = client.read(&mut [0; 1]).expect_err("no program listens inside");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{:?}", began.elapsed());
    run.signal_group(Signal::SIGKILL);
}

/// The answer of a name server that knows one address for every name.
fn answer(query: &[u8]) -> Vec<u8> {
    let labels = &query[HEADER..];
    let end = HEADER + labels.iter().position(|&byte| byte == 0).expect("a name") + 1;
    let question = &query[HEADER..end + 4];
    let is_ipv4 = query[end..end + 2] == [0, 1];
    // A response with recursion available; one question, and one answer if the query asks for an
    // IPv4 address.
    let counts = [0, 1, 0, u8::from(is_ipv4), 0, 0, 0, 0];
    let mut answer = [&query[..2], &[0x81, 0x80], &counts, question].concat();
    if is_ipv4 {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 99]);
    }
    answer
}

/// Starts a name server at a loopback address, for as long as the test process lives.
fn name_server(address: &'static str) {
    let udp = UdpSocket::bind((address, 53)).expect("root may open port 53");
    let tcp = TcpListener::bind((address, 53)).expect("root may open port 53");
    std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        while let Ok((length, client)) = udp.recv_from(&mut buffer) {
            if length > HEADER {
                let _ = udp.send_to(&answer(&buffer[..length]), client);
            }
        }
    });
    std::thread::spawn(move || {
        for mut client in tcp.incoming().flatten() {
            let mut length = [0; 2];
            while client.read_exact(&mut length).is_ok() {
                let mut query = vec![0; u16::from_be_bytes(length).into()];
                if client.read_exact(&mut query).is_err() {
                    break;
                }
                let answer = answer(&query);
                let framed = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
                let _ = client.write_all(&framed);
            }
        }
    });
}

/// Looks up a name in a quiet run on a machine with this resolver file.
fn look_up(lab: &Lab, resolv: &str) -> Done {
    let file = lab.file("resolv.conf", resolv);
    let script = format!("mount --bind {file} /etc/resolv.conf && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh", crate::common::weir(), "run", "-q"]);
    lab.launch(command.args(["--link", "delay 5ms", "--", "getent", "ahostsv4", "some.name.test"]))
        .finish()
}

fn loopback_resolver(lab: &Lab) {
    name_server("127.0.0.53");
    for options in ["", "options use-vc\n"] {
        let done = look_up(lab, &format!("nameserver 127.0.0.53\n{options}"));
        assert!(done.code == 0 && done.stdout.contains("192.0.2.99"), "{options}: {done:?}");
        assert!(!done.stderr.contains("note"), "{options}: {done:?}");
    }
}

fn no_resolver(lab: &Lab) {
    let done = look_up(lab, "nameserver 127.0.0.77\noptions timeout:1 attempts:1\n");
    assert_ne!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("names do not resolve"), "{done:?}");
}

/// Bytes of the header of a DNS message.
const HEADER: usize = 12;
