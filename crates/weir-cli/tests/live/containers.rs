//! Tests `weir attach docker:…` and `podman:…` with engines that the tests start. The engines need
//! no registry: their only image is a statically linked BusyBox.

use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};

use crate::common::{
    Done, Lab, Need, Running, check_accounting, find, link, number, output_of, skipped, trial,
    until, weir,
};
use crate::world::{World, delay_words, is_delayed, is_direct};

pub(crate) fn tests() -> Vec<Trial> {
    let docker = &[
        Need::Root,
        Need::Program("dockerd"),
        Need::Program("docker"),
        Need::Program("busybox"),
        Need::Program("ping"),
    ];
    let podman = &[
        Need::Root,
        Need::Program("podman"),
        Need::Program("conmon"),
        Need::Program("busybox"),
        Need::Program("ping"),
    ];
    vec![trial(DOCKER, docker, with_docker), trial(PODMAN, podman, with_podman)]
}

/// An engine that a test starts. It ends when this value is dropped.
pub(crate) struct Engine<'a> {
    lab: &'a Lab,
    /// The kind of target for the engine's containers.
    kind: &'static str,
    /// The shell words that call the engine.
    command: String,
    /// The environment variable with the address of the engine's socket, and the address.
    socket: (&'static str, String),
    /// The shell words that run the engine.
    service: String,
    daemon: Option<Running>,
}

impl<'a> Engine<'a> {
    /// Starts Docker with an image called `box`. If that fails, `Err` has the error message.
    pub(crate) fn docker(lab: &'a Lab) -> Result<Self, String> {
        let path = |name: &str| lab.path(name).display().to_string();
        let socket = docker_socket(lab);
        // An empty configuration replaces the machine's, so that Docker chooses how to store
        // images.
        let service = format!(
            "dockerd --iptables=false --ip6tables=false -H {socket} --bip 10.95.0.1/24 \
             --default-address-pool base=10.93.0.0/16,size=24 --data-root {} --exec-root {} \
             --pidfile {} --config-file {}",
            path("data"),
            path("exec"),
            path("pid"),
            lab.file("none.json", "{}")
        );
        let command = format!("docker -H {socket}");
        let socket = ("DOCKER_HOST", socket);
        Self { lab, kind: "docker", command, socket, service, daemon: None }.with_image()
    }

    fn podman(lab: &'a Lab) -> Result<Self, String> {
        let path = |name: &str| lab.path(name).display().to_string();
        let socket = format!("unix://{}", path("podman.sock"));
        // If CONTAINER_HOST is set, `podman` is a client of the service and refuses these options.
        let command = format!(
            "env -u CONTAINER_HOST podman --storage-driver vfs --cgroup-manager cgroupfs \
             --events-backend file --root {} --runroot {} --tmpdir {}",
            path("data"),
            path("run"),
            path("tmp")
        );
        let service = format!("{command} system service -t 0 {socket}");
        let socket = ("CONTAINER_HOST", socket);
        Self { lab, kind: "podman", command, socket, service, daemon: None }.with_image()
    }

    fn with_image(mut self) -> Result<Self, String> {
        self.start()?;
        self.import().map(|()| self)
    }

