//! Tests that a real Prometheus scrapes sessions and a daemon, and answers the queries of the
//! dashboard in `packaging/grafana`.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use libtest_mimic::Trial;
use serde_json::Value;

use crate::common::{Lab, Need, Running, is_root, load, trial, until};
use crate::control::connect;
use crate::daemon::{Daemon, Wire};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "prometheus_scrapes_sessions_and_answers_the_dashboard",
            &[Need::Program("prometheus")],
            sessions,
        ),
        trial(
            "prometheus_scrapes_a_daemon_and_answers_the_dashboard",
            &[Need::Root, Need::Program("prometheus"), Need::Program("ip")],
            daemon,
        ),
        trial("promtool_accepts_the_metrics", &[Need::Program("promtool")], promtool),
    ]
}

/// The body of the answer to a request; `None` without a valid answer.
fn get(address: &str, path: &str, header: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let head = format!("GET {path} HTTP/1.0\r\nHost: weir\r\n{header}\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.").then(|| body.to_owned())
}

/// Starts a session with a link to which packets arrive at twice its rate.
fn busy(lab: &Lab, name: &str) -> Running {
    let send = format!(
        "sleep 0.5; {} send --to right:9000 -4 --count 1000000 --pps 500 --size 500 >/dev/null",
        load()
    );
    let recv = format!("{} recv --bind 0.0.0.0:9000 --sent 1000000 --idle 60 --json", load());
    let spec = "bw 1Mbit/s queue 20";
    let running =
        lab.start(["pair", "--name", name, "--to-right", spec, "--left", &send, "--right", &recv]);
    connect(name);
    running
}

/// Starts `weir metrics --listen`, and returns it with its address.
fn exporter(lab: &Lab) -> (Running, String) {
    let running = lab.start(["metrics", "--listen", "127.0.0.1:0"]);
    let mut address = String::new();
    until("the metrics are served", || {
        let said = running.stderr();
        let found = said.split_once("http://").and_then(|(_, rest)| rest.split_once('/'));
        found.map(|(found, _)| address = found.to_owned()).is_some()
    });
    (running, address)
}

/// A Prometheus that scrapes every second.
struct Prometheus {
    address: String,
    _running: Running,
}

impl Prometheus {
    fn start(lab: &Lab, scrape: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = port.as_ref().map(SocketAddr::to_string).expect("a free port");
        let config = lab.file(
            "prometheus.yml",
            &format!("global:\n  scrape_interval: 1s\nscrape_configs:\n{scrape}"),
        );
        let mut command = Command::new(crate::common::find("prometheus").expect("it is installed"));
        command.args([
            format!("--config.file={config}"),
            format!("--storage.tsdb.path={}", lab.path("tsdb").display()),
            format!("--web.listen-address={address}"),
        ]);
        let running = lab.launch(&mut command);
        Self { address, _running: running }
    }

    /// The values of a query by their labels; `None` if the query is not answered.
    fn ask(&self, query: &str) -> Option<BTreeMap<String, f64>> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let body = get(&self.address, &format!("/api/v1/query?query={escaped}"), "")?;
        let answer: Value = serde_json::from_str(&body).ok()?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let result = answer["data"]["result"].as_array().expect("a vector");
        let value = |sample: &Value| {
            let text = sample["value"][1].as_str().expect("a value");
            (sample["metric"].to_string(), text.parse().expect("a number"))
        };
        Some(result.iter().map(value).collect())
    }

    /// Waits until a query has values.
    fn values(&self, query: &str) -> BTreeMap<String, f64> {
        let mut values = BTreeMap::new();
        until(query, || {
            values = self.ask(query).unwrap_or_default();
            values.values().any(|value| value.is_finite())
        });
        values
    }
}

/// The queries of the dashboard by panel, with its variables replaced.
fn queries() -> Vec<(String, String)> {
    let text = include_str!("../../../../packaging/grafana/weir.json");
    let dashboard: Value = serde_json::from_str(text).expect("JSON");
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().expect("a query");
            let mut query = query.replace("$__rate_interval", "10s");
            for variable in ["$session", "$link", "$object"] {
                query = query.replace(variable, ".*");
            }
            assert!(!query.contains('$'), "{query}");
            let title = panel["title"].as_str().expect("a title").to_owned();
            queries.push((title, query));
        }
    }
    assert!(queries.len() >= 10, "{queries:?}");
    queries
}

