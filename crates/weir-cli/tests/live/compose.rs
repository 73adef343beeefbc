//! Tests `weir run --compose` with Docker engines that the tests start: each container is shaped
//! from its first packet on, and nothing of a job remains after its end, a stop or a kill.

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};

use crate::common::{
    Done, Lab, Need, Running, check_accounting, link, number, output_of, skipped, trial, until,
    weir,
};
use crate::containers::Engine;

pub(crate) fn tests() -> Vec<Trial> {
    let needs = &[
        Need::Root,
        Need::Program("dockerd"),
        Need::Program("docker"),
        Need::Program("docker-compose"),
        Need::Program("busybox"),
    ];
    vec![
        trial("compose_shapes_each_container_from_its_first_packet", needs, job),
        trial("compose_leaves_nothing_behind", needs, ends),
        trial("compose_names_what_is_wrong", needs, refused),
    ]
}

/// Three services. The client pings the two others, and its exit code 7 is that of the job.
const JOB: &str = r#"
version: "3.7"
services:
  db:
    image: box
    command: ["/bin/sleep", "1000"]
    stop_signal: SIGKILL
  server:
    image: box
    command: ["/bin/sleep", "1000"]
    stop_signal: SIGKILL
    depends_on: [db]
  client:
    image: box
    command: ["/bin/sh", "-c", "/bin/ping -c1 server; /bin/ping -c1 db; exit 7"]
    depends_on: [server]
"#;

/// A job that runs until it is stopped.
const ENDLESS: &str = r#"
version: "3.7"
services:
  web:
    image: box
    command: ["/bin/sleep", "1000"]
    stop_signal: SIGKILL
    volumes: ["data:/data"]
  db:
    image: box
    command: ["/bin/sleep", "1000"]
    stop_signal: SIGKILL
volumes:
  data:
"#;

/// Starts Docker. If it does not start, reports that the test is skipped.
fn engine<'a>(lab: &'a Lab, name: &str) -> Option<Engine<'a>> {
    Engine::docker(lab)
        .map_err(|words| skipped(name, &format!("dockerd does not start here: {words}")))
        .ok()
}

/// The ids of all containers, of Weir's networks, and of all volumes that still exist.
fn leftovers(docker: &Engine<'_>) -> String {
    docker
        .must("docker ps -aq; docker network ls -q --filter name=weir-; docker volume ls -q")
        .stdout
}

/// The times of the pings in an output, in ms.
fn times(done: &Done) -> Vec<f64> {
    let after = done.stdout.split("time=").skip(1);
    after.map(|text| text.split(' ').next().and_then(|ms| ms.parse().ok()).expect("ms")).collect()
}

fn job(lab: &Lab) {
    let name = "compose_shapes_each_container_from_its_first_packet";
    let Some(docker) = engine(lab, name) else { return };
    let file = lab.file("shop.yml", JOB);
    let json = lab.path("out.json").display().to_string();
    let fixed = ["run", "--compose", &file, "--up", "delay 30ms", "--down", "delay 20ms"];
    let rest = ["--json", &json, "--", "--force-recreate", "--exit-code-from", "client"];
    let done = docker.weir(&[&fixed[..], &rest].concat()).finish();
    assert_eq!(done.code, 7, "{done:?}");
    for service in ["db", "server", "client"] {
        let shaped = format!("{service} is shaped from its first packet");
        assert!(done.stderr.contains(&shaped), "{done:?}");
    }
    // A packet passes the link `up` of its sender and the link `down` of its receiver.
    let [server, db] = times(&done)[..] else { panic!("two pings: {done:?}") };
    assert!(server >= 100.0 && db >= 100.0, "{done:?}");
    assert_eq!(leftovers(&docker), "", "{done:?}");

    let result = lab.document("out.json");
    check_accounting(&result);
    assert_eq!(result["exit_code"], 7);
    assert_eq!(link(&result, "client.up")["from"], "client");
    // Each link carries at least one request or reply of the pings.
    for name in ["client.up", "client.down", "server.up", "server.down", "db.up", "db.down"] {
        assert!(number(link(&result, name), "packets_out") >= 1, "{name}: {result}");
    }

    // Only the chosen service is shaped.
    let chosen = ["--service", "server", "-q", "--", "--exit-code-from", "client"];
    let done = docker.weir(&[&fixed[..], &chosen].concat()).finish();
    assert_eq!(done.code, 7, "{done:?}");
    let [server, db] = times(&done)[..] else { panic!("two pings: {done:?}") };
    assert!((50.0..100.0).contains(&server) && db < 50.0, "{done:?}");
    assert!(!done.stderr.contains("weir:"), "{done:?}");
}

