//! Tests `weir attach docker:…` with a Docker engine of their own: no registry, a statically linked
//! BusyBox as the only image, and everything below the test's directory.

use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};

use crate::attach::{DIRECT, RTT, ping};
use crate::common::{
    Done, Lab, Need, Running, check_accounting, find, link, number, output_of, skipped, trial,
    until, weir,
};

/// The tests of this file.
pub(crate) fn tests() -> Vec<Trial> {
    let needs = &[
        Need::Root,
        Need::Program("dockerd"),
        Need::Program("docker"),
        Need::Program("busybox"),
        Need::Program("ping"),
    ];
    vec![trial("attach_shapes_docker_containers", needs, containers)]
}

/// An engine that listens on a socket in the test's directory. It ends when this is dropped.
struct Docker<'a> {
    lab: &'a Lab,
    daemon: Option<Running>,
    socket: String,
}

impl<'a> Docker<'a> {
    /// Starts an engine with an image called `box`; `None`, with its last words, where it does not
    /// start.
    fn start(lab: &'a Lab) -> Result<Self, String> {
        let path = |name: &str| lab.path(name).display().to_string();
        let socket = format!("unix://{}", path("docker.sock"));
        let mut command = Command::new("dockerd");
        command.args(["--storage-driver=vfs", "--iptables=false", "--ip6tables=false"]);
        command.args(["-H", &socket, "--bip", "10.95.0.1/24"]);
        command.args(["--data-root", &path("data"), "--exec-root", &path("exec")]);
        command.args(["--pidfile", &path("pid"), "--config-file", &path("none.json")]);
        lab.file("none.json", "{}");
        let daemon = lab.launch(&mut command);
        let mut docker = Self { lab, daemon: Some(daemon), socket };
        for _ in 0..STARTS {
            if docker.call("docker version >/dev/null").code == 0 {
                docker.import();
                return Ok(docker);
            }
            if !docker.daemon.as_mut().is_some_and(Running::alive) {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let words = docker.daemon.as_ref().map(Running::stderr).unwrap_or_default();
        Err(words.lines().last().unwrap_or("no message").to_owned())
    }

    fn import(&self) {
        let busybox = find("busybox").expect("it is installed").display().to_string();
        let root = self.lab.path("root").display().to_string();
        let made = self.must(&format!(
            "mkdir -p {root}/bin && cp {busybox} {root}/bin/busybox && ln -s busybox \
             {root}/bin/sleep && tar -C {root} -c . | docker import - box"
        ));
        assert!(made.stdout.contains("sha256"), "{made:?}");
    }

    /// Runs a shell command with this engine.
    fn call(&self, line: &str) -> Done {
        let mut command = Command::new("sh");
        self.lab.launch(command.args(["-c", line]).env("DOCKER_HOST", &self.socket)).finish()
    }

    fn must(&self, line: &str) -> Done {
        let done = self.call(line);
        assert_eq!(done.code, 0, "{line}: {done:?}");
        done
    }

    /// Starts `weir attach` with this engine.
    fn attach(&self, words: &[&str]) -> Running {
        let mut command = Command::new(weir());
        self.lab.launch(command.arg("attach").args(words).env("DOCKER_HOST", &self.socket))
    }

    fn address(&self, name: &str) -> String {
        let format = "{{.NetworkSettings.IPAddress}}";
        self.must(&format!("docker inspect -f '{format}' {name}")).stdout.trim().to_owned()
    }
}

impl Drop for Docker<'_> {
    fn drop(&mut self) {
        self.call("docker ps -q | xargs -r docker kill");
        if let Some(daemon) = self.daemon.take() {
            daemon.signal_group(Signal::SIGTERM);
            daemon.finish();
        }
        output_of("ip link del docker0");
    }
}

fn containers(lab: &Lab) {
    let docker = match Docker::start(lab) {
        Ok(docker) => docker,
        Err(words) => {
            let _ = skipped(
                "attach_shapes_docker_containers",
                &format!("dockerd does not start here: {words}"),
            );
            return;
        }
    };
    docker.must("docker run -d --name web box /bin/sleep 1000");
    docker.must("docker run -d --name hosted --network host box /bin/sleep 1000");
    let address = docker.address("web");
    let shaped = || ping("", &address).is_some_and(|ms| ms >= RTT);
    assert!(ping("", &address).expect("an answer") < DIRECT);
    refused(&docker);

    let json = lab.path("out.json").display().to_string();
    let running = docker.attach(&[
        "docker:web",
        "--up",
        "delay 30ms",
        "--down",
        "delay 20ms",
        "--json",
        &json,
    ]);
    until("the container is shaped", shaped);
    docker.must("docker restart -t 0 web");
    until("it is attached again", || running.stderr().contains("shaped again"));
    assert_eq!(docker.address("web"), address);
    until("it is shaped again", shaped);
    running.signal_group(Signal::SIGINT);
    let done = running.finish();
    assert_eq!(done.code, 0, "{done:?}");
    let result = lab.document("out.json");
    check_accounting(&result);
    assert_eq!(link(&result, "up")["from"], "web");
    assert!(number(link(&result, "up"), "packets_out") >= 6, "{result}");
    assert!(ping("", &address).expect("an answer") < DIRECT);

    let running = docker.attach(&["docker:re:^we", "--up", "delay 30ms", "--down", "delay 20ms"]);
    until("the container is shaped", shaped);
    kill(running.pid(), Signal::SIGKILL).expect("it is alive");
    std::thread::sleep(Duration::from_millis(500));
    assert!(ping("", &address).expect("an answer") < DIRECT);
}

/// Containers that cannot be shaped are refused with the reason.
fn refused(docker: &Docker<'_>) {
    for (target, part) in [
        ("docker:nobody", "docker runs hosted, web"),
        ("docker:re:^x", "docker runs hosted, web"),
        ("docker:hosted", "has no network of its own"),
    ] {
        let done = docker.attach(&[target, "--link", "delay 10ms"]).finish();
        assert!(done.code == 125 && done.stderr.contains(part), "{target}: {done:?}");
    }
}

/// How often the engine is asked whether it has started, every 0.2 s.
const STARTS: u32 = 100;
