//! Tests that no kernel object remains after a watching process has ended, and tests of the
//! messages for a process without privileges.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use weir_probe::Method;

use super::{PATIENCE, Place};

/// Programs, maps and links, each by its kind and the serial number that the kernel assigns.
type Objects = BTreeSet<(&'static str, u32)>;

const KINDS: [&str; 3] = ["prog_id", "map_id", "link_id"];

/// The objects that a process has open.
fn objects_of(pid: u32) -> Objects {
    let entries =
        std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("the process lives").flatten();
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let lines: Vec<String> =
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let found = lines.iter().filter_map(|line| {
        let (name, number) = line.split_once(':')?;
        let kind = KINDS.into_iter().find(|kind| *kind == name)?;
        Some((kind, number.trim().parse().ok()?))
    });
    found.collect()
}

/// All existing objects.
#[cfg(feature = "bpf")]
fn objects() -> Objects {
    use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
    let programs = ProgInfoIter::default().map(|program| ("prog_id", program.id));
    let maps = MapInfoIter::default().map(|map| ("map_id", map.id));
    programs.chain(maps).chain(LinkInfoIter::default().map(|link| ("link_id", link.id))).collect()
}

#[cfg(not(feature = "bpf"))]
fn objects() -> Objects {
    Objects::new()
}

/// The path of `examples/probe`. `WEIR_TEST_EXAMPLES` names the directory of built examples;
/// without it, cargo builds the example.
fn probe() -> &'static Path {
    static EXAMPLE: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLE.get_or_init(|| {
        if let Some(examples) = std::env::var_os("WEIR_TEST_EXAMPLES") {
            return PathBuf::from(examples).join("probe");
        }
        let cargo = option_env!("CARGO").unwrap_or("cargo");
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--example", "probe", "-p", "weir-probe"])
            .status();
        assert!(built.is_ok_and(|status| status.success()), "the example does not build");
        let exe = std::env::current_exe().expect("proc is mounted");
        exe.ancestors().nth(2).expect("tests are in target/PROFILE/deps").join("examples/probe")
    })
}

/// A process that has begun to watch; `None`, with the reason on standard output, if the process
/// cannot watch.
fn watching(place: &Place, method: Method, seconds: &str) -> Option<Child> {
    let rate = if method == Method::Timer { "1000" } else { "max" };
    let words = [method.name(), rate, seconds, &format!("x0@{}", place.name)].map(str::to_owned);
    let mut child = Command::new(probe())
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the example was built");
    let mut output_text = String::new();
    for line in BufReader::new(child.stderr.as_mut().expect("piped")).lines() {
        let line = line.expect("UTF-8");
        if line.starts_with("ready") {
            return Some(child);
        }
        output_text += &line;
    }
    child.wait().expect("the process has ended");
    println!("SKIPPED: {}: {output_text}", method.name());
    None
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "kill -{name}");
}

#[test]
fn no_object_remains_in_the_kernel_however_the_process_ends() {
    for method in [Method::Loop, Method::Timer, Method::Events] {
        for (end, seconds) in [(None, "0.3"), (Some("INT"), "600"), (Some("KILL"), "600")] {
            let (Some(place), Some(other)) = (Place::new(), Place::new()) else { return };
            // The device in `other` vanishes with its peer, when the namespace of `place` ends.
            place.ip(&format!("link add witness type veth peer name witness netns {}", other.name));
            place.discipline("add dev x0 root handle 1: tbf rate 20mbit burst 2000 limit 20k");
            let Some(mut child) = watching(&place, method, seconds) else { return };
            let opened = objects_of(child.id());
            let links = opened.iter().filter(|(kind, _)| *kind == "link_id").count();
            assert!(
                opened.iter().any(|(kind, _)| *kind == "prog_id")
                    && (links > 0) == (method == Method::Events),
                "{opened:?}"
            );
            if let Some(name) = end {
                signal(&child, name);
            }
            let status = child.wait().expect("the process can be reaped");
            assert_eq!(status.success(), end.is_none(), "{} {end:?}: {status}", method.name());
            drop(place);
            // The kernel releases the objects slightly later.
            let since = Instant::now();
            let left = || objects().intersection(&opened).copied().collect::<Vec<_>>();
            let witness = || other.has_link("witness");
            while !left().is_empty() || witness() {
                assert!(
                    since.elapsed() < PATIENCE,
                    "{} {end:?}: left {:?}, namespace {}",
                    method.name(),
                    left(),
                    witness()
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// The output of the example, run with a prefix that sets the user and the namespaces.
fn ask(before: &[&str], method: &str, target: &str) -> Output {
    let words = ["--", probe().to_str().expect("UTF-8"), method, "max", "0.1", target];
    let words = if before[0] == "unshare" { &words[..] } else { &words[1..] };
    Command::new(before[0]).args(&before[1..]).args(words).output().expect("util-linux is there")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Whether users other than root can reach the example.
fn is_reachable() -> bool {
    let reachable =
        Command::new(NOBODY[0]).args(&NOBODY[1..]).args(["test", "-x"]).arg(probe()).status();
    let reachable = reachable.is_ok_and(|status| status.success());
    if !reachable {
        println!("SKIPPED: only root can reach {}", probe().display());
    }
    reachable
}

#[test]
fn without_privileges_a_forced_method_fails_and_a_free_choice_uses_netlink() {
    let Some(place) = Place::new() else { return };
    let reachable = is_reachable();
    // The first word after the script becomes the script's name.
    let alone: &[&str] = &["unshare", "-Urn", "sh", "-c", "ip link set lo up; exec \"$@\""];
    for before in [alone, &NOBODY].into_iter().take(1 + usize::from(reachable)) {
        for method in ["loop", "timer", "events"] {
            let output = ask(before, method, "lo");
            let output_text = text(&output);
            if cfg!(feature = "bpf") {
                assert!(
                    !output.status.success()
                        && output_text.contains("CAP_BPF")
                        && output_text.contains("netlink"),
                    "{before:?} {method}: {output_text}"
                );
            }
        }
        let output = ask(before, "auto", "lo");
        let output_text = text(&output);
        assert!(
            output.status.success() && output_text.contains("read over netlink, since"),
            "{before:?}: {output_text}"
        );
        assert!(
            output_text.lines().any(|line| line.starts_with("lo noqueue")),
            "{before:?}: {output_text}"
        );
    }
    if reachable {
        let output = ask(&NOBODY, "auto", &format!("x0@{}", place.name));
        assert!(
            !output.status.success() && text(&output).contains("CAP_SYS_ADMIN"),
            "{}",
            text(&output)
        );
    }
}

#[test]
fn three_capabilities_are_enough() {
    let Some(place) = Place::new() else { return };
    if !is_reachable() || !cfg!(feature = "bpf") {
        return;
    }
    let all = "+bpf,+perfmon,+sys_admin";
    let (inherited, ambient) = (format!("--inh-caps={all}"), format!("--ambient-caps={all}"));
    let before = [&NOBODY[..], &[&inherited, &ambient]].concat();
    for method in ["loop", "timer", "events"] {
        let output = ask(&before, method, &format!("x0@{}", place.name));
        assert!(output.status.success(), "{method}: {}", text(&output));
    }
}
