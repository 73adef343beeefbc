//! Queues at the sending host: TCP small queues (TSQ) and segmentation offload (TSO), in the kernel
//! and in the simulator.
//!
//! Transfers pass a link of 10 Mbit/s with a queue of 300 packets. In the case *end host*, the
//! sender itself has this queue, and TSQ limits the data of each socket in the queue. In the case
//! *router*, the next host has the queue, and only congestion control limits the data. The kernel's
//! transfers pass three namespaces that veth pairs connect, and its queue is `tbf` over `pfifo`.
//! Without root, the finding has only the simulated results.

mod case;
mod kernel;
mod model;

use std::io;

use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Provenance, Quantity, Range, Series, Style, Table, Unit,
};

use case::{Case, PACKET_MS, Place, Waiting};

use super::experiment::{Options, Progress};
use super::sources::{RINGS as DOCUMENT, published};

/// The experiment's name.
pub const NAME: &str = "end-host";
/// One line that says what the experiment shows.
pub const SUMMARY: &str = "TSQ and TSO: how many packets of TCP wait in the sending host's queue \
                           and in a router's, in the kernel and in the simulator; the kernel \
                           needs root";
/// The publication.
pub const SOURCE: &str =
    "Imputato and Avallone, Simulation Modelling Practice and Theory 80 (2018), section 2";

/// The results of all cases by run: those of the simulator, and those of the kernel or the reason
/// why the kernel was not measured.
struct Results {
    simulated: Vec<Vec<Waiting>>,
    kernel: Result<Vec<Vec<Waiting>>, String>,
}

/// Runs the experiment.
pub fn run(options: &Options, progress: &Progress<'_>) -> Finding {
    let simulated = super::parallel::over_seeds(options, &|_, _| {}, &CASES, model::run);
    let kernel = kernel_runs(options, progress).map_err(|error| error.to_string());
    finding(&Results { simulated, kernel })
}

/// The kernel's runs. The cases alternate, so that a disturbance affects all of them.
fn kernel_runs(options: &Options, progress: &Progress<'_>) -> io::Result<Vec<Vec<Waiting>>> {
    if !rustix::process::geteuid().is_root() {
        return Err(io::Error::other("the kernel's queues are in namespaces, which need root"));
    }
    let mut results = vec![Vec::new(); CASES.len()];
    let all = CASES.len() * options.seeds() as usize;
    for round in 0..options.seeds() as usize {
        for (n, (case, results)) in CASES.iter().zip(&mut results).enumerate() {
            results.push(kernel::run(case)?);
            progress(round * CASES.len() + n + 1, all);
        }
    }
    Ok(results)
}

fn finding(results: &Results) -> Finding {
    let mut notes = vec![
        "The publication describes the mechanisms without values. We chose the rate, the queue \
         and the numbers of transfers."
            .to_owned(),
        "Known differences of the arms: the kernel counts the memory of packets for TSQ, the \
         simulator their bytes; the kernel adapts the length of trains to the rate, while all \
         trains of the simulator have 44 segments; and a train takes one of the 300 places of the \
         simulator's queue, while the kernel's token bucket cuts trains before it queues them."
            .to_owned(),
    ];
    if let Err(reason) = &results.kernel {
        notes.push(format!("The kernel was not measured: {reason}."));
    }
    Finding {
        title: "CUBIC transfers into a link of 10 Mbit/s with a queue of 300 packets, at the \
                sending host and at a router"
            .into(),
        tables: vec![table(results)],
        claims: claims(results),
        plots: vec![plot(results)],
        notes,
        ..Finding::default()
    }
}

impl Results {
    /// The values of a case by run; for the kernel, empty if it was not measured.
    fn of(&self, arm: Arm, case: Case, value: fn(&Waiting) -> f64) -> Vec<f64> {
        let place = CASES.iter().position(|&other| other == case);
        let runs = match arm {
            Arm::Simulated => Some(&self.simulated),
            Arm::Kernel => self.kernel.as_ref().ok(),
        };
        let runs = runs.zip(place).and_then(|(runs, place)| runs.get(place));
        runs.map_or_else(Vec::new, |runs| runs.iter().map(value).collect())
    }

    fn mean(&self, arm: Arm, case: Case) -> Vec<f64> {
        self.of(arm, case, |waiting| waiting.mean)
    }
}

#[derive(Clone, Copy, Debug)]
enum Arm {
    Simulated,
    Kernel,
}

const ARMS: [(Arm, &str); 2] = [(Arm::Kernel, "kernel"), (Arm::Simulated, "simulator")];

fn name(case: Case) -> [String; 3] {
    let place = match case.place {
        Place::EndHost => "end host",
        Place::Router => "router",
    };
    [place.into(), if case.offload { "on" } else { "off" }.into(), case.flows.to_string()]
}

fn table(results: &Results) -> Table {
    let columns = [
        "queue at",
        "TSO",
        "transfers",
        "kernel: mean",
        "p99",
        "simulator: mean",
        "p99",
        "mean delay of the kernel's queue, ms",
    ];
    let mut table = Table::new("waiting packets of 1500 bytes", &columns);
    let values: [fn(&Waiting) -> f64; 2] = [|waiting| waiting.mean, |waiting| waiting.p99];
    for case in CASES {
        let mut row: Vec<Cell> = name(case).into_iter().map(Cell::from).collect();
        for (arm, _) in ARMS {
            for value in values {
                row.push(Cell::quantity(&Quantity::of_runs(&results.of(arm, case, value)), 1));
            }
        }
        let delay =
            results.mean(Arm::Kernel, case).iter().map(|m| m * PACKET_MS).collect::<Vec<_>>();
        row.push(Cell::quantity(&Quantity::of_runs(&delay), 1));
        table.row(row);
    }
    table
}

