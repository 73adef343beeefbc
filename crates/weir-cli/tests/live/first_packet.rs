//! Tests that the first packet between two ends is like all others: no address is resolved over the
//! link before it, unless the user asks for that.

use std::process::Command;

use libtest_mimic::Trial;

use crate::common::{Copies, Lab, NOBODY, Need, at_once, link, number, trial, weir};

/// The tests of this file.
pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("the_first_ping_takes_as_long_as_the_others", PING, first_ping),
        trial(
            "the_first_ping_of_an_ordinary_user_takes_as_long_as_the_others",
            &[Need::Program("ping"), Need::Root, Need::Program("setpriv")],
            users_first_ping,
        ),
        trial("the_first_ping_of_a_scenario_takes_as_long_as_the_others", PING, scenario),
        trial("a_delay_longer_than_address_resolution_waits_is_no_obstacle", PING, long_delay),
        trial("addresses_are_resolved_on_the_link_if_that_is_asked_for", PING, emulated),
    ]
}

/// The round trips that `ping` printed, in milliseconds.
fn round_trips(text: &str) -> Vec<f64> {
    let times = text.lines().filter_map(|line| line.split("time=").nth(1)?.split(' ').next());
    times.map(|time| time.parse().expect("ping prints a number")).collect()
}

/// Checks that the first round trip is no longer than the others. A request and an answer for the
/// address would add 40 ms. A busy machine may delay single packets, so a command has three
/// attempts.
fn check(what: &str, run: impl Fn() -> String) {
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let times = round_trips(&run());
        assert_eq!(times.len(), 4, "{what}: every ping is answered: {times:?}");
        let mut others = times[1..].to_vec();
        others.sort_by(f64::total_cmp);
        assert!(others[0] >= 40.0, "{what}: 20 ms in each direction: {times:?}");
        if times[0] < others[1] + 10.0 {
            return;
        }
        seen.push(times);
    }
    panic!("{what}: the first packet is slower than the others: {seen:?}");
}

fn first_ping(_: &Lab) {
    let mut commands = Vec::new();
    for backend in ["packet", "tap"] {
        for family in ["-4", "-6"] {
            let run = ["run", "--no-outside", "--", "ping", family, "-c4", "-i0.2", "host"];
            commands.push((backend, run.map(str::to_owned).to_vec()));
            let ping = format!("ping {family} -c4 -i0.2 left");
            let pair = ["pair", "--left", "sleep 30", "--right", &ping];
            commands.push((backend, pair.map(str::to_owned).to_vec()));
        }
    }
    at_once(2, commands, |(backend, words)| {
        check(&format!("{backend} {words:?}"), || {
            let options = ["-q", "--link", "delay 20ms", "--backend", backend];
            // The command's name comes first, and the program's words last.
            let mut command = Command::new(weir());
            command.arg(&words[0]).args(options).args(&words[1..]);
            output(&mut command)
        });
    });
}

fn users_first_ping(lab: &Lab) {
    let Copies { weir, .. } = &Copies::make(lab);
    at_once(2, ["-4", "-6"], |family| {
        check(family, || {
            let mut command = Command::new(NOBODY[0]);
            command.args(&NOBODY[1..]).args([weir, "run", "-q", "--link", "delay 20ms"]);
            output(command.args(["--", "ping", family, "-c4", "-i0.2", "host"]))
        });
    });
}

/// Two hosts with a router between them. Ordinary users may ping inside too.
const SCENARIO: &str = r#"
duration = "2s"
node = [{ name = "a" }, { name = "b" }, { name = "r", kind = "router" }]
link = [
    { between = ["a", "r"], spec = "delay 10ms" },
    { between = ["r", "b"], spec = "delay 10ms" },
]
[[traffic]]
name = "ping"
kind = "program"
from = "a"
to = "b"
start = "100ms"
command = "ping -c4 -i0.2 b"
"#;

fn scenario(lab: &Lab) {
    let file = lab.file("ping.toml", SCENARIO);
    let out = lab.path("results").display().to_string();
    check("live", || {
        output(Command::new(weir()).args(["live", "-q", "--force", "--out", &out, &file]));
        std::fs::read_to_string(lab.path("results/ping.txt")).expect("the program's output")
    });
}

fn long_delay(lab: &Lab) {
    // Address resolution gives up after three seconds.
    let ping = ["ping", "-n", "-c1", "-W10", "host"];
    let done =
        lab.weir(["run", "--no-outside", "--link", "delay 1600ms", "--"].iter().chain(&ping));
    assert_eq!(done.code, 0, "{done:?}");
}

fn emulated(lab: &Lab) {
    let packets = |how: &[&str], name: &str| {
        let json = lab.path(name).display().to_string();
        let fixed = ["run", "-q", "--no-outside", "--link", "delay 5ms", "--json", &json];
        let ping = ["--", "ping", "-4", "-c2", "-i0.2", "host"];
        let done = lab.weir(fixed.iter().chain(how).chain(&ping));
        assert_eq!(done.code, 0, "{done:?}");
        let result = lab.document(name);
        ["up", "down"].map(|name| number(link(&result, name), "packets_in"))
    };
    assert_eq!(packets(&[], "default.json"), [2, 2], "echo requests and replies only");
    assert_eq!(packets(&["--arp", "static"], "static.json"), [2, 2]);
    assert_eq!(packets(&["--arp", "emulated"], "emulated.json"), [3, 3], "and one for the address");
}

/// What a command prints to standard output.
fn output(command: &mut Command) -> String {
    let done = command.output().expect("the command can be started");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

const PING: &[Need] = &[Need::Program("ping")];
/// The number of attempts of each command.
const ATTEMPTS: usize = 3;
