//! Live acceptance tests: the real command, real programs and real packets, in network namespaces.
//!
//! Each test runs in a process of its own. As root, the process first moves into its own network
//! and mount namespaces, so that a fault cannot affect the machine. As an ordinary user, the tests
//! rely on user namespaces, as `weir` itself does. With a filter, all matching tests run one after
//! another in one process.
//!
//! [`GROUPS`] says how many tests run at the same time. A test that fails beside others runs again
//! alone. A test that fails alone while the machine pauses is repeated, at most twice. The output
//! reports each repetition.
//!
//! A test that cannot run is reported as ignored, with a line `SKIPPED: live NAME: REASON` on
//! stderr and in the file that `WEIR_SKIP_LOG` names. `WEIR_LIVE_GROUPS` names the groups to run,
//! separated by commas; by default all run.
//!
//! This program is also the traffic tool inside the namespaces: `live load …` is `weir-load …`.

mod agent;
mod aqm;
mod attach;
#[path = "../../../weir-measure/tests/check/mod.rs"]
mod check;
mod common;
mod compose;
mod containers;
mod control;
mod daemon;
mod ecn;
mod failures;
mod faults;
mod first_packet;
mod frames;
mod killed;
mod labs;
mod links;
mod nested;
mod outputs;
mod owners;
mod past;
mod pauses;
mod pods;
mod programs;
mod prometheus;
mod publish;
mod record;
mod reproduce;
mod rules;
mod scenario;
mod sched;
#[path = "../it/schema.rs"]
mod schema;
mod serve;
mod shaping;
mod silent;
mod sim_image;
mod studies;
mod talk;
mod tls;
mod top;
mod verbs;
mod watch;
mod web;
mod web_parts;
mod world;

use std::fmt;
use std::io::Write as _;
use std::process::{Command, ExitCode, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::{Arguments, Trial};

use crate::pauses::PauseWatch;

/// Environment variable that tells a process of this program which test of which group to run:
/// `shaped 7`.
const TEST: &str = "WEIR_LIVE_TEST";
/// Environment variable with the names of the groups to run.
const CHOSEN: &str = "WEIR_LIVE_GROUPS";
/// Environment variable with the path of a file. Tests that fail beside others are added to it
/// instead of running again alone.
const POSTPONE: &str = "WEIR_LIVE_POSTPONE";
/// Environment variable with the path of a file of postponed tests, which run after the groups.
const POSTPONED: &str = "WEIR_LIVE_POSTPONED";
/// Environment variable with the names of all groups that other processes of this program run. A
/// group that no process runs is then an error.
const ELSEWHERE: &str = "WEIR_LIVE_ELSEWHERE";

struct Group {
    name: &'static str,
    /// Number of tests that run at the same time.
    at_once: usize,
    /// Maximum number of times that a test runs alone. A run is repeated only if it failed while
    /// the machine paused.
    most_runs_alone: usize,
    tests: fn() -> Vec<Trial>,
}

static GROUPS: [Group; 4] = [
    Group { name: "timed", at_once: 2, most_runs_alone: 3, tests: timed },
    Group { name: "compared", at_once: 2, most_runs_alone: 3, tests: compared },
    Group { name: "shaped", at_once: 5, most_runs_alone: 3, tests: shaped },
    Group { name: "waiting", at_once: 8, most_runs_alone: 2, tests: waiting },
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|a| a == "load") {
        return weir_load::main(arguments.into_iter().skip(1));
    }
    let mut options = Arguments::from_args();
    options.test_threads = Some(1);
    if common::is_root() && !options.list {
        enter_own_namespaces();
    }
    let single = std::env::var(TEST).ok();
    if let Some(Test { group, number }) = single.and_then(|text| Test::parse(&text)) {
        let tests = (group.tests)().into_iter().skip(number).take(1).collect();
        return libtest_mimic::run(&options, tests).exit_code();
    }
    if options.list || options.filter.is_some() || !options.skip.is_empty() || options.ignored {
        let tests = GROUPS.iter().flat_map(|group| (group.tests)()).collect();
        return libtest_mimic::run(&options, tests).exit_code();
    }
    let groups = match chosen(std::env::var(CHOSEN).ok().as_deref()) {
        Ok(groups) => groups,
        Err(name) => {
            eprintln!("{CHOSEN}: there is no group '{name}'");
            return ExitCode::FAILURE;
        }
    };
    if let Some(elsewhere) = std::env::var_os(ELSEWHERE) {
        let elsewhere = elsewhere.to_string_lossy();
        let runs = |group: &&Group| {
            groups.iter().any(|chosen| chosen.name == group.name)
                || elsewhere.split(',').any(|name| name == group.name)
        };
        if let Some(group) = GROUPS.iter().find(|group| !runs(group)) {
            eprintln!("no process runs the group '{}'", group.name);
            return ExitCode::FAILURE;
        }
    }
    // Every group runs, even after a failure.
    let failed = groups.into_iter().map(side_by_side).filter(|passed| !passed).count();
    let failed = failed + postponed().into_iter().filter(|test| !alone(test)).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The tests that another process of this program has postponed.
fn postponed() -> Vec<Test> {
    let Some(path) = std::env::var_os(POSTPONED) else { return Vec::new() };
    // Without a postponed test there is no file.
    let list = std::fs::read_to_string(path).unwrap_or_default();
    list.lines().map(|line| Test::parse(line).expect("a group and a number")).collect()
}

/// Adds a test to the file of postponed tests. Returns whether there is such a file.
fn postpone(test: &Test) -> bool {
    let Some(path) = std::env::var_os(POSTPONE) else { return false };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| writeln!(file, "{test}")).expect("the file can be written");
    true
}

