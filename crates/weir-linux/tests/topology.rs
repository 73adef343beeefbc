//! Tests that sessions leave nothing behind. They compare programs, interfaces, rules, settings,
//! mounts and files before and after a session. The sessions end in every possible manner,
//! including SIGKILL at any moment.
//!
//! Each test has its own machine, see [`topology_net`]. The tests need root.

mod topology_net;

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use topology_net::{Machine, PATIENCE, POLL, as_nobody, kill, skip, with_surround};

#[test]
fn exit_codes_pass_through() {
    let Some(machine) = Machine::new("exit_codes") else { return };
    let before = machine.snapshot();
    let code = |words: &[&str]| machine.surround(words).status.code();
    assert_eq!(code(&["run", "--", "true"]), Some(0));
    assert_eq!(code(&["run", "--", "sh", "-c", "exit 42"]), Some(42));
    assert_eq!(code(&["run", "--", "sh", "-c", "kill -SEGV $$"]), Some(128 + 11));
    assert_eq!(code(&["run", "--", "sh", "-c", "kill -KILL $$"]), Some(128 + 9));
    assert_eq!(code(&["run", "--", "no-such-command-anywhere"]), Some(127));
    assert_eq!(code(&["run", "--", "/etc/hosts"]), Some(126));
    // The exit code is that of the program that ends on its own. The session then ends the other
    // program.
    assert_eq!(code(&["pair", "--", "sleep", "300", "--", "sh", "-c", "exit 5"]), Some(5));
    assert_eq!(code(&["pair", "--", "sh", "-c", "exit 6", "--", "sleep", "300"]), Some(6));
    // If the left program fails first, its exit code counts even if the right one succeeds later.
    assert_eq!(code(&["pair", "--", "sh", "-c", "exit 6", "--", "sleep", "1"]), Some(6));
    machine.assert_as_before(&before, "after programs that ended");
}

#[test]
fn both_ends_reach_each_other_by_name_on_every_backend() {
    let Some(machine) = Machine::new("names") else { return };
    let before = machine.snapshot();
    for backend in ["tap", "packet"] {
        for family in ["-4", "-6"] {
            let run =
                machine.surround(&["run", backend, "--", "ping", family, "-c1", "-W5", "host"]);
            assert!(run.status.success(), "run {backend} {family}: {run:?}");
            let pair = machine.surround(&[
                "pair", backend, "--", "sleep", "300", "--", "ping", family, "-c1", "-W5", "left",
            ]);
            assert!(pair.status.success(), "pair {backend} {family}: {pair:?}");
        }
    }
    machine.assert_as_before(&before, "after pings");
}

#[test]
fn an_idle_link_carries_only_packets_of_programs() {
    let Some(machine) = Machine::new("quiet") else { return };
    let users_have_tap = machine.users_may_open_tun("quiet");
    let nobody = |words: &[&str]| machine.output(&as_nobody(&with_surround(words)));
    let words_of = |output: Output| String::from_utf8_lossy(&output.stderr).into_owned();
    // The programs only wait, so all sessions can run at the same time.
    std::thread::scope(|scope| {
        for backend in ["tap", "packet"] {
            // A line has the moment, the direction, and the packets in, out and dropped.
            let expect_silence = move |words: String| {
                for line in
                    ["settled up 0 0 0", "settled down 0 0 0", "end up 0 0 0", "end down 0 0 0"]
                {
                    assert!(
                        words.lines().any(|word| word == line),
                        "{backend}: {line} is missing in {words}"
                    );
                }
            };
            let run = ["run", backend, "count", "--", "sleep", "5"];
            let pair = ["pair", backend, "count", "--", "sleep", "5", "--", "sleep", "5"];
            let machine = &machine;
            scope.spawn(move || expect_silence(words_of(machine.surround(&run))));
            scope.spawn(move || expect_silence(words_of(machine.surround(&pair))));
            if backend != "tap" || users_have_tap {
                scope.spawn(move || expect_silence(words_of(nobody(&pair))));
            }
            for family in ["-4", "-6"] {
                let ping = [
                    "pair", backend, "count", "--", "sleep", "300", "--", "ping", family, "-q",
                    "-c8", "left",
                ];
                // Both ends know each other's Ethernet address, so only echoes cross the link.
                scope.spawn(move || {
                    let words = words_of(machine.surround(&ping));
                    assert!(
                        words.lines().any(|line| line == "end up 8 8 0"),
                        "{backend} {family}: {words}"
                    );
                });
            }
        }
    });
}