    /// Starts the engine. If it does not start, `Err` has the last line of its messages.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let mut command = Command::new("sh");
        let daemon = self.lab.launch(command.args(["-c", &format!("exec {}", self.service)]));
        self.daemon = Some(daemon);
        let path = self.socket.1.trim_start_matches("unix://").to_owned();
        for _ in 0..START_CHECKS {
            let is_there = std::fs::exists(&path).unwrap_or(false);
            if is_there && self.call("E version >/dev/null").code == 0 {
                return Ok(());
            }
            if !self.daemon.as_mut().is_some_and(Running::alive) {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let words = self.daemon.as_ref().map(Running::stderr).unwrap_or_default();
        Err(words.lines().last().unwrap_or("no message").to_owned())
    }

    /// Ends the engine. Docker also ends its containers.
    pub(crate) fn stop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.signal_group(Signal::SIGTERM);
            daemon.finish();
        }
    }

    fn import(&self) -> Result<(), String> {
        let busybox = find("busybox").expect("it is installed").display().to_string();
        let root = self.lab.path("root").display().to_string();
        let done = self.call(&format!(
            "mkdir -p {root}/bin && cp {busybox} {root}/bin/busybox && ln -s busybox \
             {root}/bin/sleep && ln -s busybox {root}/bin/ping && ln -s busybox {root}/bin/sh && \
             ln -s busybox {root}/bin/ip && ln -s busybox {root}/bin/httpd && \
             tar -C {root} -c . | E import - box"
        ));
        if done.code == 0 { Ok(()) } else { Err(done.stderr) }
    }

    /// Runs a shell command in which the word `E` calls this engine.
    pub(crate) fn call(&self, line: &str) -> Done {
        let line = line
            .split(' ')
            .map(|word| if word == "E" { self.command.as_str() } else { word })
            .collect::<Vec<_>>()
            .join(" ");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).env(self.socket.0, &self.socket.1);
        self.lab.launch(&mut command).finish()
    }

    pub(crate) fn must(&self, line: &str) -> Done {
        let done = self.call(line);
        assert_eq!(done.code, 0, "{line}: {done:?}");
        done
    }

    /// Starts a container that sleeps. Sets limits, because a machine may not permit the engine's
    /// default limits.
    fn run(&self, name: &str, options: &str) -> Done {
        self.call(&format!(
            "E run -d --name {name} --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 {options} \
             box /bin/sleep 1000"
        ))
    }

    /// Kills a container, because `rm` would wait for its end, and removes it.
    fn remove(&self, name: &str) {
        self.must(&format!("E kill {name} && E rm -f {name}"));
    }

    /// Starts `weir` with this engine.
    pub(crate) fn weir(&self, words: &[&str]) -> Running {
        let mut command = Command::new(weir());
        command.args(words).env(self.socket.0, &self.socket.1);
        self.lab.launch(&mut command)
    }

    /// Starts `weir attach` with this engine.
    fn attach(&self, words: &[&str]) -> Running {
        self.weir(&[&["attach"], words].concat())
    }

    fn target(&self, name: &str) -> String {
        format!("{}:{name}", self.kind)
    }

    fn address(&self, name: &str) -> String {
        let format = "{{.NetworkSettings.IPAddress}}";
        self.must(&format!("E inspect -f '{format}' {name}")).stdout.trim().to_owned()
    }
}

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        if self.daemon.is_some() {
            self.call("E ps -q | xargs -r E kill; E ps -aq | xargs -r E rm -f");
        }
        self.stop();
        output_of("ip link del docker0; ip link del cni-podman0; ip link del podman0");
    }
}

/// The socket of the Docker engine that a test starts.
pub(crate) fn docker_socket(lab: &Lab) -> String {
    format!("unix://{}", lab.path("docker.sock").display())
}

fn with_docker(lab: &Lab) {
    match Engine::docker(lab) {
        Ok(engine) => containers(lab, &engine),
        Err(words) => drop(skipped(DOCKER, &format!("dockerd does not start here: {words}"))),
    }
}

fn with_podman(lab: &Lab) {
    match Engine::podman(lab) {
        Ok(engine) => {
            let first = engine.run("first", "");
            if first.code == 0 {
                engine.remove("first");
                containers(lab, &engine);
            } else {
                let words = format!("podman starts no container here: {}", first.stderr);
                let _ = skipped(PODMAN, words.trim());
            }
        }
        Err(words) => drop(skipped(PODMAN, &format!("podman does not start here: {words}"))),
    }
}

