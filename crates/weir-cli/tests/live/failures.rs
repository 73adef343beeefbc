//! Tests failures: wrong words, full disks, missing programs and missing permissions. Each of these
//! must give a clear message. Also tests programs that become daemons or are killed.

use std::fs;
use std::process::Command;

use libtest_mimic::Trial;

use crate::common::{Copies, Done, Lab, NOBODY, Need, find, must, output_of, trial};
use crate::outputs::serve;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("a_wrong_specification_is_misuse_and_the_message_has_the_word", &[], wrong_words),
        trial("a_daemon_ends_with_its_namespace", &[], daemon),
        trial("a_killed_program_ends_the_run", &[], child_killed),
        trial("a_full_disk_is_named_and_leaves_no_half_file", &[Need::Root], full_disk),
        trial("a_missing_directory_is_named", &[], missing_directory),
        trial(
            "without_nftables_or_pasta_a_note_says_so_and_host_still_answers",
            &[Need::Root, Need::Program("setpriv")],
            missing_tools,
        ),
        trial(
            "without_user_namespaces_the_message_says_how_to_allow_them",
            &[Need::Root, Need::Program("setpriv")],
            no_user_namespaces,
        ),
    ]
}

fn wrong_words(lab: &Lab) {
    for (spec, word) in [
        ("bw 4Mbit/s delya 20ms", "delya"),
        ("delay 20parsecs", "20parsecs"),
        ("bw 500Gbit/s", "500Gbit/s"),
        ("loss 150%", "150%"),
        ("delay 2h", "2h"),
        ("queue 0", "0"),
        ("trace /no/such/file", "/no/such/file"),
        ("bw 1e999", "1e999"),
    ] {
        let done = lab.weir(["run", "--link", spec, "--", "true"]);
        assert_eq!(done.code, 2, "{spec}: {done:?}");
        assert!(done.stderr.contains(word), "{spec}: the message must show {word}: {done:?}");
        assert_eq!(done.stdout, "", "{spec}: complaints go to stderr");
    }
    let done = lab.weir(["run", "--preset", "dssl", "--", "true"]);
    assert!(
        done.code == 2 && done.stderr.contains("dssl") && done.stderr.contains("dsl"),
        "{done:?}"
    );
    let done = lab.weir(["run", "--lnk", "4M", "--", "true"]);
    assert!(done.code == 2 && done.stderr.contains("--lnk"), "{done:?}");
    assert_eq!(lab.weir(["run", "--link", "4M"]).code, 2, "a command is missing");
}

fn daemon(lab: &Lab) {
    let marker = format!("4712.{}", std::process::id());
    let ready = lab.path("ready").display().to_string();
    // Forked twice and in its own session, like a daemon.
    let inside = format!(
        "(setsid sh -c 'sleep {marker} & echo > {ready}; wait' >/dev/null 2>&1 &) ; while [ ! -s \
         {ready} ]; do sleep 0.01; done"
    );
    let done = lab.weir(["run", "--link", "10M/1ms", "--", "sh", "-c", &inside]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(lab.path("ready").exists(), "the daemon never started");
    assert_eq!(
        output_of(&format!("pgrep -xf 'sleep {marker}'")),
        "",
        "the daemon must end with its namespace"
    );
}

fn child_killed(lab: &Lab) {
    let done = lab.weir(["run", "--link", "10M/1ms", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(done.code, 128 + 9, "{done:?}");
}

/// A file system of 64 KiB; unmounted when dropped.
struct Small(String);

impl Small {
    fn mount(lab: &Lab) -> Self {
        let dir = lab.path("small").display().to_string();
        fs::create_dir(&dir).expect("a mount point");
        must(&format!("mount -t tmpfs -o size=64k,mode=777 weir-test {dir}"));
        Self(dir)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        must(&format!("umount -l {}", self.0));
    }
}

fn full_disk(lab: &Lab) {
    let small = Small::mount(lab);
    must(&format!("head -c 1M /dev/zero > {}/filler || true", small.0));
    let path = |name: &str| format!("{}/{name}", small.0);
    let [json, html, pcap] = ["r.json", "r.html", "r.pcapng"].map(path);
    let (json, html, pcap) =
        (["--json", json.as_str()], ["--report", html.as_str()], ["--pcap", pcap.as_str()]);
    let all: Vec<&str> = [json, html, pcap].concat();
    for (options, names) in [
        (json.as_slice(), &["r.json"][..]),
        (&html, &["r.html"]),
        (&pcap, &["r.pcapng"]),
        (&all, &["r.json", "r.html", "r.pcapng"]),
    ] {
        // A capture of this traffic is larger than the file system.
        let inside = ["--", "sh", "-c", "ping -c 200 -i 0.002 -s 1000 -q host >/dev/null; exit 5"];
        let done = lab.weir(["run", "--link", "1G/1ms"].iter().chain(options).chain(&inside));
        assert_eq!(
            done.code, 125,
            "{names:?}: results that could not be written are a failure: {done:?}"
        );
        for name in names {
            let is_reported = done
                .stderr
                .lines()
                .any(|line| line.contains(name) && line.contains("No space left"));
            assert!(is_reported, "name the file and the cause: {name} {done:?}");
        }
        // A failed capture keeps its complete packets; here there are none.
        let left = fs::read_dir(&small.0).expect("a directory").flatten();
        let half: Vec<_> = left
            .filter(|e| e.file_name() != "filler" && e.metadata().is_ok_and(|m| m.len() > 0))
            .collect();
        assert!(half.is_empty(), "{names:?}: nothing half-written may stay: {half:?}");
    }
}

fn missing_directory(lab: &Lab) {
    let path = lab.path("nowhere/r.json").display().to_string();
    let done = lab.weir(["run", "--link", "1G/1ms", "--json", &path, "--", "true"]);
    assert_ne!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("nowhere"), "{done:?}");
}

/// Runs a command in a mount namespace in which these programs cannot be executed. The words of
/// `user`, if any, precede the command, for example to run it as another user.
fn without(lab: &Lab, programs: &[&str], user: &[&str], arguments: &[&str]) -> Done {
    let files = programs.iter().filter_map(|p| find(p)).map(|p| p.display().to_string());
    let hide: String = files.map(|f| format!("mount --bind /dev/null {f}; ")).collect();
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &format!("{hide} exec \"$@\""), "sh"])
        .args(user)
        .args(arguments);
    lab.launch(&mut command).finish()
}

