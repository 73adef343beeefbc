//! Tests `weir agent --nri` with a containerd that the test starts. As a kubelet does, the test
//! creates pods with annotations over the container runtime interface. The only image is a
//! statically linked BusyBox.
//!
//! The containerd of Debian 12 has no node resource interface. The test runs where `PATH` has
//! containerd 2.0 or newer, `containerd-shim-runc-v2` and `ctr` of the same version, and `crictl`.

use std::process::Command;

use libtest_mimic::Trial;
use nix::sys::signal::Signal;

use crate::agent::{is_direct, problem, rtt, spec, start};
use crate::common::{Done, Lab, Need, Running, must, output_of, skipped, trial, until};

pub(crate) fn tests() -> Vec<Trial> {
    let needs = &[
        Need::Root,
        Need::Program("crictl"),
        Need::Program("containerd"),
        Need::Program("runc"),
        Need::Program("busybox"),
        Need::Program("ping"),
    ];
    vec![trial(PODS, needs, pods_of_containerd)]
}

/// A containerd with the image `box`. It ends when this value is dropped.
struct Containerd<'a> {
    lab: &'a Lab,
    daemon: Option<Running>,
}

impl<'a> Containerd<'a> {
    fn start(lab: &'a Lab) -> Self {
        let dir = lab.path("").display().to_string();
        let dir = dir.trim_end_matches('/');
        let busybox = output_of("command -v busybox");
        must(&format!("mkdir -p {dir}/cni {dir}/root/bin && cp {} {dir}/root/bin", busybox.trim()));
        lab.file("config.toml", &CONFIG.replace("DIR", dir));
        lab.file("cni/box.conflist", &NETWORK.replace("DIR", dir));
        must(&format!("cd {dir} && {IMAGE}"));
        let mut containerd = Self { lab, daemon: None };
        containerd.restart();
        containerd.must("ctr -a SOCKET -n k8s.io images import --local DIR/image.tar");
        containerd
    }

    /// Ends the daemon, if it runs, and starts it again. Its containers keep running.
    fn restart(&mut self) {
        self.stop();
        let config = self.lab.path("config.toml");
        let mut command = Command::new("containerd");
        self.daemon = Some(self.lab.launch(command.arg("--config").arg(config)));
        until("containerd answers", || self.call("crictl -r unix://SOCKET info").code == 0);
    }

    fn stop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.signal_group(Signal::SIGTERM);
            daemon.finish();
        }
    }

    /// Runs a shell command in which `SOCKET` is the daemon's socket, and `DIR` the directory.
    fn call(&self, line: &str) -> Done {
        let path = |name: &str| self.lab.path(name).display().to_string();
        let line = line.replace("SOCKET", &path("containerd.sock"));
        let line = line.replace("DIR/", &path(""));
        self.lab.launch(Command::new("sh").args(["-c", &line])).finish()
    }

    fn must(&self, line: &str) -> String {
        let done = self.call(line);
        assert_eq!(done.code, 0, "{line}: {done:?}");
        done.stdout.trim().to_owned()
    }

    /// Starts a pod with these annotations, as members of a JSON object. Returns its identifier and
    /// its address.
    fn pod(&self, name: &str, annotations: &str) -> (String, String) {
        let text = POD.replace("NAME", name).replace("ANNOTATIONS", annotations);
        self.lab.file(&format!("{name}.json"), &text.replace("DIR/", &self.dir()));
        let id = self.must(&format!("crictl -r unix://SOCKET runp DIR/{name}.json"));
        let template = "{{.status.network.ip}}";
        let words = "crictl -r unix://SOCKET inspectp -o go-template --template";
        let address = self.must(&format!("{words} '{template}' {id}"));
        (id, address)
    }

    /// Starts a container in a pod; its only program is one ping to the machine. Returns the round
    /// trip in ms.
    fn first_ping(&self, name: &str, id: &str) -> f64 {
        self.lab.file("container.json", CONTAINER);
        let files = format!("DIR/container.json DIR/{name}.json");
        let container = self.must(&format!("crictl -r unix://SOCKET create {id} {files}"));
        self.must(&format!("crictl -r unix://SOCKET start {container}"));
        let mut ms = None;
        until("the container's ping has an answer", || {
            let log = self.call(&format!("crictl -r unix://SOCKET logs {container}"));
            let time = log.stdout.split_once("time=").and_then(|(_, rest)| rest.split_once(' '));
            ms = time.and_then(|(ms, _)| ms.parse().ok());
            ms.is_some()
        });
        ms.expect("the ping has an answer")
    }

    fn remove(&self, id: &str) {
        self.must(&format!("crictl -r unix://SOCKET rmp -f {id}"));
    }

    fn dir(&self) -> String {
        self.lab.path("").display().to_string()
    }
}

impl Drop for Containerd<'_> {
    fn drop(&mut self) {
        let _ = self.call("crictl -r unix://SOCKET rmp -fa");
        self.stop();
    }
}

