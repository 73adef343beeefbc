//! Tests the control socket of running links: `weir ps`, `change`, `stats` and `stop`, for root and
//! for ordinary users, under traffic, after `kill -9`, and with wrong names. Also tests timed plans
//! and the completion of names in a shell.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use weir_control::api::ChangeRequest;
use weir_control::directory::Directory;
use weir_control::session_client::SessionClient;

use crate::common::{
    Copies, Done, Lab, NOBODY, Need, Running, drops, link, load, number, trial, until, weir,
};

pub(crate) fn tests() -> Vec<Trial> {
    let as_user = &[Need::Root, Need::Program("setpriv")];
    vec![
        trial("a_change_keeps_the_packets_inside", &[], keeps_packets),
        trial("changes_under_tcp_lose_nothing", &[Need::Program("iperf3")], under_tcp),
        trial("a_thousand_changes_from_four_clients_while_packets_flow", &[], thousand),
        trial("sessions_are_listed_changed_reset_and_stopped", &[], whole_life),
        trial("wrong_sessions_links_and_words_are_refused", &[], refusals),
        trial("rules_are_changed_by_their_commands", &[], with_rules),
        trial("statistics_describe_the_present", &[], statistics),
        trial("a_plan_changes_links_at_its_times", &[], planned),
        trial("a_plan_changes_the_links_of_a_scenario", &[], planned_scenario),
        trial(
            "shells_complete_the_names_of_sessions_and_links",
            &[Need::Program("bash")],
            completions,
        ),
        trial("a_wrong_plan_is_refused_before_anything_starts", &[], wrong_plans),
        trial("a_killed_session_is_not_listed", &[], killed),
        trial("a_user_changes_own_sessions_and_no_others", as_user, users),
        trial("links_of_a_scenario_are_changed_while_it_runs", &[], scenario),
    ]
}

