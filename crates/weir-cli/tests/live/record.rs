//! Tests `weir watch --record` and `weir rig --replay`: the recording of a real queue agrees with
//! the kernel's counters, and a FIFO in the replay does what the kernel's FIFO did.

use std::fs;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::common::{Lab, Need, load, must, number, output_of, trial};
use crate::schema::document;

pub(crate) fn tests() -> Vec<Trial> {
    let needs: &[Need] = &[Need::Root, Need::Program("tc")];
    vec![
        trial("a_replayed_fifo_does_what_the_kernels_fifo_did", needs, fifo),
        trial("every_packet_through_a_pfifo_is_recorded_also_when_it_bypasses", needs, bypass),
        trial("a_recording_names_one_device_and_says_when_it_has_no_rate", needs, refused),
    ]
}

/// A veth pair with a discipline at one end. Dropping this deletes the pair.
struct Cable;

impl Cable {
    fn with(discipline: &str) -> Self {
        must("ip link add ra type veth peer name rb");
        let cable = Self;
        must("for i in ra rb; do echo 1 > /proc/sys/net/ipv6/conf/$i/disable_ipv6; done");
        must("ip addr add 10.79.0.1/24 dev ra && ip link set ra up && ip link set rb up");
        must("ip neigh replace 10.79.0.2 lladdr 02:00:00:00:00:02 dev ra");
        must(&format!("tc qdisc replace dev ra root handle 7: {discipline}"));
        cable
    }

    /// The counters of the root discipline: packets, bytes and drops.
    fn counters() -> [u64; 3] {
        let all: Value = serde_json::from_str(&output_of("tc -s -j qdisc show dev ra root"))
            .expect("tc prints JSON");
        ["packets", "bytes", "drops"].map(|key| number(&all[0], key))
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        let _ = output_of("ip link del ra");
    }
}

/// Shell words that send packets of 1000 bytes, to a separate port for each flow. Each flow is
/// given by its packets per second and its number of packets.
fn send(flows: &[(u32, u32)]) -> String {
    let one = |(port, (pps, count)): (u32, &(u32, u32))| {
        format!(
            "{} send --to 10.79.0.2:{port} -4 --count {count} --pps {pps} --size 1000 \
             >/dev/null & ",
            load()
        )
    };
    (9000..).zip(flows).map(one).collect::<String>() + "wait; sleep 0.3"
}

/// Records the queue while the flows send, replays the recording with the options in `words`, and
/// returns the results document.
fn replayed(lab: &Lab, flows: &[(u32, u32)], words: &[&str]) -> Value {
    let trace = lab.path("q.trace").display().to_string();
    let done = lab.weir(["watch", "ra", "--record", &trace, "--exec", &send(flows)]);
    assert_eq!(done.code, 0, "{done:?}");
    let page = lab.path("q.html").display().to_string();
    let first = ["rig", "--replay", &trace, "--json", "-", "--html", &page];
    let done = lab.weir(first.iter().chain(words));
    assert_eq!(done.code, 0, "{done:?}");
    let html = fs::read_to_string(&page).expect("the page");
    assert!(html.contains("kernel: ") && html.contains("Open loop") && html.contains("<svg"));
    document(done.stdout.as_bytes())
}

/// The row of a result with a name that begins with `name`.
fn row<'a>(result: &'a Value, name: &str) -> &'a Value {
    let rows = result["rows"].as_array().expect("rows");
    rows.iter()
        .find(|row| row["name"].as_str().is_some_and(|own| own.starts_with(name)))
        .unwrap_or_else(|| panic!("no {name} in {result}"))
}

/// Fails when two values differ by more than `share` of the second value and by more than `least`.
fn near(what: &str, ours: u64, theirs: u64, share: f64, least: u64) {
    let bound = (theirs as f64 * share).max(least as f64);
    assert!(
        ours.abs_diff(theirs) as f64 <= bound,
        "{what}: {ours} in the replay, {theirs} recorded"
    );
}

