//! A simulated machine for each test: a network namespace with a default route to nowhere, and its
//! own `/run`. Needs root.

mod bridge;
mod rootless;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A namespace that represents the machine, held by a sleeping process.
pub(crate) struct Machine {
    holder: Child,
    mark: String,
}

impl Machine {
    /// Creates the machine; `None`, with the reason on standard error, where that is impossible.
    pub(crate) fn new(name: &str) -> Option<Machine> {
        if !rustix::process::geteuid().is_root() {
            skip(name, "needs root to make namespaces");
            return None;
        }
        for tool in ["unshare", "nsenter", "ip", "nft", "setpriv", "ping"] {
            if !Command::new("sh")
                .args(["-c", &format!("command -v {tool}")])
                .output()
                .is_ok_and(|o| o.status.success())
            {
                skip(name, &format!("{tool} is not installed"));
                return None;
            }
        }
        // As on most machines, every user may open the device for TUN and TAP. Where no such device
        // can be created, the real machine's device stays.
        let script = "mount -t tmpfs -o mode=755 tmpfs /dev/net &&
                { mknod -m 666 /dev/net/tun c 10 200 || umount /dev/net; }
            set -e; mount -t tmpfs tmpfs /run; ip link set lo up
            echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
            echo 0 >/proc/sys/net/ipv4/ip_forward
            ip link add up0 type veth peer name up1; ip link set up1 up; ip link set up0 up
            ip address add 192.0.2.2/24 dev up0; ip route add default via 192.0.2.1
            echo ready; exec sleep 600";
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
        let machine = Machine { mark: format!("{name}-{}", std::process::id()), holder };
        machine.settle();
        Some(machine)
    }

    /// Waits until the machine's interfaces have their final state.
    pub(crate) fn settle(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.has_settled() {
            assert!(
                Instant::now() < deadline,
                "the machine's own interfaces do not come up: {:?}",
                self.snapshot()
            );
            sleep(POLL);
        }
    }

    /// Whether the machine's interfaces have their carrier, and the addresses that the kernel adds
    /// after that. Both take a moment, and a snapshot must not be taken before both are complete.
    fn has_settled(&self) -> bool {
        let text =
            |words: &[&str]| String::from_utf8_lossy(&self.output(words).stdout).into_owned();
        let links = text(&["ip", "-o", "link", "show", "type", "veth"]);
        let (all, carriers) = (
            links.lines().count(),
            links.lines().filter(|line| line.contains(" state UP ")).count(),
        );
        let addresses = text(&["ip", "-6", "-o", "address", "show", "scope", "link"]);
        let has_ipv6 = Path::new("/proc/sys/net/ipv6").exists();
        all >= 2
            && carriers == all
            && (!has_ipv6 || addresses.lines().count() == all && !addresses.contains("tentative"))
    }