fn containers(lab: &Lab, engine: &Engine<'_>) {
    let done = engine.run("web", "");
    assert_eq!(done.code, 0, "{done:?}");
    let address = engine.address("web");
    assert!(is_direct("", &address));
    refused(engine);

    let target = engine.target("web");
    let json = lab.path("out.json").display().to_string();
    let running = engine.attach(&delay_words(&[&target, "--json", &json]));
    until("the container is shaped", || is_delayed("", &address));
    engine.must("E restart -t 0 web");
    until("weir reports that the container is shaped again", || {
        running.stderr().contains("shaped again")
    });
    let address = engine.address("web");
    until("the container is shaped again", || is_delayed("", &address));
    running.signal_group(Signal::SIGINT);
    let done = running.finish();
    assert_eq!(done.code, 0, "{done:?}");
    let result = lab.document("out.json");
    check_accounting(&result);
    assert_eq!(link(&result, "up")["from"], "web");
    assert!(number(link(&result, "up"), "packets_out") >= 6, "{result}");
    assert!(is_direct("", &address));

    let running = engine.attach(&delay_words(&[&engine.target("re:^we")]));
    until("the container is shaped", || is_delayed("", &address));
    kill(running.pid(), Signal::SIGKILL).expect("it is alive");
    std::thread::sleep(Duration::from_millis(500));
    assert!(is_direct("", &address));

    dies_meanwhile(engine);
    on_the_machine(engine);
}

/// A target that matches no container is refused with the names of the running containers.
fn refused(engine: &Engine<'_>) {
    let runs = format!("{} runs web", engine.kind);
    for name in ["nobody", "re:^x"] {
        let target = engine.target(name);
        let done = engine.attach(&[&target, "--link", "delay 10ms"]).finish();
        assert!(done.code == 125 && done.stderr.contains(&runs), "{target}: {done:?}");
    }
}

/// The container is killed before, while or after Weir attaches to it.
fn dies_meanwhile(engine: &Engine<'_>) {
    for round in 0..DEATHS {
        assert_eq!(engine.run("brief", "").code, 0);
        let target = engine.target("brief");
        let words = [target.as_str(), "--link", "delay 10ms", "--for", "2s"];
        let running = engine.attach(&words);
        std::thread::sleep(Duration::from_millis(round * 60));
        engine.remove("brief");
        let done = running.finish();
        let reasons = [
            "brief is gone",
            "there is no running container brief",
            "there is no container",
            "an interface that is gone",
        ];
        let is_explained = reasons.iter().any(|part| done.stderr.contains(part));
        assert!(is_explained && [0, 125].contains(&done.code), "round {round}: {done:?}");
        assert!(!output_of("ip -o link").contains(" weir"), "nothing remains");
    }
}

/// A container in the machine's own network is shaped by its control group. It is refused if it is
/// in the root group.
fn on_the_machine(engine: &Engine<'_>) {
    let _world = World::with_the_machine();
    assert_eq!(engine.run("hosted", "--network host --cap-add NET_RAW").code, 0);
    let pid = engine.must("E inspect -f '{{.State.Pid}}' hosted").stdout;
    let groups = output_of(&format!("cat /proc/{}/cgroup", pid.trim()));
    let target = engine.target("hosted");
    let running = engine.attach(&[&target, "--interface", "wm", "--up", "delay 60ms"]);
    if groups.lines().any(|line| line == "0::/") {
        let done = running.finish();
        assert!(done.code == 125 && done.stderr.contains("has no network of its own"), "{done:?}");
        return;
    }
    // Arriving packets belong to no control group, so only the direction up is delayed.
    let rtt = || {
        let text = engine.call("E exec hosted ping -c 3 -w 3 10.96.0.2").stdout;
        let (_, times) = text.split_once("min/avg/max = ")?;
        times.split('/').next()?.parse::<f64>().ok()
    };
    until("the container is shaped", || rtt().is_some_and(|ms| ms >= 60.0));
    assert!(running.stderr().contains("all programs of its control group"));
    assert!(is_direct("", "10.96.0.2"), "other programs are not shaped");
    running.signal_group(Signal::SIGINT);
    assert_eq!(running.finish().code, 0);
    assert!(rtt().expect("an answer") < 60.0);
}

const DOCKER: &str = "attach_shapes_docker_containers";
const PODMAN: &str = "attach_shapes_podman_containers";
/// Maximum number of checks whether the engine has started. The checks are 0.2 s apart.
const START_CHECKS: u32 = 100;
/// The number of times that a test ends a container: at the start of Weir, 60 ms after it, 120 ms
/// after it, and so on.
const DEATHS: u64 = 4;
