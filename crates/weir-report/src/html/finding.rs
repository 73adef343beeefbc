//! The finding of an experiment or of a suite as one HTML file: claims with their verdicts, tables,
//! plots.

use maud::{Markup, html};

use super::charts::{Data, variant};
use super::page::{SIZES, figure_title, page, pictures, row, table};
use crate::finding::{Cell, Claim, Finding, Matrix, Provenance, Table, Verdict, mark};
use crate::plot::Plot;

/// A finding as one self-contained HTML document. Plots that belong to a table follow it; if there
/// are matrices, all plots follow the matrices.
pub fn finding_to_html(finding: &Finding) -> String {
    let mut data = Vec::new();
    let content = html! {
        header {
            p.brand { "Weir " span { "experiment" } }
            h1 { (finding.title) }
        }
        (contents(finding))
        (body(finding, "s", &[], &mut data))
        footer { "Made by Weir." }
    };
    let result = serde_json::to_string(finding).expect("plain data always serialises");
    page(&finding.title, &content, &result, &data)
}

/// Links to the tables, where there are many.
fn contents(finding: &Finding) -> Markup {
    if finding.tables.len() < MANY_TABLES {
        return Markup::default();
    }
    html! {
        nav.contents aria-label="Contents" {
            h3.table { "Contents" }
            ol {
                @for (n, table) in finding.tables.iter().enumerate() {
                    li { a href={ "#s" (n) } { (table.title) } }
                }
            }
        }
    }
}

/// A finding without its title: notes, claims, matrices, tables, the plots of the finding and
/// `more` plots, and the list of provenances. `id` is the prefix of the identifiers of tables and
/// pictures. The values of the plots go to `data`.
pub(super) fn body(finding: &Finding, id: &str, more: &[Plot], data: &mut Vec<Data>) -> Markup {
    let plots: Vec<Plot> =
        finding.plots.iter().map(Plot::from).chain(more.iter().cloned()).collect();
    let each = plots_of_each(&plots, &finding.tables);
    let provenances = finding.provenances();
    html! {
        @for note in &finding.notes { p.note { (note) } }
        (claims(&finding.claims, &provenances))
        @for matrix in &finding.matrices { (coloured(matrix, id, finding)) }
        // Plots beside matrices sum up the tables, and come before them.
        @if !finding.matrices.is_empty() { section { (figures(&format!("{id}o"), &plots, data)) } }
        @for (n, table) in finding.tables.iter().enumerate() {
            section id={ (id) (n) } {
                h3.table { (table.title) }
                (numbers(table, &provenances))
                @if let Some(each) = each.filter(|_| finding.matrices.is_empty()) {
                    (figures(&format!("{id}{n}-"), &plots[n * each..][..each], data))
                }
            }
        }
        @if each.is_none() && finding.matrices.is_empty() {
            section { (figures(&format!("{id}0-"), &plots, data)) }
        }
        @if !provenances.is_empty() {
            h3.table { "Provenance" }
            ol.provenance {
                @for provenance in &provenances { li { (provenance) } }
            }
        }
    }
}

/// The number of plots that follow each table; `None` if the plots do not belong to tables. Plots
/// belong to tables if there is one plot for each table, or if each table has the same number of
/// plots, with titles that begin with the table's title.
fn plots_of_each(plots: &[Plot], tables: &[Table]) -> Option<usize> {
    let each = plots.len().checked_div(tables.len()).filter(|&each| each > 0)?;
    let belong = || {
        plots
            .chunks(each)
            .zip(tables)
            .all(|(plots, table)| plots.iter().all(|plot| plot.title.starts_with(&table.title)))
    };
    (each * tables.len() == plots.len() && (each == 1 || belong())).then_some(each)
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
    let shown = table(&found.title, Some("numbers"), &found.columns, rows);
    if found.rows.len() <= MANY_ROWS {
        return shown;
    }
    html! { details.rows { summary { (found.rows.len()) " rows" } (shown) } }
}

