//! Tests scenarios that the web page simulates: their limits, their confinement, and that nothing
//! of them remains.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::common::{Lab, Need, Running, trial};
use crate::daemon::{Daemon, Wire};
use crate::web::{Reply, Site};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("the_page_simulates_within_limits_and_leaves_nothing", &[], limits),
        trial("a_killed_session_takes_its_simulation_along", &[], killed),
        trial(
            "the_page_of_a_confined_daemon_simulates",
            &[Need::Root, Need::Program("ip")],
            confined,
        ),
    ]
}

fn session(lab: &Lab) -> (Running, Site) {
    let mut session = lab.start([
        "pair",
        "--web",
        "127.0.0.1:0",
        "--link",
        "4M/5ms",
        "--left",
        "sleep 600",
        "--right",
        "sleep 600",
    ]);
    let site = Site::of(&mut session);
    (session, site)
}

/// A scenario with one link and Poisson traffic of this rate, for some simulated seconds.
fn scenario(rate: &str, seconds: u32) -> String {
    format!(
        "name = \"short\"\nduration = \"{seconds}s\"\n\
         node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
         [[link]]\nname = \"line\"\nbetween = [\"a\", \"b\"]\nspec = \"bw 1Mbit/s queue 20\"\n\
         [[traffic]]\nname = \"calls\"\nfrom = \"a\"\nto = \"b\"\nkind = \"poisson\"\n\
         rate = \"{rate}\"\nsize = \"1000B\"\n"
    )
}

/// Waits until the study has ended, and returns it.
fn ended(site: &Site, cookie: &str, number: u64) -> Value {
    until(|| {
        let list = site.get("/v1/studies", cookie).json();
        let all = list["studies"].as_array().expect("a list").clone();
        all.into_iter().find(|one| one["number"] == number && one["state"] != "running")
    })
}

/// Waits until `look` finds something.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "nothing was found in {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The processes of studies below the process `parent`: the spawner, and the processes that it has
/// forked. Each has its id and its status.
fn below(parent: i32) -> Vec<(i32, String)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("processes").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A process may end meanwhile.
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else { continue };
        let words = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if words.contains("__weir-studies") {
            let ppid = status.lines().find_map(|line| line.strip_prefix("PPid:\t"));
            all.push((pid, ppid.and_then(|ppid| ppid.parse().ok()).unwrap_or(0), status));
        }
    }
    let spawners: Vec<i32> =
        all.iter().filter(|(_, ppid, _)| *ppid == parent).map(|(pid, ..)| *pid).collect();
    let is_below = |pid: i32, ppid: i32| spawners.contains(&pid) || spawners.contains(&ppid);
    let found = all.into_iter().filter(|&(pid, ppid, _)| is_below(pid, ppid));
    found.map(|(pid, _, status)| (pid, status)).collect()
}

fn start(site: &Site, cookie: &str, text: &str) -> Reply {
    site.post("/v1/studies", cookie, &json!({"text": text}))
}

