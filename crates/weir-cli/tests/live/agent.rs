//! Tests `weir agent` with a Docker engine that the test starts, and as a plugin of a container
//! runtime that the test plays.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::common::{Lab, Need, Running, must, output_of, skipped, trial, until};
use crate::containers::{Engine, docker_socket};

pub(crate) fn tests() -> Vec<Trial> {
    let docker = &[
        Need::Root,
        Need::Program("dockerd"),
        Need::Program("docker"),
        Need::Program("docker-compose"),
        Need::Program("busybox"),
        Need::Program("ping"),
    ];
    let ping = &[Need::Root, Need::Program("ping")];
    vec![
        trial(DOCKER, docker, labelled_containers),
        trial("agent_shapes_annotated_pods", ping, annotated_pods),
        trial("agent_waits_for_engines", &[Need::Root], absent_engines),
    ]
}

/// Starts a container that sleeps.
fn run(docker: &Engine<'_>, name: &str, options: &[&str]) {
    let options = options.join(" ");
    docker.must(&format!(
        "docker run -d --stop-timeout 1 --name {name} {options} box /bin/sleep 1000"
    ));
}

fn address(docker: &Engine<'_>, name: &str) -> String {
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    docker.must(&format!("docker inspect -f '{format}' {name}")).stdout.trim().to_owned()
}

/// The lowest round-trip time of three pings, in ms; `None` if no answer arrived.
pub(crate) fn rtt(to: &str) -> Option<f64> {
    let text = output_of(&format!("ping -c3 -i0.2 -W1 -q {to}"));
    let (_, times) = text.split_once("min/avg/max/mdev = ")?;
    times.split('/').next()?.parse().ok()
}

pub(crate) fn is_direct(to: &str) -> bool {
    rtt(to).is_some_and(|ms| ms < DIRECT)
}

/// Starts the agent. Its standard output has the events as lines of JSON.
pub(crate) fn start(lab: &Lab, words: &[&str]) -> Running {
    let options = ["agent", "--json", "--spin", "off", "--no-realtime"];
    lab.start(options.iter().chain(words))
}

/// The agent as `weir ps --json` shows it; null if no agent is listed.
fn shown(lab: &Lab) -> Value {
    let done = lab.weir(["ps", "--json"]);
    let all: Value = serde_json::from_str(&done.stdout).unwrap_or_default();
    let sessions = all["sessions"].as_array().cloned().unwrap_or_default();
    sessions.into_iter().find(|session| session["kind"] == "agent").unwrap_or_default()
}

/// The specification of a link that the agent shapes.
pub(crate) fn spec(lab: &Lab, name: &str) -> Option<String> {
    let links = shown(lab)["links"].as_array().cloned()?;
    let link = links.into_iter().find(|link| link["name"] == name)?;
    link["spec"].as_str().map(str::to_owned)
}

/// The first reason under *Not shaped* that begins with `of`.
pub(crate) fn problem(lab: &Lab, of: &str) -> Option<String> {
    let problems = shown(lab)["problems"].as_array().cloned()?;
    let lines = problems.iter().filter_map(Value::as_str);
    lines.filter(|line| line.starts_with(of)).map(str::to_owned).next()
}