fn ends(lab: &Lab) {
    let Some(docker) = engine(lab, "compose_leaves_nothing_behind") else { return };
    let file = lab.file("docker-compose.yml", ENDLESS);
    let options = ["--link", "delay 20ms", "--name", "job", "--timeout", "50s"];
    let words = [&["run", "--compose", &file][..], &options].concat();
    let shaped = |running: &Running| {
        let stderr = running.stderr();
        ["web", "db"].iter().all(|name| stderr.contains(&format!("{name} is shaped")))
    };

    // Other commands reach the links, and `weir stop` ends the job.
    let running = docker.weir(&words);
    until("both services are shaped", || shaped(&running));
    let listed = lab.weir(["ps"]);
    assert!(listed.stdout.contains("job") && listed.stdout.contains("web.down"), "{listed:?}");
    let changed = lab.weir(["change", "job", "web.down", "delay 70ms"]);
    assert_eq!(changed.code, 0, "{changed:?}");
    // A container that starts again is shaped again.
    let listed = "docker ps -q --filter name=db";
    until("the container of db runs", || !docker.must(listed).stdout.is_empty());
    docker.must(&format!("docker restart -t 0 $({listed})"));
    until("db is shaped again", || running.stderr().matches("db is shaped").count() == 2);
    let stopped = lab.weir(["stop", "job"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    let done = running.finish();
    assert!(done.stderr.contains("web.down"), "the results are printed: {done:?}");
    assert_eq!(leftovers(&docker), "", "{done:?}");

    // Weir is killed while compose creates and starts the containers, and while they run.
    for round in 0..KILLS {
        let running = docker.weir(&words);
        if round + 1 == KILLS {
            until("both services are shaped", || shaped(&running));
        } else {
            std::thread::sleep(std::time::Duration::from_millis(1200 + 700 * round));
        }
        let guards = guards(&running);
        kill(running.pid(), Signal::SIGKILL).expect("it is alive");
        assert_eq!(running.finish().code, 128 + 9);
        until_removed("nothing of the job remains", || leftovers(&docker).is_empty());
        let gone = |pid: &String| !std::path::Path::new(&format!("/proc/{pid}")).exists();
        until("no guard remains", || guards.iter().all(gone));
    }
}

/// Waits like `until`, but for up to 40 s, which is enough for a removal on a busy machine.
fn until_removed(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..100 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(400));
    }
    panic!("after forty seconds this is still not true: {what}");
}

/// The process ids of a command's guards.
fn guards(of: &Running) -> Vec<String> {
    let text = output_of(&format!("pgrep -P {} -f __weir-guard", of.pid()));
    text.lines().map(str::to_owned).collect()
}

fn refused(lab: &Lab) {
    let link = ["--link", "delay 10ms"];
    let file = lab.file("shop.yml", JOB);
    let broken = lab.file("broken.yml", "services:\n  web: [\n");
    for (words, code, parts) in [
        (&["--compose", "/no/such.yml"][..], 2, &["--compose /no/such.yml: "][..]),
        (&["--compose", &broken], 2, &["broken.yml", "refuses it"]),
        (&["--compose", &file, "--service", "web"], 2, &["no service web", "client", "server"]),
        (&["--compose", &file, "--", "/bin/true"], 2, &["no other command", "compose up"]),
        (&["--compose", &file, "--", "-d"], 2, &["up -d", "cannot be used"]),
        (&["--compose", &file, "--publish", "8080:80"], 2, &["cannot be used with"]),
        (&["--service", "web", "--", "true"], 2, &["--compose"]),
        (&["--compose", &file], 125, &["does not listen on"]),
    ] {
        let mut command = std::process::Command::new(weir());
        command.arg("run").args(link).args(words);
        let socket = format!("unix://{}", lab.path("absent.sock").display());
        let done = lab.launch(command.env("DOCKER_HOST", socket)).finish();
        assert_eq!(done.code, code, "{words:?}: {done:?}");
        for part in parts {
            assert!(done.stderr.contains(part), "{words:?}: {part}: {done:?}");
        }
    }
    let done = lab.weir(["run", "--compose", &file]);
    assert!(done.code == 2 && done.stderr.contains("nothing to emulate"), "{done:?}");
}

/// The number of times that Weir is killed during a job.
const KILLS: u64 = 3;
