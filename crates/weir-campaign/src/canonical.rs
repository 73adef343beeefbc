//! The canonical form of a scenario: the same bytes for all texts with the same keys and values,
//! whatever their comments, the order of their keys and their layout.

use std::fmt::Write as _;

use toml::{Table, Value};

/// The text of a scenario in canonical form, without the keys `seed`, `runs` and `sweep`. A
/// scenario without a name gets `name`.
///
/// # Errors
/// The text is not TOML.
pub(crate) fn body(text: &str, name: &str) -> Result<String, toml::de::Error> {
    let mut table: Table = text.parse()?;
    for key in ["seed", "runs", "sweep"] {
        table.remove(key);
    }
    if table.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        table.insert("name".to_owned(), Value::String(name.to_owned()));
    }
    let (mut head, mut sections) = (String::new(), String::new());
    for (key, value) in sorted(&table) {
        match value {
            Value::Table(inner) => section(&mut sections, &format!("[{}]", bare(key)), inner),
            Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_table) => {
                let title = format!("[[{}]]", bare(key));
                let tables = items.iter().filter_map(Value::as_table);
                tables.for_each(|inner| section(&mut sections, &title, inner));
            }
            _ => {
                let _ = writeln!(head, "{} = {}", bare(key), inline(value));
            }
        }
    }
    Ok(head + &sections)
}

/// The canonical text `body` with a seed: the scenario of one run.
pub(crate) fn with_seed(body: &str, seed: u64) -> String {
    format!("seed = {seed}\n{body}")
}

/// The name in the canonical text `body`; empty if there is none.
pub(crate) fn name(body: &str) -> String {
    let table: Option<Table> = body.parse().ok();
    let name = table.as_ref().and_then(|table| table.get("name")?.as_str());
    name.unwrap_or_default().to_owned()
}

fn section(out: &mut String, title: &str, table: &Table) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "\n{title}");
    for (key, value) in sorted(table) {
        let _ = writeln!(out, "{} = {}", bare(key), inline(value));
    }
}

/// The entries in the order of their keys. The type [`Table`] does not guarantee this order.
fn sorted(table: &Table) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

/// A value as TOML on one line.
pub(crate) fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        // The shortest form that is read back as the same number.
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(flag) => flag.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Table(table) if table.is_empty() => "{}".to_owned(),
        Value::Table(table) => {
            let entries = sorted(table).into_iter();
            let entries = entries.map(|(key, value)| format!("{} = {}", bare(key), inline(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A key as TOML: bare if possible, otherwise quoted.
fn bare(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { quoted(key) }
}

/// A string as TOML.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_order_and_layout_do_not_matter() {
        let one = "duration = '2s' # long\nseed = 7\nnode = [{ name = \"h1\" }]\n\
                   [[link]]\nspec = '1M'\nbetween = ['h1',\n 'h2']\n[sweep]\nx = [1]\n";
        let other = "runs = 3\nduration = \"2s\"\nname = 'n'\n\
                     link = [{between = [\"h1\", \"h2\"], spec = \"1M\"}]\n[[node]]\nname='h1'\n";
        let expected = "duration = \"2s\"\nname = \"n\"\n\n[[link]]\n\
                        between = [\"h1\", \"h2\"]\nspec = \"1M\"\n\n[[node]]\nname = \"h1\"\n";
        assert_eq!(body(one, "n").unwrap(), expected);
        assert_eq!(body(other, "default").unwrap(), expected);
    }

    #[test]
    fn canonical_form_is_stable_and_keeps_every_value() {
        let text = "a = -0.1\nb = 1e300\nc = [true, 9007199254740993]\n\
                    \"d e\" = \"\\u0007\\\"é\\n\"\n\
                    f = { x = { }, y = [ { z = 1 } ] }\ng = []\n";
        let once = body(text, "n").unwrap();
        assert_eq!(body(&once, "other").unwrap(), once);
        let mut expected: Table = text.parse().unwrap();
        expected.insert("name".to_owned(), Value::String("n".to_owned()));
        assert_eq!(once.parse::<Table>().unwrap(), expected);
    }
}