fn labelled_containers(lab: &Lab) {
    let socket_path = lab.path("docker.sock").display().to_string();
    let agent = start(lab, &["--docker", &socket_path]);
    until("the agent waits for the engine", || problem(lab, "docker: ").is_some());
    let mut docker = match Engine::docker(lab) {
        Ok(docker) => docker,
        Err(words) => {
            let _ = skipped(DOCKER, &format!("dockerd does not start here: {words}"));
            return;
        }
    };
    docker.must("docker tag box busybox");
    run(&docker, "web", &["--label weir.up='delay 30ms' --label weir.down='delay 20ms'"]);
    run(&docker, "plain", &[]);
    let (web, plain) = (address(&docker, "web"), address(&docker, "plain"));
    let shaped = |least: f64| rtt(&web).is_some_and(|ms| ms >= least);
    until("the container is shaped", || shaped(50.0));
    assert!(is_direct(&plain), "a container without labels is left alone");
    until("the engine is no longer a problem", || problem(lab, "docker").is_none());

    hostile_labels(lab, &docker);
    until("wrong labels shape nothing", || is_direct(&plain));

    // A change by hand lasts until the container restarts with another process.
    let done = lab.weir(["change", "agent", "web.down", "delay 60ms"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(shaped(90.0));
    docker.must("docker restart -t 0 web");
    until("the labels of web are in force again", || {
        spec(lab, "web.down").as_deref() == Some("delay 20ms")
    });
    until("web is shaped again", || shaped(50.0));

    let done = lab.weir(["attach", "docker:web", "--link", "delay 1ms"]);
    assert_ne!(done.code, 0, "DOCKER_HOST is not set: {done:?}");
    let words = ["attach", "docker:web", "--link", "delay 1ms"];
    let mut manual = Command::new(crate::common::weir());
    let done = lab.launch(manual.args(words).env("DOCKER_HOST", docker_socket(lab))).finish();
    assert!(done.code == 125 && done.stderr.contains("is already shaped by process"), "{done:?}");
    killed(agent, &web);
    second_owner(lab, &docker, &plain);
    compose(lab, &docker);
    restarted_engine(lab, &mut docker);
}

/// Labels with errors of several kinds are reported, and affect no other container.
fn hostile_labels(lab: &Lab, docker: &Engine<'_>) {
    let long = lab.file("long", &format!("weir.up={}", "x".repeat(50_000)));
    run(docker, "wrong", &["--label \"weir.up=$(printf '4M\\033[2J<b>')\""]);
    run(docker, "long", &["--label-file", &long]);
    run(docker, "typo", &["--label weir.dwon=4M"]);
    run(docker, "files", &["--label 'weir.up=trace /etc/passwd'"]);
    run(docker, "hosted", &["--network host --label weir.up=4M"]);
    for (name, part) in [
        ("wrong: ", "weir.up"),
        ("long: ", "longer than 4096 bytes"),
        ("typo: ", "weir.down?"),
        ("files: ", "/etc/passwd"),
        ("hosted: ", "no network of its own"),
    ] {
        until(part, || problem(lab, name).is_some());
        let problem = problem(lab, name).expect("it is there");
        assert!(problem.contains(part) && !problem.contains("root:"), "{problem}");
        assert!(problem.len() < 1000 && !problem.contains('\x1b'), "{problem:?}");
    }
    assert!(lab.weir(["ps"]).stdout.contains("Not shaped:"));
    docker.must("docker rm -f wrong long typo files hosted");
    until("no container is listed under Not shaped", || problem(lab, "").is_none());
}

/// Kills the agent with SIGKILL. The container must answer again within half a second, and the
/// agent must have reported its events.
fn killed(agent: Running, web: &str) {
    kill(agent.pid(), Signal::SIGKILL).expect("it is alive");
    let begin = Instant::now();
    // Twenty echo requests within a second. All requests of the last half second must be answered.
    let text = output_of(&format!("ping -c20 -i0.05 -W1 {web}"));
    let answered = |n: u32| text.contains(&format!("icmp_seq={n} "));
    assert!((11..=20).all(answered), "{:?}: {text}", begin.elapsed());
    let done = agent.finish();
    assert_eq!(done.code, 128 + 9);
    until("the traffic is direct", || is_direct(web));
    let events: Vec<Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    for (event, name) in
        [("shaped", "web"), ("refused", "wrong"), ("ended", "typo"), ("ended", "web")]
    {
        let has = |one: &Value| one["event"] == event && one["name"] == name;
        assert!(events.iter().any(has), "{event} {name}: {}", done.stdout);
    }
}

/// The agent does not shape a container that `weir attach` already shapes, and says so. It shapes
/// the container when that attachment has ended.
fn second_owner(lab: &Lab, docker: &Engine<'_>, plain: &str) {
    let words = ["attach", "docker:mine", "--link", "delay 5ms"];
    run(docker, "mine", &["--label weir.link='delay 40ms'"]);
    let mine = address(docker, "mine");
    let mut manual = Command::new(crate::common::weir());
    let manual = lab.launch(manual.args(words).env("DOCKER_HOST", docker_socket(lab)));
    until("weir attach shapes the container", || rtt(&mine).is_some_and(|ms| ms >= 10.0));
    let path = lab.path("docker.sock").display().to_string();
    let agent = start(lab, &["--docker", &path]);
    until("the agent reports the other attachment", || {
        problem(lab, "mine: ").is_some_and(|why| why.contains("already shaped by process"))
    });
    until("the agent has found the other containers", || spec(lab, "web.up").is_some());
    manual.signal_group(Signal::SIGINT);
    assert_eq!(manual.finish().code, 0);
    until("the agent shapes the container", || rtt(&mine).is_some_and(|ms| ms >= 80.0));
    docker.must("docker rm -f mine");
    until("the links of mine are gone", || spec(lab, "mine.up").is_none());
    assert!(is_direct(plain));
    agent.signal_group(Signal::SIGTERM);
    assert_eq!(agent.finish().code, 0);
}

/// The agent shapes the services of the Compose file of the examples, which is used unchanged.
fn compose(lab: &Lab, docker: &Engine<'_>) {
    docker.must("docker rm -f web");
    let path = lab.path("docker.sock").display().to_string();
    let agent = start(lab, &["--docker", &path]);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/compose/compose.yaml");
    docker.must(&format!("docker-compose -p shop -f {file} up -d"));
    for (name, least) in [("phone", 80.0), ("sensor", 200.0)] {
        let address = address(docker, name);
        until("the service is shaped", || rtt(&address).is_some_and(|ms| ms >= least));
    }
    until("the preset is in force", || {
        spec(lab, "web.down").is_some_and(|spec| spec.contains("8Mbit/s"))
    });
    docker.must(&format!("docker-compose -p shop -f {file} down -t 0"));
    until("nothing is shaped", || {
        shown(lab)["links"].as_array().is_some_and(|links| links.is_empty())
    });
    agent.signal_group(Signal::SIGTERM);
    assert_eq!(agent.finish().code, 0);
}

/// The engine restarts, and the agent shapes a container that is then started again.
fn restarted_engine(lab: &Lab, docker: &mut Engine<'_>) {
    let path = lab.path("docker.sock").display().to_string();
    let agent = start(lab, &["--docker", &path]);
    run(docker, "late", &["--label weir.up='delay 30ms'"]);
    until("late is shaped", || spec(lab, "late.up").is_some());
    docker.stop();
    until("the engine does not answer", || problem(lab, "docker: ").is_some());
    docker.start().expect("it has started before");
    docker.must("docker start late");
    let late = address(docker, "late");
    until("late is shaped again", || rtt(&late).is_some_and(|ms| ms >= 30.0));
    docker.must("docker rm -f late");
    agent.signal_group(Signal::SIGTERM);
    assert_eq!(agent.finish().code, 0);
}

/// Engines that are absent or send nonsense are reported, and the agent goes on.
fn absent_engines(lab: &Lab) {
    let absent = lab.path("absent").display().to_string();
    let nonsense = lab.path("nonsense");
    let listener = UnixListener::bind(&nonsense).expect("a free name");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.write_all(b"\x1b[2J nonsense\n\n");
        }
    });
    let nonsense = nonsense.display().to_string();
    let agent = start(lab, &["--docker", &absent, "--podman", &nonsense, "--nri", &absent]);
    for (source, part) in
        [("docker: ", "does not listen"), ("podman: ", "nonsense"), ("nri: ", "no runtime")]
    {
        until(part, || problem(lab, source).is_some_and(|why| why.contains(part)));
    }
    second_agent(lab, &absent, &nonsense);
    let done = lab.weir(["stop", "agent"]);
    assert_eq!(done.code, 0, "{done:?}");
    let done = agent.finish();
    assert!(done.code == 0 && !done.stderr.contains('\x1b'), "{done:?}");
}

