//! Tests labs: programs and containers on the hosts of a scenario, `weir exec`, and that nothing
//! remains when a lab ends.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::common::{
    Copies, Done, Lab, NOBODY, Need, Running, find, number, output_of, skipped, trial, until, weir,
};
use crate::containers::Engine;
use crate::scenario::marked;

pub(crate) fn tests() -> Vec<Trial> {
    let busybox = &[Need::Root, Need::Program("busybox"), Need::Program("setpriv")];
    let docker =
        &[Need::Root, Need::Program("dockerd"), Need::Program("docker"), Need::Program("busybox")];
    vec![
        trial("lab_runs_containers_and_removes_them", docker, containers),
        trial("lab_starts_programs_in_order_and_ends_with_them", &[Need::Program("ping")], order),
        trial(
            "lab_of_the_examples_works_from_any_directory",
            &[Need::Program("python3"), Need::Program("curl")],
            example,
        ),
        trial("lab_runs_programs_in_their_own_root", busybox, roots),
        trial("lab_that_is_kept_is_entered_changed_and_stopped", busybox, kept),
        trial("lab_says_what_is_wrong_with_a_host", &[], wrong),
        trial("lab_log_is_bounded_and_says_so", &[], long_log),
        trial("lab_interrupted_or_killed_leaves_nothing", &[Need::Root], ends),
    ]
}

/// Two hosts with a link of 20 ms in each direction. `web` and `client` hold further keys of the
/// hosts with these names.
fn two(web: &str, client: &str) -> String {
    format!(
        "duration = \"30s\"\n[[node]]\nname = \"web\"\n{web}\n[[node]]\nname = \
         \"client\"\n{client}\n[[link]]\nname = \"access\"\n\
         between = [\"web\", \"client\"]\nspec = \
         \"bw 10Mbit/s delay 20ms\"\n"
    )
}

/// Options against busy waiting and real-time priority.
const CALM: [&str; 3] = ["--spin", "off", "--no-realtime"];

fn live(lab: &Lab, text: &str, more: &[&str]) -> Running {
    let file = lab.file("lab.toml", text);
    lab.start([&["live", file.as_str()], &CALM[..], more].concat())
}

/// The host with this name in the only run of a summary.
fn node<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let nodes = summary["runs"][0]["nodes"].as_array().expect("a lab has hosts");
    let found = nodes.iter().find(|node| node["name"] == name);
    found.unwrap_or_else(|| panic!("no host {name} in {summary}"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn order(lab: &Lab) {
    let out = lab.path("out");
    let ready = lab.path("ready").display().to_string();
    let web = format!(
        "command = \"sleep 0.4; echo up; touch {ready}; exec sleep 100\"\n\
         health = {{ command = [\"test\", \"-e\", \"{ready}\"], interval = \"50ms\" }}"
    );
    let client = format!(
        "command = \"test -e {ready} && ping -c3 -i0.2 web; echo $WORD; exit 3\"\n\
         after = [\"web\"]\nends = true\nenv = {{ WORD = \"to say\" }}"
    );
    let json = lab.path("live.json").display().to_string();
    let more = ["--quiet", "--json", &json, "--out", &out.display().to_string()];
    let done = live(lab, &two(&web, &client), &more).finish();
    assert_eq!(done.code, 3, "the code of the program with a defined end: {done:?}");
    let summary = lab.document("live.json");
    let (web, client) = (node(&summary, "web"), node(&summary, "client"));
    assert_eq!(client["exit_code"], 3, "{client}");
    assert_eq!((&web["stopped"], &client["stopped"]), (&true.into(), &false.into()));
    assert!(number(web, "up_ns") >= 400_000_000, "{web}");
    assert!(number(client, "started_ns") >= number(web, "up_ns"), "{client} {web}");
    // The run ends with the client, long before the scenario's duration.
    assert!(summary["simulated_s"].as_f64().is_some_and(|s| s < 20.0), "{summary}");
    let log = read(&out.join("client.log"));
    assert!(log.contains("3 received") && log.contains("to say"), "{log}");
    assert!(log.contains("time=4") && !log.contains("time=0"), "pings take 40 ms: {log}");
    assert_eq!(read(&out.join("web.log")), "up\n");
    let links = summary["links"].as_array().expect("links");
    assert!(links.iter().all(|link| number(link, "packets_in") >= 3), "{summary}");
}

/// `weir live` runs in another directory than that of the scenario.
fn example(lab: &Lab) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/labs/web.toml");
    let out = lab.path("out");
    let options = ["live", file, "--quiet", "--out", &out.display().to_string()];
    let done = lab.start([&options, &CALM[..]].concat()).finish();
    assert_eq!(done.code, 0, "{done:?}");
    let log = read(&out.join("web.log"));
    let answers: Vec<&str> = log.lines().filter(|line| line.contains("\"GET ")).collect();
    assert!(answers.iter().all(|line| line.contains("\" 200 ")), "{log}");
    for client in ["10.0.0.3 ", "10.0.0.4 "] {
        assert!(answers.iter().any(|line| line.starts_with(client)), "{log}");
    }
}

/// Makes a root file system of a static BusyBox.
fn make_root(lab: &Lab) -> PathBuf {
    let root = lab.path("root");
    fs::create_dir_all(root.join("bin")).expect("a directory");
    let busybox = find("busybox").expect("it is installed");
    fs::copy(busybox, root.join("bin/busybox")).expect("a copy");
    for name in ["sh", "cat", "hostname", "ls", "sleep", "touch", "ping", "ps", "test", "id"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).expect("a link");
    }
    fs::create_dir(root.join("etc")).expect("a directory");
    fs::write(root.join("etc/own"), "of the root\n").expect("a file");
    root
}