#[test]
fn an_ordinary_user_gets_a_session_and_keeps_the_user_id() {
    let Some(machine) = Machine::new("user") else { return };
    if !machine.output(&as_nobody(&["unshare", "--user", "--net", "true"])).status.success() {
        return skip("user", "the kernel gives ordinary users no user namespace");
    }
    let before = machine.snapshot();
    for backend in ["auto", "packet"] {
        let words = [
            "pair",
            backend,
            "--",
            "sleep",
            "300",
            "--",
            "sh",
            "-c",
            "ping -c1 -W5 left && exec id -u",
        ];
        let output = machine.output(&as_nobody(&with_surround(&words)));
        assert!(output.status.success(), "{backend}: {output:?}");
        assert!(
            String::from_utf8_lossy(&output.stdout).lines().any(|line| line == "65534"),
            "{output:?}"
        );
    }
    let run = machine
        .output(&as_nobody(&with_surround(&["run", "closed", "--", "ping", "-c1", "-W5", "host"])));
    assert!(run.status.success(), "{run:?}");
    assert_eq!(
        machine
            .output(&as_nobody(&with_surround(&["run", "--", "sh", "-c", "exit 9"])))
            .status
            .code(),
        Some(9)
    );
    machine.assert_as_before(&before, "after an ordinary user's sessions");
}

#[test]
fn daemons_end_with_their_session_and_are_counted() {
    let Some(machine) = Machine::new("daemons") else { return };
    let before = machine.snapshot();
    let script = "(setsid sleep 300 </dev/null >/dev/null 2>&1 &); (setsid sh -c 'trap \"\" TERM; \
                  while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &); sleep 0.3; exit 4";
    let output = machine.surround(&["run", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(4));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("background processes were ended with the namespace"), "{words}");
    machine.assert_as_before(&before, "after daemons");
}

#[test]
fn signals_reach_the_program_and_its_exit_code_is_returned() {
    let Some(machine) = Machine::new("signals") else { return };
    let before = machine.snapshot();
    for (signal, code) in [("TERM", 21), ("HUP", 22), ("INT", 23), ("USR1", 24)] {
        // A shell cannot trap a signal that was ignored when it started, as SIGHUP is under nohup.
        let script =
            format!("trap 'exit {code}' {signal}; echo ready; while :; do sleep 0.05; done");
        let mut child = machine
            .command(&with_surround(&["run", "--", "env", "--default-signal", "sh", "-c", &script]))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        kill(child.id(), signal);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
    }
    machine.assert_as_before(&before, "after signals");
}

#[test]
fn killed_at_any_moment_nothing_is_left() {
    let Some(machine) = Machine::new("killed") else { return };
    let before = machine.snapshot();
    // The seed is fixed, so that a failure can be repeated as far as timing allows.
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..KILLS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let flood: &[&str] = &["ping", "-q", "-f", "-c", "20000", "host"];
        let words: Vec<&str> = match round % 4 {
            0 => ["run", "tap", "--"].iter().chain(flood).copied().collect(),
            1 => ["run", "packet", "--"].iter().chain(flood).copied().collect(),
            2 => {
                vec!["run", "--", "sh", "-c", "setsid -f sleep 300; exec ping -q -f -c 20000 host"]
            }
            _ => {
                vec!["pair", "--", "sleep", "300", "--", "ping", "-q", "-f", "-c", "20000", "left"]
            }
        };
        let mut child = machine
            .command(&with_surround(&words))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        sleep(Duration::from_millis(random % 400));
        kill(child.id(), "KILL");
        child.wait().unwrap();
        machine.assert_as_before(
            &before,
            &format!("round {round}: {words:?} killed after {} ms", random % 400),
        );
    }
}

