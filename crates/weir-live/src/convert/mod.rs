//! Converts other tools' descriptions of a network into scenario files: topologies of Containerlab,
//! and networks of Mininet from MiniEdit's files or from scripts.
//!
//! Settings without a counterpart become comments in the scenario. The texts are hostile input:
//! their size, nesting and counts are bounded, and nothing in them is executed.

mod containerlab;
mod error;
mod lab;
mod miniedit;
mod python;
mod script;
mod yaml;

pub use error::{ConvertError, LARGEST};
pub use lab::{Lab, LabLink, LabNode};

/// Converts a topology of Containerlab (`NAME.clab.yml`).
///
/// # Errors
/// See [`ConvertError`].
pub fn containerlab(text: &str) -> Result<Lab, ConvertError> {
    check_size(text)?;
    containerlab::convert(text)
}

/// Converts a network of Mininet: a file of MiniEdit (JSON), or a script in Python. Of a script,
/// only the calls with literal arguments are read.
///
/// # Errors
/// See [`ConvertError`].
pub fn mininet(text: &str) -> Result<Lab, ConvertError> {
    check_size(text)?;
    if text.trim_start().starts_with('{') { miniedit::convert(text) } else { script::convert(text) }
}

fn check_size(text: &str) -> Result<(), ConvertError> {
    if text.len() > LARGEST { Err(ConvertError::TooLarge) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLES: [&str; 3] = [
        include_str!("../../../../examples/convert/topology.clab.yml"),
        include_str!("../../../../examples/convert/network.mn"),
        include_str!("../../../../examples/convert/script.py"),
    ];

    /// Converts a text with both converters. Every accepted text becomes a scenario in TOML.
    fn convert(text: &str) {
        for lab in [containerlab(text), mininet(text)].into_iter().flatten() {
            let scenario = lab.to_toml("x\ny");
            let table = scenario.parse::<toml::Table>();
            let table = table.unwrap_or_else(|error| panic!("{error}: {scenario}: {text}"));
            let nodes = table.get("node").and_then(toml::Value::as_array).map_or(0, Vec::len);
            assert_eq!(nodes, lab.nodes.len(), "{scenario}");
        }
    }

    #[test]
    fn damaged_descriptions_are_converted_or_refused() {
        for example in EXAMPLES {
            let starts = example.char_indices().map(|(at, _)| at);
            for (number, at) in starts.enumerate() {
                convert(&example[..at]);
                let other = ['"', '\'', '\\', '\n', '{', ']', ':', '#', '&', '\u{1}'][number % 10];
                let (before, after) = example.split_at(at);
                convert(&format!("{before}{other}{after}"));
                convert(&format!("{before}{other}{}", after.chars().skip(1).collect::<String>()));
            }
        }
    }

    #[test]
    fn the_size_is_bounded() {
        let text = " ".repeat(LARGEST + 1);
        assert_eq!(containerlab(&text), Err(ConvertError::TooLarge));
        assert_eq!(mininet(&text), Err(ConvertError::TooLarge));
        assert_ne!(mininet(&text[1..]), Err(ConvertError::TooLarge));
    }
}
