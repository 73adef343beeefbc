//! The finding of an experiment or of a suite as one HTML file: claims with their verdicts, tables,
//! plots.

use maud::{Markup, html};

use super::page::{SIZES, page, pictures, row, table};
use crate::finding::{Cell, Claim, Finding, Table};
use crate::plot::Plot;

/// A finding as one self-contained HTML document. If there are as many plots as tables, each plot
/// follows its table.
pub fn finding_to_html(finding: &Finding) -> String {
    let plots: Vec<Plot> = finding.plots.iter().map(Plot::from).collect();
    let paired = plots.len() == finding.tables.len();
    let content = html! {
        header {
            p.brand { "Weir " span { "experiment" } }
            h1 { (finding.title) }
        }
        (claims(&finding.claims))
        @for (n, table) in finding.tables.iter().enumerate() {
            section {
                h2 { (table.title) }
                (numbers(table))
                @if paired { (figures(n, &plots[n..=n])) }
            }
        }
        @if !paired { section { (figures(0, &plots)) } }
        footer { "Made by Weir." }
    };
    let result = serde_json::to_string(finding).expect("plain data always serialises");
    page(&finding.title, &content, &result, &[])
}

fn claims(claims: &[Claim]) -> Markup {
    if claims.is_empty() {
        return Markup::default();
    }
    let rows = claims.iter().map(|Claim { words, holds, detail }| {
        let verdict = match holds {
            Some(true) => "holds",
            Some(false) => "differs",
            None => "not tried",
        };
        row(words, [verdict, detail.as_str()])
    });
    table("Claims", None, &["claim", "verdict", "measured"], rows)
}

fn numbers(found: &Table) -> Markup {
    let text = |cell: &Cell| if *cell == Cell::Empty { String::new() } else { cell.text() };
    let rows = found.rows.iter().filter_map(|cells| {
        let (heading, rest) = cells.split_first()?;
        Some(row(heading.text(), rest.iter().map(text)))
    });
    table(&found.title, Some("numbers"), &found.columns, rows)
}

fn figures(first: usize, plots: &[Plot]) -> Markup {
    html! {
        div.plots {
            @for (n, plot) in plots.iter().enumerate() {
                figure {
                    figcaption { h3 { (plot.title) } }
                    div class="plot v0" { (pictures(plot, &format!("s{first}-{n}"), SIZES)) }
                    p.remark { (plot.description) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::finding::{Axis, Series};

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
            claims: vec![Claim::tried("grows", false, "no")],
            plots: vec![plot],
        };
        let page = finding_to_html(&finding);
        assert!(
            page.contains("a &lt; b")
                && page.contains("&lt;x&gt;")
                && page.contains("<td>1.2</td>")
                && !page.contains("<x>")
        );
        assert!(page.contains("differs") && page.matches("<svg").count() == 2);
    }
}