#[test]
fn killed_ordinary_users_session_leaves_nothing() {
    let Some(machine) = Machine::new("killed_user") else { return };
    let before = machine.snapshot();
    for delay in [20, 60, 120, 250, 500] {
        let words = with_surround(&[
            "run",
            "--",
            "sh",
            "-c",
            "setsid -f sleep 300; exec ping -q -i 0.01 -c 2000 host",
        ]);
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
fn session_ends_when_its_program_is_killed_from_outside() {
    let Some(machine) = Machine::new("victim") else { return };
    let before = machine.snapshot();
    for victim in ["sleep 299", "__weir-init"] {
        let mut child =
            machine.command(&with_surround(&["run", "--", "sleep", "299"])).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let pid = loop {
            let all = machine.processes();
            // The command lines of `surround` and `nsenter` contain these words too.
            let found = all.iter().find(|line| {
                line.contains(victim) && !line.contains("surround") && !line.contains("nsenter")
            });
            if let Some(line) = found.filter(|_| {
                all.iter().any(|line| line.contains(" sleep 299") && !line.contains("surround"))
            }) {
                break line
                    .trim_start_matches("/proc/")
                    .split(' ')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap();
            }
            assert!(Instant::now() < deadline, "the program did not start: {all:?}");
            sleep(POLL);
        };
        kill(pid, "KILL");
        assert_eq!(child.wait().unwrap().code(), Some(128 + 9), "{victim}");
        machine.assert_as_before(&before, victim);
    }
}

#[test]
fn parallel_sessions_do_not_affect_each_other() {
    let Some(machine) = Machine::new("parallel") else { return };
    let before = machine.snapshot();
    let words = with_surround(&[
        "run",
        "--",
        "sh",
        "-c",
        "ping -q -c3 -i 0.2 -W5 host && cat /proc/sys/net/ipv4/conf/eth0/forwarding",
    ]);
    let start =
        || machine.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let children: Vec<Child> = (0..PARALLEL).map(|_| start()).collect();
    let outputs: Vec<Output> =
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    machine.assert_as_before(&before, "after parallel sessions");
}

#[test]
fn forwarding_stays_on_until_the_last_session_ends() {
    let Some(machine) = Machine::new("counted") else { return };
    let before = machine.snapshot();
    let forwarding = || machine.output(&["cat", "/proc/sys/net/ipv4/conf/up0/forwarding"]).stdout;
    assert_eq!(forwarding(), b"0\n");
    let start = || {
        let mut child = machine.command(&with_surround(&[
            "run",
            "--",
            "sh",
            "-c",
            "echo ready; exec sleep 300",
        ]));
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        child
    };
    let (mut first, mut second) = (start(), start());
    assert_eq!(forwarding(), b"1\n");
    kill(first.id(), "TERM");
    assert_eq!(first.wait().unwrap().code(), Some(128 + 15));
    assert_eq!(forwarding(), b"1\n", "the second session still needs forwarding");
    kill(second.id(), "TERM");
    second.wait().unwrap();
    machine.assert_as_before(&before, "after both");
}

#[test]
fn next_session_does_the_work_of_a_killed_janitor() {
    let Some(machine) = Machine::new("janitor") else { return };
    let before = machine.snapshot();
    let mut child =
        machine.command(&with_surround(&["run", "--", "sh", "-c", "echo ready; exec sleep 300"]));
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
    let janitor = machine
        .processes()
        .into_iter()
        .find(|line| line.contains("__weir-janitor"))
        .expect("forwarding was off, so a janitor runs");
    kill(janitor.trim_start_matches("/proc/").split(' ').next().unwrap().parse().unwrap(), "KILL");
    kill(child.id(), "KILL");
    child.wait().unwrap();
    assert_ne!(
        machine.snapshot(),
        before,
        "another process restored the settings: this test shows nothing"
    );
    let next = machine.surround(&["run", "--", "true"]);
    assert!(String::from_utf8_lossy(&next.stderr).contains("were put back"), "{next:?}");
    machine.assert_as_before(&before, "after the next session");
}

#[test]
fn settings_are_restored_when_the_directories_of_sessions_are_deleted() {
    let Some(machine) = Machine::new("deleted") else { return };
    let before = machine.snapshot();
    let forwarding = || machine.output(&["cat", "/proc/sys/net/ipv4/conf/up0/forwarding"]).stdout;
    for signal in ["TERM", "KILL"] {
        let mut child = machine.command(&with_surround(&[
            "run",
            "--",
            "sh",
            "-c",
            "echo ready; exec sleep 300",
        ]));
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        assert_eq!(forwarding(), b"1\n");
        assert!(
            !machine.output(&["test", "-e", "/run/weir"]).status.success(),
            "the daemon's directory holds state of a session"
        );
        assert!(machine.output(&["sh", "-c", "rm -r /run/weir*"]).status.success());
        kill(child.id(), signal);
        child.wait().unwrap();
        machine.assert_as_before(&before, &format!("after {signal} without the directory"));
    }
}

#[test]
fn init_refuses_to_run_outside_process_1() {
    let Some(machine) = Machine::new("init") else { return };
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    // The order to run `true`. When `true` has ended, init ends all other processes.
    let order = r#"{"command":[[116,114,117,101]],"environment":[],"hosts":null,"resolv":null,
        "own_proc":false,"without_stdin":true,"keep_capabilities":false,"netns":null,
        "grace_ms":100}"#;
    ours.write_all(&u32::try_from(order.len()).unwrap().to_le_bytes()).unwrap();
    ours.write_all(order.as_bytes()).unwrap();
    // The PID namespace protects the processes of the tests.
    let script = r#"sleep 300 & victim=$!; "$0" __weir-init 3 3<&0 </dev/null; echo init $?
        kill -KILL $victim; wait $victim; echo victim $?"#;
    let words = with_surround(&[]);
    let mut command =
        machine.command(&["unshare", "--pid", "--fork", "sh", "-c", script, words[0]]);
    let output = command.stdin(OwnedFd::from(theirs)).output().unwrap();
    let (out, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out, "init 2\nvictim 137\n", "137 is the test's own SIGKILL: {errors}");
    assert!(errors.contains("only as process 1"), "{errors}");
}

/// The number of sessions that are killed, at different moments.
const KILLS: u32 = 20;
/// The number of simultaneous sessions.
const PARALLEL: usize = 4;
