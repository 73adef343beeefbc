//! The finding of an experiment or of a suite as one HTML file: claims with their verdicts, tables,
//! plots.

use std::fmt::Write;

use crate::finding::{Cell, Claim, Finding, Table};

use super::{NARROW, WIDE, close, opened};
use crate::plot::{Plot, escape};

/// A finding as one self-contained HTML document. If there are as many plots as tables, each plot
/// follows its table.
pub fn finding_to_html(finding: &Finding) -> String {
    let mut out = opened(&format!("{} · Weir", finding.title));
    let _ = writeln!(
        out,
        "<header>\n<p class=\"brand\">Weir <span>experiment</span></p>\n<h1>{}</h1>\n</header>",
        escape(&finding.title)
    );
    claims(&mut out, &finding.claims);
    let plots: Vec<Plot> = finding.plots.iter().map(Plot::from).collect();
    let paired = plots.len() == finding.tables.len();
    for (n, table) in finding.tables.iter().enumerate() {
        let _ = writeln!(out, "<section>\n<h2>{}</h2>", escape(&table.title));
        self::table(&mut out, table);
        if paired {
            pictures(&mut out, n, &plots[n..=n]);
        }
        out.push_str("</section>\n");
    }
    if !paired {
        out.push_str("<section>\n");
        pictures(&mut out, 0, &plots);
        out.push_str("</section>\n");
    }
    out.push_str("<footer>Made by Weir.</footer>");
    close(&mut out, &serde_json::to_string(finding).expect("plain data always serialises"), &[]);
    out
}

fn claims(out: &mut String, claims: &[Claim]) {
    if claims.is_empty() {
        return;
    }
    head(out, "Claims", "", &["claim".to_owned(), "verdict".to_owned(), "measured".to_owned()]);
    for Claim { words, holds, detail } in claims {
        let verdict = match holds {
            Some(true) => "holds",
            Some(false) => "differs",
            None => "not tried",
        };
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{verdict}</td><td>{}</td></tr>",
            escape(words),
            escape(detail)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

fn table(out: &mut String, table: &Table) {
    head(out, &table.title, " class=\"numbers\"", &table.columns);
    for row in &table.rows {
        out.push_str("<tr>");
        for (n, cell) in row.iter().enumerate() {
            let text = escape(&cell.text());
            let _ = match (n, cell) {
                (0, _) => write!(out, "<th scope=\"row\">{text}</th>"),
                (_, Cell::Empty) => write!(out, "<td></td>"),
                _ => write!(out, "<td>{text}</td>"),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn head(out: &mut String, label: &str, class: &str, columns: &[String]) {
    let label = escape(label);
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\"><table{class}>\n<thead><tr>"
    );
    for column in columns {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(column));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
}

fn pictures(out: &mut String, first: usize, plots: &[Plot]) {
    out.push_str("<div class=\"plots\">\n");
    for (n, plot) in plots.iter().enumerate() {
        let _ = write!(
            out,
            "<figure><figcaption><h3>{}</h3></figcaption><div class=\"plot v0\">",
            escape(&plot.title)
        );
        for (class, size) in [("wide", WIDE), ("narrow", NARROW)] {
            let _ = write!(
                out,
                "<div class=\"{class}\">{}</div>",
                plot.svg(size, &format!("s{first}-{n}{class}"))
            );
        }
        let _ =
            writeln!(out, "</div><p class=\"remark\">{}</p></figure>", escape(&plot.description));
    }
    out.push_str("</div>\n");
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
