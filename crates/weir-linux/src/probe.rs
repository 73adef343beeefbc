//! Finds out which features of this machine Weir can use, for `weir doctor`.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::helper::{list_states, state_directory};
use crate::netns::NetNs;
use crate::nftables::Nftables;
use crate::port::PacketPort;
use crate::process::find_tool;

/// Whether a feature is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The feature works.
    Ok,
    /// The feature works in part, or less well than it could.
    Limited,
    /// The feature is missing.
    Missing,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Short name of the feature.
    pub name: &'static str,
    /// Whether the feature is available.
    pub status: Status,
    /// The finding: one sentence without a full stop.
    pub detail: String,
    /// The command that makes the feature available, if there is one.
    pub remedy: Option<String>,
}

/// Runs all checks; takes less than a second and changes nothing.
#[must_use]
pub fn probe() -> Vec<Check> {
    let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let privileged =
        held.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW);
    vec![
        kernel(rustix::system::uname().release().to_string_lossy().as_ref()),
        architecture(std::env::consts::ARCH, usize::BITS),
        privileges(privileged),
        user_namespaces(),
        tun(),
        packet_sockets(privileged),
        nftables(privileged),
        tool("pasta", "passt", "the outside network of 'weir run' without root, for all but TCP"),
        tool("valgrind", "valgrind", "instructions and cache misses in 'weir rig'"),
        tool("tc", "iproute2", "the method tc of 'weir watch', for comparison"),
        realtime(held),
        awake(),
        timers(),
        processors(),
        clock_source(),
        processor_limit(),
        btf(),
        leftovers(),
    ]
}

impl Check {
    fn new(name: &'static str, status: Status, detail: impl Into<String>) -> Check {
        Check { name, status, detail: detail.into(), remedy: None }
    }

    fn remedy(self, remedy: impl Into<String>) -> Check {
        Check { remedy: Some(remedy.into()), ..self }
    }
}

/// Compares a kernel's release, such as `6.1.0-18-amd64`, with what Weir needs.
fn kernel(release: &str) -> Check {
    let name = "kernel";
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else {
        return Check::new(name, Status::Limited, format!("{release}, an unknown form of version"));
    };
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    if (major, minor) < LEAST_KERNEL {
        let detail = format!("{release}; Weir needs {} or newer", version(LEAST_KERNEL));
        return Check::new(name, Status::Missing, detail);
    }
    if (major, minor) < LEAST_KERNEL_FOR_BPF {
        let detail = format!(
            "{release}; below {}, 'weir watch' reads the kernel's queues over netlink, which is \
             slower",
            version(LEAST_KERNEL_FOR_BPF)
        );
        return Check::new(name, Status::Limited, detail);
    }
    Check::new(name, Status::Ok, release)
}

fn architecture(name: &str, bits: u32) -> Check {
    let detail = format!("{name}, {bits} bits");
    if name == TESTED_ARCHITECTURE {
        return Check::new("architecture", Status::Ok, detail);
    }
    let detail = format!("{detail}; Weir is tested on {TESTED_ARCHITECTURE} only");
    Check::new("architecture", Status::Limited, detail)
}

fn privileges(privileged: bool) -> Check {
    let name = "privileges";
    if privileged {
        return Check::new(
            name,
            Status::Ok,
            "this user may make namespaces and open packet sockets directly",
        );
    }
    let detail = "an ordinary user: sessions run in a user namespace; 'weir bridge' needs more";
    Check::new(name, Status::Limited, detail).remedy("sudo weir …")
}

/// Creates a user namespace in a separate process, because this process may have several threads.
fn user_namespaces() -> Check {
    let name = "user namespaces";
    let Some(unshare) = find_tool("unshare") else {
        let most = read("/proc/sys/user/max_user_namespaces")
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or(0);
        let status = if most > 0 { Status::Limited } else { Status::Missing };
        return Check::new(
            name,
            status,
            format!("not tried (unshare is missing); at most {most} are allowed"),
        );
    };
    let mut command = Command::new(unshare);
    command
        .args(["--user", "--net", "--map-current-user", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => Check::new(name, Status::Ok, "allowed"),
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let knobs = [
                (
                    "kernel/apparmor_restrict_unprivileged_userns",
                    "1",
                    "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
                ),
                (
                    "kernel/unprivileged_userns_clone",
                    "0",
                    "sysctl -w kernel.unprivileged_userns_clone=1",
                ),
                ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"),
            ];
            let closed = knobs.iter().find(|(path, closed, _)| {
                read(&format!("/proc/sys/{path}")).as_deref() == Some(*closed)
            });
            let check = Check::new(name, Status::Missing, format!("refused ({message})"));
            match closed {
                Some((_, _, remedy)) => check.remedy(*remedy),
                None => check,
            }
        }
        Err(error) => Check::new(name, Status::Limited, format!("not tried ({error})")),
    }
}

