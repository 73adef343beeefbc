//! Tests that the first packet between two ends takes as long as all others: no address is resolved
//! over the link before the first packet, unless the user asks for address resolution.

use std::process::Command;

use libtest_mimic::Trial;

use crate::common::{Copies, Lab, NOBODY, Need, at_once, link, number, trial, weir};

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
        trial("addresses_are_resolved_over_the_link_on_request", PING, emulated),
        trial("hosts_of_a_scenario_resolve_addresses_on_request", PING, emulated_scenario),
    ]
}

/// The round trips that `ping` printed, in milliseconds.
fn round_trips(text: &str) -> Vec<f64> {
    let times = text.lines().filter_map(|line| line.split("time=").nth(1)?.split(' ').next());
    times.map(|time| time.parse().expect("ping prints a number")).collect()
}

/// Checks that the first round trip is as long as the others, within [`ALIKE_MS`]. An exchange that
/// resolves the address would add 8 ms on any machine. A busy machine may delay single packets, so
/// each command has several attempts.
fn check(what: &str, run: impl Fn() -> String) {
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let times = round_trips(&run());
        assert_eq!(times.len(), 4, "{what}: every ping is answered: {times:?}");
        let mut others = times[1..].to_vec();
        others.sort_by(f64::total_cmp);
        assert!(others[0] >= 8.0, "{what}: 4 ms in each direction: {times:?}");
        if (times[0] - others[1]).abs() <= ALIKE_MS {
            return;
        }
        seen.push(times);
    }
    panic!("{what}: the first packet is not like the others: {seen:?}");
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
            let options = ["-q", "--link", "delay 4ms", "--backend", backend];
            // The subcommand comes before the options; its other words follow.
            let mut command = Command::new(weir());
            command.arg(&words[0]).args(options).args(&words[1..]);
            output(&mut command)
        });
    });
}

fn users_first_ping(lab: &Lab) {
    let Copies { weir, home, .. } = &Copies::make(lab);
    let mut commands = Vec::new();
    for family in ["-4", "-6"] {
        let link = ["-q", "--link", "delay 4ms"];
        let words = ["--", "ping", family, "-c4", "-i0.2", "host"].map(str::to_owned);
        commands.push((None, [&["run"][..], &link].concat(), words.to_vec()));
        let ping = format!("ping {family} -c4 -i0.2 left");
        let words = ["--left", "sleep 30", "--right", &ping].map(str::to_owned);
        commands.push((None, [&["pair"][..], &link].concat(), words.to_vec()));
        let file = lab.file(&format!("ping{family}.toml"), &scenario_of(family));
        let out = format!("{home}/results{family}");
        let words = ["--out".to_owned(), out.clone(), file];
        commands.push((Some(out), vec!["live", "-q", "--force"], words.to_vec()));
    }
    at_once(2, commands, |(out, options, words)| {
        check(&format!("{options:?} {words:?}"), || {
            let mut command = Command::new(NOBODY[0]);
            command.args(&NOBODY[1..]).arg(weir).args(&options).args(&words);
            let printed = output(command.current_dir(home));
            out.as_ref().map_or(printed, |out| read(&format!("{out}/ping.txt")))
        });
    });
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).expect("the program's output")
}

/// Two hosts with a router between them. One host pings the other.
const SCENARIO: &str = r#"
duration = "2s"
node = [{ name = "a" }, { name = "b" }, { name = "r", kind = "router" }]
link = [
    { between = ["a", "r"], spec = "delay 2ms" },
    { between = ["r", "b"], spec = "delay 2ms" },
]
[[traffic]]
name = "ping"
kind = "program"
from = "a"
to = "b"
start = "100ms"
command = "ping FAMILY -c4 -i0.2 b"
"#;

/// The scenario with pings over this version of IP.
fn scenario_of(family: &str) -> String {
    SCENARIO.replace("FAMILY", family)
}

fn scenario(lab: &Lab) {
    at_once(2, ["-4", "-6"], |family| {
        let file = lab.file(&format!("ping{family}.toml"), &scenario_of(family));
        let out = lab.path(&format!("results{family}")).display().to_string();
        check(&format!("live {family}"), || {
            output(Command::new(weir()).args(["live", "-q", "--force", "--out", &out, &file]));
            read(&format!("{out}/ping.txt"))
        });
    });
}

fn long_delay(lab: &Lab) {
    // Address resolution gives up after three seconds; the round trip takes 3.2 s.
    at_once(4, ["-4", "-6"].into_iter().flat_map(|family| [(family, "run"), (family, "pair")]), {
        |(family, command)| {
            let run = ["--no-outside", "--", "ping", family, "-n", "-c1", "-W10", "host"];
            let ping = format!("ping {family} -n -c1 -W10 left");
            let pair = ["--left", "sleep 30", "--right", &ping];
            let words = if command == "run" { &run[..] } else { &pair };
            let done = lab.weir([command, "--link", "delay 1600ms"].iter().chain(words));
            assert_eq!(done.code, 0, "{family} {command}: {done:?}");
        }
    });
}

fn emulated(lab: &Lab) {
    let packets = |how: &[&str], family: &str| {
        let name = format!("{}{family}.json", how.join(""));
        let json = lab.path(&name).display().to_string();
        let fixed = ["run", "-q", "--no-outside", "--link", "delay 5ms", "--json", &json];
        let ping = ["--", "ping", family, "-c2", "-i0.2", "host"];
        let done = lab.weir(fixed.iter().chain(how).chain(&ping));
        assert_eq!(done.code, 0, "{done:?}");
        let result = lab.document(&name);
        ["up", "down"].map(|name| number(link(&result, name), "packets_in"))
    };
    // Neither duplicate address detection nor a router solicitation crosses the link.
    for family in ["-4", "-6"] {
        assert_eq!(packets(&[], family), [2, 2], "echo requests and replies only");
        assert_eq!(packets(&["--arp", "static"], family), [2, 2]);
        assert_eq!(packets(&["--arp", "emulated"], family), [3, 3], "and one for the address");
    }
}

fn emulated_scenario(lab: &Lab) {
    at_once(2, ["-4", "-6"], |family| {
        let text = scenario_of(family).replace("-c4", "-c2");
        let file = lab.file(&format!("ping{family}.toml"), &text);
        // Each link carries two packets of the pings in each direction and, with `emulated`, one
        // more that resolves the address.
        for (how, expected) in [("static", 2), ("emulated", 3)] {
            let name = format!("{how}{family}.json");
            let json = lab.path(&name).display().to_string();
            let done = lab.weir(["live", "-q", "--arp", how, "--json", &json, &file]);
            assert_eq!(done.code, 0, "{done:?}");
            let result = lab.document(&name);
            for name in ["a>r", "r>b", "b>r", "r>a"] {
                let packets = number(link(&result, name), "packets_in");
                assert_eq!(packets, expected, "{how} {family} {name}: {result}");
            }
            assert!(!done.stderr.contains("were dropped"), "{how} {family}: {done:?}");
        }
    });
}

/// The standard output of a command.
fn output(command: &mut Command) -> String {
    let done = command.output().expect("the command can be started");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

const PING: &[Need] = &[Need::Program("ping")];
/// The largest difference between round trips that are alike, in ms.
const ALIKE_MS: f64 = 0.3;
const ATTEMPTS: usize = 8;