/// A matrix with a colour for each cell: the worse a value is within its row, the stronger the
/// colour.
fn coloured(matrix: &Matrix, id: &str, finding: &Finding) -> Markup {
    let rows = matrix.rows.iter().enumerate().map(|(r, name)| {
        // The title of the table about a situation begins with the situation's name.
        let place = finding.tables.iter().position(|table| table.title.starts_with(name.as_str()));
        let heading = match place {
            Some(n) => html! { a href={ "#" (id) (n) } { (name) } },
            None => html! { (name) },
        };
        let cell = |c: usize| {
            let value = matrix.values[r].get(c).copied().flatten();
            let step = matrix.distance(r, c).map_or(0, |part| (part * 8.0).round() as u8);
            let decimals = usize::from(matrix.decimals);
            html! {
                td class={ "h" (step) } {
                    @match value { Some(value) => (format!("{value:.decimals$}")), None => "-" }
                }
            }
        };
        html! {
            tr { th scope="row" { (heading) } @for c in 0..matrix.columns.len() { (cell(c)) } }
        }
    });
    let columns = [""].into_iter().chain(matrix.columns.iter().map(String::as_str));
    let columns: Vec<&str> = columns.collect();
    let (best, full) = match matrix.more_is_better {
        true => ("greatest", "half of it"),
        false => ("least", "a hundred times as much"),
    };
    html! {
        section.matrix {
            h3.table { (matrix.title) }
            (table(&matrix.title, Some("numbers heat"), &columns, rows))
            p.remark {
                "The " (best) " value of a row has no colour; the strongest colour is " (full)
                "."
            }
        }
    }
}

fn figures(id: &str, plots: &[Plot], data: &mut Vec<Data>) -> Markup {
    let first = data.len();
    data.extend(plots.iter().map(|plot| variant("", "values", plot.clone()).data));
    html! {
        div.plots {
            @for (n, plot) in plots.iter().enumerate() {
                figure.whole[plots.len() == 1] {
                    (figure_title(&plot.title, &Markup::default()))
                    div class="plot v0" data-plot=(first + n) {
                        (pictures(plot, &format!("{id}{n}"), SIZES))
                    }
                    p.remark { (plot.description) }
                }
            }
        }
    }
}

/// From this number of tables on, a page has a list of contents.
const MANY_TABLES: usize = 6;
/// Tables with more rows are folded.
const MANY_ROWS: usize = 24;

#[cfg(test)]
mod tests {
    use crate::finding::{Axis, Quantity, Range, Series};

    use super::*;

    #[test]
    fn a_page_of_many_situations_has_contents_a_matrix_and_folds_long_tables() {
        let table = |n: usize, rows: usize| {
            let mut table = Table::new(format!("{n} <situation>: more"), &["queue", "delay"]);
            (0..rows)
                .for_each(|row| table.row(vec![format!("q{row}").into(), Cell::number(1.0, 1)]));
            table
        };
        let matrix = Matrix {
            title: "Delay, ms".to_owned(),
            columns: vec!["red".to_owned(), "codel".to_owned()],
            rows: vec!["3 <situation>".to_owned(), "elsewhere".to_owned()],
            values: vec![vec![Some(80.0), Some(8.0)], vec![None, Some(1.0)]],
            ..Matrix::default()
        };
        let finding = Finding {
            title: "T".to_owned(),
            tables: (0..7).map(|n| table(n, if n == 6 { 100 } else { 2 })).collect(),
            matrices: vec![matrix],
            ..Finding::default()
        };
        let page = finding_to_html(&finding);
        assert_eq!(page.matches("<li><a href=\"#s").count(), 7);
        assert!(
            page.contains("<a href=\"#s3\">3 &lt;situation&gt;</a>"),
            "a row leads to its table"
        );
        assert!(page.contains("id=\"s3\"") && page.contains("<th scope=\"row\">elsewhere</th>"));
        assert!(page.contains("<td class=\"h4\">80</td><td class=\"h0\">8</td>"), "{page}");
        assert!(page.contains("<td class=\"h0\">-</td>"));
        assert_eq!(page.matches("<details class=\"rows\"><summary>100 rows</summary>").count(), 1);
    }

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
            ..Finding::default()
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
