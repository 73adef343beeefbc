//! Tests congestion marks end to end: an AQM before an overloaded link marks the packets of senders
//! that use ECN and drops those of other senders.
//!
//! The receiver's kernel verifies the checksum of each packet. A mark that broke a checksum would
//! therefore cause a missing packet.

use libtest_mimic::Trial;
use serde_json::Value;
use weir_traffic::stats::Reception;

use crate::common::{Lab, drops, link, load, trial};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("packets_with_ecn_are_marked_and_none_is_lost", &[], marked),
        trial("packets_without_ecn_are_dropped_instead", &[], dropped),
    ]
}

/// A stream at 1.5 times the rate of its link, under CoDel with ECN.
struct Stream {
    /// `-4` or `-6`.
    version: &'static str,
    ecn: u8,
    /// Packets in an offload train.
    train: u8,
}

impl Stream {
    /// Sends the stream, and returns the reception and the result.
    fn send(&self, lab: &Lab) -> (Reception, Value) {
        let Self { version, ecn, train } = self;
        let (load, out) = (load(), lab.path("recv.json").display().to_string());
        let bind = if *version == "-4" { "0.0.0.0:9000" } else { "[::]:9000" };
        let right =
            format!("{load} recv --bind {bind} --sent {PACKETS} --idle 1 --json --out {out}");
        // A single first packet resolves the neighbour's address; the stream starts afterwards.
        let first = format!(
            "{load} send --to right:9 {version} --count 1 --size 100 --after 0 >/dev/null; sleep \
             0.3"
        );
        let send = format!(
            "{load} send --to right:9000 {version} --count {PACKETS} --pps 750 --size 1000 \
             --train {train} --tos {ecn} >/dev/null"
        );
        let spec = "bw 4Mbit/s queue 1000 aqm codel ecn=on target=5ms";
        let result = lab.pair_with(&["--to-right", spec], 7, &format!("{first}; {send}"), &right);
        (lab.reception("recv.json"), link(&result, "to-right").clone())
    }
}

fn marked(lab: &Lab) {
    // ECT(0) over IPv4, ECT(1) over IPv6, and trains, in which each segment gets its own decision.
    for (version, ecn, train) in [("-4", 2, 1), ("-6", 1, 1), ("-4", 2, 10)] {
        let (r, summary) = Stream { version, ecn, train }.send(lab);
        let what = format!(
            "{version}, ECN field {ecn}, trains of {train}: {} marked; {summary}",
            r.marked
        );
        assert_eq!((r.received, r.lost), (PACKETS, 0), "{what}");
        assert!((10..PACKETS / 2).contains(&r.marked), "{what}");
        assert_eq!(
            summary["marks"]["target"].as_u64(),
            Some(r.marked),
            "each counted mark arrives: {what}"
        );
    }
}

fn dropped(lab: &Lab) {
    let (r, summary) = Stream { version: "-4", ecn: 0, train: 1 }.send(lab);
    assert!(r.lost >= 10 && r.lost == drops(&summary, "target"), "{} lost; {summary}", r.lost);
    assert_eq!(
        (r.marked, summary["marks"].as_object().map(|marks| marks.len())),
        (0, Some(0)),
        "{summary}"
    );
}

/// Packets of a stream.
const PACKETS: u64 = 750;