/// All files below a directory, with their lengths and times.
fn files(directory: &Path) -> String {
    output_of(&format!("cd {} && find . -printf '%p %s %T@\\n' | sort", directory.display()))
}

fn roots(lab: &Lab) {
    let root = make_root(lab);
    fs::create_dir(lab.path("data")).expect("a directory");
    fs::write(lab.path("data/word"), "from the machine\n").expect("a file");
    fs::set_permissions(lab.path("data"), fs::Permissions::from_mode(0o777)).expect("a mode");
    let before = files(&root);
    let web = "rootfs = \"root\"\nvolumes = [\"data:/srv/data:ro\", \"data:/own\"]\nends = true\n\
               command = \"cat /etc/own /etc/hosts /srv/data/word; echo name $(hostname); \
               touch /new && echo written; touch /srv/data/x || echo protected; touch /own/y; \
               ls /dev; echo x > /dev/null && ls /proc/1 > /dev/null && echo devices\"";
    let client = "rootfs = \"root\"\nread_only = true\nends = true\n\
                  command = [\"/bin/sh\", \"-c\", \"touch /new || echo refused\"]";
    let file = lab.file("lab.toml", &two(web, client));
    let copies = Copies::make(lab);
    // The ordinary user does not own the root file system.
    for user in [&[][..], &NOBODY[..]] {
        let out = format!("{}/out{}", copies.home, user.len());
        let words = [user, &[copies.weir.as_str(), "live", &file, "--out", &out], &CALM[..]];
        let words = words.concat();
        let done = lab.launch(Command::new(words[0]).args(&words[1..])).finish();
        assert_eq!(done.code, 0, "{done:?}");
        let log = read(&Path::new(&out).join("web.log"));
        for part in [
            "of the root",
            "10.0.0.2\tclient",
            "from the machine",
            "name web",
            "written",
            "protected",
            "urandom",
            "devices",
        ] {
            assert!(log.contains(part), "{part}: {log}");
        }
        assert!(read(&Path::new(&out).join("client.log")).contains("refused"));
        assert!(lab.path("data/y").exists() && !lab.path("data/x").exists());
        fs::remove_file(lab.path("data/y")).expect("it was written");
        assert_eq!(files(&root), before, "the directory is never written to");
    }
}

