//! The provenance of a number that a table, plot or claim shows next to a measured number.

use core::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// The origin of a number or of the statement of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Provenance {
    /// A document states it.
    Published {
        /// The document.
        document: &'static str,
        /// The place in the document: table, figure or section.
        place: &'static str,
    },
    /// Weir's authors measured it with another program. No document states it.
    Measured {
        /// The program.
        program: &'static str,
        /// The version of the program.
        version: &'static str,
        /// The date of the measurement.
        date: &'static str,
    },
    /// It follows from other facts.
    Inferred {
        /// The facts, or the argument.
        from: &'static str,
    },
    /// A document states it, and parameters that the document leaves open were chosen so that the
    /// experiment gives it. Agreement is therefore no evidence.
    Calibrated {
        /// The document.
        document: &'static str,
        /// The place in the document.
        place: &'static str,
        /// The parameters that were chosen, with their values.
        chosen: &'static str,
        /// Other numbers of the document, which were not used for the choice.
        unused: &'static str,
    },
}

impl Provenance {
    /// The kind in one word.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Published { .. } => "published",
            Self::Measured { .. } => "measured",
            Self::Inferred { .. } => "inferred",
            Self::Calibrated { .. } => "calibrated",
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Published { document, place } => write!(f, "published: {document}, {place}"),
            Self::Measured { program, version, date } => {
                write!(f, "measured by us with {program}, {version}, {date}; not published")
            }
            Self::Inferred { from } => write!(f, "inferred: {from}"),
            Self::Calibrated { document, place, chosen, unused } => write!(
                f,
                "calibrated: {document}, {place}; chosen so that it comes out: {chosen}; not used \
                 for the choice: {unused}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_states_what_a_reader_needs() {
        let published = Provenance::Published { document: "A", place: "table 1" };
        assert_eq!(published.to_string(), "published: A, table 1");
        let measured = Provenance::Measured { program: "p", version: "1", date: "today" };
        assert_eq!(measured.to_string(), "measured by us with p, 1, today; not published");
        let calibrated =
            Provenance::Calibrated { document: "A", place: "t", chosen: "x = 1", unused: "y" };
        let text = calibrated.to_string();
        assert!(text.contains("x = 1") && text.contains("not used for the choice: y"), "{text}");
        assert_eq!(
            serde_json::to_value(published).unwrap(),
            serde_json::json!({ "kind": "published", "document": "A", "place": "table 1" })
        );
    }
}