fn pods_of_containerd(lab: &Lab) {
    let version = output_of("containerd --version");
    let number = version.split_whitespace().nth(2).unwrap_or_default().trim_start_matches('v');
    let major = number.split('.').next().and_then(|text| text.parse::<u32>().ok());
    if major.is_none_or(|major| major < 2) {
        let why = format!("containerd 2.0 or newer is needed; there is {}", version.trim());
        let _ = skipped(PODS, &why);
        return;
    }
    let mut containerd = Containerd::start(lab);
    let socket = lab.path("nri.sock").display().to_string();
    // A pod that started before the agent is shaped too.
    let (early, at_early) = containerd.pod("early", r#""weir/link": "delay 30ms""#);
    assert!(is_direct(&at_early));
    let agent = start(lab, &["--nri", &socket]);
    until("the early pod is shaped", || rtt(&at_early).is_some_and(|ms| ms >= 60.0));

    // The runtime waits for the links of a new pod, so they delay its container's first packet too.
    let annotations = r#""weir/up": "delay 20ms", "weir/down": "delay 30ms""#;
    let (web, at_web) = containerd.pod("web", annotations);
    assert_eq!(spec(lab, "shop/web.up").as_deref(), Some("delay 20ms"));
    assert_eq!(spec(lab, "shop/web.down").as_deref(), Some("delay 30ms"));
    assert!(containerd.first_ping("web", &web) >= 50.0);
    let done = lab.weir(["change", "agent", "shop/web.down", "delay 60ms"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(rtt(&at_web).is_some_and(|ms| ms >= 80.0));

    // Other pods are left alone. A wrong annotation does not stop its pod.
    let (plain, at_plain) = containerd.pod("plain", "");
    assert!(is_direct(&at_plain));
    let (wrong, at_wrong) = containerd.pod("wrong", r#""weir/up": "4Mbitx""#);
    assert!(is_direct(&at_wrong) && problem(lab, "shop/wrong: ").is_some());

    // Pods stay shaped while the runtime restarts. A pod that ends releases its links.
    containerd.stop();
    until("the runtime does not answer", || problem(lab, "nri: ").is_some());
    assert!(rtt(&at_web).is_some_and(|ms| ms >= 80.0));
    containerd.restart();
    until("the runtime answers again", || problem(lab, "nri: ").is_none());
    assert!(rtt(&at_early).is_some_and(|ms| ms >= 60.0));
    containerd.remove(&web);
    until("the links of the pod are gone", || spec(lab, "shop/web.up").is_none());

    agent.signal_group(Signal::SIGTERM);
    let done = agent.finish();
    assert_eq!(done.code, 0, "{done:?}");
    until("the early pod is released", || is_direct(&at_early));
    for id in [early, plain, wrong] {
        containerd.remove(&id);
    }
}

const PODS: &str = "agent_shapes_pods_of_containerd";

/// The daemon's configuration.
const CONFIG: &str = r#"
version = 3
root = "DIR/data"
state = "DIR/state"
[grpc]
  address = "DIR/containerd.sock"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'native'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = 'docker.io/library/box:1'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['/usr/lib/cni', '/opt/cni/bin']
  conf_dir = 'DIR/cni'
[plugins.'io.containerd.nri.v1.nri']
  disable = false
  socket_path = 'DIR/nri.sock'
"#;

/// The pods' network: a bridge with 10.94.0.1 for the machine.
const NETWORK: &str = r#"{
  "cniVersion": "0.4.0", "name": "box",
  "plugins": [{
    "type": "bridge", "bridge": "wcni0", "isGateway": true,
    "ipam": {
      "type": "host-local", "dataDir": "DIR/ipam", "ranges": [[{ "subnet": "10.94.0.0/24" }]]
    }
  }]
}"#;

/// Shell words that make the image in `image.tar` from the directory `root`.
const IMAGE: &str = r#"
for name in sleep ping; do ln -s busybox root/bin/$name; done &&
tar -C root -cf layer.tar . &&
layer=$(sha256sum layer.tar | cut -d' ' -f1) &&
cat >image.json <<END &&
{ "architecture": "$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')", "os": "linux",
  "config": { "Cmd": ["/bin/sleep", "100000"] },
  "rootfs": { "type": "layers", "diff_ids": ["sha256:$layer"] } }
END
cat >manifest.json <<END &&
[{ "Config": "image.json", "RepoTags": ["docker.io/library/box:1"], "Layers": ["layer.tar"] }]
END
tar -cf image.tar manifest.json image.json layer.tar"#;

const POD: &str = r#"{
  "metadata": { "name": "NAME", "namespace": "shop", "uid": "NAME", "attempt": 1 },
  "annotations": { ANNOTATIONS }, "log_directory": "DIR/logs", "linux": {}
}"#;

const CONTAINER: &str = r#"{
  "metadata": { "name": "main" }, "image": { "image": "docker.io/library/box:1" },
  "command": ["/bin/ping", "-c1", "10.94.0.1"], "log_path": "main.log", "linux": {}
}"#;