/// Root or an ordinary user, who runs a copy of `weir`.
struct User<'a> {
    lab: &'a Lab,
    /// Words to put in front of a command, to run it as this user; none for root.
    prefix: &'a [&'a str],
    weir: &'a str,
}

impl User<'_> {
    fn start(&self, words: &[&str]) -> Running {
        let words = [self.prefix, &[self.weir], words].concat();
        self.lab.launch(Command::new(words[0]).args(&words[1..]))
    }

    fn weir(&self, words: &[&str]) -> Done {
        self.start(words).finish()
    }

    fn session(&self, name: &str) -> Option<Value> {
        let done = self.weir(&["ps", "--json"]);
        let all: Value = serde_json::from_str(&done.stdout).expect("JSON");
        all["sessions"].as_array()?.iter().find(|session| session["name"] == name).cloned()
    }
}

fn kept(lab: &Lab) {
    make_root(lab);
    let web = "rootfs = \"root\"\ncommand = [\"sleep\", \"1000\"]";
    // The client has no program.
    let file = lab.file("lab.toml", &two(web, ""));
    let copies = Copies::make(lab);
    for (name, prefix) in [("kept-root", &[][..]), ("kept-nobody", &NOBODY[..])] {
        let user = User { lab, prefix, weir: &copies.weir };
        let words = ["live", &file, "--keep", "--name", name, "--set", "duration=1s"];
        let running = user.start(&[&words[..], &CALM[..]].concat());
        until("the lab is up", || {
            user.session(name).is_some_and(|session| session["nodes"][0]["state"] == "up")
        });
        let exec = |words: &[&str]| user.weir(&[&["exec", name], words].concat());
        let done = exec(&["web", "sh", "-c", "hostname; ls /etc; touch /mine; exit 7"]);
        assert_eq!(done.code, 7, "{done:?}");
        assert!(done.stdout.contains("web\n") && done.stdout.contains("own"), "{done:?}");
        let done = exec(&["web", "sh", "-c", "ls /mine && ps"]);
        assert!(done.code == 0 && done.stdout.contains("sleep 1000"), "{done:?}");
        let done = exec(&["client", "ping", "-c2", "-i0.2", "web"]);
        assert!(done.code == 0 && done.stdout.contains("2 received"), "{done:?}");
        let changed = user.weir(&["change", name, "access", "delay 100ms"]);
        assert_eq!(changed.code, 0, "{changed:?}");
        let done = exec(&["client", "ping", "-c1", "web"]);
        assert!(done.code == 0 && done.stdout.contains("time=1"), "{done:?}");
        for (words, code, part) in [
            (&["web", "no-such-command"][..], 127, "no such command"),
            (&["nobody", "ls"], 2, "its hosts are web, client"),
            (&["web"], 2, "give a command"),
            (&["client", "sh", "-c", "kill -TERM $$"], 128 + 15, ""),
        ] {
            let done = exec(words);
            assert_eq!(done.code, code, "{words:?}: {done:?}");
            assert!(done.stderr.contains(part), "{words:?}: {done:?}");
        }
        // The lab continues after its duration of 1 s. A command in a host ends with the lab.
        std::thread::sleep(Duration::from_secs(1));
        let inside = user.start(&["exec", name, "web", "sleep", "1000"]);
        until("the command runs in the host", || {
            exec(&["web", "ps"]).stdout.matches("sleep 1000").count() == 2
        });
        assert_eq!(user.weir(&["stop", name]).code, 0);
        assert_eq!(running.finish().code, 0);
        assert_eq!(inside.finish().code, 128 + 9);
        assert!(user.session(name).is_none());
        let done = exec(&["web", "ls"]);
        assert!(done.code == 2 && done.stderr.contains("no lab runs"), "{done:?}");
    }
}