/// Packets wait in a slow queue. After the change to a fast link, all of them arrive.
fn keeps_packets(lab: &Lab) {
    let (load, out) = (load(), lab.path("recv.json").display().to_string());
    let recv = format!("{load} recv --bind 0.0.0.0:9000 --sent 300 --idle 5 --json --out {out}");
    let first = format!("{load} send --to right:9 -4 --count 1 --size 64 --after 0 >/dev/null");
    let send = format!("{load} send --to right:9000 -4 --count 300 --flood --size 1000 >/dev/null");
    let left = format!("sleep 0.5; {first}; sleep 0.5; {send}; sleep 60");
    let json = lab.path("weir.json").display().to_string();
    let session = lab.start([
        "pair",
        "--name",
        "kept",
        "--to-right",
        "bw 200kbit/s delay 20ms queue 1000",
        "--json",
        &json,
        "--left",
        &left,
        "--right",
        &recv,
    ]);
    let mut client = connect("kept");
    // 300 packets take 12 s at 200 kbit/s.
    until("packets wait", || inside(&mut client, "to-right") > 200);
    let done = lab.weir(["change", "kept", "to-right", "bw 100Mbit/s"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.stdout, "to-right  bw 100Mbit/s delay 20ms queue 1000\n");
    until("the queue is empty", || inside(&mut client, "to-right") == 0);
    let done = session.finish();
    assert_eq!(done.code, 0, "{done:?}");
    let reception = lab.reception("recv.json");
    assert_eq!((reception.received, reception.lost), (300, 0), "{reception:?}");
    let result = lab.document("weir.json");
    crate::common::check_accounting(&result);
    let to_right = link(&result, "to-right");
    assert_eq!(to_right["spec"], "bw 100Mbit/s delay 20ms queue 1000");
    // The rate in the results is a mean over time.
    let (rate, delay) = (number(to_right, "rate_bps"), number(to_right, "delay_ns"));
    assert!(200_000 < rate && rate < 100_000_000, "{to_right}");
    assert_eq!(delay, 20_000_000, "{to_right}");
    assert_eq!(drops(to_right, "queue_full"), 0);
    assert_eq!(notes(&result, "to-right became bw 100Mbit/s"), 1, "{result}");
}

/// The queue has room for everything that TCP sends, so a packet is lost only if a change loses it.
fn under_tcp(lab: &Lab) {
    let json = lab.path("weir.json").display().to_string();
    let session = lab.start([
        "pair",
        "--name",
        "tcp",
        "--link",
        "bw 8Mbit/s delay 10ms queue 100000",
        "--json",
        &json,
        "--left",
        "iperf3 -s -1 >/dev/null",
        "--right",
        "sleep 1; iperf3 -c left -t 4 >/dev/null",
    ]);
    let mut client = connect("tcp");
    until("TCP fills the queue", || inside(&mut client, "to-left") > 20);
    let steps = [
        ("to-left", "bw 2Mbit/s"),
        ("to-left", "delay 60ms"),
        ("to-right", "delay 40ms"),
        ("to-left", "bw 50Mbit/s delay 5ms"),
        ("to-left", "bw 1Mbit/s jitter 1ms"),
        ("to-left", "bw 20Mbit/s"),
    ];
    for (link, words) in steps {
        let request = ChangeRequest { words: words.into(), ..ChangeRequest::default() };
        assert!(client.change(Some(link), &request).expect("an answer").applied);
        std::thread::sleep(Duration::from_millis(200));
    }
    let done = session.finish();
    assert_eq!(done.code, 0, "{done:?}");
    let result = lab.document("weir.json");
    crate::common::check_accounting(&result);
    for name in ["to-left", "to-right"] {
        let lost: u64 = drops_of(link(&result, name));
        assert_eq!(lost, 0, "{name}: {result}");
    }
    assert_eq!(notes(&result, "became"), steps.len(), "{result}");
    assert!(number(link(&result, "to-left"), "packets_out") > 300, "{result}");
}

/// Four clients change a link 250 times each while packets pass it; every packet arrives.
fn thousand(lab: &Lab) {
    const CLIENTS: u64 = 4;
    const CHANGES_EACH: u64 = 250;
    let (load, out) = (load(), lab.path("recv.json").display().to_string());
    let recv = format!("{load} recv --bind 0.0.0.0:9000 --sent 4000 --idle 5 --json --out {out}");
    let first = format!("{load} send --to right:9 -4 --count 1 --size 64 --after 0 >/dev/null");
    let send = format!("{load} send --to right:9000 -4 --count 4000 --pps 1000 --size 200");
    let left = format!("sleep 0.5; {first}; sleep 0.5; {send} >/dev/null; sleep 60");
    let json = lab.path("weir.json").display().to_string();
    let session = lab.start([
        "pair",
        "--name",
        "busy",
        "--to-right",
        "bw 100Mbit/s delay 1ms queue 10000",
        "--json",
        &json,
        "--left",
        &left,
        "--right",
        &recv,
    ]);
    let mut client = connect("busy");
    until("packets flow", || passed(&mut client, "to-right") > 100);
    let before = passed(&mut client, "to-right");
    let began = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..CLIENTS {
            scope.spawn(move || {
                let mut client = connect("busy");
                for i in 0..CHANGES_EACH {
                    // Each client changes its own parameter.
                    let words = match n {
                        0 => format!("bw {}Mbit/s", 50 + i % 50),
                        1 => format!("delay {}ms", 1 + i % 5),
                        2 => format!("queue {}", 10_000 + i),
                        _ => format!("burst {}KB", i),
                    };
                    let request = ChangeRequest { words, ..ChangeRequest::default() };
                    let reply = client.change(Some("to-right"), &request).expect("an answer");
                    assert!(reply.applied, "{reply:?}");
                }
            });
        }
    });
    let took = began.elapsed();
    eprintln!("{} changes in {:.2} s", CLIENTS * CHANGES_EACH, took.as_secs_f64());
    let spec = client.view().expect("an answer").links[0].spec.clone();
    assert_eq!(spec, "bw 99Mbit/s burst 249KB delay 5ms queue 10249");
    assert!(passed(&mut client, "to-right") > before, "packets flow meanwhile");
    let done = session.finish();
    assert_eq!(done.code, 0, "{done:?}");
    let reception = lab.reception("recv.json");
    assert_eq!((reception.received, reception.lost), (4000, 0), "{reception:?}");
    let result = lab.document("weir.json");
    crate::common::check_accounting(&result);
    assert_eq!(notes(&result, "became"), 100, "the results have a bounded number of notes");
    // Three clients begin with the value that is already in force; these changes have no note.
    assert_eq!(notes(&result, "and 897 more changes"), 1, "{}", result["notes"]);
}

