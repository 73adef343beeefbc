//! Tests attachments that select the machine's own programs: by port, user, control group, process
//! and service. One test runs a real systemd, another a real SSH session.

use std::process::Command;

use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::common::{Copies, Lab, Need, Running, find, must, output_of, skipped, trial, until};
use crate::world::{
    DIRECT, Group, PORTS, RTT, To, World, check_owned, check_used, delay, end, is_direct,
    least_rtt, transfer,
};

pub(crate) fn tests() -> Vec<Trial> {
    let iperf = &[Need::Root, Need::Program("iperf3"), Need::Program("ping")];
    let systemd = &[
        Need::Root,
        Need::Program("iperf3"),
        Need::Program("systemd-nspawn"),
        Need::Program("systemctl"),
        Need::Program("busybox"),
    ];
    let ssh = &[
        Need::Root,
        Need::Program("iperf3"),
        Need::Program("sshd"),
        Need::Program("ssh"),
        Need::Program("ssh-keygen"),
    ];
    vec![
        trial("attach_shapes_lo_between_two_programs", iperf, loopback),
        trial("attach_shapes_lo_for_a_user", iperf, user_on_lo),
        trial("attach_shapes_lo_for_a_control_group", iperf, group_on_lo),
        trial("attach_shapes_a_control_group_alone", iperf, control_group),
        trial("attach_shapes_a_process_by_its_control_group", iperf, process),
        trial("attach_finds_the_control_group_of_a_unit", &[Need::Root], unit),
        trial(SYSTEMD, systemd, service),
        trial(SSH, ssh, session),
        trial("attach_shapes_a_user_alone", iperf, user),
    ]
}

fn loopback(lab: &Lab) {
    let rtt = |to: &str| least_rtt(&transfer("", "", to, "-n 50K"));
    let words = ["host", "--interface", "lo", "--port", PORTS];
    let running = delay(lab, &words, || Some(rtt("127.0.0.1")));
    assert!(rtt("::1") >= RTT);
    assert!(is_direct("", "127.0.0.1"), "an echo request has no port");
    check_used(&end(lab, running));
    assert!(rtt("127.0.0.1") < DIRECT);
}

fn user_on_lo(lab: &Lab) {
    check_owned(lab, &["host", "--user", "nobody"], NOBODY, To::Machine);
}

fn user(lab: &Lab) {
    let _world = World::with_the_machine();
    check_owned(lab, &["host", "--user", "nobody"], NOBODY, To::Neighbour);
}

/// Makes a group, or reports why the test cannot run.
fn group(test: &str, name: &str) -> Option<Group> {
    Group::make(name).map_err(|why| skipped(test, why)).ok()
}

fn group_on_lo(lab: &Lab) {
    let Some(group) = group("attach_shapes_lo_for_a_control_group", "lo") else { return };
    let words = ["host", "--cgroup", &group.path().display().to_string()];
    check_owned(lab, &words, &group.prefix(lab), To::Machine);
}

fn control_group(lab: &Lab) {
    let Some(group) = group("attach_shapes_a_control_group_alone", "own") else { return };
    let _world = World::with_the_machine();
    let target = format!("cgroup:{}", group.path().display());
    check_owned(lab, &["attach", &target], &group.prefix(lab), To::Neighbour);
}

/// A process in the machine's own network is shaped by its control group. A process in the root
/// group is refused.
fn process(lab: &Lab) {
    let Some(group) = group("attach_shapes_a_process_by_its_control_group", "process") else {
        return;
    };
    let _world = World::with_the_machine();
    let mut command = Command::new("sh");
    let prefix = group.prefix(lab);
    let running = lab.launch(command.args(["-c", &format!("exec {prefix} sleep 1000")]));
    let processes = || output_of(&format!("cat {}/cgroup.procs", group.path().display()));
    until("the process is in its group", || processes().trim() == running.pid().to_string());
    let target = format!("pid:{}", running.pid());
    let words = ["attach", &target, "--interface", "wm", "--link", "1M", "--for", "100ms"];
    let done = lab.weir(words);
    let note = format!("its control group {}, 1 process\n", group.path().display());
    assert!(done.code == 0 && done.stderr.contains(&note), "{done:?}");
    check_owned(lab, &["attach", &target], &prefix, To::Neighbour);
    if output_of("cat /proc/self/cgroup").lines().any(|line| line == "0::/") {
        let outside = lab.launch(Command::new("sleep").arg("1000"));
        let target = format!("pid:{}", outside.pid());
        let done = lab.weir(["attach", &target, "--link", "delay 10ms"]);
        assert!(done.code == 125 && done.stderr.contains("use `weir host`"), "{done:?}");
    }
}

