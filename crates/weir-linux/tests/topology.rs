//! Sessions leave nothing behind: programs, interfaces, rules, settings, mounts and files are compared before and after, with the
//! session ended in every way, also by SIGKILL at any moment.
//!
//! Each test has a machine of its own: a network namespace with a default route to nowhere, and a `/run` of its own. Needs root.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A namespace that plays the machine, held by a sleeping process.
struct Machine {
    holder: Child,
    mark: String,
}

impl Machine {
    /// `None`, with the reason on standard error, where it cannot be made.
    fn new(name: &str) -> Option<Machine> {
        if !rustix::process::geteuid().is_root() {
            skip(name, "needs root to make namespaces");
            return None;
        }
        for tool in ["unshare", "nsenter", "ip", "nft", "setpriv", "ping"] {
            if !Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().is_ok_and(|o| o.status.success()) {
                skip(name, &format!("{tool} is not installed"));
                return None;
            }
        }
        let script = "set -e; mount -t tmpfs tmpfs /run; ip link set lo up
            echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad; echo 0 >/proc/sys/net/ipv4/ip_forward; ip link add up0 type veth peer name up1; ip link set up1 up; ip link set up0 up
            ip address add 192.0.2.2/24 dev up0; ip route add default via 192.0.2.1; echo ready; exec sleep 600";
        let mut holder = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("unshare was found above");
        let mut ready = [0; 6];
        let read = std::io::Read::read_exact(holder.stdout.as_mut().expect("piped"), &mut ready);
        if read.is_err() {
            let _ = holder.wait();
            skip(name, "the kernel gives no namespaces or no veth interfaces");
            return None;
        }
        Some(Machine { mark: format!("{name}-{}", std::process::id()), holder })
    }

