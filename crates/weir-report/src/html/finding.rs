//! The finding of an experiment or of a suite as one HTML file: claims with their verdicts, tables,
//! plots.

use maud::{Markup, html};

use super::page::{SIZES, page, pictures, row, table};
use crate::finding::{Cell, Claim, Finding, Provenance, Table, Verdict, mark};
use crate::plot::Plot;

/// A finding as one self-contained HTML document. If there are as many plots as tables, each plot
/// follows its table.
pub fn finding_to_html(finding: &Finding) -> String {
    let content = html! {
        header {
            p.brand { "Weir " span { "experiment" } }
            h1 { (finding.title) }
        }
        (body(finding, "s", &[]))
        footer { "Made by Weir." }
    };
    let result = serde_json::to_string(finding).expect("plain data always serialises");
    page(&finding.title, &content, &result, &[])
}

/// A finding without its title: notes, claims, tables and plots, then `more` plots, and the list of
/// provenances. `id` begins the identifiers of the pictures.
pub(super) fn body(finding: &Finding, id: &str, more: &[Plot]) -> Markup {
    let plots: Vec<Plot> =
        finding.plots.iter().map(Plot::from).chain(more.iter().cloned()).collect();
    let paired = plots.len() == finding.tables.len();
    let provenances = finding.provenances();
    html! {
        @for note in &finding.notes { p.note { (note) } }
        (claims(&finding.claims, &provenances))
        @for (n, table) in finding.tables.iter().enumerate() {
            section {
                h3.table { (table.title) }
                (numbers(table, &provenances))
                @if paired { (figures(&format!("{id}{n}"), &plots[n..=n])) }
            }
        }
        @if !paired { section { (figures(&format!("{id}0"), &plots)) } }
        @if !provenances.is_empty() {
            h3.table { "Provenance" }
            ol.provenance {
                @for provenance in &provenances { li { (provenance) } }
            }
        }
    }
}

fn claims(claims: &[Claim], provenances: &[&Provenance]) -> Markup {
    if claims.is_empty() {
        return Markup::default();
    }
    let rows = claims.iter().map(|claim| {
        let class = match claim.verdict() {
            Verdict::Holds => "good",
            Verdict::CannotBeJudged => "open",
            Verdict::Differs => "bad",
        };
        let own = claim.provenance();
        html! {
            tr {
                th scope="row" { (claim.words()) }
                td class=(class) { (claim.verdict().words()) }
                td data-name="seeds" { (claim.seeds()) }
                td {
                    @if claim.conditions().len() > 1 {
                        details {
                            summary { (claim.detail()) }
                            ul { @for condition in claim.conditions() { li { (condition.text()) } } }
                        }
                    } @else { (claim.detail()) }
                }
                td title=(own) { (own.kind()) " " (mark(provenances, own)) }
            }
        }
    });
    let columns = ["claim", "verdict", "seeds", "measured (95 % interval)", "provenance"];
    table("Claims", Some("claims"), &columns, rows)
}

fn numbers(found: &Table, provenances: &[&Provenance]) -> Markup {
    let text = |cell: &Cell| {
        if *cell == Cell::Empty {
            return Markup::default();
        }
        html! {
            (cell.text())
            @if let Some(own) = cell.provenance() {
                small title=(own) { (mark(provenances, own)) }
            }
        }
    };
    let rows = found.rows.iter().filter_map(|cells| {
        let (heading, rest) = cells.split_first()?;
        Some(row(heading.text(), rest.iter().map(text)))
    });
    table(&found.title, Some("numbers"), &found.columns, rows)
}

fn figures(id: &str, plots: &[Plot]) -> Markup {
    html! {
        div.plots {
            @for (n, plot) in plots.iter().enumerate() {
                figure {
                    figcaption { h3 { (plot.title) } }
                    div class="plot v0" { (pictures(plot, &format!("{id}-{n}"), SIZES)) }
                    p.remark { (plot.description) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::finding::{Axis, Quantity, Range, Series};

    use super::*;

    #[test]
    fn a_page_has_verdicts_tables_and_pictures_and_escapes_words() {
        let mut table = Table::new("a < b", &["queue", "delay"]);
        table.row(vec!["<x>".into(), Cell::number(1.25, 1)]);
        let plot = crate::finding::Plot {
            title: "p".to_owned(),
            x: Axis::new("x", Default::default()),
            y: Axis::new("y", Default::default()),
            series: vec![Series {
                name: "s".to_owned(),
                points: vec![[1.0, 2.0]],
                ..Series::default()
            }],
            ..Default::default()
        };
        let finding = Finding {
            title: "T".to_owned(),
            tables: vec![table],
            claims: vec![Claim::new("grows", Provenance::Inferred { from: "a < b" }).expect(
                "growth",
                Quantity::exact(0.5),
                Range::above(1.0),
            )],
            plots: vec![plot],
            notes: vec!["n & m".to_owned()],
        };
        let page = finding_to_html(&finding);
        assert!(
            page.contains("a &lt; b")
                && page.contains("&lt;x&gt;")
                && page.contains("<td>1.2</td>")
                && !page.contains("<x>")
        );
        assert!(page.contains("inferred: a &lt; b") && page.contains("n &amp; m"));
        assert!(page.contains("differs") && page.matches("<svg").count() == 2);
    }
}