/// A unit is found by the name of its control group. Nothing runs in this group.
fn unit(lab: &Lab) {
    let test = "attach_finds_the_control_group_of_a_unit";
    let Some(group) = group(test, "unit.service") else { return };
    let name = group.path().file_name().expect("it has a name").to_string_lossy().into_owned();
    let target = format!("unit:{}", name.trim_end_matches(".service"));
    let words = ["attach", &target, "--interface", "lo", "--link", "1M", "--for", "200ms"];
    let done = lab.weir(words);
    let shown = format!("shaping lo of unit:{name}");
    assert!(done.code == 0 && done.stderr.contains(&shown), "{done:?}");
}

/// A machine with systemd as its first process, in namespaces of its own, but in the network of the
/// test. It has one service, an iperf3 server on port 5300.
struct Systemd {
    nspawn: Running,
    /// The id of its first process.
    init: String,
    group: Group,
}

impl Systemd {
    fn boot(lab: &Lab) -> Result<Self, String> {
        let group = Group::make("nspawn")?;
        let root = lab.path("root").display().to_string();
        let iperf = find("iperf3").expect("it is installed").display().to_string();
        must(&format!(
            "mkdir -p {root}/etc/systemd/system && cd {root} && \
             mkdir -p var run tmp proc sys dev usr root && \
             for d in bin sbin lib lib64; do ln -s usr/$d $d; done && \
             echo ID=test > etc/os-release && : > etc/machine-id"
        ));
        let units = format!("{root}/etc/systemd/system");
        let service = format!("[Service]\nExecStart={iperf} -s -p 5300\n");
        lab.file(&format!("root/etc/systemd/system/{UNIT}.service"), &service);
        let target = format!("[Unit]\nRequires={UNIT}.service\n");
        lab.file("root/etc/systemd/system/default.target", &target);
        assert!(std::path::Path::new(&units).is_dir());
        let here = lab.path("").display().to_string();
        let line = format!(
            "exec {} systemd-nspawn -q --register=no --keep-unit --console=pipe -b -D {root} \
             --bind-ro=/usr --bind={here} -M weir-live",
            group.prefix(lab)
        );
        let mut command = Command::new("sh");
        command.args(["-c", &line]).env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1");
        let mut nspawn = lab.launch(&mut command);
        let mut init = String::new();
        for _ in 0..BOOT_CHECKS {
            init = output_of(&format!("pgrep -P {} systemd", nspawn.pid())).trim().to_owned();
            let active = format!("nsenter -t {init} -a systemctl is-active {UNIT}");
            if !init.is_empty() && output_of(&active).trim() == "active" {
                return Ok(Self { nspawn, init, group });
            }
            if !nspawn.alive() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let words = nspawn.stderr();
        let last = words.lines().last().unwrap_or("no message");
        Err(format!("systemd does not boot in systemd-nspawn here (process {init}): {last}"))
    }

    /// A prefix that runs a command inside the systemd machine.
    fn inside(&self) -> String {
        format!("nsenter -t {} -a", self.init)
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        let name = self.group.path().file_name().expect("it has a name").display();
        self.nspawn.signal_group(Signal::SIGKILL);
        output_of(&format!("echo 1 > {}/cgroup.kill", self.group.path().display()));
        // Where control groups of version 1 exist, the systemd machine has a group among them, too.
        let left = format!("/sys/fs/cgroup/systemd/{name}");
        output_of(&format!("sleep 0.3; find {left} -depth -type d -exec rmdir {{}} +"));
    }
}

fn service(lab: &Lab) {
    let _world = World::with_the_machine();
    // An empty group with the unit's name, such as another systemd may have left.
    let Some(left) = group(SYSTEMD, "left") else { return };
    must(&format!("mkdir {}/{UNIT}.service", left.path().display()));
    let machine = match Systemd::boot(lab) {
        Ok(machine) => machine,
        Err(why) => {
            let _ = skipped(SYSTEMD, &why);
            return;
        }
    };
    let rtt = || {
        let text = output_of("ip netns exec wb iperf3 -c 10.96.0.1 -p 5300 -n 50K -J");
        let done: Value = serde_json::from_str(&text).ok()?;
        done["error"].is_null().then(|| least_rtt(&done))
    };
    until("the service answers", || rtt().is_some());
    let target = format!("unit:{UNIT}");
    let running = delay(lab, &["attach", &target, "--interface", "wm"], rtt);
    must(&format!("{} systemctl restart {UNIT}", machine.inside()));
    until("weir reports that the service is shaped again", || {
        running.stderr().contains("shaped again")
    });
    until("the service is shaped again", || rtt().is_some_and(|ms| ms >= RTT));
    check_used(&end(lab, running));
    assert!(rtt().expect("an answer") < DIRECT);

    // Weir runs inside the systemd machine.
    let (weir, json) = (Copies::make(lab).weir, lab.path("inside.json").display().to_string());
    let line = format!(
        "exec {} {weir} attach {target} --interface wm --up 'delay 30ms' --down 'delay 20ms' \
         --json {json}",
        machine.inside()
    );
    let running = lab.launch(Command::new("sh").args(["-c", &line]));
    until("the service is shaped from inside", || rtt().is_some_and(|ms| ms >= RTT));
    // The signal also ends `nsenter`, which then does not wait for Weir.
    running.signal_group(Signal::SIGINT);
    running.finish();
    let is_whole = |text: String| serde_json::from_str::<Value>(&text).is_ok();
    until("the results are written", || std::fs::read_to_string(&json).is_ok_and(is_whole));
    check_used(&lab.document("inside.json"));
    assert!(rtt().expect("an answer") < DIRECT);
}

/// An SSH session is put into a control group of its own, as a login manager does. The target names
/// one process of the session. All programs of the session are shaped; other programs are not.
fn session(lab: &Lab) {
    let Some(group) = group(SSH, "sshd.service") else { return };
    let _world = World::with_the_machine();
    let path = |name: &str| lab.path(name).display().to_string();
    let (key, known, fifo) = (path("key"), path("known"), path("fifo"));
    must(&format!(
        "mkdir -p /run/sshd -m 755; ssh-keygen -q -t ed25519 -N '' -f {key}; mkfifo {fifo}; mkdir \
         {}/session",
        group.path().display()
    ));
    let config = lab.file(
        "config",
        &format!(
            "Port 2222\nListenAddress 10.96.0.1\nHostKey {key}\nAuthorizedKeysFile {key}.pub\n\
             PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n"
        ),
    );
    let sshd = find("sshd").expect("it is installed").display().to_string();
    let line = format!("exec {} {sshd} -D -e -f {config}", group.prefix(lab));
    let _sshd = lab.launch(Command::new("sh").args(["-c", &line]));
    until("sshd listens", || !output_of("ss -Hltn 'sport = :2222'").is_empty());
    // The session executes the lines that arrive in the pipe. A `read` that opens the pipe before
    // the previous writer has closed it gets no line. Up to 100 such attempts are allowed.
    let inside = format!(
        "echo $$ > {0}/session/cgroup.procs; echo $$ > {1}; n=0; while [ $n -lt 100 ]; do if read \
         -r line < {fifo}; then eval \"$line\"; else n=$((n+1)); fi; done",
        group.path().display(),
        path("pid")
    );
    let line = format!(
        "exec ip netns exec wb ssh -i {key} -p 2222 -o BatchMode=yes -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile={known} root@10.96.0.1 '{inside}'"
    );
    let ssh = lab.launch(Command::new("sh").args(["-c", &line]));
    let pid = || std::fs::read_to_string(path("pid")).unwrap_or_default().trim().to_owned();
    until("the session runs", || !pid().is_empty());
    let out = path("out");
    let within = lab.file(
        "within",
        // `timeout` is for a session that has ended, which neither opens the pipe nor answers.
        &format!(
            "exec timeout 60 sh -c 'rm -f {out}; echo \"$0 > {out}.part; mv {out}.part {out}\" > \
             {fifo}; while [ ! -e {out} ]; do sleep 0.01; done; cat {out}' \"$*\"\n"
        ),
    );
    let target = format!("pid:{}", pid());
    check_owned(lab, &["attach", &target], &format!("sh {within}"), To::Neighbour);
    // The group of the service contains all its sessions.
    let target = format!("cgroup:{}", group.path().display());
    check_owned(lab, &["attach", &target], &format!("sh {within}"), To::Neighbour);
    assert_eq!(ssh.stderr().lines().filter(|line| line.contains("closed")).count(), 0);
    ssh.signal_group(Signal::SIGTERM);
}

/// A prefix that runs a command as another user.
const NOBODY: &str = "setpriv --reuid=65534 --clear-groups";
const SYSTEMD: &str = "attach_shapes_a_service_of_systemd";
const SSH: &str = "attach_shapes_the_programs_of_an_ssh_session";
/// The service of the machine with systemd.
const UNIT: &str = "weir-live-served";
/// Maximum number of checks whether systemd has booted. The checks are 0.1 s apart.
const BOOT_CHECKS: u32 = 200;
