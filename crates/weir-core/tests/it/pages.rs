//! Compares the pages of `docs/schedulers/` and `docs/aqm/` with the modules of the algorithms and
//! their tables; `WEIR_UPDATE_DOCS=1` rewrites the pages.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use weir_core::sched::TABLE;
use weir_core::settings::Parameter;
use weir_core::{aqm, sched};

#[test]
fn the_pages_of_the_schedulers_are_up_to_date() {
    let sources = sources("sched");
    let mut index = format!(
        "# Schedulers, one page each\n\n{}\n\nHow to choose a scheduler: \
         [schedulers.md](../schedulers.md).\n\n",
        origin("scheduler")
    );
    index.push_str(
        "`lines` counts the lines of code in the scheduler's own file, without comments, empty \
         lines and tests. Structures that several schedulers use are not included.\n\n\
         | name | what it does | cost of a packet | lines | from |\n|---|---|---|---|---|\n",
    );
    for row in TABLE {
        let source = source(&sources, row.name);
        compare("schedulers", &file(row.name), &scheduler_page(row, source));
        writeln!(
            index,
            "| [{}]({}) | {} | {} | {} | {} |",
            row.name,
            file(row.name),
            row.summary,
            row.traits.complexity,
            lines_of_code(source),
            row.source
        )
        .unwrap();
    }
    compare("schedulers", "README.md", &index);
}

#[test]
fn the_pages_of_the_aqms_are_up_to_date() {
    let sources = sources("aqm");
    let mut index = format!(
        "# AQMs, one page each\n\n{}\n\nAn AQM drops or marks packets so that a queue stays \
         short; every queue can have one, before any scheduler. The AQMs of the second table have \
         their own queues and take the place of a scheduler. `weir rig --aqm all` measures the \
         cost of a decision.\n\n",
        origin("AQM")
    );
    index.push_str("| name | what it does | marks | from |\n|---|---|---|---|\n");
    for row in aqm::TABLE {
        compare("aqm", &file(row.name), &aqm_page(row, source(&sources, row.name)));
        let marks = if row.traits.marks { "yes" } else { "no" };
        writeln!(
            index,
            "| [{}]({}) | {} | {marks} | {} |",
            row.name,
            file(row.name),
            row.summary,
            row.source
        )
        .unwrap();
    }
    let inside = TABLE.iter().filter(|row| row.traits.classifies);
    index.push_str("\n| name | what it does | cost of a packet | from |\n|---|---|---|---|\n");
    for row in inside {
        let file = file(row.name);
        writeln!(
            index,
            "| [{}](../schedulers/{file}) | {} | {} | {} |",
            row.name, row.summary, row.traits.complexity, row.source
        )
        .unwrap();
    }
    compare("aqm", "README.md", &index);
}

fn scheduler_page(row: &sched::Row, source: &str) -> String {
    let mut text = body(row.name, "scheduler", source);
    if row.traits.classifies {
        text += &picture(row.name);
    }
    text.push_str("\n## In the command language\n\n```\n");
    // A shared medium has its own rate, so that its link needs none.
    let rate = if row.name == "dcf" { "" } else { " bw 10Mbit/s" };
    writeln!(text, "sched 1 config type {}{rate}\nqueue 1 config sched 1\n```\n", row.name)
        .unwrap();
    text + &parameters(row.aliases, &[("queue", row.traits.flow), ("sched", row.parameters)])
}

fn aqm_page(row: &aqm::Row, source: &str) -> String {
    let mut text = body(row.name, "AQM", source) + &picture(row.name);
    let setting = row
        .parameters
        .first()
        .map_or(String::new(), |p| format!(" {}={}", p.name, p.domain.write(p.default)));
    write!(
        text,
        "\n## In the command language\n\n```\npipe 1 config bw 10Mbit/s aqm {}{setting}\n```\n\n",
        row.name
    )
    .unwrap();
    text + &parameters(row.aliases, &[("aqm", row.parameters)])
}

/// The number of lines of a module before its tests, without empty lines and lines that are only a
/// comment.
fn lines_of_code(source: &str) -> usize {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// The file name of a row's page.
fn file(name: &str) -> String {
    name.replace('+', "p") + ".md"
}

/// The name of each row in the folder's modules, with the source of its module.
fn sources(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
    let paths = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file());
    let files = paths.map(|path| std::fs::read_to_string(path).unwrap());
    let of_row = |source: String| {
        let row = source.split("const ROW: Row = Row {").nth(1)?;
        let name = row.split("name: \"").nth(1)?.split('"').next()?.to_owned();
        Some((name, source))
    };
    files.filter_map(of_row).collect()
}