fn wrong(lab: &Lab) {
    let serve = "command = [\"sleep\", \"100\"]";
    let once = |command: &str| format!("command = \"{command}\"\nends = true");
    let health = |more: &str| format!("{serve}\nhealth = {{ interval = \"20ms\", {more} }}");
    let file = lab.file("lab.toml", &two(serve, ""));
    let sim = lab.weir(["sim", &file]);
    assert!(sim.code == 2 && sim.stderr.contains("`web` is or runs a program"), "{sim:?}");
    for (web, client, code, part) in [
        ("rootfs = \"no\"\ncommand = \"x\"", "", 2, "there is no directory"),
        (&format!("{serve}\nvolumes = [\"no:/x\"]"), "", 2, "for a volume"),
        (&format!("{serve}\nvolumes = [\"lab.toml:/no/such\"]"), "", 125, "/no/such"),
        ("command = [\"/no/such/program\"]", "", 127, "web: /no/such/program: there is no such"),
        ("command = [\"/etc/passwd\"]", "", 126, "cannot be executed"),
        (&format!("{serve}\nafter = [\"client\"]"), "", 2, "`client` runs no program"),
        (
            &format!("{serve}\nafter = [\"client\"]"),
            &format!("{serve}\nafter = [\"web\"]"),
            2,
            "web → client → web",
        ),
        (
            &health("command = \"echo not yet; exit 4\", retries = 3"),
            "",
            125,
            "web is not healthy after 3 checks; the last one ended with exit code 4; it printed\n  \
             not yet",
        ),
        (
            &health("command = \"sleep 100\", timeout = \"30ms\", retries = 2"),
            "",
            125,
            "the last one took longer than 30ms",
        ),
        (
            "command = \"echo bad address >&2; exit 9\"\nhealth = { command = \"false\" }",
            "",
            125,
            "web ended with exit code 9 before it was healthy; it printed\n  bad address",
        ),
        (
            &once("exit 5"),
            &format!("{serve}\nafter = [\"web:ended\"]"),
            125,
            "client cannot start: web has ended with exit code 5",
        ),
        ("command = \"sleep 0.3; exit 6\"", &once("sleep 1"), 0, "web ended with exit code 6"),
    ] {
        let done = live(lab, &two(web, client), &[]).finish();
        assert_eq!(done.code, code, "{web} {client}: {done:?}");
        assert!(done.stderr.contains(part), "{part}: {done:?}");
    }
    let absent = format!("unix://{}", lab.path("no.sock").display());
    let file = lab.file("image.toml", &two("image = \"box\"\nengine = \"docker\"", ""));
    let mut command = Command::new(weir());
    let done = lab.launch(command.args(["live", &file]).env("DOCKER_HOST", absent)).finish();
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.stderr.contains("image.toml:4"), "{done:?}");
}

fn long_log(lab: &Lab) {
    let out = lab.path("out").display().to_string();
    let web = "command = \"echo first; head -c 12000000 /dev/zero; echo last\"\nends = true";
    let done = live(lab, &two(web, ""), &["--out", &out]).finish();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("of which the log leaves out"), "{done:?}");
    let log = fs::read(lab.path("out/web.log")).expect("a log");
    assert!(log.starts_with(b"first\n") && log.ends_with(b"last\n") && log.len() < 9_000_000);
    let summary = lab.document("out/summary.json");
    let web = node(&summary, "web");
    let (all, cut) = (number(web, "log_bytes"), number(web, "log_cut_bytes"));
    assert_eq!(all, 12_000_000 + 11, "{web}");
    let said = format!("[weir: {cut} bytes were not kept here]");
    assert!(log.windows(said.len()).any(|window| window == said.as_bytes()));
}

