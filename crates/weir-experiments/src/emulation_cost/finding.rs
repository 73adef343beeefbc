//! The experiment's tables, claims and plot.

use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Provenance, Quantity, Range, Series, Style, Table, Unit,
};

use super::work::{HOSTS, PIPES, Part, RULES, Row, WHOLE, WHOLE_RULES};
use crate::sources::{QFQ_TALK, published};

pub(super) fn finding(rows: &[Row]) -> Finding {
    let mut notes = vec![
        "The published times were measured in a kernel on a machine of 2010, so the claims are \
         about ratios and growth. The classifier includes the parsing of the frame's headers; \
         neither part includes the operating system."
            .to_owned(),
    ];
    if rows.iter().all(|row| row.instructions.is_none()) {
        notes.push("Instructions were not counted: valgrind is not installed.".to_owned());
    }
    Finding {
        title: "What a packet costs in the classifier and in the engine".into(),
        tables: vec![
            table(rows, "classifier: rules that are tried one after another", Part::Tests, &RULES),
            table(rows, "classifier: rules for one host each", Part::Hosts, &HOSTS),
            table(rows, "emulation: pipes with a load of 80 % each", Part::Pipes, &PIPES),
            table(
                rows,
                "classifier with 20 rules, the last of which selects the pipe by a table, and \
                 emulation",
                Part::Whole,
                &[WHOLE],
            ),
        ],
        claims: claims(rows),
        plots: vec![plot(rows)],
        notes,
        ..Finding::default()
    }
}

fn row(rows: &[Row], part: Part, size: u32) -> Option<&Row> {
    rows.iter().find(|row| row.case.part == part && row.case.size == size)
}

fn times(rows: &[Row], part: Part, size: u32) -> &[f64] {
    row(rows, part, size).map_or(&[], |row| &row.times)
}

fn instructions(rows: &[Row], part: Part, size: u32) -> Option<f64> {
    row(rows, part, size)?.instructions
}

fn table(rows: &[Row], title: &str, part: Part, sizes: &[u32]) -> Table {
    let what = if matches!(part, Part::Tests | Part::Hosts) { "rules" } else { "pipes" };
    let columns = [what, "ns, published", "ns of a packet", "instructions of a packet"];
    let mut table = Table::new(title, &columns);
    for &size in sizes {
        let stated = match (part, size) {
            (Part::Tests, 1) => Cell::quoted("400", CLASSIFIER),
            (Part::Tests, WHOLE_RULES) => Cell::quoted("1000", CLASSIFIER),
            (Part::Pipes, 1000) => Cell::quoted("up to 1500", EMULATION),
            (Part::Whole, _) => Cell::quoted("2000 to 3000, scheduling included", OVERALL),
            _ => Cell::Empty,
        };
        let counted = instructions(rows, part, size);
        table.row(vec![
            Cell::number(f64::from(size), 0),
            stated,
            Cell::quantity(&Quantity::of_runs(times(rows, part, size)), 1),
            counted.map_or(Cell::Empty, |count| Cell::number(count, 0)),
        ]);
    }
    table
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let counted = rows.iter().any(|row| row.instructions.is_some());
    // Adds a condition on processor time and, if instructions were counted, one on instructions.
    let ratio = |claim: Claim, what: &str, part, [many, few]: [u32; 2], range: Range| {
        let time = Quantity::ratio(times(rows, part, many), times(rows, part, few));
        let claim = claim.expect(format!("{what}: time"), time, range);
        if !counted {
            return claim;
        }
        let of = |size| instructions(rows, part, size);
        let quotient = of(many).zip(of(few)).map(|(many, few)| many / few);
        claim.expect(format!("{what}: instructions"), Quantity::exact(quotient), range)
    };
    let twenty = ratio(
        Claim::new("with 20 rules the classifier costs at most 2.5 times one rule", CLASSIFIER),
        "ratio of 20 rules to 1",
        Part::Tests,
        [20, 1],
        Range::at_most(2.5),
    );
    let mut linear = Claim::new(
        "the classifier's cost is a constant and a part proportional to the number of rules",
        CLASSIFIER,
    )
    .expect("cost of 900 more rules, ratio to that of 90 more: time", growth(rows), TENFOLD);
    if counted {
        let of = |size| instructions(rows, Part::Tests, size).unwrap_or(f64::NAN);
        let grown = (of(1000) - of(100)) / (of(100) - of(10));
        linear = linear.expect(
            "cost of 900 more rules, ratio to that of 90 more: instructions",
            Quantity::exact(grown),
            TENFOLD,
        );
    }
    let indexed = ratio(
        Claim::new(
            "a thousand times as many rules cost less than twice as much if they differ in the \
             host",
            Provenance::Inferred { from: "the classifier looks such rules up in an index" },
        ),
        "ratio of 10,000 rules to 10",
        Part::Hosts,
        [10_000, 10],
        Range::below(2.0),
    );
    let mut slow = Claim::new(
        "emulation grows with the logarithm of the number of pipes: ten times as many pipes cost \
         less than twice as much",
        EMULATION,
    );
    for pair in PIPES[..4].windows(2) {
        let what = format!("ratio of {} pipes to {}", pair[1], pair[0]);
        slow = ratio(slow, &what, Part::Pipes, [pair[1], pair[0]], Range::below(2.0));
    }
    let mut several = Claim::new(
        "from ten pipes on, ten times as many pipes cost less than twice as much",
        Provenance::Inferred {
            from: "a single pipe is cheaper, since it has no other pipe to wait for",
        },
    );
    for pair in PIPES[1..4].windows(2) {
        let what = format!("ratio of {} pipes to {}", pair[1], pair[0]);
        several = ratio(several, &what, Part::Pipes, [pair[1], pair[0]], Range::below(2.0));
    }
    let beyond = ratio(
        Claim::new(
            "beyond the published 1,000 pipes, ten times as many cost less than twice as much",
            Provenance::Inferred { from: "the order of events, which all pipes share" },
        ),
        "ratio of 10,000 pipes to 1,000",
        Part::Pipes,
        [10_000, 1000],
        Range::below(2.0),
    );
    vec![twenty, linear, indexed, slow, several, beyond]
}