fn fifo(lab: &Lab) {
    let _cable = Cable::with("tbf rate 8mbit burst 5000 limit 40000");
    // 11.6 Mbit/s from one flow and 0.8 Mbit/s from another, for two seconds.
    let words = ["--alg", "fifo,fq_codel", "--aqm", "codel"];
    let result = replayed(lab, &[(1450, 2900), (100, 200)], &words);
    let [packets, bytes, drops] = Cable::counters();
    let (content, kernel) = (&result["content"], row(&result, "kernel: tbf + bfifo"));
    println!("{content} kernel {kernel}\nfifo {}", row(&result, "fifo"));
    let discipline = &result["recording"]["discipline"];
    assert_eq!(
        (number(discipline, "rate_bps"), number(discipline, "burst_bytes")),
        (8_000_000, 5000)
    );
    assert_eq!(number(discipline, "limit_bytes"), 40_000);
    // The recording agrees with the counters of the kernel.
    assert_eq!((number(content, "packets"), number(content, "flows")), (3100, 2));
    for gap in ["lost_events", "strays", "changes", "bypassed"] {
        assert_eq!(number(content, gap), 0, "{gap}: {content}");
    }
    // On a busy processor, the kernel does not run the recording's programs for a few dequeues,
    // although its own traces show these dequeues. No packet is missing.
    let unknown = number(content, "unknown");
    assert!(unknown <= packets / 50, "{content}");
    assert_eq!(
        (number(kernel, "delivered") + unknown, number(kernel, "dropped")),
        (packets, drops)
    );
    let seen = number(kernel, "delivered_bytes");
    assert_eq!(seen + unknown * bytes / packets, bytes, "all packets have the same length");
    assert_eq!(number(content, "kernel_drops"), drops);
    assert!(drops > 500, "{drops} drops");
    // The replay agrees with the recording.
    let ours = row(&result, "fifo");
    near("drops", number(ours, "dropped"), drops, 0.05, 3);
    let delay = |row: &Value, quantile: &str| number(&row["delay_ns"], quantile);
    near("p50", delay(ours, "p50"), delay(kernel, "p50"), 0.10, 1_000_000);
    // A full queue of 40,000 bytes delays a packet by 40 ms. A busy processor delays the departures
    // of the kernel further, but not those of the replay.
    for quantile in ["p99", "max"] {
        let (ours, theirs) = (delay(ours, quantile), delay(kernel, quantile));
        assert!((36_000_000..=41_500_000).contains(&ours), "{quantile}: {ours} in the replay");
        assert!(
            theirs + theirs / 10 >= ours,
            "{quantile}: {ours} in the replay, {theirs} recorded"
        );
    }
    let queue = |row: &Value| number(&row["queue_packets"], "max");
    near("longest queue", queue(ours), queue(kernel), 0.0, 2);
    // The small flow waits behind the large one only in the FIFO.
    let median = |row: &Value| number(&row["fairness"], "flow_delay_p50_ns");
    assert!(median(row(&result, "fq_codel")) < median(ours) / 4, "{result}");
    assert!(delay(row(&result, "codel"), "p50") < delay(ours, "p50"), "{result}");
}

fn bypass(lab: &Lab) {
    let _cable = Cable::with("pfifo limit 100");
    let result = replayed(lab, &[(500, 300)], &["--rate", "100Mbit/s", "--alg", "fifo"]);
    let [packets, ..] = Cable::counters();
    let (content, kernel) = (&result["content"], row(&result, "kernel: pfifo"));
    // A veth pair takes packets at once, so most find the queue empty and bypass it.
    assert_eq!(
        (number(content, "packets"), number(kernel, "delivered")),
        (300, packets),
        "{content}"
    );
    assert!(number(content, "bypassed") > 200, "{content}");
    assert_eq!(number(content, "unknown") + number(content, "lost_events"), 0, "{content}");
}

fn refused(lab: &Lab) {
    let _cable = Cable::with("pfifo limit 50");
    let trace = lab.path("q.trace").display().to_string();
    let several = lab.weir(["watch", "ra", "rb", "--record", &trace, "--seconds", "0.1"]);
    assert!(several.code == 2 && several.stderr.contains("name one"), "{several:?}");
    let pattern = lab.weir(["watch", "r?", "--record", &trace, "--seconds", "0.1"]);
    assert!(
        pattern.code == 125 && pattern.stderr.contains("matches 2 devices: name one"),
        "{pattern:?}"
    );
    assert!(!lab.path("q.trace").exists());
    let exec = send(&[(500, 50)]);
    let done = lab.weir(["watch", "ra", "--record", &trace, "--exec", &exec]);
    assert_eq!(done.code, 0, "{done:?}");
    let unknown = lab.weir(["rig", "--replay", &trace]);
    assert!(unknown.code == 2 && unknown.stderr.contains("add --rate"), "{unknown:?}");
    let done = lab.weir(["rig", "--replay", &trace, "--rate", "10Mbit/s"]);
    assert!(done.code == 0 && done.stdout.contains("limit 50 packets"), "{done:?}");
    let bytes = fs::read(&trace).expect("the recording");
    fs::write(&trace, &bytes[..bytes.len() - 40]).expect("a shorter file");
    let cut = lab.weir(["rig", "--replay", &trace, "--rate", "10Mbit/s"]);
    assert!(cut.code == 2 && cut.stderr.contains("without its end"), "{cut:?}");
}