    /// A command on this machine. All its processes have the machine's mark in their environment.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--net", "--mount", "--target", &self.holder.id().to_string(), "--"])
            .args(words);
        command.env(MARK, &self.mark).stdin(Stdio::null());
        command
    }

    pub(crate) fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("nsenter was found")
    }

    /// Runs `work` on a thread in the machine's network namespace. Sockets that `work` opens belong
    /// to this namespace.
    pub(crate) fn inside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let namespace =
            File::open(format!("/proc/{}/ns/net", self.holder.id())).expect("the holder lives");
        let work = move || {
            move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&namespace),
                Some(LinkNameSpaceType::Network),
            )
            .expect("root may enter the namespace");
            work()
        };
        thread::spawn(work).join().expect("the work does not panic")
    }

    /// Runs `examples/surround` with these arguments.
    pub(crate) fn surround(&self, words: &[&str]) -> Output {
        self.output(&with_surround(words))
    }

    /// Whether an ordinary user may create TUN and TAP devices here, which pasta needs, too. If
    /// not, this function reports that the test is skipped.
    pub(crate) fn users_may_open_tun(&self, test: &str) -> bool {
        let open = self.output(&as_nobody(&["sh", "-c", "true <>/dev/net/tun"])).status.success();
        if !open {
            skip(
                test,
                "an ordinary user's TAP device and pasta need /dev/net/tun, which only root may \
                 open here (chmod 0666 /dev/net/tun)",
            );
        }
        open
    }

    /// What a session could change and not restore. Values that change by themselves, such as
    /// counters and neighbours, are left out.
    pub(crate) fn snapshot(&self) -> Vec<String> {
        let text =
            |words: &[&str]| String::from_utf8_lossy(&self.output(words).stdout).into_owned();
        let settings = "cd /proc/sys/net; grep -H . ipv4/ip_forward ipv4/conf/*/forwarding \
                        ipv6/conf/*/forwarding ipv6/conf/*/force_forwarding 2>/dev/null";
        // Tests of other crates mount file systems named `weir-test`.
        let mounts = "cut -d ' ' -f 4- /proc/self/mountinfo | grep -v -e /run/netns -e weir-test";
        vec![
            text(&["ip", "-o", "-brief", "link"]),
            text(&["ip", "address"]).replace("valid_lft forever", ""),
            text(&["ip", "netns"]),
            text(&["ip", "rule"]),
            text(&["ip", "route", "show", "table", "all"]),
            text(&["nft", "list", "ruleset"]),
            text(&["sh", "-c", settings]),
            text(&["sh", "-c", mounts]),
            text(&["find", "/run"]),
        ]
    }

    /// Processes of this machine's sessions, found by their mark.
    pub(crate) fn processes(&self) -> BTreeSet<String> {
        let wanted = format!("{MARK}={}", self.mark);
        let marked = |dir: &Path| {
            let environment = fs::read(dir.join("environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
        };
        let entries = fs::read_dir("/proc")
            .expect("proc is mounted")
            .filter_map(Result::ok)
            .map(|entry| entry.path());
        entries
            .filter(|dir| marked(dir))
            .map(|dir| {
                format!(
                    "{} {}",
                    dir.display(),
                    fs::read_to_string(dir.join("cmdline")).unwrap_or_default().replace('\0', " ")
                )
            })
            .collect()
    }

    /// Waits until the machine is as before. The kernel needs a moment after a SIGKILL.
    pub(crate) fn assert_as_before(&self, before: &[String], what: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (now, left) = (self.snapshot(), self.processes());
            if left.is_empty() && now == before {
                return;
            }
            if Instant::now() > deadline {
                assert!(left.is_empty(), "{what}: processes are left: {left:#?}");
                let differences: Vec<_> =
                    before.iter().zip(&now).filter(|(before, now)| before != now).collect();
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

/// The words of a command that starts the example program.
pub(crate) fn with_surround<'a>(words: &[&'a str]) -> Vec<&'a str> {
    static EXAMPLE: OnceLock<PathBuf> = OnceLock::new();
    let path =
        EXAMPLE.get_or_init(build_surround).to_str().expect("target directories are UTF-8 here");
    [&[path][..], words].concat()
}

/// The path of `examples/surround`. The environment variable `WEIR_TEST_EXAMPLES` names the
/// directory of built examples; without it, cargo builds the example.
pub(crate) fn build_surround() -> PathBuf {
    if let Some(examples) = std::env::var_os("WEIR_TEST_EXAMPLES") {
        return PathBuf::from(examples).join("surround");
    }
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--example", "surround", "-p", "weir-linux"])
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the example does not build");
    let exe = std::env::current_exe().expect("proc is mounted");
    let profile = exe.ancestors().nth(2).expect("tests are in target/PROFILE/deps");
    profile.join("examples/surround")
}

pub(crate) fn as_nobody<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"][..], words].concat()
}

pub(crate) fn kill(pid: u32, signal: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "kill -{signal} {pid}");
}

/// Reports that a test was skipped, and why, where `make test` looks for it.
pub(crate) fn skip(test: &str, why: &str) {
    eprintln!("SKIPPED: topology {test}: {why}");
    if let Some(path) = std::env::var_os("WEIR_SKIP_LOG")
        && let Ok(mut log) = fs::File::options().append(true).create(true).open(path)
    {
        let _ = writeln!(log, "SKIPPED: topology {test}: {why}");
    }
}

/// The environment variable that identifies the processes of a test's sessions.
pub(crate) const MARK: &str = "WEIR_TEST_MARK";
/// The longest wait for an event that happens soon or never.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
pub(crate) const POLL: Duration = Duration::from_millis(20);
