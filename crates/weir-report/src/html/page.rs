//! The parts that all pages share: the document, tables, lists of values, and plots.
//!
//! `maud` writes the elements and escapes all text. Three things pass unescaped: the style sheets
//! and the script, which are constants and separate files; the pictures of [`Plot::svg`], which
//! escapes for XML itself because it also writes files; and JSON inside a script element, where `<`
//! becomes `\u003c`, so that no text ends the element. Characters that HTML does not allow become
//! U+FFFD.

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

use super::charts::{Chart, Data};
use crate::plot::{Plot, STYLE, Size, is_forbidden};

/// A page: its content, the result for programs, the values of the plots, and the script that reads
/// them.
pub(super) fn page(title: &str, content: &Markup, result: &str, data: &[Data]) -> String {
    page_with(title, content, result, &values(data))
}

pub(super) fn values(data: &[Data]) -> String {
    serde_json::to_string(data).expect("plain data always serialises")
}

/// As [`page`], with the values of the plots as JSON text.
pub(super) fn page_with(title: &str, content: &Markup, result: &str, plots: &str) -> String {
    let title = title.replace(is_forbidden, "\u{FFFD}");
    let content = PreEscaped(content.0.replace(is_forbidden, "\u{FFFD}"));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) " · Weir" }
                style { (PreEscaped(STYLE)) (PreEscaped(PAGE_STYLE)) }
            }
            body {
                (content)
                (json("weir-result", result))
                (json("weir-plots", plots))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string() + "\n"
}

/// JSON for programs and for the page's script. Only `<` could end the script element.
fn json(id: &str, text: &str) -> Markup {
    let text = PreEscaped(text.replace('<', "\\u003c"));
    html! { script type="application/json" id=(id) { (text) } }
}

/// Names with their values in one line.
pub(super) fn meta<'a>(entries: impl IntoIterator<Item = (&'a str, String)>) -> Markup {
    html! {
        dl.meta {
            @for (name, value) in entries {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// A value in large type, for a `dl` of the class `tiles`.
pub(super) fn tile(name: &str, value: impl Render, detail: impl Render) -> Markup {
    html! { div { dt { (name) } dd { (value) small { (detail) } } } }
}

pub(super) fn with_share(number: impl Render, share: impl Render) -> Markup {
    html! { (number) " " i { (share) } }
}

/// A table that scrolls where it is wider than the page. Columns are aligned to the right, except
/// the first one and, without the class `numbers`, the last one. Other classes may change this.
pub(super) fn table(
    label: &str,
    class: Option<&str>,
    columns: &[impl AsRef<str>],
    rows: impl IntoIterator<Item = Markup>,
) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table class=[class] {
                thead { tr { @for column in columns { th scope="col" { (column.as_ref()) } } } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

pub(super) fn row(heading: impl Render, cells: impl IntoIterator<Item = impl Render>) -> Markup {
    html! {
        tr {
            th scope="row" { (heading) }
            @for cell in cells { td { (cell) } }
        }
    }
}

/// A chart in two sizes, of which the style sheet shows the one that fits. A chart with
/// alternatives, such as packets and bytes, has a switch. The values of the chart go to `data`.
pub(super) fn figure(id: &str, chart: Chart, data: &mut Vec<Data>) -> Markup {
    figure_in(id, chart, data, ("half", SIZES))
}

/// As [`figure`], with a CSS class and with both sizes, wide and narrow.
pub(super) fn figure_in(
    id: &str,
    chart: Chart,
    data: &mut Vec<Data>,
    (class, sizes): (&str, [Size; 2]),
) -> Markup {
    let Chart { variants, remark } = chart;
    let title = &variants[0].plot.title;
    let figure = html! {
        figure class=(class) {
            (figure_title(title, &html! {
                @if variants.len() > 1 {
                    span.switch role="radiogroup" aria-label={ (title) ": show" } {
                        @for (k, variant) in variants.iter().enumerate() {
                            label {
                                input type="radio" name=(id) value=(k) checked[k == 0];
                                span { (variant.name) }
                            }
                        }
                    }
                }
            }))
            @for (k, variant) in variants.iter().enumerate() {
                div class={ "plot v" (k) } data-plot=(data.len() + k) {
                    (pictures(&variant.plot, &format!("{id}-{k}"), sizes))
                }
            }
            @if !remark.is_empty() { p.remark { (remark) } }
        }
    };
    data.extend(variants.into_iter().map(|variant| variant.data));
    figure
}

/// The title of a figure with its switch. The script adds buttons that save the picture and its
/// values.
pub(super) fn figure_title(title: &str, switch: &Markup) -> Markup {
    html! { figcaption { h3 { (title) } (switch) } }
}

pub(super) fn pictures(plot: &Plot, id: &str, sizes: [Size; 2]) -> Markup {
    html! {
        @for (class, size) in ["wide", "narrow"].into_iter().zip(sizes) {
            div class=(class) { (PreEscaped(plot.svg(size, &format!("{id}{class}")))) }
        }
    }
}

/// Forbids all fetching, whatever a name in the result contains. Pictures in `data:` URLs are
/// allowed, because the save buttons use them.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";
const PAGE_STYLE: &str = include_str!("report.css");
const SCRIPT: &str =
    concat!(include_str!("detail.js"), include_str!("report.js"), include_str!("save.js"));
/// Sizes of a plot that is next to another one, wide and narrow.
pub(super) const SIZES: [Size; 2] = [Size { width: 600, height: 270 }, NARROW];
pub(super) const NARROW: Size = Size { width: 350, height: 250 };
