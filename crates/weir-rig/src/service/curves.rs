//! Service curves: the bytes that each flow was given over time, by a scheduler and by the fluid.

use weir_core::sched::Discipline;

use super::drive::Drive;
use super::fluid::Given;
use super::link::Watch;
use super::workload::{Source, Workload};
use crate::flows::FlowSet;
use crate::trace::Arrival;

/// The service of all flows of a set at equal steps of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// The times. The unit is the time in which the link sends one byte.
    pub times: Vec<u64>,
    /// For each flow the bytes that it was given until each time. A packet on the wire counts with
    /// the part that is sent.
    pub served: Vec<Vec<u64>>,
    /// The same in the fluid, which serves the same arrivals; rounded to whole bytes.
    pub fluid: Vec<Vec<u64>>,
}

/// Runs a scheduler of this discipline on the workload. Returns its service and the fluid's at
/// `steps` equidistant times. The last is `until`, in the unit of [`Curves::times`], or the end of
/// the run if this is `None`.
///
/// Memory grows with the number of packets, and with flows times steps.
pub fn curves(
    discipline: &Discipline,
    flows: &FlowSet,
    workload: &Workload<'_>,
    seed: u64,
    (until, steps): (Option<u64>, usize),
) -> Curves {
    let mut source = Source::new(workload, flows, seed);
    let is_steady = source.is_steady();
    let mut log = Log::default();
    let (end, _) = discipline.visit(Drive { flows, source: &mut source, watch: &mut log });
    let until = until.unwrap_or(end);
    let steps = steps.max(1) as u64;
    let times: Vec<u64> = (0..=steps)
        .map(|step| (u128::from(until) * u128::from(step) / u128::from(steps)) as u64)
        .collect();
    let mut curves = Curves {
        served: vec![Vec::with_capacity(times.len()); flows.len() as usize],
        fluid: vec![Vec::with_capacity(times.len()); flows.len() as usize],
        times,
    };
    let mut given = Given::new(flows, is_steady);
    let mut done = vec![0u64; flows.len() as usize];
    let mut arrivals = log.arrivals.iter().peekable();
    let mut sent = log.sent.iter().peekable();
    for &time in &curves.times {
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.time <= time) {
            given.arrives(arrival);
        }
        while let Some(&(_, flow, len)) =
            sent.next_if(|&&(start, _, len)| start + u64::from(len) <= time)
        {
            done[flow as usize] += u64::from(len);
        }
        for (flow, curve) in (0..).zip(&mut curves.fluid) {
            curve.push(given.at(time, flow));
        }
        for (curve, done) in curves.served.iter_mut().zip(&done) {
            curve.push(*done);
        }
        if let Some(&&(start, flow, _)) = sent.peek()
            && start < time
            && let Some(last) = curves.served[flow as usize].last_mut()
        {
            *last += time - start;
        }
    }
    curves
}

/// The arrivals at the link and its transmissions.
#[derive(Debug, Default)]
struct Log {
    arrivals: Vec<Arrival>,
    /// The start, the flow and the length of each sent packet.
    sent: Vec<(u64, u32, u32)>,
}

impl Watch for Log {
    fn arrives(&mut self, arrival: &Arrival) {
        self.arrivals.push(*arrival);
    }

    fn refuses(&mut self, _arrived: u64, _flow: u32, _len: u32) {}

    fn starts(&mut self, now: u64, flow: u32, len: u32) {
        self.sent.push((now, flow, len));
    }

    fn ends(&mut self, _now: u64, _flow: u32) {}

    fn rests(&mut self, _now: u64) {}
}

#[cfg(test)]
mod tests {
    use weir_core::sched::Kind;

    use super::*;

    fn of(alg: &str, flows: &str, workload: &Workload<'_>) -> Curves {
        let kind = Kind::from_name(alg).expect("a scheduler");
        let flows = flows.parse().expect("flows");
        curves(&Discipline::new(kind), &flows, workload, 1, (None, 100))
    }

    #[test]
    fn every_byte_of_a_backlogged_link_is_in_a_curve() {
        for alg in ["fifo", "drr", "wf2q+"] {
            let curves = of(alg, "2:w1,1:w2", &Workload::Backlogged { packets: 400 });
            for (n, &time) in curves.times.iter().enumerate() {
                let served: u64 = curves.served.iter().map(|curve| curve[n]).sum();
                let fluid: u64 = curves.fluid.iter().map(|curve| curve[n]).sum();
                assert_eq!(served, time, "{alg}");
                assert!(time - fluid <= 3, "{alg}: {fluid} of {time}, rounded down for each flow");
            }
        }
    }

    #[test]
    fn the_fluid_of_a_workload_does_not_depend_on_the_scheduler() {
        let load = Workload::OnOff { packets: 500 };
        let (one, other) = (of("fifo", "4:w1", &load), of("wf2q+", "4:w1", &load));
        assert_eq!(one.fluid, other.fluid);
        assert_ne!(one.served, other.served);
        // All that has arrived is served at the end.
        let last = |curves: &[Vec<u64>]| -> Vec<u64> {
            curves.iter().map(|curve| *curve.last().expect("a time")).collect()
        };
        assert_eq!(last(&one.served), last(&other.served));
        for (served, fluid) in last(&one.served).iter().zip(last(&one.fluid)) {
            assert!(served.abs_diff(fluid) <= 1);
        }
    }

    #[test]
    fn a_fair_scheduler_stays_close_to_the_fluid() {
        let load = Workload::Backlogged { packets: 1000 };
        let worst = |alg| {
            let curves = of(alg, "1:w1,1:w7", &load);
            let pairs = curves.served.iter().flatten().zip(curves.fluid.iter().flatten());
            pairs.map(|(served, fluid)| served.abs_diff(*fluid)).max().expect("times")
        };
        assert!(worst("wf2q+") < 2 * 1500);
        assert!(worst("fifo") > 100 * 1500, "a FIFO knows no weights");
    }
}
