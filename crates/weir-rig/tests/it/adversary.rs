//! Tests the adversary: measuring its result again gives the same values, equal seeds give equal
//! results, and an interrupted search continues.

use std::ops::ControlFlow;
use std::path::PathBuf;

use weir_core::sched::Kind;
use weir_rig::adversary::{Found, Hunt, Objective, Progress, search};
use weir_rig::service::{Workload, measure};
use weir_rig::trace::Trace;

fn hunt(kind: Kind, flows: &str, evaluations: u64) -> Hunt {
    Hunt { evaluations, weights: None, ..Hunt::new(kind.into(), flows.parse().unwrap(), 7) }
}

fn run(hunt: &Hunt) -> Found {
    search(hunt, None, |_| ControlFlow::Continue(())).unwrap()
}

/// A path that no other process uses. A file at this path is removed.
fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("weir-rig-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn a_found_trace_gives_the_same_measurement_from_its_file() {
    let found = run(&hunt(Kind::RoundRobin, "10:w1:l64-1500,2:w9", 600));
    let trace = Trace::read(&found.trace.to_string()).unwrap();
    let again = measure(&Kind::RoundRobin.into(), trace.flows(), &Workload::Trace(&trace), 99);
    assert_eq!(again, found.service);
    assert!(
        found.trace.notes[0].contains("worst B-WFI in packets of drr on 10:w1:l64-1500,2:w9"),
        "{:?}",
        found.trace.notes
    );
}

#[test]
fn the_search_worsens_round_robin_but_not_wf2qp() {
    let flows = "20:w1,10:w4";
    let searched = |kind| run(&Hunt { weights: Some((1, 64)), ..hunt(kind, flows, 1200) });
    let (robin, fair) = (searched(Kind::RoundRobin), searched(Kind::Wf2qPlus));
    assert!(
        robin.worst().bwfi_packets() > 10.0 * fair.worst().bwfi_packets(),
        "{:?} {:?}",
        robin.worst(),
        fair.worst()
    );
    for found in [robin, fair] {
        assert_eq!(found.worst().is_within_bound(), Some(true), "{:?}", found.worst());
    }
}

#[test]
fn a_search_follows_from_its_seed() {
    let one = hunt(Kind::Wf2qPlus, "5:w1:bimodal,2:w5:imix", 500);
    assert_eq!(run(&one).trace, run(&one).trace);
    assert_ne!(run(&one).trace, run(&Hunt { seed: 8, ..one }).trace);
}

#[test]
fn an_interrupted_search_finds_the_same_as_an_uninterrupted_one() {
    let whole = hunt(Kind::RoundRobin, "6:w1:l64-1500,2:w5", 900);
    let expected = run(&whole);
    let path = file("resumed");
    // The observer interrupts the first search, the budget ends the second.
    let until = |progress: &Progress| {
        if progress.evaluations >= 320 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    assert_eq!(search(&whole, Some(&path), until).unwrap().evaluations, 320);
    let part = Hunt { evaluations: 500, ..whole.clone() };
    assert_eq!(search(&part, Some(&path), |_| ControlFlow::Continue(())).unwrap().evaluations, 500);
    let resumed = search(&whole, Some(&path), |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((resumed.trace, resumed.service), (expected.trace, expected.service));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn other_searches_and_invalid_files_are_refused_as_state() {
    let path = file("other");
    let go = |hunt: &Hunt| {
        search(hunt, Some(&path), |_| ControlFlow::Continue(())).map(|found| found.evaluations)
    };
    assert_eq!(go(&hunt(Kind::Fifo, "3", 32)).unwrap(), 32);
    let before = std::fs::read_to_string(&path).unwrap();
    let message = go(&hunt(Kind::RoundRobin, "3", 32)).unwrap_err().to_string();
    assert!(
        message.contains("of fifo on 3:w1")
            && message.contains("not for the worst B-WFI in packets of drr"),
        "{message}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    std::fs::write(&path, "{}").unwrap();
    let message = go(&hunt(Kind::Fifo, "3", 32)).unwrap_err().to_string();
    assert!(message.contains("not the state of a search"), "{message}");
    std::fs::remove_file(&path).unwrap();
    let nowhere =
        search(&hunt(Kind::Fifo, "3", 32), Some(&path.join("x")), |_| ControlFlow::Continue(()))
            .unwrap_err()
            .to_string();
    assert!(nowhere.contains("weir-rig-"), "{nowhere}");
}

#[test]
fn lengths_stay_within_the_set_and_the_worst_flow_is_of_the_requested_class() {
    for objective in [Objective::Packets, Objective::OfBound, Objective::Delay] {
        let flows = "4:w2:bimodal,4:w1:l100-200,3:w1:imix,1:w1:l777";
        let found = run(&Hunt {
            objective,
            class: Some(1),
            weights: Some((1, 9)),
            ..hunt(Kind::RoundRobin, flows, 300)
        });
        assert!(found.class == 1 && (4..8).contains(&found.worst().worst_flow));
        assert!(found.trace.flows().groups().iter().all(|group| (1..=9).contains(&group.weight)));
        for arrival in found.trace.arrivals() {
            let allowed = match arrival.flow {
                0..4 => [64, 1500].contains(&arrival.len),
                4..8 => (100..=200).contains(&arrival.len),
                8..11 => [40, 576, 1500].contains(&arrival.len),
                _ => arrival.len == 777,
            };
            assert!(allowed, "{objective}: {arrival:?}");
        }
    }
}
