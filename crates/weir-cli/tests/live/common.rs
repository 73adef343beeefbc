//! Helpers of the live tests: a directory per test, commands with a time limit, and checks of
//! results.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed, Trial};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use weir_traffic::stats::Reception;

use crate::schema::document;

pub(crate) type Outcome = Result<Completion, Failed>;

/// The reason why a test cannot run here.
pub(crate) struct Skip(pub(crate) String);

/// Creates a test that is skipped if one of its needs is missing.
pub(crate) fn trial(name: &'static str, needs: &'static [Need], body: fn(&Lab)) -> Trial {
    Trial::ignorable_test(name, move || run(name, needs, body))
}

fn run(name: &str, needs: &[Need], body: fn(&Lab)) -> Outcome {
    for need in [&Need::Namespaces].into_iter().chain(needs) {
        if let Err(Skip(why)) = need.met() {
            return Ok(skipped(name, &why));
        }
    }
    let began = Instant::now();
    body(&Lab::new());
    eprintln!("live {name}: {:.1} s", began.elapsed().as_secs_f64());
    Ok(Completion::Completed)
}

/// Calls `body` for every item on `count` threads, and returns the results in no particular order.
/// Panics if a call panics.
pub(crate) fn at_once<T: Send, R: Send>(
    count: usize,
    items: impl IntoIterator<Item = T>,
    body: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let items: Vec<T> = items.into_iter().collect();
    let (remaining, results) = (Mutex::new(items.into_iter()), Mutex::new(Vec::new()));
    let next = || remaining.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(item) = next() {
            let result = body(item);
            results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(work);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Reports that a test cannot run here.
pub(crate) fn skipped(name: &str, why: &str) -> Completion {
    let line = format!("SKIPPED: live {name}: {why}");
    eprintln!("{line}");
    if let Some(log) = std::env::var_os("WEIR_SKIP_LOG") {
        // If the log cannot be written, the line on stderr remains.
        let _ = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .and_then(|mut f| writeln!(f, "{line}"));
    }
    Completion::ignored_with(why)
}

#[derive(Debug)]
pub(crate) enum Need {
    /// Network namespaces, as root or through user namespaces.
    Namespaces,
    Root,
    Program(&'static str),
}

impl Need {
    fn met(&self) -> Result<(), Skip> {
        match self {
            Self::Root if !is_root() => Err(Skip("needs root".into())),
            Self::Namespaces
                if !is_root() && !succeeds("unshare", &["--user", "--net", "true"]) =>
            {
                Err(Skip(
                    "needs root, or user namespaces (sysctl kernel.unprivileged_userns_clone, \
                     user.max_user_namespaces)"
                        .into(),
                ))
            }
            Self::Namespaces if is_root() && !succeeds("unshare", &["--net", "true"]) => {
                Err(Skip("cannot make network namespaces".into()))
            }
            Self::Program(program) if find(program).is_none() => {
                Err(Skip(format!("{program} is not installed")))
            }
            _ => Ok(()),
        }
    }
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The path of a program in `PATH`, `/usr/sbin` or `/sbin`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories.map(|d| d.join(program)).find(|p| p.is_file())
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Runs a shell command that must succeed.
pub(crate) fn must(line: &str) {
    let done = Command::new("sh").args(["-c", line]).output().expect("there is a shell");
    assert!(done.status.success(), "`{line}`: {}", String::from_utf8_lossy(&done.stderr));
}

/// The standard output of a shell command.
pub(crate) fn output_of(line: &str) -> String {
    let done = Command::new("sh")
        .args(["-c", line])
        .stderr(Stdio::null())
        .output()
        .expect("there is a shell");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// The temporary directory of a test, which every user may read and write. Dropping this removes
/// the directory, unless `WEIR_LIVE_KEEP` is set. This is not a lab of a scenario.
pub(crate) struct Lab {
    dir: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Done {
    /// The exit code; 128 + n after signal n.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Lab {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let n = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("weir-live-{}-{n}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary directory");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("permissions");
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes a file into the directory and returns its path as text.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("write a test file");
        self.path(name).display().to_string()
    }

    /// The results that `weir` wrote to a file. Fails when they do not follow their schema.
    pub(crate) fn document(&self, name: &str) -> Value {
        let path = self.path(name);
        document(&fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
    }

    /// Reads a JSON file without checking it against a schema.
    pub(crate) fn json(&self, name: &str) -> Value {
        let path = self.path(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}: {text}", path.display()))
    }

    /// The results that a receiver wrote.
    pub(crate) fn reception(&self, name: &str) -> Reception {
        serde_json::from_value(self.json(name)).expect("a receiver's result")
    }

    /// Starts `weir` in its own process group.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Running {
        let mut command = Command::new(weir());
        command.args(arguments);
        self.launch(&mut command)
    }

    /// Starts a command in its own process group. Its output goes to files.
    pub(crate) fn launch(&self, command: &mut Command) -> Running {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let n = NUMBER.fetch_add(1, Ordering::Relaxed);
        let [out, err] = ["out", "err"].map(|kind| self.path(&format!("{kind}{n}")));
        let to = |path: &Path| fs::File::create(path).expect("a file for the output");
        let shown = format!("{command:?}");
        let child =
            command.stdin(Stdio::null()).stdout(to(&out)).stderr(to(&err)).process_group(0).spawn();
        let child = child.unwrap_or_else(|e| panic!("{shown}: {e}"));
        Running { child, out, err, shown, ended: false }
    }

    /// Runs `weir` and waits for its end.
    pub(crate) fn weir<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Done {
        self.start(arguments).finish()
    }

    /// Runs `weir pair`, checks the accounting, and returns the result. The left program starts
    /// 0.3 s after the right one, and the run ends when the right one ends.
    pub(crate) fn pair(&self, spec: &str, seed: u64, left: &str, right: &str) -> Value {
        self.pair_with(&["--link", spec], seed, left, right)
    }

    /// Like `pair`; the options also specify the link.
    pub(crate) fn pair_with(&self, options: &[&str], seed: u64, left: &str, right: &str) -> Value {
        let json = self.path("weir.json").display().to_string();
        let seed = seed.to_string();
        let left = format!("sleep 0.3; {left}");
        let fixed = ["pair", "--seed", &seed, "--json", &json, "--left", &left, "--right", right];
        let done = self.weir(fixed.iter().chain(options));
        assert!(self.path("weir.json").exists(), "weir pair wrote no result: {done:?}");
        let result = self.document("weir.json");
        check_accounting(&result);
        result
    }

    /// Sends numbered packets from left to right through a link with this specification; the
    /// reverse direction is a perfect link. Returns the reception and the result.
    pub(crate) fn stream(&self, spec: &str, seed: u64, send: &Stream) -> (Reception, Value) {
        self.stream_with(&[], spec, seed, send)
    }

    /// Like `stream`, with more options for `weir pair`.
    pub(crate) fn stream_with(
        &self,
        options: &[&str],
        spec: &str,
        seed: u64,
        send: &Stream,
    ) -> (Reception, Value) {
        let (reception, result) =
            self.stream_through(&[options, &["--to-right", spec]].concat(), seed, send);
        // A socket also counts packets with a wrong checksum as dropped.
        let damaged = spec.contains("corrupt");
        assert!(
            damaged || reception.socket_drops == 0,
            "the receiver was too slow, so its results are not valid: {reception:?}"
        );
        (reception, result)
    }

    /// Like `stream`, but the options specify the links, and the receiver may be too slow.
    pub(crate) fn stream_through(
        &self,
        options: &[&str],
        seed: u64,
        send: &Stream,
    ) -> (Reception, Value) {
        let (load, dir) = (load(), self.dir.display());
        let Stream { count, size, settle, idle, .. } = send;
        let pace = if send.pps == 0 { "--flood".to_owned() } else { format!("--pps {}", send.pps) };
        let recv = format!(
            "{load} recv --bind 0.0.0.0:9000 --sent {count} --idle {idle} {} --json --out \
             {dir}/recv.json",
            send.extra
        );
        let train = send.train;
        let sender = format!(
            "{load} send --to right:9000 -4 --count {count} {pace} --size {size} --train {train} \
             --json --out {dir}/send.json"
        );
        // The kernel queues only a few packets until the neighbour's address is known. One packet
        // before the stream resolves the address.
        let first = format!(
            "{load} send --to right:9 -4 --count 1 --size 64 --after 0 >/dev/null; sleep 0.3"
        );
        let left = format!("sleep {settle}; {first}; {sender}");
        let result = self.pair_with(options, seed, &left, &recv);
        assert_eq!(
            self.json("send.json")["packets"].as_u64(),
            Some(*count),
            "the sender could not send everything"
        );
        (self.reception("recv.json"), result)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::env::var_os("WEIR_LIVE_KEEP").is_none() {
            // A directory that remains in /tmp is not a failure of the code under test.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// A stream of numbered packets.
pub(crate) struct Stream {
    pub(crate) count: u64,
    /// Packets per second; 0 for as fast as possible.
    pub(crate) pps: u64,
    /// Bytes of a packet, with its IP and UDP headers.
    pub(crate) size: u64,
    /// Packets in one offload train.
    pub(crate) train: u64,
    /// Seconds to wait before sending, until the namespaces' own packets (multicast reports) have
    /// passed.
    pub(crate) settle: u32,
    /// Seconds without a packet after which the stream is considered complete.
    pub(crate) idle: u32,
    /// Additional arguments for the receiver.
    pub(crate) extra: &'static str,
}

impl Default for Stream {
    fn default() -> Self {
        Self { count: 20_000, pps: 15_000, size: 200, train: 1, settle: 0, idle: 1, extra: "" }
    }
}

/// A started command. Dropping it kills its process group.
pub(crate) struct Running {
    child: Child,
    /// The files that receive its output.
    out: PathBuf,
    err: PathBuf,
    /// The command, for messages.
    shown: String,
    /// Whether `finish` has waited for the command's end.
    ended: bool,
}

impl Running {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Sends a signal to the whole process group, as a terminal does.
    pub(crate) fn signal_group(&self, signal: Signal) {
        // The group may have ended already.
        let _ = killpg(self.pid(), signal);
    }

    /// The output on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.err).unwrap_or_default()
    }

    pub(crate) fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the end of the command; more than a minute is a failure.
    pub(crate) fn finish(mut self) -> Done {
        use std::os::unix::process::ExitStatusExt as _;
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait for the command") {
                self.ended = true;
                let code = status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(-1);
                let text = |path| {
                    fs::read(path)
                        .map(|b| String::from_utf8_lossy(&b).into_owned())
                        .unwrap_or_default()
                };
                return Done { code, stdout: text(&self.out), stderr: text(&self.err) };
            }
            assert!(
                Instant::now() < deadline,
                "still running after {LIMIT:?}: {}\n{}",
                self.shown,
                self.stderr()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.signal_group(Signal::SIGKILL);
            // Reaps the process.
            let _ = self.child.wait();
        }
    }
}

/// Copies of the programs for an ordinary user, who cannot access the build directory.
pub(crate) struct Copies {
    /// The path of `weir`.
    pub(crate) weir: String,
    /// The shell words that start the traffic tool.
    pub(crate) load: String,
    /// A directory that every user may write to.
    pub(crate) home: String,
}

impl Copies {
    pub(crate) fn make(lab: &Lab) -> Self {
        let copy = |from: &Path, name: &str| {
            let to = lab.path(name);
            fs::copy(from, &to).expect("copy a program");
            fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).expect("permissions");
            to.display().to_string()
        };
        let home = lab.path("home");
        fs::create_dir(&home).expect("a home");
        fs::set_permissions(&home, fs::Permissions::from_mode(0o777)).expect("permissions");
        let load = copy(&std::env::current_exe().expect("own path"), "load") + " load";
        Self { weir: copy(Path::new(weir()), "weir"), load, home: home.display().to_string() }
    }
}

/// Words to put in front of a command, to run it as an ordinary user.
pub(crate) const NOBODY: [&str; 8] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "env",
    "-u",
    "XDG_RUNTIME_DIR",
    "HOME=/",
];

/// Two veth pairs, `wla`–`wlb` and `wra`–`wrb`. Weir bridges `wlb` and `wrb`; the hosts on the left
/// and on the right use `wla` and `wra`. Dropping this deletes both pairs.
pub(crate) struct Pairs;

impl Pairs {
    pub(crate) fn make() -> Self {
        let pairs = Self;
        must("ip link add wla type veth peer name wlb && ip link add wra type veth peer name wrb");
        must("for i in wla wlb wra wrb; do ip link set $i up; done");
        pairs
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        // A test may have deleted one of the pairs already.
        let _ = output_of("ip link del wla; ip link del wra");
    }
}

/// The path of the command under test.
pub(crate) fn weir() -> &'static str {
    env!("CARGO_BIN_EXE_weir")
}

/// The shell words that start the traffic tool.
pub(crate) fn load() -> String {
    format!("'{}' load", std::env::current_exe().expect("the test's own path").display())
}

/// Waits until a condition holds; more than 30 seconds is a failure. The pauses between the checks
/// grow, because a check may start processes that delay the expected event.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        let waited = began.elapsed();
        assert!(waited < PATIENCE, "after {PATIENCE:?} this is still not true: {what}");
        std::thread::sleep((waited / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
    }
}

/// The link with this name in a result.
pub(crate) fn link<'a>(result: &'a Value, name: &str) -> &'a Value {
    let links = result["links"].as_array().expect("a result has links");
    let names = || links.iter().map(|l| l["name"].to_string()).collect::<Vec<_>>();
    links
        .iter()
        .find(|l| l["name"] == name)
        .unwrap_or_else(|| panic!("no link {name}, there are {:?}", names()))
}

/// The link in a result that carries packets from the end with this name.
pub(crate) fn link_from<'a>(result: &'a Value, from: &str) -> &'a Value {
    let links = result["links"].as_array().expect("a result has links");
    links
        .iter()
        .find(|l| l["from"] == from)
        .unwrap_or_else(|| panic!("no link from {from} in {result}"))
}