fn tun() -> Check {
    let name = "/dev/net/tun";
    match File::options().read(true).write(true).open(name) {
        Ok(_) => Check::new(name, Status::Ok, "can be opened, for --backend tap"),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Check::new(
            name,
            Status::Limited,
            "only root may open it; packet sockets are used instead",
        )
        .remedy("chmod 0666 /dev/net/tun"),
        Err(error) => Check::new(
            name,
            Status::Limited,
            format!("not usable ({error}); packet sockets are used instead"),
        )
        .remedy("modprobe tun"),
    }
}

fn packet_sockets(privileged: bool) -> Check {
    let name = "packet sockets";
    if !privileged {
        return Check::new(name, Status::Limited, "inside a user namespace only");
    }
    let opened = NetNs::create().map_err(|error| error.to_string()).and_then(|netns| {
        let open = || {
            PacketPort::open("lo").map_err(|error| io::Error::other(error.to_string()))?;
            Ok::<_, io::Error>(())
        };
        netns.enter(open).map_err(|error| error.to_string())
    });
    match opened {
        Ok(()) => Check::new(name, Status::Ok, "with offload headers"),
        Err(error) => Check::new(name, Status::Missing, error),
    }
}

fn nftables(privileged: bool) -> Check {
    let name = "nftables";
    if !privileged {
        return Check::new(name, Status::Limited, "inside a user namespace only");
    }
    match Nftables::open().and_then(|mut nftables| nftables.dropping_chains()) {
        Ok(_) => Check::new(name, Status::Ok, "the outside network of 'weir run'"),
        Err(error) => {
            Check::new(name, Status::Missing, format!("no outside network of 'weir run': {error}"))
        }
    }
}

fn tool(name: &'static str, package: &str, purpose: &str) -> Check {
    match find_tool(name) {
        Some(path) => Check::new(name, Status::Ok, format!("{}: {purpose}", path.display())),
        None => Check::new(name, Status::Missing, format!("not installed: no {purpose}"))
            .remedy(format!("apt-get install {package}")),
    }
}

fn realtime(held: CapabilitySet) -> Check {
    let name = "real-time priority";
    let limit = getrlimit(Resource::Rtprio).current;
    if held.contains(CapabilitySet::SYS_NICE) || limit.is_none_or(|most| most > 0) {
        return Check::new(name, Status::Ok, "allowed: packets leave on time beside other work");
    }
    let detail = "not allowed: beside other work packets may leave milliseconds late";
    Check::new(name, Status::Limited, detail)
        .remedy("echo '* - rtprio 10' > /etc/security/limits.d/weir.conf (and log in again)")
}

fn awake() -> Check {
    let name = "processors kept awake";
    match File::options().write(true).open("/dev/cpu_dma_latency") {
        Ok(_) => Check::new(
            name,
            Status::Ok,
            "allowed: under light traffic no packet waits for a processor to wake",
        ),
        Err(_) => Check::new(
            name,
            Status::Limited,
            "not allowed: a packet may wait tens of microseconds for a sleeping processor",
        ),
    }
}

/// Sleeps for a millisecond a hundred times and measures how late the sleeps end.
fn timers() -> Check {
    let mut late: Vec<Duration> = (0..SLEEPS)
        .map(|_| {
            let begin = Instant::now();
            thread::sleep(SLEEP);
            begin.elapsed().saturating_sub(SLEEP)
        })
        .collect();
    late.sort_unstable();
    let (middle, worst) = (late[SLEEPS / 2], late[SLEEPS - 1]);
    let status = if middle < COARSE { Status::Ok } else { Status::Limited };
    let detail = format!(
        "sleeps end {} us late (median; worst of {SLEEPS}: {} us); spinning hides it",
        middle.as_micros(),
        worst.as_micros()
    );
    Check::new("timers", status, detail)
}