fn missing_tools(lab: &Lab) {
    let Copies { weir, home, .. } = &Copies::make(lab);
    let port = serve("x".repeat(100_000));
    let get = format!(
        "exec 3<>/dev/tcp/host/{port}; printf 'GET / HTTP/1.1\\r\\n\\r\\n' >&3; \
         cat <&3 | tail -c 100000 | tr -d x | wc -c"
    );
    let kernel = ["python3", "-c", WITHOUT_NFTABLES];
    for (user, missing) in [(&[][..], "nftables"), (&NOBODY, "pasta"), (&NOBODY, "nftables")] {
        let json = format!("{home}/weir.json");
        let arguments = [weir, "run", "--link", "/5ms", "--json", &json, "--", "bash", "-c", &get];
        let done = match missing {
            "nftables" => without(lab, &[], &[&kernel[..], user].concat(), &arguments),
            program => without(lab, &[program], user, &arguments),
        };
        assert_eq!(
            (done.code, done.stdout.trim()),
            (0, "0"),
            "without {missing} {user:?} `host` answers: {done:?}"
        );
        let note = done.stderr.lines().find(|line| line.contains("note") && line.contains(missing));
        // A user can install pasta, but not nftables, which is missing in the kernel.
        assert!(
            note.is_some_and(|note| missing == "nftables" || note.contains("install")),
            "without {missing} {user:?}: a note, with the remedy if there is one: {done:?}"
        );
        fs::remove_file(&json).expect("the result is there");
    }
    // `weir pair` needs neither pasta nor nftables.
    let pair = [weir, "pair", "--link", "/5ms", "--left", "true", "--right", "true"];
    let done = without(lab, &["pasta"], &kernel, &pair);
    assert!(done.code == 0 && !done.stderr.contains("nftables"), "{done:?}");
}

/// A Python program that runs a command as on a kernel without nftables.
const WITHOUT_NFTABLES: &str =
    include_str!("../../../weir-linux/tests/topology_net/without_nftables.py");

fn no_user_namespaces(lab: &Lab) {
    let Copies { weir, .. } = &Copies::make(lab);
    let (go, user) = (lab.path("go").display().to_string(), NOBODY.join(" "));
    // A user namespace with many users, in which no further user namespace can be created. The
    // command runs in it as an ordinary user.
    let inner = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && exec {user} {weir} pair --link 1M --left \
         true --right true"
    );
    // A program has root's privileges there only if it starts after the users are mapped.
    let inner = format!("read x < {go}; exec sh -c \"{inner}\"");
    let outer = format!(
        "mkfifo {go}; unshare --user sh -c '{inner}' & \
         while [ \"$(readlink /proc/$!/ns/user)\" = \"$(readlink /proc/$$/ns/user)\" ]; do sleep \
         0.01; done; \
         echo 0 0 65536 > /proc/$!/uid_map; echo 0 0 65536 > /proc/$!/gid_map; echo > {go}; wait $!"
    );
    let done = lab.launch(Command::new("sh").args(["-c", &outer])).finish();
    assert_eq!(done.code, 125, "{done:?}");
    assert!(
        done.stderr.contains("user namespace") && done.stderr.contains("max_user_namespaces"),
        "the cause and the remedy: {done:?}"
    );
    assert!(
        done.stderr.trim().lines().count() < 6 && !done.stderr.contains("panicked"),
        "{done:?}"
    );
}
