//! A finding as text for a terminal: tables, claims with their verdicts, and the provenance of
//! every reference value.

use std::fmt::Write as _;

use weir_report::finding::{Finding, Provenance, Verdict, mark};

use crate::table::Table;

pub(super) fn text(finding: &Finding) -> String {
    let provenances = finding.provenances();
    let mut text = format!("{}\n", finding.title);
    for note in &finding.notes {
        let _ = writeln!(text, "Note: {note}");
    }
    for table in &finding.tables {
        let mut shown = Table::new(&table.columns);
        for row in &table.rows {
            shown.add_row(row.iter().map(|cell| cell.marked(&provenances)).collect());
        }
        let _ = write!(text, "\n{}\n{}", table.title, shown.text());
    }
    text.push('\n');
    text += &claims(finding, &provenances);
    if !provenances.is_empty() {
        text += "\nProvenance:\n";
    }
    for (n, provenance) in (1..).zip(&provenances) {
        let _ = writeln!(text, "  [{n}] {provenance}");
    }
    let _ = writeln!(text, "\nVerdict: {}.\n", verdict(finding));
    text
}

fn claims(finding: &Finding, provenances: &[&Provenance]) -> String {
    let mut table = Table::new(["claim", "verdict", "seeds", "from", "measured (95 % interval)"])
        .left_aligned();
    for claim in &finding.claims {
        let verdict = match claim.verdict() {
            Verdict::Differs => "DIFFERS",
            verdict => verdict.words(),
        };
        table.add_row(vec![
            claim.words().to_owned(),
            verdict.to_owned(),
            claim.seeds(),
            mark(provenances, claim.provenance()),
            claim.detail().to_owned(),
        ]);
    }
    table.text()
}

/// The verdict on all claims together.
fn verdict(finding: &Finding) -> String {
    let [holds, differs, undecided] =
        [Verdict::Holds, Verdict::Differs, Verdict::CannotBeJudged].map(|v| finding.count(v));
    let all = finding.claims.len();
    format!("{holds} of {all} claims hold, {differs} differ, {undecided} cannot be judged")
}

#[cfg(test)]
mod tests {
    use weir_report::finding::{Cell, Claim, Quantity, Range, Table};

    use super::*;

    const PAPER: Provenance = Provenance::Published { document: "A paper", place: "table 1" };

    #[test]
    fn text_shows_marks_verdicts_and_provenance() {
        let mut table = Table::new("waits, ms", &["system", "reference", "measured"]);
        table.row(vec![
            "FIFO".into(),
            Cell::reference(2.0, 1, PAPER),
            Cell::quantity(&Quantity::of_runs(&[2.4, 2.5, 2.6]), 1),
        ]);
        let waits = |limit| {
            Claim::new("it waits", PAPER).expect(
                "mean, ms",
                Quantity::of_runs(&[2.4, 2.5, 2.6]),
                Range::below(limit),
            )
        };
        let finding = Finding {
            title: "A queue".into(),
            tables: vec![table],
            claims: vec![waits(3.0), waits(2.0), waits(2.5)],
            notes: vec!["mind this".into()],
            ..Finding::default()
        };
        let text = text(&finding);
        for expected in [
            "A queue\nNote: mind this\n\nwaits, ms\n  system  reference   measured\n",
            "  FIFO      2.0 [1]  2.5 ± 0.2\n",
            "it waits  holds             3      [1]   mean, ms: 2.50 (2.25 to 2.75); claimed \
             below 3.00",
            "DIFFERS",
            "  [1] published: A paper, table 1\n",
            "Verdict: 1 of 3 claims hold, 1 differ, 1 cannot be judged.",
        ] {
            assert!(text.contains(expected), "no {expected:?} in\n{text}");
        }
    }
}