fn source<'a>(sources: &'a [(String, String)], name: &str) -> &'a str {
    let found = sources.iter().find(|(known, _)| known == name);
    found
        .map(|(_, source)| source.as_str())
        .unwrap_or_else(|| panic!("no module has the row of {name}"))
}

/// The module's documentation as Markdown.
fn body(name: &str, kind: &str, source: &str) -> String {
    let lines = source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line));
    let mut text = format!("# {name}\n\n{}\n\n", origin(kind));
    let mut fenced = false;
    for line in lines {
        fenced ^= line.starts_with("```");
        let line = if !fenced && line.starts_with("# ") {
            format!("\n#{line}\n")
        } else {
            line.to_owned()
        };
        // Links to code items do not work outside rustdoc.
        text += &line.replace("[`", "`").replace("`]", "`");
        text.push('\n');
    }
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    text
}

/// The picture of a queue with the algorithm, and the algorithm's conformance cases. Either part is
/// absent if there is nothing to show.
fn picture(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    if root.join(format!("../../docs/images/aqm/{name}.svg")).exists() {
        write!(
            text,
            "\n## Under a step of load\n\n![delay of the queue with {name}, and its drops and \
             marks](../images/aqm/{name}.svg)\n\n{STEP}\n"
        )
        .unwrap();
    }
    let files = std::fs::read_dir(root.join("tests/conformance"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut own: Vec<String> = files
        .filter(|file| file.rsplit_once('-').is_some() && file.split('-').next() == Some(name))
        .collect();
    own.sort();
    if !own.is_empty() {
        let links: Vec<String> = own
            .iter()
            .map(|file| {
                format!(
                    "[{}](../../crates/weir-core/tests/conformance/{file})",
                    file.trim_end_matches(".toml")
                )
            })
            .collect();
        write!(
            text,
            "\n## Conformance cases\n\n{}. `weir rig --case FILE` runs a case: \
             [conformance.md](../conformance.md).\n",
            links.join(", ")
        )
        .unwrap();
    }
    text
}

/// The table of parameters. Each list comes with the name of the command that takes its parameters.
fn parameters(aliases: &[&str], parameters: &[(&str, &[Parameter])]) -> String {
    let mut text = String::new();
    if !aliases.is_empty() {
        writeln!(text, "Also called `{}`.\n", aliases.join("`, `")).unwrap();
    }
    if parameters.iter().all(|(_, parameters)| parameters.is_empty()) {
        text.push_str("It has no parameters.\n");
        return text;
    }
    text.push_str("| parameter | of | allowed | default | what it does |\n|---|---|---|---|---|\n");
    let each = parameters.iter().flat_map(|&(of, all)| all.iter().map(move |p| (of, p)));
    for (of, p) in each {
        let allowed = p.domain.to_string().replace('|', "\\|");
        writeln!(
            text,
            "| `{}` | `{of}` | {allowed} | {} | {} |",
            p.name,
            p.domain.write(p.default),
            p.summary
        )
        .unwrap();
    }
    text
}

/// Compares a page with the expected text, or writes it if `WEIR_UPDATE_DOCS` is set.
fn compare(folder: &str, file: &str, expected: &str) {
    let path: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(folder).join(file);
    if std::env::var_os("WEIR_UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        return std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{} is not up to date; WEIR_UPDATE_DOCS=1 cargo test -p weir-core --test it pages writes \
         it",
        path.display()
    );
}

/// The comment at the top of a page.
fn origin(kind: &str) -> String {
    format!(
        "<!-- Made from the {kind}'s module and its row; `WEIR_UPDATE_DOCS=1 cargo test -p \
         weir-core --test it pages` writes it anew. -->"
    )
}

const STEP: &str = "Eight responsive senders share a link of 10 Mbit/s. From 4 to 8 s, an \
                    unresponsive sender adds half of the link's rate. Dropped and marked packets \
                    are at the top. `weir rig --aqm NAME --step --plot FILE` draws the picture; \
                    [rig.md](../rig.md) describes the model.";