/// The time that 900 more rules take, divided by the time that 90 more rules take, by run.
fn growth(rows: &[Row]) -> Quantity {
    let [few, some, many] = [10, 100, 1000].map(|size| times(rows, Part::Tests, size));
    let runs = few.iter().zip(some).zip(many);
    Quantity::of_runs(
        &runs.map(|((few, some), many)| (many - some) / (some - few)).collect::<Vec<_>>(),
    )
}

fn plot(rows: &[Row]) -> Plot {
    let curve = |name: &str, part, style, sizes: &[u32]| Series {
        name: name.to_owned(),
        style,
        points: sizes
            .iter()
            .filter_map(|&size| {
                let mean = Quantity::of_runs(times(rows, part, size)).mean()?;
                Some([f64::from(size), mean])
            })
            .collect(),
        ..Series::default()
    };
    let dots = |name: &str, provenance, points: &[[f64; 2]]| Series {
        name: name.to_owned(),
        style: Style::Dots,
        points: points.to_vec(),
        provenance: Some(provenance),
    };
    Plot {
        name: "cost".into(),
        title: "Cost of a packet".into(),
        description: "Processor time of a packet over the number of rules or pipes, measured, \
                      with the published points."
            .into(),
        x: Axis { log: true, ..Axis::new("rules or pipes", Unit::Count) },
        y: Axis { log: true, ..Axis::new("processor time of a packet", Unit::Nanoseconds) },
        series: vec![
            curve("rules, one after another", Part::Tests, Style::Line, &RULES),
            curve("rules for hosts", Part::Hosts, Style::Line, &HOSTS),
            curve("pipes", Part::Pipes, Style::Line, &PIPES),
            dots("classifier, published", CLASSIFIER, &[[1.0, 400.0], [20.0, 1000.0]]),
            dots("emulation, published", EMULATION, &[[1000.0, 1500.0]]),
        ],
    }
}

const CLASSIFIER: Provenance =
    published(QFQ_TALK, "performance: classifier, 400 to 1,000 ns with up to 20 rules");
const EMULATION: Provenance =
    published(QFQ_TALK, "performance: emulation, up to 1.5 us with 1,000 pipes");
const OVERALL: Provenance = published(QFQ_TALK, "performance: 2 to 3 us overall");
/// A factor of ten, with a margin for caches and branch predictors.
const TENFOLD: Range = Range::within(7.0, 13.0);

#[cfg(test)]
mod tests {
    use weir_report::finding::Verdict;

    use super::*;
    use crate::emulation_cost::work::cases;

    fn rows(cost: fn(Part, f64) -> f64, counted: bool) -> Vec<Row> {
        cases()
            .map(|case| {
                let each = cost(case.part, f64::from(case.size));
                let times = [0.99, 1.0, 1.01].map(|noise| each * noise).to_vec();
                Row { case, times, instructions: counted.then_some(each * 4.0) }
            })
            .collect()
    }

    #[test]
    fn verdicts_follow_the_growth_of_the_costs() {
        let published = |part, size: f64| match part {
            Part::Tests => 400.0 + 30.0 * size,
            Part::Pipes => 300.0 + 400.0 * libm::log10(size),
            _ => 500.0,
        };
        let grows = |_, size: f64| 100.0 * size;
        for counted in [false, true] {
            let verdicts = |cost| {
                let finding = finding(&rows(cost, counted));
                finding.claims.iter().map(Claim::verdict).collect::<Vec<_>>()
            };
            // The claim about one to 1,000 pipes differs: ten pipes cost more than twice as much
            // (700 ns) as one pipe (300 ns).
            let (yes, no) = (Verdict::Holds, Verdict::Differs);
            assert_eq!(verdicts(published), [yes, yes, yes, no, yes, yes]);
            assert_eq!(verdicts(grows), [no, yes, no, no, no, no]);
        }
        let unmeasured = finding(&[]);
        assert!(unmeasured.claims.iter().all(|c| c.verdict() == Verdict::CannotBeJudged));
    }
}