/// Tests of delays and of the times of single packets.
fn timed() -> Vec<Trial> {
    let modules = [links::tests(), rules::tests(), scenario::delays(), aqm::tests()];
    modules.into_iter().flatten().collect()
}

/// Tests of whole scenarios. Some compare repeated live runs with simulated runs.
fn compared() -> Vec<Trial> {
    scenario::tests()
}

/// Tests of rates, shares, counts and first packets. Their loads are small for the machine.
fn shaped() -> Vec<Trial> {
    // The longest tests come first, so that none of them still runs when all others have ended.
    let modules = [
        sched::tests(),
        first_packet::tests(),
        shaping::tests(),
        links::counts(),
        aqm::counts(),
        ecn::tests(),
        rules::counts(),
        frames::tests(),
        programs::tests(),
        record::tests(),
        talk::tests(),
    ];
    modules.into_iter().flatten().collect()
}

/// Tests of behaviour, not of speed.
fn waiting() -> Vec<Trial> {
    // The longest tests come first, so that none of them still runs when all others have ended.
    let modules = [
        labs::tests(),
        compose::tests(),
        sim_image::tests(),
        agent::tests(),
        pods::tests(),
        containers::tests(),
        attach::tests(),
        owners::tests(),
        killed::tests(),
        serve::tests(),
        failures::tests(),
        nested::tests(),
        publish::tests(),
        silent::tests(),
        faults::tests(),
        outputs::tests(),
        verbs::tests(),
        control::tests(),
        top::tests(),
        prometheus::tests(),
        watch::tests(),
        studies::tests(),
        web::tests(),
        web_parts::tests(),
        tls::tests(),
        past::tests(),
        reproduce::tests(),
    ];
    modules.into_iter().flatten().collect()
}