    /// A command on this machine; everything that it starts carries the mark in its environment.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--mount", "--target", &self.holder.id().to_string(), "--"]).args(words);
        command.env(MARK, &self.mark).stdin(Stdio::null());
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("nsenter was found")
    }

    /// `surround` with these words, to its end.
    fn surround(&self, words: &[&str]) -> Output {
        self.output(&with_surround(words))
    }

    /// Everything that a session might leave. Neighbours, counters and the like are not compared.
    fn snapshot(&self) -> Vec<String> {
        let text = |words: &[&str]| String::from_utf8_lossy(&self.output(words).stdout).into_owned();
        let settings = "cd /proc/sys/net; grep -H . ipv4/ip_forward ipv4/conf/*/forwarding ipv6/conf/*/forwarding \
            ipv6/conf/*/force_forwarding 2>/dev/null";
        vec![
            text(&["ip", "-o", "-brief", "link"]),
            text(&["ip", "address"]).replace("valid_lft forever", ""),
            text(&["ip", "netns"]),
            text(&["ip", "rule"]),
            text(&["ip", "route", "show", "table", "all"]),
            text(&["nft", "list", "ruleset"]),
            text(&["sh", "-c", settings]),
            text(&["sh", "-c", "cut -d ' ' -f 4- /proc/self/mountinfo | grep -v /run/netns"]),
            text(&["find", "/run"]),
        ]
    }

    /// Processes of this machine's sessions, by their mark.
    fn processes(&self) -> BTreeSet<String> {
        let wanted = format!("{MARK}={}", self.mark);
        let marked = |dir: &Path| {
            let environment = fs::read(dir.join("environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
        };
        let entries = fs::read_dir("/proc").expect("proc is mounted").filter_map(Result::ok).map(|entry| entry.path());
        entries
            .filter(|dir| marked(dir))
            .map(|dir| format!("{} {}", dir.display(), fs::read_to_string(dir.join("cmdline")).unwrap_or_default().replace('\0', " ")))
            .collect()
    }

    /// Waits for the machine to be as it was: what the kernel does after a SIGKILL takes a moment.
    fn assert_as_before(&self, before: &[String], what: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (now, left) = (self.snapshot(), self.processes());
            if left.is_empty() && now == before {
                return;
            }
            if Instant::now() > deadline {
                assert!(left.is_empty(), "{what}: processes are left: {left:#?}");
                let differences: Vec<_> = before.iter().zip(&now).filter(|(before, now)| before != now).collect();
                assert!(differences.is_empty(), "{what} (before, now): {differences:#?}");
            }
            sleep(POLL);
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

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
    // The right program decides; the left one is ended by the session.
    assert_eq!(code(&["pair", "--", "sleep", "300", "--", "sh", "-c", "exit 5"]), Some(5));
    assert_eq!(code(&["pair", "--", "sh", "-c", "exit 6", "--", "sleep", "300"]), Some(6));
    machine.assert_as_before(&before, "after programs that ended");
}

#[test]
fn both_ends_reach_each_other_by_name_on_every_backend() {
    let Some(machine) = Machine::new("names") else { return };
    let before = machine.snapshot();
    for backend in ["tap", "packet"] {
        for family in ["-4", "-6"] {
            let run = machine.surround(&["run", backend, "--", "ping", family, "-c1", "-W5", "host"]);
            assert!(run.status.success(), "run {backend} {family}: {run:?}");
            let pair = machine.surround(&["pair", backend, "--", "sleep", "300", "--", "ping", family, "-c1", "-W5", "left"]);
            assert!(pair.status.success(), "pair {backend} {family}: {pair:?}");
        }
    }
    machine.assert_as_before(&before, "after pings");
}

#[test]
fn ordinary_user_gets_a_session_and_stays_himself() {
    let Some(machine) = Machine::new("user") else { return };
    if !machine.output(&as_nobody(&["unshare", "--user", "--net", "true"])).status.success() {
        return skip("user", "the kernel gives ordinary users no user namespace");
    }
    let before = machine.snapshot();
    for backend in ["auto", "packet"] {
        let words = ["pair", backend, "--", "sleep", "300", "--", "sh", "-c", "ping -c1 -W5 left && exec id -u"];
        let output = machine.output(&as_nobody(&with_surround(&words)));
        assert!(output.status.success(), "{backend}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).lines().any(|line| line == "65534"), "{output:?}");
    }
    let run = machine.output(&as_nobody(&with_surround(&["run", "closed", "--", "ping", "-c1", "-W5", "host"])));
    assert!(run.status.success(), "{run:?}");
    assert_eq!(machine.output(&as_nobody(&with_surround(&["run", "--", "sh", "-c", "exit 9"]))).status.code(), Some(9));
    machine.assert_as_before(&before, "after an ordinary user's sessions");
}

#[test]
fn daemons_end_with_their_session_and_are_counted() {
    let Some(machine) = Machine::new("daemons") else { return };
    let before = machine.snapshot();
    let script = "(setsid sleep 300 </dev/null >/dev/null 2>&1 &); (setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' \
        </dev/null >/dev/null 2>&1 &); sleep 0.3; exit 4";
    let output = machine.surround(&["run", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(4));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("background processes were ended with the namespace"), "{words}");
    machine.assert_as_before(&before, "after daemons");
}

#[test]
fn signals_reach_the_program_and_its_answer_comes_back() {
    let Some(machine) = Machine::new("signals") else { return };
    let before = machine.snapshot();
    for (signal, code) in [("TERM", 21), ("HUP", 22), ("INT", 23), ("USR1", 24)] {
        let script = format!("trap 'exit {code}' {signal}; echo ready; while :; do sleep 0.05; done");
        let mut child = machine.command(&with_surround(&["run", "--", "sh", "-c", &script])).stdout(Stdio::piped()).spawn().unwrap();
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
    // Fixed, so that a failure can be repeated as far as time can.
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..KILLS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let flood: &[&str] = &["ping", "-q", "-f", "-c", "20000", "host"];
        let words: Vec<&str> = match round % 4 {
            0 => ["run", "tap", "--"].iter().chain(flood).copied().collect(),
            1 => ["run", "packet", "--"].iter().chain(flood).copied().collect(),
            2 => vec!["run", "--", "sh", "-c", "setsid -f sleep 300; exec ping -q -f -c 20000 host"],
            _ => vec!["pair", "--", "sleep", "300", "--", "ping", "-q", "-f", "-c", "20000", "left"],
        };
        let mut child = machine.command(&with_surround(&words)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(random % 400));
        kill(child.id(), "KILL");
        child.wait().unwrap();
        machine.assert_as_before(&before, &format!("round {round}: {words:?} killed after {} ms", random % 400));
    }
}

#[test]
fn killed_ordinary_users_session_leaves_nothing() {
    let Some(machine) = Machine::new("killed_user") else { return };
    let before = machine.snapshot();
    for delay in [20, 60, 120, 250, 500] {
        let words = with_surround(&["run", "--", "sh", "-c", "setsid -f sleep 300; exec ping -q -i 0.01 -c 2000 host"]);
        let mut child = machine.command(&as_nobody(&words)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
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
        let mut child = machine.command(&with_surround(&["run", "--", "sleep", "299"])).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let pid = loop {
            let all = machine.processes();
            // The command line of surround itself ends in the same words.
            let found = all.iter().find(|line| line.contains(victim) && !line.contains("surround") && !line.contains("nsenter"));
            if let Some(line) = found.filter(|_| all.iter().any(|line| line.contains(" sleep 299") && !line.contains("surround"))) {
                break line.trim_start_matches("/proc/").split(' ').next().unwrap().parse().unwrap();
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
fn parallel_sessions_leave_each_other_alone() {
    let Some(machine) = Machine::new("parallel") else { return };
    let before = machine.snapshot();
    let words = with_surround(&["run", "--", "sh", "-c", "ping -q -c3 -i 0.2 -W5 host && cat /proc/sys/net/ipv4/conf/eth0/forwarding"]);
    let start = || machine.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let children: Vec<Child> = (0..PARALLEL).map(|_| start()).collect();
    let outputs: Vec<Output> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
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
        let mut child = machine.command(&with_surround(&["run", "--", "sh", "-c", "echo ready; exec sleep 300"]));
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        child
    };
    let (mut first, mut second) = (start(), start());
    assert_eq!(forwarding(), b"1\n");
    kill(first.id(), "TERM");
    assert_eq!(first.wait().unwrap().code(), Some(128 + 15));
    assert_eq!(forwarding(), b"1\n", "the second session still needs it");
    kill(second.id(), "TERM");
    second.wait().unwrap();
    machine.assert_as_before(&before, "after both");
}

#[test]
fn next_session_does_the_work_of_a_killed_janitor() {
    let Some(machine) = Machine::new("janitor") else { return };
    let before = machine.snapshot();
    let mut child = machine.command(&with_surround(&["run", "--", "sh", "-c", "echo ready; exec sleep 300"]));
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
    let janitor = machine.processes().into_iter().find(|line| line.contains("__weir-janitor")).expect("forwarding was off");
    kill(janitor.trim_start_matches("/proc/").split(' ').next().unwrap().parse().unwrap(), "KILL");
    kill(child.id(), "KILL");
    child.wait().unwrap();
    assert_ne!(machine.snapshot(), before, "somebody else put the settings back: this test shows nothing");
    let next = machine.surround(&["run", "--", "true"]);
    assert!(String::from_utf8_lossy(&next.stderr).contains("were put back"), "{next:?}");
    machine.assert_as_before(&before, "after the next session");
}

/// The words of a command that starts the example program.
fn with_surround<'a>(words: &[&'a str]) -> Vec<&'a str> {
    static EXAMPLE: OnceLock<PathBuf> = OnceLock::new();
    let path = EXAMPLE.get_or_init(build_surround).to_str().expect("target directories are UTF-8 here");
    [&[path][..], words].concat()
}

/// The path of `examples/surround`, built when `cargo test` was told to build this file alone; where every user may run it.
fn build_surround() -> PathBuf {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let built = Command::new(cargo).args(["build", "--quiet", "-p", "weir-linux", "--example", "surround"]).status();
    assert!(built.is_ok_and(|status| status.success()), "the example does not build");
    let exe = std::env::current_exe().expect("proc is mounted");
    let profile = exe.ancestors().nth(2).expect("tests are in target/PROFILE/deps");
    profile.join("examples/surround")
}

fn as_nobody<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"][..], words].concat()
}

fn kill(pid: u32, signal: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "kill -{signal} {pid}");
}

/// Says that and why a test was not run, where `make test` looks for it.
fn skip(test: &str, why: &str) {
    eprintln!("SKIPPED: topology {test}: {why}");
    if let Some(path) = std::env::var_os("WEIR_SKIP_LOG")
        && let Ok(mut log) = fs::File::options().append(true).create(true).open(path)
    {
        let _ = writeln!(log, "SKIPPED: topology {test}: {why}");
    }
}

/// Environment variable by which a test finds the processes of its sessions.
const MARK: &str = "WEIR_TEST_MARK";
/// Bound on waiting for what comes soon or never.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// How often a session is killed, at different moments.
const KILLS: u32 = 20;
/// Sessions at the same time.
const PARALLEL: usize = 4;