fn claims(results: &Results) -> Vec<Claim> {
    let mut two = Claim::new(
        "TSQ keeps approximately two packets of a socket in its host's queue (1 to 3, without TSO)",
        TSQ,
    );
    let mut few = Claim::new(
        "TSQ keeps at most six packets of a socket in its host's queue, without TSO",
        Provenance::Inferred {
            from: "Linux and the simulator allow the data of a millisecond at the pacing rate, if \
                   that is more than two packets",
        },
    );
    let mut lower = Claim::new("TSQ mitigates bufferbloat: a router's queue is longer", TSQ);
    let mut each = Claim::new(
        "the limit applies to each socket: with four transfers about four times as many packets \
         wait (2 to 6)",
        TSQ,
    );
    let mut trains = Claim::new(
        "TSO lengthens the queue, since two packets are then two trains",
        Provenance::Inferred { from: "the limit of TSQ counts packets before segmentation" },
    );
    for (arm, name) in ARMS {
        let mean = |case| results.mean(arm, case);
        let ratio = |over, under| Quantity::ratio(&mean(over), &mean(under));
        let alone = Quantity::of_runs(&mean(ALONE));
        two = two.expect(format!("{name}: packets"), alone, Range::within(1.0, 3.0));
        few = few.expect(format!("{name}: packets"), alone, Range::at_most(6.0));
        lower = lower.expect(
            format!("{name}: ratio of end host to router"),
            ratio(ALONE, Case { place: Place::Router, ..ALONE }),
            Range::below(0.5),
        );
        each = each.expect(
            format!("{name}: ratio of four transfers to one"),
            ratio(Case { flows: MANY, ..ALONE }, ALONE),
            Range::within(2.0, 6.0),
        );
        trains = trains.expect(
            format!("{name}: ratio with TSO to without"),
            ratio(Case { offload: true, ..ALONE }, ALONE),
            Range::above(1.5),
        );
    }
    let mut agree = Claim::new(
        "simulation agrees with experiment (mean lengths within 25 %; the limit is ours)",
        published(DOCUMENT, "abstract: simulations accurately reproduce experiments"),
    );
    for case in CASES {
        let simulated = Quantity::of_runs(&results.mean(Arm::Simulated, case)).mean();
        let kernel = Quantity::of_runs(&results.mean(Arm::Kernel, case));
        let [place, offload, flows] = name(case);
        agree = agree.expect(
            format!("{place}, TSO {offload}, {flows} transfers: difference of the kernel in %"),
            simulated.map_or(Quantity::exact(None), |simulated| kernel.difference(simulated)),
            Range::up_to(25.0),
        );
    }
    vec![two, few, lower, each, trains, agree]
}

fn plot(results: &Results) -> Plot {
    let series = ARMS.into_iter().filter_map(|(arm, name)| {
        let points: Vec<[f64; 2]> = (1..)
            .zip(CASES)
            .filter_map(|(n, case)| {
                Some([f64::from(n), Quantity::of_runs(&results.mean(arm, case)).mean()?])
            })
            .collect();
        let series =
            Series { name: name.to_owned(), style: Style::Dots, points, ..Series::default() };
        (!series.points.is_empty()).then_some(series)
    });
    Plot {
        name: "waiting".into(),
        title: "Packets that wait in the queue".into(),
        description: "Mean number of waiting packets for each row of the table, kernel and \
                      simulator."
            .into(),
        x: Axis::new("row of the table", Unit::Count),
        y: Axis { log: true, ..Axis::new("waiting packets of 1500 bytes", Unit::Count) },
        series: series.collect(),
    }
}

const TSQ: Provenance = published(DOCUMENT, "section 2, on TCP small queues");
/// One transfer without offload at the end host.
const ALONE: Case = Case { place: Place::EndHost, offload: false, flows: 1 };
const MANY: u32 = 4;
const CASES: [Case; 6] = [
    ALONE,
    Case { flows: MANY, ..ALONE },
    Case { offload: true, ..ALONE },
    Case { offload: true, flows: MANY, ..ALONE },
    Case { place: Place::Router, ..ALONE },
    Case { place: Place::Router, offload: true, ..ALONE },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_small_queues_keep_few_packets_and_a_router_keeps_many() {
        let alone = model::run(&ALONE, 1);
        assert!(alone.mean <= 6.0 && alone.mean > 0.5, "{alone:?}");
        let router = model::run(&Case { place: Place::Router, ..ALONE }, 1);
        assert!(router.mean > 20.0, "{router:?}");
        let train = model::run(&Case { offload: true, ..ALONE }, 1);
        assert!(train.mean > 1.5 * alone.mean, "{train:?} {alone:?}");
    }

    #[test]
    fn without_the_kernel_its_claims_cannot_be_judged_and_the_reason_is_noted() {
        let waiting = Waiting { mean: 2.0, p99: 3.0 };
        let results = Results {
            simulated: vec![vec![waiting; 3]; CASES.len()],
            kernel: Err("no root".into()),
        };
        let finding = finding(&results);
        let verdict = weir_report::finding::Verdict::Holds;
        assert!(finding.claims.iter().all(|claim| claim.verdict() != verdict));
        assert!(finding.notes[2].contains("no root"), "{:?}", finding.notes);
        assert_eq!(finding.tables[0].rows[0][3], Cell::Empty);
    }
}