fn sessions(lab: &Lab) {
    let session = busy(lab, "scraped");
    let (exporter, address) = exporter(lab);
    let scrape = format!("  - job_name: s\n    static_configs: [{{targets: ['{address}']}}]\n");
    let prometheus = Prometheus::start(lab, &scrape);
    let queries = queries();
    let of = |title: &str, part: &str| -> &str {
        let is_it = |(panel, query): &&(String, String)| {
            panel == title && query.contains(part) && query.contains("session_link")
        };
        &queries.iter().find(is_it).unwrap_or_else(|| panic!("no {title} with {part}")).1
    };
    let to_right = |values: &BTreeMap<String, f64>| {
        values
            .iter()
            .find(|(labels, _)| labels.contains("\"to-right\""))
            .map(|(_, value)| *value)
            .unwrap_or_else(|| panic!("no to-right in {values:?}"))
    };
    // The link carries its rate, and drops what it cannot carry.
    until("the link is full for a while", || {
        let carried = prometheus.ask(of("Offered and carried", "\"out\"")).unwrap_or_default();
        carried.iter().any(|(labels, rate)| labels.contains("to-right") && *rate > 900_000.0)
    });
    let carried = to_right(&prometheus.values(of("Offered and carried", "\"out\"")));
    let offered = to_right(&prometheus.values(of("Offered and carried", "\"in\"")));
    assert!(offered > 1.5 * carried, "offered {offered}, carried {carried}");
    let drops = prometheus.values(of("Drops by reason", "drops"));
    let (labels, _) = drops.first_key_value().expect("packets are dropped");
    assert!(labels.contains("queue_full") && labels.contains("scraped"), "{drops:?}");
    let delay = to_right(&prometheus.values(of("Queueing delay", "0.5")));
    // 20 packets of 500 bytes take 80 ms at 1 Mbit/s, which is in the bucket from 50 to 100 ms.
    assert!((0.05..=0.1).contains(&delay), "{delay}");
    for (title, query) in &queries {
        assert!(prometheus.ask(query).is_some(), "{title}: {query}");
    }
    assert_eq!(lab.weir(["stop", "scraped"]).code, 0);
    session.finish();
    exporter.signal_group(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(exporter.finish().code, 0);
}

fn daemon(lab: &Lab) {
    let wire = Wire::new();
    let token = lab.file("token", "0123456789abcdef0123\n");
    crate::common::must(&format!("chmod 600 {token}"));
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let address = port.as_ref().map(SocketAddr::to_string).expect("a free port");
    let daemon = Daemon::start(lab, &["--http", &address, "--token-file", &token]);
    let rules = "pipe 1 config bw 8Mbit/s delay 2ms\nadd 100 pipe 1 ip from any to any";
    daemon.send(rules);
    wire.ping(true);
    let ping = "exec ip netns exec wl ping -i 0.05 -q 10.77.0.2";
    let ping = lab.launch(Command::new("sh").args(["-c", ping]));
    let scrape = format!(
        "  - job_name: d\n    authorization: {{credentials_file: {token}}}\n    static_configs: \
         [{{targets: ['{address}']}}]\n"
    );
    let prometheus = Prometheus::start(lab, &scrape);
    for (title, query) in queries() {
        // Another test covers sessions, and nothing is dropped here.
        if query.contains("session_link") || title.starts_with("Drops") {
            continue;
        }
        let values = prometheus.values(&query);
        if title == "Interfaces" {
            assert!(values.len() == 2 && values.values().all(|up| *up == 1.0), "{values:?}");
        }
    }
    ping.signal_group(nix::sys::signal::Signal::SIGINT);
    ping.finish();
}

fn promtool(lab: &Lab) {
    let session = busy(lab, "checked");
    let (_exporter, address) = exporter(lab);
    let mut texts =
        vec![get(&address, "/metrics", "Accept: text/plain\r\n").expect("the exporter answers")];
    assert!(texts[0].contains("weir_session_link_packets_total{session=\"checked\""), "{texts:?}");
    let open = get(&address, "/metrics", "").expect("the exporter answers");
    assert!(open.ends_with("# EOF\n"), "{open}");
    texts.push(lab.weir(["metrics"]).stdout);
    assert!(texts[1].contains("weir_session_link_packets_total{session=\"checked\""), "{texts:?}");
    if is_root() {
        let _wire = Wire::new();
        let daemon = Daemon::start(lab, &[]);
        daemon.send(
            "pipe 1 config bw 8Mbit/s\nqueue 1 config sched 1\nadd 100 pipe 1 ip from any to any",
        );
        let script = "curl -s -H 'Accept: text/plain' --unix-socket weir.sock http://weir/metrics";
        let text = crate::common::output_of(&format!("cd {} && {script}", lab.path("").display()));
        if !text.is_empty() {
            texts.push(text);
        }
    }
    for text in texts {
        let promtool = crate::common::find("promtool").expect("it is installed");
        let mut command = Command::new(promtool);
        command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut checking = command.stderr(Stdio::piped()).spawn().expect("promtool starts");
        let mut input = checking.stdin.take().expect("its input");
        input.write_all(text.as_bytes()).expect("promtool reads");
        drop(input);
        let done = checking.wait_with_output().expect("promtool ends");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success() && said.is_empty(), "{said}");
    }
    assert_eq!(lab.weir(["stop", "checked"]).code, 0);
    session.finish();
}