fn ends(lab: &Lab) {
    let machine = || output_of("ip -o link | sed 's/qlen.*//'; ip route; mount | sort");
    let before = machine();
    let web = "command = \"trap 'echo asked; exit 0' TERM; while :; do sleep 0.05; done\"\n\
               health = { command = \"true\" }";
    let client = "command = [\"sleep\", \"1000\"]\nafter = [\"web\"]";
    let file = lab.file("lab.toml", &two(web, client));
    let start = |mark: &str, more: &[&str]| {
        let (name, value) = mark.split_once('=').expect("a variable");
        let mut command = Command::new(weir());
        lab.launch(command.args(["live", &file]).args(CALM).args(more).env(name, value))
    };
    let mark = |round: u64| format!("WEIR_LIVE_LAB={}-{round}", lab.path("").display());
    for round in 0..6 {
        let mark = mark(round);
        let mut running = start(&mark, &[]);
        std::thread::sleep(Duration::from_millis(round * 97));
        assert!(running.alive(), "weir ended before its kill: {}", running.stderr());
        kill(running.pid(), Signal::SIGKILL).expect("it is alive");
        assert_eq!(running.finish().code, 128 + 9);
        until("every process is gone", || !marked(&mark));
        until("the machine is as before", || machine() == before);
    }
    let (mark, out) = (mark(99), lab.path("out"));
    let running = start(&mark, &["--out", &out.display().to_string(), "--name", "lab-ends"]);
    let is_up = || {
        let all: Value = serde_json::from_str(&lab.weir(["ps", "--json"]).stdout).expect("JSON");
        let lab = all["sessions"]
            .as_array()
            .expect("sessions")
            .iter()
            .find(|session| session["name"] == "lab-ends");
        lab.is_some_and(|lab| lab["nodes"][1]["state"] == "up")
    };
    until("the lab is up", is_up);
    running.signal_group(Signal::SIGINT);
    let done = running.finish();
    assert_eq!(done.code, 128 + 2, "{done:?}");
    // The terminal's signal did not reach the program: Weir asked it to end.
    assert_eq!(read(&out.join("web.log")), "asked\n");
    let summary = lab.document("out/summary.json");
    let (web, client) = (node(&summary, "web"), node(&summary, "client"));
    assert_eq!((&web["exit_code"], &web["stopped"]), (&0.into(), &true.into()), "{web}");
    assert_eq!((&client["exit_code"], &client["stopped"]), (&143.into(), &true.into()));
    until("every process is gone", || !marked(&mark));
    assert_eq!(machine(), before);
}