fn limits(lab: &Lab) {
    let (mut session, site) = session(lab);
    let cookie = site.login(&site.full);
    let parent = session.pid().as_raw();
    let list = site.get("/v1/studies", &cookie).json();
    assert_eq!(list["available"], true, "{list}");
    // Every example is correct.
    for example in list["examples"].as_array().unwrap() {
        let checked = site.post("/v1/studies/check", &cookie, &json!({"text": example["text"]}));
        let checked = checked.json();
        assert!(checked["refusal"].is_null(), "{}: {checked}", example["name"]);
        assert!(checked["summary"].is_string(), "{}: {checked}", example["name"]);
    }
    let wrong = json!({"text": scenario("1Mbitt/s", 1)});
    let wrong = site.post("/v1/studies/check", &cookie, &wrong).json();
    assert_eq!(wrong["diagnostics"][0]["line"], 13, "{wrong}");

    let refused = |body: Value, status: u16, words: &str| {
        let reply = site.post("/v1/studies", &cookie, &body);
        assert!(reply.status == status && reply.body.contains(words), "{body:.60}: {reply:?}");
    };
    let text = scenario("500kbit/s", 2);
    refused(json!({"text": "#".repeat((256 << 10) + 1)}), 400, "at most 256 KiB");
    refused(json!({"text": text, "runs": 0}), 400, "from 1 to 200");
    refused(json!({"text": text, "runs": 201}), 400, "from 1 to 200");
    refused(json!({"text": text, "more": 1}), 400, "not a request");
    assert_eq!(site.post("/v1/studies", "", &json!({"text": text})).status, 401);
    let looking = site.login(&site.read);
    assert_eq!(start(&site, &looking, &text).status, 403);
    assert_eq!(site.ask("DELETE", "/v1/studies/1", &site.host(), &looking, "").status, 403);

    // Too many runs, and too many flows for the memory.
    let many = start(&site, &cookie, &text.replace("duration", "runs = 1000\nduration"));
    assert_eq!(many.json()["number"], 1, "{many:?}");
    let many = ended(&site, &cookie, 1);
    assert!(many["error"].as_str().unwrap().contains("1000 runs"), "{many}");
    let text = scenario("1bit/s", 2).replace("kind =", "count = 1000000\nkind =");
    start(&site, &cookie, &text);
    let large = ended(&site, &cookie, 2);
    assert!(large["error"].as_str().unwrap().contains("768 MiB of memory"), "{large}");

    // A study that would take hours is confined, and ends when asked. A second study is refused
    // meanwhile.
    assert_eq!(start(&site, &cookie, &scenario("900kbit/s", 9_000_000)).status, 202);
    let child = until(|| {
        let processes = below(parent);
        let seccomp = |status: &str| status.contains("Seccomp:\t2");
        processes.into_iter().find(|(_, status)| seccomp(status))
    });
    let status = child.1;
    for line in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.contains(line), "{status}");
    }
    let second = start(&site, &cookie, &scenario("1kbit/s", 1));
    assert!(second.status == 409 && second.body.contains("study 3 still runs"), "{second:?}");
    until(|| {
        let list = site.get("/v1/studies", &looking).json();
        list["studies"][2]["part"].as_f64().filter(|part| *part > 0.0)
    });
    let end = site.ask("DELETE", "/v1/studies/3", &site.host(), &cookie, "");
    assert_eq!(end.status, 204, "{end:?}");
    assert_eq!(ended(&site, &cookie, 3)["state"], "cancelled");
    // Only the spawner remains.
    until(|| (below(parent).len() == 1).then_some(()));

    // Two results, with a report and their comparison.
    for (number, rate) in [(4, "500kbit/s"), (5, "2Mbit/s")] {
        start(&site, &cookie, &scenario(rate, 3));
        let done = ended(&site, &cookie, number);
        assert_eq!(done["state"], "done", "{done}");
        assert!(done["tables"].as_str().unwrap().contains("calls"), "{done}");
    }
    let report = site.get("/v1/studies/4/report", &looking);
    let policy = report.header("content-security-policy");
    assert!(policy.starts_with("sandbox allow-scripts") && !policy.contains("same-origin"));
    let results = site.get("/v1/studies/4/results", &looking);
    assert_eq!(results.json()["runs"][0]["flows"][0]["name"], "calls");
    // The results of the page equal those of the command, to the byte.
    let file = lab.file("short.toml", &scenario("500kbit/s", 3));
    let [page, out] = ["report.html", "out"].map(|name| lab.path(name));
    let [to_page, to_out] = [&page, &out].map(|path| path.display().to_string());
    lab.weir(["sim", &file, "--quiet", "--report", &to_page, "--out", &to_out]);
    let same = |path: std::path::PathBuf, body: &str| {
        let text = std::fs::read_to_string(&path).expect("weir sim has written it");
        assert!(text == body, "{} differs from what the page has", path.display());
    };
    same(page, &report.body);
    same(out.join("summary.json"), &results.body);
    let compared = site.get("/v1/studies/compare?left=4&right=5", &looking).json();
    assert_eq!(compared["blocks"][0]["name"], "flow calls", "{compared}");
    assert!(compared["text"].as_str().unwrap().starts_with("left : short (sim, 1 run)"));
    assert_eq!(site.get("/v1/studies/compare?left=4&right=3", &looking).status, 404);
    assert_eq!(site.get("/v1/studies/9/report", &looking).status, 404);
    assert_eq!(site.ask("DELETE", "/v1/studies/4", &site.host(), &cookie, "").status, 204);
    assert_eq!(site.get("/v1/studies/4/report", &looking).status, 404);
    assert!(session.alive());
    kill(session.pid(), Signal::SIGTERM).expect("it runs");
    session.finish();
}

fn killed(lab: &Lab) {
    let (session, site) = session(lab);
    let cookie = site.login(&site.full);
    assert_eq!(start(&site, &cookie, &scenario("900kbit/s", 9_000_000)).status, 202);
    // The spawner, and the process of the study.
    let processes = until(|| {
        let processes = below(session.pid().as_raw());
        (processes.len() == 2).then_some(processes)
    });
    kill(session.pid(), Signal::SIGKILL).expect("it runs");
    session.finish();
    for (pid, _) in processes {
        until(|| {
            let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
            (!words.is_ok_and(|words| words.contains("__weir-studies"))).then_some(())
        });
    }
}

fn confined(lab: &Lab) {
    let _wire = Wire::new();
    let mut daemon = Daemon::start(lab, &["--web", "127.0.0.1:18934", "--user", "64999"]);
    let site = Site::of(&mut daemon.running);
    let cookie = site.login(&site.full);
    let parent = daemon.pid().as_raw();
    let spawner = below(parent);
    assert_eq!(spawner.len(), 1, "{spawner:?}");
    let status = &spawner[0].1;
    for line in ["Uid:\t64999\t64999\t64999\t64999", "CapEff:\t0000000000000000"] {
        assert!(status.contains(line), "{status}");
    }
    start(&site, &cookie, &scenario("500kbit/s", 3));
    let done = ended(&site, &cookie, 1);
    assert_eq!(done["state"], "done", "{done}");
    kill(daemon.pid(), Signal::SIGTERM).expect("it runs");
    daemon.finish();
    until(|| below(parent).is_empty().then_some(()));
}

/// The longest wait in these tests. It is long, because other tests may use the processors.
const LIMIT: Duration = Duration::from_secs(180);
