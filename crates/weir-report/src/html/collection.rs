//! Many findings as one HTML page: an index of verdicts, then a chapter for each experiment.
//!
//! A [`Chapter`] is plain data that can be stored and read again. A page can therefore be completed
//! without repeating the experiments that have chapters already.

use maud::{Markup, PreEscaped, html};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::finding::body;
use super::page::{meta, page_with, row, table, values};
use crate::finding::{Finding, Verdict};
use crate::plot::Plot;

/// An experiment on the page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chapter {
    name: String,
    summary: String,
    source: String,
    state: State,
}

/// The result of an experiment, or the reason why there is none.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum State {
    Skipped {
        reason: String,
    },
    Done {
        /// Numbers of claims that hold, differ and cannot be judged.
        verdicts: [usize; 3],
        /// The words of the claims that differ.
        differ: Vec<String>,
        /// The body as HTML.
        body: String,
        /// The finding as JSON text, so that its numbers stay as they are.
        result: String,
        /// The values of the plots as JSON text: a list.
        #[serde(default)]
        values: String,
        /// Number of plots in `values`.
        #[serde(default)]
        plots: usize,
    },
}

impl Chapter {
    /// The chapter of an experiment that ran. `more` plots follow those of the finding.
    pub fn done([name, summary, source]: [&str; 3], finding: &Finding, more: &[Plot]) -> Self {
        let verdicts = [Verdict::Holds, Verdict::Differs, Verdict::CannotBeJudged];
        let differ = finding.claims.iter().filter(|claim| claim.verdict() == Verdict::Differs);
        let mut plots = Vec::new();
        let content = html! {
            p.spec { (finding.title) }
            (body(finding, name, more, &mut plots))
        };
        let values = values(&plots);
        let state = State::Done {
            verdicts: verdicts.map(|verdict| finding.count(verdict)),
            differ: differ.map(|claim| claim.words().to_owned()).collect(),
            body: content.into_string(),
            result: serde_json::to_string(finding).expect("plain data always serialises"),
            values,
            plots: plots.len(),
        };
        Self { name: name.into(), summary: summary.into(), source: source.into(), state }
    }

    /// The chapter of an experiment that could not run.
    pub fn skipped([name, summary, source]: [&str; 3], reason: impl Into<String>) -> Self {
        let state = State::Skipped { reason: reason.into() };
        Self { name: name.into(), summary: summary.into(), source: source.into(), state }
    }

    /// The name of the experiment.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the experiment ran.
    pub const fn is_done(&self) -> bool {
        matches!(self.state, State::Done { .. })
    }

    fn index_row(&self) -> Markup {
        let link =
            html! { a href={ "#" (self.name) } { (self.name) } " " small { (self.summary) } };
        let cells = match &self.state {
            State::Skipped { reason } => {
                [html! {}, html! {}, html! {}, html! { span.open { "skipped: " (reason) } }]
            }
            State::Done { verdicts: [holds, differs, open], differ, .. } => [
                html! { (holds) },
                html! { span.bad[*differs > 0] { (differs) } },
                html! { (open) },
                html! { (differ.join("; ")) },
            ],
        };
        row(link, cells)
    }

    /// The chapter. `first` is the index of its first plot among all plots of the page.
    fn section(&self, first: usize) -> Markup {
        html! {
            section.chapter id=(self.name) data-first=(first) {
                h2 { (self.name) " " span { (self.summary) } }
                p.note { "Source: " (self.source) }
                @match &self.state {
                    State::Skipped { reason } => p.warning { strong { "Skipped:" } " " (reason) },
                    // `body` wrote this HTML, and escapes all text.
                    State::Done { body, .. } => (PreEscaped(body)),
                }
            }
        }
    }
}