fn containers(lab: &Lab) {
    let docker = match Engine::docker(lab) {
        Ok(docker) => docker,
        Err(words) => {
            let why = format!("dockerd does not start here: {words}");
            let _ = skipped("lab_runs_containers_and_removes_them", &why);
            return;
        }
    };
    let left = || {
        let all = docker.must("E ps -aq ; E images -q --filter label=weir.lab").stdout;
        all + &output_of("ip -o link | grep -c veth")
    };
    let before = left();
    fs::create_dir(lab.path("www")).expect("a directory");
    fs::write(lab.path("www/index.html"), "hello\n").expect("a file");
    let web = "image = \"box\"\nengine = \"docker\"\nvolumes = [\"www:/www:ro\"]\n\
               env = { WORD = \"a word\" }\n\
               command = [\"/bin/busybox\", \"httpd\", \"-f\", \"-h\", \"/www\"]\n\
               [node.health]\ncommand = [\"/bin/busybox\", \"wget\", \"-q\", \"-O\", \"-\", \
               \"http://127.0.0.1/\"]\ninterval = \"50ms\"\n";
    let wget = "wget -O - http://web/";
    let client = format!(
        "image = \"box\"\ncommand = [\"/bin/busybox\", \"sh\", \"-c\", \
         \"busybox {wget}; exit 4\"]\n\
         after = [\"web\"]\nends = true"
    );
    let file = lab.file("lab.toml", &two(web, &client));
    let out = lab.path("out").display().to_string();
    let run = |words: &[&str]| docker.weir(&[&["live", file.as_str()], &CALM[..], words].concat());
    let done = run(&["--out", &out]).finish();
    assert_eq!(done.code, 4, "{done:?}");
    assert!(read(&lab.path("out/client.log")).contains("hello"), "{done:?}");
    let summary = lab.document("out/summary.json");
    assert_eq!(node(&summary, "client")["exit_code"], 4);
    // A TCP connection with a request and an answer has at least four packets in each direction.
    let links = summary["links"].as_array().expect("links");
    assert!(links.iter().all(|link| number(link, "packets_out") >= 4), "{summary}");
    assert_eq!(left(), before);

    let kept = lab.file("kept.toml", &two(web, "image = \"box\"\ncommand = [\"sleep\", \"1000\"]"));
    let keep = || docker.weir(&[&["live", &kept, "--keep", "--name", "boxes"], &CALM[..]].concat());
    let is_up = || {
        let all: Value = serde_json::from_str(&lab.weir(["ps", "--json"]).stdout).expect("JSON");
        let nodes = |session: &Value| session["nodes"].as_array().cloned().unwrap_or_default();
        let mut sessions = all["sessions"].as_array().expect("sessions").iter();
        sessions.any(|session| nodes(session).iter().all(|node| node["state"] == "up"))
    };
    let running = keep();
    until("the lab is up", is_up);
    let exec = |words: &[&str]| docker.weir(&[&["exec"], words].concat()).finish();
    let done = exec(&["web", "busybox", "sh", "-c", "echo $WORD; busybox cat /etc/hosts; exit 6"]);
    assert_eq!(done.code, 6, "{done:?}");
    assert!(done.stdout.contains("a word") && done.stdout.contains("10.0.0.2\tclient"), "{done:?}");
    let done = exec(&["client", "busybox", "ping", "-c1", "web"]);
    assert!(done.code == 0 && done.stdout.contains("time=4"), "{done:?}");
    // When a program dies, its host and the lab stay.
    docker.must("E kill boxes-client");
    until("weir ps lists the end of the client", || lab.weir(["ps"]).stdout.contains("137"));
    let done = exec(&["client", "busybox", "ls"]);
    assert!(done.code == 125 && done.stderr.contains("does not run: ended"), "{done:?}");
    running.signal_group(Signal::SIGINT);
    let done = running.finish();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("client ended with exit code 137"), "{done:?}");
    assert_eq!(left(), before);

    for pause in [50, 400, 900] {
        let mut running = keep();
        std::thread::sleep(Duration::from_millis(pause));
        assert!(running.alive(), "weir ended before its kill: {}", running.stderr());
        kill(running.pid(), Signal::SIGKILL).expect("it is alive");
        assert_eq!(running.finish().code, 128 + 9);
        until("the containers are gone", || left() == before);
    }

    for (keys, code, part) in [
        ("image = \"nothing\"", 2, "there is no image nothing on this machine; docker has box:"),
        ("image = \"box\"\ncommand = [\"/no/such\"]", 125, "web: the container did not start: "),
        ("image = \"box\"", 125, "web: the container did not start: "),
    ] {
        let file = lab.file("wrong.toml", &two(keys, ""));
        let done = docker.weir(&[&["live", &file], &CALM[..]].concat()).finish();
        assert_eq!(done.code, code, "{keys}: {done:?}");
        assert!(done.stderr.contains(part), "{keys}: {done:?}");
    }
    assert_eq!(left(), before);
    failed_start(lab, &docker, &left);
}

/// One container fails to start while the engine creates the other container.
fn failed_start(lab: &Lab, docker: &Engine<'_>, left: &dyn Fn() -> String) {
    let before = left();
    let web = "image = \"box\"\ncommand = [\"sleep\", \"1000\"]";
    for (web, client) in [(web, "image = \"box\""), ("image = \"box\"", web)] {
        let file = lab.file("lab.toml", &two(web, client));
        for _ in 0..3 {
            let done = docker.weir(&[&["live", &file], &CALM[..]].concat()).finish();
            assert_eq!(done.code, 125, "{done:?}");
            assert!(done.stderr.contains("No command specified"), "{done:?}");
            assert_eq!(left(), before, "{done:?}");
        }
    }
}