/// A second agent is refused if it uses an engine that the first agent uses. Otherwise it runs,
/// even if a killed agent has used its engine.
fn second_agent(lab: &Lab, absent: &str, nonsense: &str) {
    let pid = shown(lab)["pid"].to_string();
    for words in [["--docker", absent], ["--podman", nonsense], ["--nri", absent]] {
        let done = start(lab, &words).finish();
        assert_eq!(done.code, 125, "{words:?}: {done:?}");
        assert!(done.stderr.contains(&format!("process {pid} is an agent")), "{done:?}");
    }
    let other = lab.path("other").display().to_string();
    let names = || lab.weir(["ps", "--names"]).stdout;
    for _ in 0..2 {
        let agent = start(lab, &["--docker", &other]);
        until("the second agent runs", || names().contains("agent-2"));
        kill(agent.pid(), Signal::SIGKILL).expect("it is alive");
        assert_eq!(agent.finish().code, 128 + 9);
    }
}

/// The network of a pod: the namespace `wp` with the address 10.92.0.1. The machine has 10.92.0.2
/// on the interface `wn`.
struct Pod;

impl Pod {
    fn make() -> Self {
        let pod = Self;
        must("ip netns add wp && ip link add wn type veth peer name eth0 netns wp");
        must("ip -n wp link set lo up && ip -n wp link set eth0 up && ip link set wn up");
        must("ip -n wp addr add 10.92.0.1/24 dev eth0 && ip addr add 10.92.0.2/24 dev wn");
        pod
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = output_of("ip netns del wp; ip link del wn");
    }
}

/// A runtime that has accepted the plugin.
struct Runtime {
    /// The connection to the plugin.
    stream: UnixStream,
    /// The ttrpc stream of the last call.
    stream_number: u32,
}