/// The groups that a list names, in the order of [`GROUPS`]. Without a list, all groups; with an
/// empty list, none. `Err` has a name that no group has.
fn chosen(list: Option<&str>) -> Result<Vec<&'static Group>, &str> {
    let Some(list) = list else { return Ok(GROUPS.iter().collect()) };
    let names: Vec<&str> = list.split(',').filter(|name| !name.is_empty()).collect();
    match names.iter().find(|name| GROUPS.iter().all(|group| group.name != **name)) {
        Some(unknown) => Err(unknown),
        None => Ok(GROUPS.iter().filter(|group| names.contains(&group.name)).collect()),
    }
}

/// A test of a group, by its number.
struct Test {
    group: &'static Group,
    number: usize,
}

impl Test {
    fn parse(text: &str) -> Option<Self> {
        let (name, number) = text.split_once(' ')?;
        let group = GROUPS.iter().find(|group| group.name == name)?;
        Some(Self { group, number: number.parse().ok()? })
    }

    /// Runs the test in a process of its own.
    fn run(&self) -> Output {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1)).env(TEST, self.to_string());
        command.output().expect("this program can be started")
    }

    /// Like `run`, but repeats a run that failed while the machine paused.
    fn run_with_repeats(&self) -> Output {
        for _ in 1..self.group.most_runs_alone {
            let watch = PauseWatch::start();
            let output = self.run();
            let pauses = watch.end();
            if output.status.success() || !pauses.matter() {
                return output;
            }
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            eprintln!("{self} runs again: {pauses}");
        }
        self.run()
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.group.name, self.number)
    }
}

/// Prints the output of a test. Returns whether the test has passed.
fn show(output: &Output) -> bool {
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    print!("{}", String::from_utf8_lossy(&output.stdout));
    output.status.success()
}

/// Runs a test while no other test runs, and prints its output. Returns whether it has passed.
fn alone(test: &Test) -> bool {
    show(&test.run_with_repeats())
}

/// Runs each test of a group in a process of its own, several at a time, and prints the output of
/// each process when it has ended. Returns whether all tests passed, apart from postponed ones.
fn side_by_side(group: &'static Group) -> bool {
    // While a test's output is printed, its thread holds this lock, which keeps outputs apart.
    let passed = Mutex::new(true);
    // Beside other tests, a test can lack processor time. After a failure, a run alone decides.
    let is_shared = group.at_once > 1 && group.most_runs_alone > 1;
    let again = Mutex::new(Vec::new());
    let (count, next) = ((group.tests)().len(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..group.at_once {
            scope.spawn(|| {
                loop {
                    let test = Test { group, number: next.fetch_add(1, Ordering::Relaxed) };
                    if test.number >= count {
                        return;
                    }
                    let output = if is_shared { test.run() } else { test.run_with_repeats() };
                    let mut passed = passed.lock().expect("no holder of the lock panics");
                    if is_shared && !output.status.success() {
                        eprint!("{}", String::from_utf8_lossy(&output.stderr));
                        eprintln!("{test} failed beside others: it runs again alone");
                        again.lock().expect("no holder of the lock panics").push(test);
                    } else {
                        *passed &= show(&output);
                    }
                }
            });
        }
    });
    let mut again = again.into_inner().expect("no holder of the lock panics");
    again.retain(|test| !postpone(test));
    let failed = again.iter().filter(|test| !alone(test)).count();
    passed.into_inner().expect("no holder of the lock panics") && failed == 0
}

/// Moves into a new network namespace with a loopback interface, and into a new mount namespace, in
/// which mounts, named namespaces and sessions of other processes do not appear. Some tests compare
/// the state of the machine before and after a run. Other processes must not change that state.
fn enter_own_namespaces() {
    use nix::sched::CloneFlags;
    if nix::sched::unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).is_ok() {
        common::must("ip link set lo up && mount --make-rprivate /");
        common::must(
            "for d in /run/netns /run/weir /run/weir-sessions; do mkdir -p $d && mount -t tmpfs \
             weir-live $d; done; mkdir -p -m 700 /run/weir-links && mount -t tmpfs -o mode=700 \
             weir-live /run/weir-links",
        );
    }
}
