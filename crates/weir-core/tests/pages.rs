//! The pages of `docs/schedulers/` are what the modules of the schedulers and their table say; `WEIR_UPDATE_DOCS=1` writes them anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use weir_core::sched::{Row, Scope, TABLE};

#[test]
fn the_pages_of_the_schedulers_are_up_to_date() {
    let sources = sources();
    let mut index = format!("# Schedulers, one page each\n\n{ORIGIN}\n\nWhich of them when: [schedulers.md](../schedulers.md).\n\n");
    index.push_str("| name | what it does | cost of a packet | from |\n|---|---|---|---|\n");
    for row in TABLE {
        let (_, source) =
            sources.iter().find(|(name, _)| name == row.name).unwrap_or_else(|| panic!("no module has the row of {}", row.name));
        compare(&file(row), &page(row, source));
        writeln!(index, "| [{}]({}) | {} | {} | {} |", row.name, file(row), row.summary, row.complexity, row.source).unwrap();
    }
    compare("README.md", &index);
}

/// The name of a row's page.
fn file(row: &Row) -> String {
    row.name.replace('+', "p") + ".md"
}

/// Each module with a row, by the row's name.
fn sources() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sched");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let files = paths.map(|path| std::fs::read_to_string(path).unwrap());
    let of_row = |source: String| {
        let row = source.split("const ROW: Row = Row {").nth(1)?;
        let name = row.split("name: \"").nth(1)?.split('"').next()?.to_owned();
        Some((name, source))
    };
    files.filter_map(of_row).collect()
}

fn page(row: &Row, source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!")).map(|line| line.strip_prefix(' ').unwrap_or(line));
    let mut text = format!("# {}\n\n{ORIGIN}\n\n", row.name);
    let mut fenced = false;
    for line in lines {
        fenced ^= line.starts_with("```");
        let line = if !fenced && line.starts_with("# ") { format!("\n#{line}\n") } else { line.to_owned() };
        // Links into the code lead nowhere from here.
        text += &line.replace("[`", "`").replace("`]", "`");
        text.push('\n');
    }
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    text.push_str("\n## In the command language\n\n```\n");
    // A medium has a rate of its own.
    let rate = if row.name == "dcf" { "" } else { " bw 10Mbit/s" };
    writeln!(text, "sched 1 config type {}{rate}\nqueue 1 config sched 1\n```\n", row.name).unwrap();
    if !row.aliases.is_empty() {
        writeln!(text, "Also called `{}`.\n", row.aliases.join("`, `")).unwrap();
    }
    if row.parameters.is_empty() {
        text.push_str("It has no parameters.\n");
        return text;
    }
    text.push_str("| parameter | of | allowed | default | what it does |\n|---|---|---|---|---|\n");
    for p in row.parameters {
        let of = match p.scope {
            Scope::Flow => "`queue`",
            Scope::Scheduler => "`sched`",
            Scope::Aqm => "`aqm`",
        };
        let allowed = p.domain.to_string().replace('|', "\\|");
        writeln!(text, "| `{}` | {of} | {allowed} | {} | {} |", p.name, p.domain.write(p.default), p.summary).unwrap();
    }
    text
}

fn compare(file: &str, expected: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schedulers").join(file);
    if std::env::var_os("WEIR_UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        return std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{} is not up to date; WEIR_UPDATE_DOCS=1 cargo test -p weir-core --test pages writes it", path.display());
}

const ORIGIN: &str =
    "<!-- Made from the scheduler's module and its row; `WEIR_UPDATE_DOCS=1 cargo test -p weir-core --test pages` writes it anew. -->";