impl Runtime {
    /// Accepts the plugin, answers its registration, configures it, and reports that no pod runs.
    fn accept(listener: &UnixListener) -> Self {
        let (stream, _) = listener.accept().expect("the plugin connects");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        let mut runtime = Self { stream, stream_number: 1 };
        let (connection, payload) = runtime.read();
        assert_eq!(connection, 2);
        let text = String::from_utf8_lossy(&payload);
        assert!(text.contains("RegisterPlugin") && text.contains("weir"), "{text}");
        runtime.write(2, 1, 2, &[]);
        runtime.call("Configure", &field(2, b"test"));
        runtime.call("Synchronize", &[]);
        runtime
    }

    /// Calls the plugin, and waits for its answer.
    fn call(&mut self, method: &str, body: &[u8]) {
        let request =
            [field(1, b"nri.pkg.api.v1alpha1.Plugin"), field(2, method.as_bytes()), field(3, body)]
                .concat();
        self.stream_number += 2;
        self.write(1, self.stream_number, 1, &request);
        assert_eq!(self.read().0, 1, "an answer to {method}");
    }

    /// Writes a frame with one message. `kind` is 1 for a request and 2 for a response. The runtime
    /// calls the plugin over connection 1, and the plugin calls the runtime over connection 2.
    fn write(&mut self, connection: u32, stream: u32, kind: u8, payload: &[u8]) {
        let length = payload.len() as u32;
        let words = [connection, length + 10, length, stream];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.extend([kind, 0]);
        bytes.extend(payload);
        self.stream.write_all(&bytes).expect("the plugin reads");
    }

    /// Reads a frame with one message: the connection and the payload.
    fn read(&mut self) -> (u32, Vec<u8>) {
        let mut header = [0; 18];
        self.stream.read_exact(&mut header).expect("the plugin writes");
        let word = |offset: usize| {
            u32::from_be_bytes(header[offset..offset + 4].try_into().expect("four"))
        };
        let mut payload = vec![0; word(8) as usize];
        self.stream.read_exact(&mut payload).expect("the plugin writes");
        (word(0), payload)
    }
}

/// A protobuf field that holds bytes. Its length is always encoded in two bytes, so it must be less
/// than 16 KiB.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = [bytes.len() as u8 & 0x7f | 0x80, (bytes.len() >> 7) as u8];
    [&[number << 3 | 2][..], &length, bytes].concat()
}

/// A pod in the namespace `wp` with an annotation. Its fields are the identifier, the name, the
/// Kubernetes namespace, the annotation, and the network namespace.
fn pod(id: &str, key: &str, value: &str) -> Vec<u8> {
    let entry = [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
    let network = [field(1, b"network"), field(2, b"/run/netns/wp")].concat();
    let pod = [
        field(1, id.as_bytes()),
        field(2, id.as_bytes()),
        field(4, b"shop"),
        field(6, &entry),
        field(8, &field(5, &network)),
    ];
    field(1, &pod.concat())
}

fn annotated_pods(lab: &Lab) {
    let _pod = Pod::make();
    let path = lab.path("nri.sock");
    let listener = UnixListener::bind(&path).expect("a free name");
    let agent = start(lab, &["--nri", &path.display().to_string()]);
    let mut runtime = Runtime::accept(&listener);
    runtime.call("RunPodSandbox", &pod("wrong", "weir/up", "4Mbitx"));
    until("the wrong annotation is reported", || problem(lab, "shop/wrong: ").is_some());
    assert!(is_direct("10.92.0.1"));
    // The runtime gets its answer when the pod is shaped, so the link also shapes the first packet.
    runtime.call("RunPodSandbox", &pod("web", "weir/link", "delay 30ms"));
    assert!(rtt("10.92.0.1").expect("an answer") >= 60.0);
    assert_eq!(spec(lab, "shop/web.up").as_deref(), Some("delay 30ms"));
    let done = lab.weir(["change", "agent", "shop/web.up", "delay 50ms"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(rtt("10.92.0.1").expect("an answer") >= 80.0);
    // While the runtime is away, the pod stays shaped.
    drop(runtime);
    until("the runtime does not answer", || problem(lab, "nri: ").is_some());
    assert!(rtt("10.92.0.1").expect("an answer") >= 80.0);
    // The runtime returns without the pod.
    let _runtime = Runtime::accept(&listener);
    until("the pod is released", || is_direct("10.92.0.1"));
    agent.signal_group(Signal::SIGTERM);
    let done = agent.finish();
    assert_eq!(done.code, 0, "{done:?}");
}

/// The name of the test with Docker.
const DOCKER: &str = "agent_shapes_labelled_containers";
/// The longest round-trip time without a link on a busy machine, in ms.
const DIRECT: f64 = 20.0;
