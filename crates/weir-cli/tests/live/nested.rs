//! Tests `weir run` inside other namespaces: a user namespace in which an ordinary user is called
//! root, and another `weir run`.

use std::fs;
use std::process::Command;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::common::{Copies, Done, Lab, NOBODY, Need, at_once, trial, until};
use crate::outputs::serve;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "root_of_a_user_namespace_is_an_ordinary_user",
            &[Need::Root, Need::Program("setpriv"), Need::Program("ping")],
            called_root,
        ),
        trial(
            "each_machine_has_one_name_in_nested_runs",
            &[Need::Root, Need::Program("setpriv"), Need::Program("ping")],
            nested,
        ),
        trial("ps_shows_the_process_of_its_own_pid_namespace", &[Need::Root], processes),
    ]
}

fn as_user(lab: &Lab, words: &[&str]) -> Done {
    let mut command = Command::new(NOBODY[0]);
    lab.launch(command.args(&NOBODY[1..]).args(words)).finish()
}

fn called_root(lab: &Lab) {
    let Copies { weir, .. } = &Copies::make(lab);
    at_once(2, [&["-rn"][..], &["-r"], &["-rn", "--mount"]], |options| {
        let program = "id -u; ping -c1 -W5 host >/dev/null && echo answered";
        let run = [weir, "run", "-q", "--link", "delay 1ms", "--", "sh", "-c", program];
        let done = as_user(lab, &[&["unshare"], options, &run].concat());
        assert_eq!((done.code, &*done.stdout), (0, "0\nanswered\n"), "{options:?}: {done:?}");
        let pair = [weir, "pair", "-q", "--left", "sleep 9", "--right", "ping -c1 -W5 left"];
        let done = as_user(lab, &[&["unshare"], options, &pair].concat());
        assert_eq!(done.code, 0, "{options:?}: {done:?}");
    });
}

/// The smallest round trip that `ping` printed, in milliseconds.
fn fastest(text: &str) -> f64 {
    let times = text.lines().filter_map(|line| line.split("time=").nth(1)?.split(' ').next());
    let times = times.map(|time| time.parse::<f64>().expect("ping prints a number"));
    times.fold(f64::INFINITY, f64::min)
}

fn nested(lab: &Lab) {
    let Copies { weir, .. } = &Copies::make(lab);
    let port = serve("page".into());
    // Bash measures the time to connect, in microseconds, because an ordinary user's pings get no
    // further than `host` on a machine without pasta.
    let program = format!(
        "ping -4 -c2 -i0.2 host; began=${{EPOCHREALTIME/./}}; exec 3<>/dev/tcp/outer-host/{port}; \
         echo connected $(( ${{EPOCHREALTIME/./}} - began )); \
         getent ahostsv4 host | cut -d ' ' -f 1 | sort -u | wc -l"
    );
    let inner = [weir, "run", "-q", "--link", "delay 5ms", "--", "bash", "-c", &program];
    let outer = [weir, "run", "-q", "--link", "delay 30ms", "--"];
    let both = [&outer[..], &inner].concat();
    at_once(2, [false, true], |is_user| {
        let done = if is_user {
            as_user(lab, &both)
        } else {
            lab.launch(Command::new(both[0]).args(&both[1..])).finish()
        };
        assert_eq!(done.code, 0, "{done:?}");
        let host = fastest(&done.stdout);
        assert!((10.0..60.0).contains(&host), "`host` is behind the inner link only: {done:?}");
        let connected = done.stdout.split("connected ").nth(1).and_then(|text| text.lines().next());
        let connected: u64 = connected.and_then(|text| text.parse().ok()).expect("a number");
        assert!(connected >= 70_000, "both links lead to the machine: {done:?}");
        assert!(done.stdout.ends_with("\n1\n"), "`host` has one address: {done:?}");
    });
}

fn processes(lab: &Lab) {
    let Copies { weir, .. } = &Copies::make(lab);
    let inner = [weir, "run", "-q", "--link", "delay 1ms", "--name", "inner-pid", "--"];
    let outer = ["run", "-q", "--link", "delay 1ms", "--name", "outer-pid", "--"];
    // The outer session is in the PID namespace of the machine, which the inner one cannot see.
    let program = format!("{weir} ps; sleep 100.5");
    let running = lab.start([&outer[..], &inner, &["sh", "-c", &program]].concat());
    let listed = || {
        let all: Value = serde_json::from_str(&lab.weir(["ps", "--json"]).stdout).expect("JSON");
        let sessions = all["sessions"].as_array().cloned().unwrap_or_default();
        sessions.into_iter().find(|session| session["name"] == "inner-pid")
    };
    until("the inner session is listed", || listed().is_some());
    let pid = listed().expect("it runs")["pid"].as_u64().expect("it has an ID here");
    let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("the process exists");
    assert!(command.contains("inner-pid") && !command.contains("outer-pid"), "{command:?}");
    assert_eq!(lab.weir(["stop", "inner-pid"]).code, 0);
    let done = running.finish();
    let row = done.stdout.lines().find(|line| line.contains("outer-pid"));
    let words: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
    assert_eq!(words.get(2), Some(&"-"), "{done:?}");
}