/// The page with all chapters as one self-contained HTML document. `entries` are names with values
/// that describe how the results were made.
pub fn chapters_to_html(entries: &[(&str, String)], chapters: &[Chapter]) -> String {
    let title = "Published experiments, reproduced";
    let total = chapters.iter().fold([0; 3], |mut total, chapter| {
        if let State::Done { verdicts, .. } = &chapter.state {
            total.iter_mut().zip(verdicts).for_each(|(sum, count)| *sum += count);
        }
        total
    });
    let [holds, differs, open] = total;
    let skipped = chapters.iter().filter(|chapter| !chapter.is_done()).count();
    let columns = ["experiment", "hold", "differ", "cannot be judged", "claims that differ"];
    let (mut first, mut firsts, mut plots) = (0, Vec::new(), Vec::new());
    for chapter in chapters {
        firsts.push(first);
        if let State::Done { values, plots: count, .. } = &chapter.state {
            first += count;
            let list = values.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
            plots.extend(list.filter(|list| !list.is_empty()));
        }
    }
    let content = html! {
        header {
            p.brand { "Weir " span { "reproductions" } }
            h1 { (title) }
            (meta(entries.iter().map(|(name, value)| (*name, value.clone()))))
            p {
                "Claims: " (holds) " held, " (differs) " differed, " (open)
                " could not be judged. Experiments: " (chapters.len() - skipped) " run, "
                (skipped) " skipped."
            }
            p.note {
                "A claim holds if the 95 % intervals of all its quantities are inside the claimed "
                "ranges, and differs if one is outside. It cannot be judged if an interval \
                 contains "
                "a limit or a quantity was not measured. A mark [n] beside a value names its "
                "provenance, which is listed below each experiment."
            }
        }
        (table("Index", Some("claims index"), &columns, chapters.iter().map(Chapter::index_row)))
        @for (chapter, first) in chapters.iter().zip(&firsts) { (chapter.section(*first)) }
        footer { "Made by Weir." }
    };
    let results = chapters.iter().filter_map(|chapter| match &chapter.state {
        State::Done { result, .. } => Some(format!("{}:{result}", json!(chapter.name))),
        State::Skipped { .. } => None,
    });
    let results = results.collect::<Vec<_>>().join(",");
    page_with(title, &content, &format!("{{{results}}}"), &format!("[{}]", plots.join(",")))
}

#[cfg(test)]
mod tests {
    use crate::finding::{Claim, Provenance, Quantity, Range};

    use super::*;

    fn finding(limit: f64) -> Finding {
        let claim = Claim::new("it <is> so", Provenance::Inferred { from: "x" });
        Finding {
            title: "T & U".into(),
            claims: vec![claim.expect("q", Quantity::of_runs(&[1.0, 1.1]), Range::below(limit))],
            ..Finding::default()
        }
    }

    #[test]
    fn a_page_has_an_index_of_verdicts_and_names_what_was_skipped() {
        let chapters = [
            Chapter::done(["one", "first", "A"], &finding(0.1), &[]),
            Chapter::done(["two", "second", "B"], &finding(10.0), &[]),
            Chapter::skipped(["three", "third", "C"], "needs <root>"),
        ];
        let page = chapters_to_html(&[("Version", "1".into())], &chapters);
        assert!(page.contains("Claims: 1 held, 1 differed, 0 could not be judged."), "{page}");
        assert!(page.contains("href=\"#one\"") && page.contains("id=\"one\""));
        assert!(page.contains("skipped: needs &lt;root&gt;") && !page.contains("<is>"));
        assert!(page.contains("it &lt;is&gt; so") && page.contains("T &amp; U"));
    }

    #[test]
    fn a_stored_chapter_gives_the_same_page() {
        let chapters = [Chapter::done(["one", "first", "A"], &finding(0.1), &[])];
        let text = serde_json::to_string(&chapters).unwrap();
        let read: Vec<Chapter> = serde_json::from_str(&text).unwrap();
        assert_eq!(chapters_to_html(&[], &chapters), chapters_to_html(&[], &read));
    }
}
