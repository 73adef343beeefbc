//! Properties that the publications of SP-PIFO and AIFO state, for uniformly distributed ranks.

use crate::common;

use weir_core::sched::{Discipline, Kind, Scheduler, Visitor};

use common::Rig;

/// Sends `arrivals` packets for each departure, with uniform ranks from 1 to [`RANKS`]. Each rank
/// has its own flow. The departures begin when `before` packets have arrived.
#[derive(Clone, Copy)]
struct Uniform {
    before: usize,
    arrivals: usize,
    departures: usize,
}

/// The order that a scheduler produced, and how far it is from the order of the ranks.
struct Outcome {
    /// Ranks of the packets that left, in order.
    served: Vec<u64>,
    /// The sum of the rank differences of all inversions, by the scheduler's counter; 0 without a
    /// counter.
    unpifoness: u64,
}

impl Visitor for Uniform {
    type Output = Outcome;

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Outcome {
        let mut rig = Rig::new(scheduler);
        for _ in 0..RANKS {
            rig.add(1, 1500, 0);
        }
        let (mut state, mut served) = (1u64, Vec::new());
        let mut send = |rig: &mut Rig<S>| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let flow = (state >> 33) % RANKS;
            rig.send_labelled(flow as u32, 1500, flow + 1);
        };
        (0..self.before).for_each(|_| send(&mut rig));
        for _ in 0..self.departures {
            (0..self.arrivals).for_each(|_| send(&mut rig));
            served.extend(rig.take().map(|(flow, _)| u64::from(flow) + 1));
        }
        let variables = rig.scheduler.variables();
        let unpifoness = variables.iter().find(|f| f.0 == "unpifoness").map_or(0, |f| f.1);
        Outcome { served, unpifoness }
    }
}

fn run(kind: Kind, settings: &[(&str, &str)], load: Uniform) -> Outcome {
    let mut discipline = Discipline::new(kind);
    for (name, value) in [("rank", "fifo+")].iter().chain(settings) {
        discipline.set(name, value).unwrap();
    }
    discipline.visit(load)
}

fn mean(ranks: &[u64]) -> f64 {
    ranks.iter().sum::<u64>() as f64 / ranks.len() as f64
}

/// With one queue SP-PIFO is a FIFO, and more queues come closer to the order of a PIFO.
#[test]
fn sp_pifo_comes_closer_to_a_pifo_with_more_queues() {
    let load = Uniform { before: 60, arrivals: 1, departures: 20_000 };
    let errors: Vec<u64> = ["1", "2", "8", "32"]
        .map(|queues| run(Kind::SpPifo, &[("queues", queues)], load).unpifoness)
        .into();
    assert!(errors.is_sorted_by(|more, fewer| more > fewer), "{errors:?}");
    assert!(4 * errors[2] < errors[0], "8 queues remove most of the errors of a FIFO: {errors:?}");
}

/// When twice as many packets arrive as depart, a PIFO serves the lower half of the ranks, and tail
/// drop serves all ranks alike.
#[test]
fn aifo_admits_nearly_the_packets_that_a_pifo_serves() {
    let load = Uniform { before: 0, arrivals: 2, departures: 20_000 };
    let of = |kind, settings: &[(&str, &str)]| mean(&run(kind, settings, load).served);
    let pifo = of(Kind::Pifo, &[("limit", "64")]);
    let aifo = of(Kind::Aifo, &[("limit", "64")]);
    // With `k` 99, AIFO admits packets like tail drop.
    let drop_tail = of(Kind::Aifo, &[("limit", "64"), ("k", "99")]);
    assert!((pifo - 25.5).abs() < 2.0, "{pifo}");
    assert!((drop_tail - 50.5).abs() < 2.0, "{drop_tail}");
    assert!(aifo < pifo + 0.25 * (drop_tail - pifo), "{pifo} {aifo} {drop_tail}");
}

const RANKS: u64 = 100;