fn whole_life(lab: &Lab) {
    let json = lab.path("weir.json").display().to_string();
    let link_words = "bw 4Mbit/s delay 20ms";
    let session = lab.start([
        "run",
        "--link",
        link_words,
        "--no-outside",
        "--json",
        &json,
        "--",
        "sleep",
        "60",
    ]);
    let second = lab.start(["run", "--link", link_words, "--no-outside", "--", "sleep", "61"]);
    let [one, two] = ["sleep 60", "sleep 61"].map(|program| {
        let mut found = None;
        until("the session is listed", || {
            let listed = sessions(lab);
            found = listed.iter().find(|view| view["program"] == program).cloned();
            found.is_some()
        });
        found.expect("a session")
    });
    let mut names = [&one, &two].map(|view| view["name"].as_str().expect("a name").to_owned());
    assert_eq!(one["kind"], "run");
    assert_eq!(one["pid"].as_i64(), Some(session.pid().as_raw().into()));
    assert_eq!(one["links"][1]["spec"], link_words);
    let table = lab.weir(["ps"]).stdout;
    assert!(table.contains("sleep 60") && table.contains("down"), "{table}");
    // Two sessions run, so the name is needed.
    let done = lab.weir(["change", "loss 2%"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.stderr.contains(&names[0]) && done.stderr.contains(&names[1]), "{done:?}");
    assert_eq!(
        change(lab, &[&names[0], "down", "loss", "2%"]),
        "down  bw 4Mbit/s delay 20ms loss 0.02\n"
    );
    assert_eq!(
        change(lab, &[&names[0], "8M"]),
        "up    bw 8Mbit/s delay 20ms\ndown  bw 8Mbit/s delay 20ms loss 0.02\n"
    );
    assert_eq!(change(lab, &[&names[0], "up", "reset"]), format!("up  {link_words}\n"));
    assert!(change(lab, &[&names[0], "reset"]).contains(&format!("down  {link_words}\n")));
    let done = lab.weir(["stop", &names[1]]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(second.finish().code, 128 + 15, "as after SIGTERM");
    // The only session needs no name.
    let done = lab.weir(["change", "down", "delay 30ms"]);
    assert_eq!(done.stdout, "down  bw 4Mbit/s delay 30ms\n", "{done:?}");
    assert!(done.stderr.contains(&format!("session {}", names[0])), "{done:?}");
    let done = lab.weir(["stop"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(lab.path("weir.json").exists(), "the results are written before `weir stop` ends");
    let done = session.finish();
    assert_eq!(done.code, 128 + 15, "{done:?}");
    let result = lab.document("weir.json");
    assert_eq!(notes(&result, "down became bw 4Mbit/s delay 30ms"), 1, "{result}");
    names.sort();
    let listed = sessions(lab);
    assert!(listed.is_empty(), "{listed:?}");
}

fn refusals(lab: &Lab) {
    let done = lab.weir(["change", "nosuch", "loss 2%"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.stderr.contains("no links run"), "{done:?}");
    for name in ["a/b", "../x", ".x", "", "-x", "a b"] {
        let done = lab.weir(["run", &format!("--name={name}"), "--", "true"]);
        assert_eq!(done.code, 2, "{name}: {done:?}");
        assert!(done.stderr.contains("letters, digits"), "{name}: {done:?}");
    }
    let session = lab.start(["run", "--name", "refuse", "--no-outside", "--", "sleep", "60"]);
    let mut client = connect("refuse");
    let before = client.view().expect("an answer").links;
    for (words, says) in [
        (&["refuse", "dwn", "loss 2%"][..], "`dwn` is no session, no link"),
        (&["refuse", "down", "los 2%"], "did you mean `loss`?"),
        (&["refuse", "down", "loss 200%"], "nothing was changed"),
        (&["refuse", "down"], "say what to change"),
        (&["refuse"], "say what to change"),
        (&["refuse", "down", "trace nosuch.up"], "cannot read `nosuch.up`"),
        (&["refuse", "gso whole"], "offload"),
        (&["nosuch", "stop"], "`nosuch` is no session"),
    ] {
        let done = lab.weir(["change"].iter().chain(words));
        assert_eq!(done.code, 2, "{words:?}: {done:?}");
        assert!(done.stderr.contains(says), "{words:?}: {done:?}");
    }
    let done = lab.weir(["stop", "nosuch"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.stderr.contains("refuse is the only session"), "{done:?}");
    let done = lab.weir(["run", "--name", "refuse", "--no-outside", "--", "true"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.stderr.contains("runs already"), "{done:?}");
    assert_eq!(client.view().expect("an answer").links, before);
    let done = lab.weir(["change", "refuse", "down", "loss 2%", "--json"]);
    assert!(done.code == 0 && done.stdout.starts_with('{'), "an option after the words: {done:?}");
    silent(lab, &session);
    drop(session);
}

/// A session with a stopped process is listed as not answering. It answers again when the process
/// continues.
fn silent(lab: &Lab, session: &Running) {
    kill(session.pid(), Signal::SIGSTOP).expect("it is alive");
    let done = lab.weir(["ps", "--json"]);
    let shown: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let of = |list: &str| shown[list].as_array().cloned().unwrap_or_default().into_iter();
    assert!(of("sessions").all(|one| one["name"] != "refuse"), "{done:?}");
    let one = of("not_answering").find(|one| one["name"] == "refuse").unwrap_or_default();
    assert_eq!(one["pid"], session.pid().as_raw(), "{done:?}");
    let done = lab.weir(["ps"]);
    assert!(done.stdout.contains("does not answer") && !done.stderr.contains("no links run"));
    kill(session.pid(), Signal::SIGCONT).expect("it is alive");
    until("the session answers", || {
        lab.weir(["ps"]).stdout.lines().any(|line| line.contains("refuse") && line.contains("run"))
    });
}

fn with_rules(lab: &Lab) {
    let rules =
        lab.file("site.rules", "pipe 1 config bw 4Mbit/s\nadd 10 pipe 1 ip from any to any\n");
    let session = lab.start([
        "run",
        "--name",
        "ruled",
        "--no-outside",
        "--rules",
        &rules,
        "--",
        "sleep",
        "60",
    ]);
    connect("ruled");
    let done = lab.weir(["change", "ruled", "pipe 1 config bw 2Mbit/s delay 5ms"]);
    assert_eq!(done.code, 0, "{done:?}");
    for (words, says) in
        [("pipe 7 show", "shows nothing"), ("pipe 1 config bw fast", "nothing was changed")]
    {
        let done = lab.weir(["change", "ruled", words]);
        assert_eq!(done.code, 2, "{words}: {done:?}");
        assert!(done.stderr.contains(says), "{words}: {done:?}");
    }
    let mut client = connect("ruled");
    let mut state = || {
        let now = results(&mut client);
        let texts = |key: &str, field: &str| -> Vec<String> {
            let all = now[key].as_array().expect("a list");
            all.iter().map(|one| one[field].to_string()).collect()
        };
        (texts("rules", "text"), texts("pipes", "number"), now)
    };
    for words in ["pipe 2 config delay 300ms", "delete 10", "add 20 pipe 2 ip from any to any"] {
        assert_eq!(lab.weir(["change", "ruled", words]).code, 0);
    }
    let (rules, pipes, _) = state();
    assert!(rules[0].contains("pipe 2") && pipes == ["1", "2"], "{rules:?} {pipes:?}");
    let done = lab.weir(["change", "ruled", "reset"]);
    assert_eq!(done.code, 0, "{done:?}");
    let (rules, pipes, now) = state();
    // The rule of the file, and the default rule.
    assert!(rules[0].contains("pipe 1") && rules.len() == 2, "{rules:?}");
    assert_eq!(pipes, ["1"], "the pipe that a change made is gone");
    assert_eq!(notes(&now, "the rules became those of the start"), 1, "{now}");
    let again = lab.weir(["change", "ruled", "reset"]);
    assert_eq!((again.code, notes(&state().2, "the rules became those")), (0, 1), "{again:?}");
    let table = lab.weir(["ps"]).stdout;
    assert!(table.contains("by rules"), "{table}");
    drop(session);
}

fn statistics(lab: &Lab) {
    let session = lab.start([
        "run",
        "--name",
        "seen",
        "--link",
        "bw 4Mbit/s delay 5ms",
        "--no-outside",
        "--",
        "ping",
        "-q",
        "-i",
        "0.05",
        "host",
    ]);
    let mut client = connect("seen");
    until("packets flow", || passed(&mut client, "up") > 10);
    let done = lab.weir(["stats", "seen"]);
    assert_eq!(done.code, 0, "{done:?}");
    let row = |text: &str, link: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(link)).expect("a row");
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert!(row(&done.stdout, "up").len() >= 8, "{done:?}");
    let document = crate::schema::document(lab.weir(["stats", "--json"]).stdout.as_bytes());
    assert!(number(link(&document, "down"), "packets_out") > 5, "{document}");
    let before = passed(&mut client, "up");
    let watch = lab.start(["stats", "seen", "--watch"]);
    let lines = lab.start(["stats", "seen", "--watch", "--json"]);
    std::thread::sleep(Duration::from_millis(3500));
    let after = passed(&mut client, "up");
    assert_eq!(lab.weir(["stop", "seen"]).code, 0);
    let done = watch.finish();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.matches("late p50").count() >= 2, "{done:?}");
    assert!(done.stderr.contains("session seen has ended"), "{done:?}");
    let done = lines.finish();
    let seconds: Vec<Value> =
        done.stdout.lines().map(|line| crate::schema::document(line.as_bytes())).collect();
    assert!(done.code == 0 && seconds.len() >= 2, "{done:?}");
    let first = &seconds[0];
    assert_eq!((&first["kind"], &first["session"]), (&"interval".into(), &"seen".into()));
    let up = link(first, "up");
    let sent = number(up, "packets_out");
    assert!(sent > 0 && sent <= after - before, "only packets of the interval: {sent}: {first}");
    assert_eq!(number(&up["lateness_ns"], "count"), sent, "each packet has its lateness: {up}");
    assert_eq!(number(&up["queue_ns"], "count"), sent, "{up}");
    session.finish();
}

fn planned(lab: &Lab) {
    let json = lab.path("weir.json").display().to_string();
    let file = lab.file(
        "steps.plan",
        "# an outage\n\n400ms down delay 30ms loss 1%\n1200ms up reset # never changed\n",
    );
    let done = lab.weir([
        "run",
        "--link",
        "bw 4Mbit/s delay 10ms",
        "--no-outside",
        "--at",
        "800ms",
        "reset",
        "--at",
        "200ms",
        "down bw 1Mbit/s",
        "--plan",
        &file,
        "--at",
        "3600s",
        "loss 5%",
        "--json",
        &json,
        "--",
        "sleep",
        "2",
    ]);
    assert_eq!(done.code, 0, "{done:?}");
    let result = lab.document("weir.json");
    let notes: Vec<(f64, &str)> = result["notes"]
        .as_array()
        .expect("notes")
        .iter()
        .filter_map(|note| {
            let (at, what) = note.as_str()?.strip_prefix("at ")?.split_once(" s: ")?;
            Some((at.parse().ok()?, what))
        })
        .collect();
    let expected = [
        (0.2, "down became bw 1Mbit/s delay 10ms"),
        (0.4, "down became bw 1Mbit/s delay 30ms loss 0.01"),
        (0.8, "down became bw 4Mbit/s delay 10ms"),
    ];
    assert_eq!(notes.len(), expected.len(), "{result}");
    for ((at, what), (due, words)) in notes.into_iter().zip(expected) {
        assert!(what == words && at >= due, "{at}: {what}, expected {words} from {due} on");
    }
    assert_eq!(self::notes(&result, "1 step of the plan was not reached"), 1, "{result}");
}

/// In each run, the times of a plan are times of the scenario. `a-r` names both directions of a
/// link, and `r>a` names one of them.
fn planned_scenario(lab: &Lab) {
    let file = lab.file("routed.toml", ROUTED);
    let json = lab.path("scene.json").display().to_string();
    let at = |time: &'static str, what: &'static str| ["--at", time, what];
    let plan = [
        at("300ms", "a-r bw 2Mbit/s"),
        at("600ms", "line,line.back delay 3ms"),
        at("900ms", "r>a reset"),
        at("3600s", "reset"),
    ];
    let fixed = ["live", &file, "--json", &json, "--runs", "2", "--seed", "1"];
    let done = lab.weir(fixed.iter().chain(plan.as_flattened()));
    assert_eq!(done.code, 0, "{done:?}");
    for seed in ["seed 1", "seed 2"] {
        let notes: Vec<&str> = done
            .stderr
            .lines()
            .filter(|line| line.contains(seed) && line.contains("became"))
            .filter_map(|line| line.split_once(" s: ").map(|(_, what)| what))
            .collect();
        let expected = [
            "a>r became bw 2Mbit/s delay 2ms",
            "r>a became bw 2Mbit/s delay 2ms",
            "line became bw 4Mbit/s delay 3ms queue 50",
            "line.back became bw 4Mbit/s delay 3ms queue 50",
            "r>a became bw 8Mbit/s delay 2ms",
        ];
        assert_eq!(notes, expected, "{done:?}");
        let left = format!("{seed}: 1 step of the plan was not reached");
        assert!(done.stderr.contains(&left), "{done:?}");
    }
    for (action, says) in [
        ("lin bw 1Mbit/s", "unknown keyword `lin`"),
        ("line,lne bw 1Mbit/s", "there is no link lne"),
        ("line loss 200%", "cannot be used"),
    ] {
        let done = lab.weir(["live", &file, "--at", "1s", action]);
        assert_eq!(done.code, 2, "{action}: {done:?}");
        assert!(done.stderr.contains(says), "{action}: {done:?}");
    }
}

/// The words that bash offers for the last word of a command line.
fn completed(lab: &Lab, words: &[&str]) -> Vec<String> {
    let script = "source <(\"$1\" completions bash) 2>/dev/null; COMP_WORDS=(\"$@\"); \
                  COMP_CWORD=$(( $# - 1 )); _weir_names \"$1\" \"${!#}\" \"\"; \
                  (( ${#COMPREPLY[@]} )) && printf '%s\\n' \"${COMPREPLY[@]}\"; true";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash", weir()]).args(words);
    let done = lab.launch(&mut command).finish();
    assert_eq!(done.code, 0, "{words:?}: {done:?}");
    done.stdout.lines().map(str::to_owned).collect()
}

fn completions(lab: &Lab) {
    let file = lab.file("routed.toml", &ROUTED.replace("1500ms", "60s"));
    assert_eq!(completed(lab, &["change", ""]), [""; 0], "nothing runs");
    let scene = lab.start(["live", "-q", &file, "--name", "scene"]);
    connect("scene");
    let links = ["a\\>r", "r\\>a", "line", "line.back", "a-r"];
    let one = completed(lab, &["change", ""]);
    assert_eq!(
        one,
        [&["scene"][..], &links, &["reset"]].concat(),
        "the only session needs no name"
    );
    assert_eq!(completed(lab, &["change", "line"]), ["line", "line.back"]);
    let other = lab.start(["run", "-q", "--name", "other", "--no-outside", "--", "sleep", "60"]);
    connect("other");
    for command in ["change", "stats", "stop"] {
        assert_eq!(completed(lab, &[command, ""]), ["other", "scene"], "{command}");
        assert_eq!(completed(lab, &[command, "sc"]), ["scene"], "{command}");
    }
    assert_eq!(completed(lab, &["stats", "--watch", ""]), ["other", "scene"]);
    assert_eq!(completed(lab, &["change", "scene", ""]), [&links[..], &["reset"]].concat());
    assert_eq!(completed(lab, &["change", "-q", "other", ""]), ["up", "down", "reset"]);
    assert_eq!(completed(lab, &["change", "other", "down", ""]), ["reset"]);
    assert_eq!(completed(lab, &["stop", "other", ""]), [""; 0]);
    // Options and other commands are still completed.
    assert!(completed(lab, &["stats", "--w"]).contains(&"--watch".to_owned()));
    assert!(completed(lab, &["st"]).contains(&"stats".to_owned()));
    drop((scene, other));
}

fn wrong_plans(lab: &Lab) {
    let marker = lab.path("started").display().to_string();
    let many = "1s reset\n".repeat(10_001);
    let [bad, many] = [("bad.plan", "1s loss 1%\n2s los 1%\n"), ("many.plan", &*many)]
        .map(|(name, text)| lab.file(name, text));
    for (plan, says) in [
        (&["--at", "10", "reset"][..], "a time needs its unit"),
        (&["--at", "1s", "dwn loss 1%"], "unknown keyword `dwn`"),
        (&["--at", "1s", "down loss 200%"], "--at 1s cannot be used"),
        (&["--at", "1s", "gso whole"], "offload"),
        (&["--plan", &bad], "bad.plan:2"),
        (&["--plan", &many], "at most 10000 steps"),
        (&["--plan", "/nosuch/plan"], "cannot read it"),
    ] {
        let words = ["run", "--no-outside"].iter().chain(plan);
        let done = lab.weir(words.chain(&["--", "touch", marker.as_str()]));
        assert_eq!(done.code, 2, "{plan:?}: {done:?}");
        assert!(done.stderr.contains(says), "{plan:?}: {done:?}");
    }
    assert!(!lab.path("started").exists());
}

fn killed(lab: &Lab) {
    let session = lab.start(["run", "--name", "doomed", "--no-outside", "--", "sleep", "60"]);
    connect("doomed");
    let socket = socket("doomed").expect("it listens");
    kill(session.pid(), Signal::SIGKILL).expect("it is alive");
    assert_eq!(session.finish().code, 128 + 9);
    until("the session's processes are gone", || sessions(lab).is_empty());
    assert!(!socket.exists(), "`weir ps` removes the socket");
    // The name is free again.
    let done = lab.weir(["run", "--name", "doomed", "--no-outside", "--", "true"]);
    assert_eq!(done.code, 0, "{done:?}");
}

fn users(lab: &Lab) {
    let copies = Copies::make(lab);
    let links = format!("WEIR_LINKS_DIR={}/links", copies.home);
    let run = |user: &[&str], words: &[&str]| -> Done {
        let mut command = Command::new(user[0]);
        command.args(&user[1..]).args([links.as_str(), &copies.weir]).args(words);
        lab.launch(command.current_dir(&copies.home)).finish()
    };
    let mut command = Command::new(NOBODY[0]);
    command.args(&NOBODY[1..]).args([links.as_str(), &copies.weir]).args([
        "run",
        "--link",
        "4M/20ms",
        "--no-outside",
        "--",
        "sleep",
        "60",
    ]);
    let session: Running = lab.launch(command.current_dir(&copies.home));
    until("the session is listed", || run(&NOBODY, &["ps"]).stdout.contains("sleep 60"));
    let done = run(&NOBODY, &["change", "down", "loss 2%"]);
    assert_eq!(done.stdout, "down  bw 4Mbit/s delay 20ms loss 0.02\n", "{done:?}");
    let other: Vec<&str> = NOBODY
        .iter()
        .map(|word| match *word {
            "--reuid=65534" => "--reuid=65533",
            word => word,
        })
        .collect();
    for words in [&["ps"][..], &["change", "sleep", "loss 0"], &["stop", "sleep"]] {
        let done = run(&other, words);
        assert!(!done.stdout.contains("sleep"), "{words:?}: {done:?}");
        assert_eq!(done.code, if words == ["ps"] { 0 } else { 2 }, "{words:?}: {done:?}");
    }
    // The exact path is refused, too, because the directory is private.
    let path = format!("{}/links/sleep.sock", copies.home);
    let mut command = Command::new(other[0]);
    command.args(&other[1..]).args([
        "curl",
        "-s",
        "--unix-socket",
        &path,
        "http://weir/v1/session",
    ]);
    let done = lab.launch(&mut command).finish();
    assert_ne!(done.code, 0, "{done:?}");
    assert_eq!(run(&NOBODY, &["stop"]).code, 0);
    assert_eq!(session.finish().code, 128 + 15);
    assert_eq!(run(&NOBODY, &["ps"]).stdout, "");
}

fn scenario(lab: &Lab) {
    let file = lab.file("two.toml", SCENARIO);
    let session = lab.start(["live", &file, "--name", "scene"]);
    let mut client = connect("scene");
    let view = client.view().expect("an answer");
    assert_eq!(view.kind.to_string(), "live");
    let name = view.links[0].name.clone();
    let done = lab.weir(["change", "scene", &name, "delay 30ms"]);
    assert_eq!(done.stdout.trim(), format!("{name}  bw 4Mbit/s delay 30ms queue 50"), "{done:?}");
    let done = lab.weir(["stop", "scene"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(session.finish().code, 128 + 15);
    // `a-r` names both directions of a link without a name. Each direction has statistics.
    let file = lab.file("routed.toml", &ROUTED.replace("1500ms", "60s"));
    let session = lab.start(["live", &file, "--name", "routed"]);
    let mut client = connect("routed");
    assert_eq!(
        change(lab, &["routed", "a-r", "loss 2%"]),
        "a>r  bw 8Mbit/s delay 2ms loss 0.02\nr>a  bw 8Mbit/s delay 2ms loss 0.02\n"
    );
    assert_eq!(
        change(lab, &["routed", "a>r,line.back", "bw 1Mbit/s"]),
        "a>r        bw 1Mbit/s delay 2ms loss 0.02\nline.back  bw 1Mbit/s delay 5ms queue 50\n"
    );
    assert!(change(lab, &["routed", "a-r", "reset"]).contains("a>r  bw 8Mbit/s delay 2ms\n"));
    until("packets cross both links", || passed(&mut client, "line") > 10);
    let now = results(&mut client);
    crate::common::check_accounting(&now);
    let names = ["a>r", "r>a", "line", "line.back", "path a>b", "path b>a"];
    let listed: Vec<&Value> = now["links"].as_array().expect("links").iter().collect();
    assert_eq!(listed.iter().map(|link| &link["name"]).collect::<Vec<_>>(), names);
    assert_eq!((&listed[2]["from"], &listed[2]["to"]), (&"r".into(), &"b".into()));
    assert_eq!(listed[3]["spec"], "bw 1Mbit/s delay 5ms queue 50");
    let done = lab.weir(["stats", "routed"]);
    assert!(names.iter().all(|name| done.stdout.contains(&format!("  {name} "))), "{done:?}");
    let readings = client.readings().expect("readings");
    let lateness = |path| {
        readings.links.iter().find(|link| link.path == path).map(|link| link.lateness_ns.is_some())
    };
    assert_eq!((lateness(true), lateness(false)), (Some(true), Some(false)));
    assert_eq!(lab.weir(["stop", "routed"]).code, 0);
    session.finish();
}

/// The standard output of a change that must succeed.
fn change(lab: &Lab, words: &[&str]) -> String {
    let done = lab.weir(["change"].iter().chain(words));
    assert_eq!(done.code, 0, "{done:?}");
    done.stdout
}

/// The sessions that `weir ps` lists.
fn sessions(lab: &Lab) -> Vec<Value> {
    let done = lab.weir(["ps", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let document: Value = serde_json::from_str(&done.stdout).expect("JSON");
    document["sessions"].as_array().expect("a list").clone()
}

/// The path of the socket of the session with this name; `None` if no such session listens.
fn socket(name: &str) -> Option<PathBuf> {
    let all = Directory::all();
    let mut found = all.iter().flat_map(|directory| directory.sessions().unwrap_or_default());
    found.find(|found| found.name.as_str() == name).map(|found| found.path)
}

/// Connects to a session as soon as it answers.
pub(crate) fn connect(name: &str) -> SessionClient {
    let mut connected = None;
    until("the session answers", || {
        let client = socket(name).and_then(|path| {
            let mut client = SessionClient::new(path, Duration::from_secs(10)).ok()?;
            client.view().ok().map(|_| client)
        });
        connected = client;
        connected.is_some()
    });
    connected.expect("a client")
}

fn results(client: &mut SessionClient) -> Value {
    crate::schema::document(client.results().expect("results").as_bytes())
}

/// The number of packets inside a link.
fn inside(client: &mut SessionClient, name: &str) -> u64 {
    number(link(&results(client), name), "backlog_packets")
}

/// The number of packets that have passed a link.
fn passed(client: &mut SessionClient, name: &str) -> u64 {
    number(link(&results(client), name), "packets_out")
}

/// The number of drops of a link, for all reasons.
fn drops_of(link: &Value) -> u64 {
    let drops = link["drops"].as_object().expect("drops by reason");
    drops.values().map(|n| n.as_u64().expect("a count")).sum()
}

/// The number of notes of a result that contain these words.
fn notes(result: &Value, words: &str) -> usize {
    let notes = result["notes"].as_array().expect("notes");
    notes.iter().filter(|note| note.as_str().is_some_and(|note| note.contains(words))).count()
}

/// Two hosts with a router between them: a link without a name and one with a name.
const ROUTED: &str = r#"
name = "routed"
duration = "1500ms"
node = [{ name = "a" }, { name = "b" }, { name = "r", kind = "router" }]
link = [
    { between = ["a", "r"], spec = "bw 8Mbit/s delay 2ms" },
    { name = "line", between = ["r", "b"], spec = "bw 4Mbit/s delay 5ms queue 50" },
]
traffic = [
    { name = "stream", kind = "cbr", from = "a", to = "b", rate = "500kbit/s", size = "500B" },
]
"#;

/// Two hosts and a stream.
const SCENARIO: &str = r#"
name = "two"
duration = "20s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "line"
between = ["a", "b"]
spec = "bw 4Mbit/s delay 5ms queue 50"
[[traffic]]
name = "stream"
kind = "cbr"
from = "a"
to = "b"
rate = "1Mbit/s"
size = "500B"
"#;