pub(crate) fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no number {key:?} in {value}"))
}

/// The number of drops of a link for one reason.
pub(crate) fn drops(link: &Value, reason: &str) -> u64 {
    link["drops"].get(reason).map_or(0, |n| n.as_u64().expect("a count"))
}

/// Checks that every packet of every link is accounted for.
pub(crate) fn check_accounting(result: &Value) {
    let links = result["links"].as_array().expect("a result has links");
    assert!(!links.is_empty(), "a result without links");
    for l in links {
        let dropped: u64 = l["drops"]
            .as_object()
            .expect("drops by reason")
            .values()
            .map(|n| n.as_u64().expect("a count"))
            .sum();
        let entered = number(l, "packets_in") + number(l, "duplicated");
        let accounted = number(l, "packets_out") + dropped + number(l, "backlog_packets");
        assert_eq!(entered, accounted, "the counters of link {} do not balance: {l}", l["name"]);
    }
}

/// Checks a count of independent events with probability `p` among `n` trials. It may differ from
/// the mean by 1 plus 4 standard deviations.
pub(crate) fn check_count(what: &str, hits: u64, n: u64, p: f64) {
    let (expected, sigma) = (n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
    let off = (hits as f64 - expected).abs();
    assert!(off <= 4.0 * sigma + 1.0, "{what}: {hits} of {n}, not {expected:.0} ± {sigma:.1}");
}

/// Time limit of a condition.
const PATIENCE: Duration = Duration::from_secs(30);
/// The bounds of the pauses between the checks of a condition.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Time limit of a command.
const LIMIT: Duration = Duration::from_secs(60);