fn processors() -> Check {
    let count = thread::available_parallelism().map_or(1, usize::from);
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let suffix =
        governor.as_ref().map_or_else(String::new, |governor| format!(", governor {governor}"));
    let detail = format!("{count} usable{suffix}");
    if count < 2 {
        let detail =
            format!("{detail}: the link and the programs share one, so packets may be late");
        return Check::new("processors", Status::Limited, detail);
    }
    match governor.as_deref() {
        Some("powersave") => Check::new("processors", Status::Limited, detail)
            .remedy("cpupower frequency-set -g performance"),
        _ => Check::new("processors", Status::Ok, detail),
    }
}

fn clock_source() -> Check {
    let source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .unwrap_or_else(|| "unknown".into());
    let slow = matches!(source.as_str(), "hpet" | "acpi_pm" | "jiffies");
    let status = if slow { Status::Limited } else { Status::Ok };
    let words = if slow { ": reading it takes a microsecond or more" } else { "" };
    Check::new("clock source", status, format!("{source}{words}"))
}

fn processor_limit() -> Check {
    let name = "processor limit";
    let group = read("/proc/self/cgroup")
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::").map(str::to_owned)));
    let limit = group.and_then(|path| read(&format!("/sys/fs/cgroup{path}/cpu.max")));
    match limit {
        Some(text) if !text.starts_with("max") => {
            let detail = format!(
                "cpu.max is '{text}' (us of each period): when it is used up, packets wait"
            );
            Check::new(name, Status::Limited, detail)
        }
        _ => Check::new(name, Status::Ok, "none that can be seen"),
    }
}

fn btf() -> Check {
    let there = Path::new("/sys/kernel/btf/vmlinux").exists();
    let (status, detail) = if there {
        (Status::Ok, "there, for 'weir watch'")
    } else {
        (
            Status::Limited,
            "not there: 'weir watch' reads the kernel's queues over netlink, which is slower",
        )
    };
    Check::new("kernel types (BTF)", status, detail)
}

fn leftovers() -> Check {
    let name = "left-over state";
    let dead = list_states(state_directory())
        .map_or(0, |states| states.iter().filter(|state| !state.is_alive()).count());
    if dead == 0 {
        return Check::new(name, Status::Ok, "none");
    }
    let detail = format!(
        "{dead} killed sessions left settings changed; the next 'weir run' as root puts them back"
    );
    Check::new(name, Status::Limited, detail).remedy("sudo weir run -- true")
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The first kernel with `pidfd_open`, the newest system call that Weir needs to start programs.
const LEAST_KERNEL: (u32, u32) = (5, 3);
/// The first kernel with counted loops in BPF (`bpf_iter_num_new`), which the programs that read
/// queues use.
const LEAST_KERNEL_FOR_BPF: (u32, u32) = (6, 4);
const TESTED_ARCHITECTURE: &str = "x86_64";
/// The number of sleeps, which take a tenth of a second together.
const SLEEPS: usize = 100;
const SLEEP: Duration = Duration::from_millis(1);
/// Above this lateness, timers have the resolution of a kernel tick.
const COARSE: Duration = Duration::from_micros(900);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_architectures_are_compared_with_what_is_needed() {
        for (release, status) in [
            ("4.19.0-27-amd64", Status::Missing),
            ("5.2.21", Status::Missing),
            ("5.3.0", Status::Limited),
            ("6.3.9-arch1", Status::Limited),
            ("6.4.0", Status::Ok),
            ("6.18.44-fc-v669", Status::Ok),
            ("10.0", Status::Ok),
            ("unknown", Status::Limited),
        ] {
            assert_eq!(kernel(release).status, status, "{release}");
        }
        assert_eq!(architecture("x86_64", 64).status, Status::Ok);
        assert_eq!(architecture("aarch64", 64).status, Status::Limited);
    }

    #[test]
    fn every_check_has_a_unique_name_and_a_detail() {
        let checks = probe();
        let names: std::collections::BTreeSet<_> = checks.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), checks.len());
        assert!(
            checks.iter().all(|check| !check.detail.is_empty() && !check.detail.ends_with('.'))
        );
    }
}
