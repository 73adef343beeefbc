//! Results documents, which commands and the daemon write, and their JSON Schema.
//!
//! A document begins with two keys: `schema` names the version of the format, and `kind` determines
//! the other keys. A quantity has the same key in every kind, and keys end in their unit: `_ns`,
//! `_bps`, `_bytes`, `_packets`. Within a version, keys are added but never removed or renamed.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::{format, vec};
use core::fmt::Write as _;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The version of the format.
pub const SCHEMA: &str = "weir.results/1";

/// Defines the kinds of documents from rows.
macro_rules! kinds {
    ($($variant:ident, $name:literal, $by:literal, $meaning:literal;)*) => {
        /// The kind of a document.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = $meaning] $variant,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The value of the key `kind`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The commands, or the request to the daemon, that give documents of this kind.
            pub const fn written_by(self) -> &'static str {
                match self { $(Self::$variant => $by,)* }
            }

            /// The content of the document in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

kinds! {
    Run, "run", "`weir run`, `pair`, `bridge`: `--json`",
        "What links between programs did while a command ran.";
    Interval, "interval", "`weir stats --watch --json`",
        "What the links of a session did in an interval.";
    Scenario, "scenario", "`weir sim`, `weir live`: `--json`, `summary.json`",
        "What the flows and links of a scenario did, over one run or several.";
    Sweep, "sweep", "`weir sim` with a sweep: `--json`, `sweep.json`",
        "The scenario at each point of a sweep.";
    Campaign, "campaign", "`weir sweep status --json`",
        "Which runs of a campaign a store has.";
    Comparison, "comparison", "`weir compare --json`",
        "The numbers of two scenarios side by side.";
    Rig, "rig", "`weir rig --json`",
        "What schedulers and AQMs cost and guarantee.";
    Case, "case", "`weir rig --case --json`",
        "The expectations of a conformance case, and the values found.";
    Replay, "replay", "`weir rig --replay --json`",
        "What the kernel did with recorded packets, and what other disciplines would have done.";
    Experiment, "experiment", "`weir reproduce --out`",
        "A published experiment run again: tables, and its claims with verdicts.";
    Suite, "suite", "`weir sim --suite --json`",
        "What a suite of scenarios found: tables, claims, plots.";
    Watch, "watch", "`weir watch --json`",
        "The queues of a watched device; for several devices, a list of documents.";
    Sample, "sample", "the daemon: `GET /v1/events`",
        "The counters of everything that the daemon runs, at one moment.";
    Lengths, "lengths", "the daemon: `GET /v1/lengths`",
        "The lengths of the daemon's pipes, schedulers and queues, at one moment.";
}

/// A document: the keys `schema` and `kind`, and the keys of its body.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Document<T> {
    schema: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    body: T,
}

impl<T: Serialize> Document<T> {
    /// A document of this kind.
    pub fn new(kind: Kind, body: T) -> Self {
        Self { schema: SCHEMA, kind: kind.name(), body }
    }

    /// The document as pretty-printed JSON with a final newline.
    ///
    /// # Panics
    /// If a map in the body has keys that are not text, which is a defect of the caller.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("keys of a document are text");
        text.push('\n');
        text
    }
}

/// A number in a document. Whole numbers below 10^15 are written without a decimal point, all
/// others with nine significant digits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Number(f64);

impl Number {
    /// The number nearest to `value` with nine significant digits.
    pub fn new(value: f64) -> Self {
        if is_whole(value) {
            Self(value)
        } else {
            Self(format!("{value:.8e}").parse().unwrap_or(value))
        }
    }

    /// The value.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if is_whole(self.0) {
            return serializer.serialize_i64(self.0 as i64);
        }
        serializer.serialize_f64(self.0)
    }
}

impl JsonSchema for Number {
    fn schema_name() -> alloc::borrow::Cow<'static, str> {
        "Number".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "number" })
    }
}

/// Whether a value is a whole number that is written without a decimal point.
fn is_whole(value: f64) -> bool {
    value == (value as i64) as f64 && value.abs() < 1e15
}

/// Builds the JSON Schema from the schemas of all kinds.
#[derive(Debug)]
pub struct Schemas {
    generator: SchemaGenerator,
    kinds: BTreeMap<Kind, Value>,
}

impl Schemas {
    /// A schema without kinds.
    #[expect(clippy::new_without_default, reason = "a builder")]
    pub fn new() -> Self {
        // The schema describes documents that are written: a key that may be absent is not
        // required.
        let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        Self { generator, kinds: BTreeMap::new() }
    }

    /// Adds the schema of a kind's body.
    #[must_use]
    pub fn with<T: JsonSchema>(mut self, kind: Kind) -> Self {
        let mut schema = Value::from(T::json_schema(&mut self.generator));
        if let Some(object) = schema.as_object_mut() {
            object.insert("description".to_string(), kind.meaning().into());
            let properties = object.entry("properties").or_insert_with(|| json!({}));
            properties["schema"] = json!({
                "const": SCHEMA, "description": "The version of the family of documents."
            });
            properties["kind"] =
                json!({ "const": kind.name(), "description": "What the document is about." });
            let required = object.entry("required").or_insert_with(|| json!([]));
            if let Some(required) = required.as_array_mut() {
                required.splice(0..0, ["schema".into(), "kind".into()]);
            }
        }
        self.kinds.insert(kind, schema);
        self
    }

    /// The JSON Schema (draft 2020-12) of all documents. An object allows only the keys that its
    /// schema names.
    pub fn finish(mut self) -> Value {
        let mut definitions = self.generator.take_definitions(true);
        for (kind, schema) in self.kinds {
            definitions.insert(kind.name().to_string(), schema);
        }
        definitions.values_mut().for_each(close);
        let reference = |kind: Kind| json!({ "$ref": format!("#/$defs/{}", kind.name()) });
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": SCHEMA,
            "description": "Documents of Weir's results.",
            "oneOf": Kind::ALL.into_iter().map(reference).collect::<vec::Vec<_>>(),
            "$defs": definitions,
        })
    }
}

/// Forbids all keys that an object's schema does not name.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") && !object.contains_key("additionalProperties") {
                object.insert("additionalProperties".to_string(), false.into());
            }
            for (key, value) in object.iter_mut() {
                if key == "properties" {
                    value.as_object_mut().into_iter().flatten().for_each(|(_, each)| close(each));
                } else if key != "const" && key != "enum" {
                    close(value);
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        _ => {}
    }
}

/// The output of [`Schemas::finish`] as a Markdown reference: a table for each kind and each
/// object.
pub fn markdown(schema: &Value) -> String {
    let mut text = String::from("| kind | written by | content |\n|---|---|---|\n");
    for kind in Kind::ALL {
        let (name, by, meaning) = (kind.name(), kind.written_by(), kind.meaning());
        let _ = writeln!(text, "| [`{name}`](#{name}) | {by} | {meaning} |");
    }
    definitions(&mut text, schema, &Kind::ALL.map(Kind::name));
    text
}

/// A reference of the documents of one schema in Markdown: the keys of a document, then those of
/// its parts.
#[must_use]
pub fn markdown_of_one(schema: &Value) -> String {
    let mut text = format!("{}\n", words(schema));
    object(&mut text, schema);
    definitions(&mut text, schema, &[]);
    text
}

/// The definitions of a schema, those with the names `first` before the others.
fn definitions(text: &mut String, schema: &Value, first: &[&str]) {
    let empty = Map::new();
    let definitions = schema["$defs"].as_object().unwrap_or(&empty);
    let others = definitions.keys().map(String::as_str).filter(|name| !first.contains(name));
    for name in first.iter().copied().chain(others) {
        let Some(definition) = definitions.get(name) else { continue };
        let _ = write!(text, "\n### {name}\n\n{}\n", words(definition));
        object(text, definition);
    }
}

/// The keys of an object, or the variants of an enumeration, as a table.
fn object(text: &mut String, definition: &Value) {
    if let Some(properties) = definition["properties"].as_object() {
        text.push_str("\n| key | type | meaning |\n|---|---|---|\n");
        for (key, property) in properties {
            let _ = writeln!(text, "| `{key}` | {} | {} |", type_of(property), words(property));
        }
    }
    for variant in definition["oneOf"].as_array().into_iter().flatten() {
        match (variant["const"].as_str(), variant["properties"].as_object()) {
            (Some(name), _) => {
                let _ = writeln!(text, "- `{name}`: {}", words(variant));
            }
            (None, Some(properties)) => {
                let part = |(key, property): (&String, &Value)| match property["const"].as_str() {
                    Some(value) => format!("`{key}` `{value}`"),
                    None => format!("`{key}`"),
                };
                let parts = properties.iter().map(part).collect::<vec::Vec<_>>().join(", ");
                let _ = writeln!(text, "- {parts}: {}", words(variant));
            }
            (None, None) => {}
        }
    }
}

/// The description of a schema as the text of a table cell.
fn words(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}

/// The type of the values that a schema allows, as Markdown.
fn type_of(schema: &Value) -> String {
    if let Some(path) = schema["$ref"].as_str() {
        let name = path.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(all) = schema[choice].as_array() {
            return all.iter().map(type_of).collect::<vec::Vec<_>>().join(" or ");
        }
    }
    if !schema["const"].is_null() {
        return format!("`{}`", schema["const"].to_string().replace('"', ""));
    }
    let named = |name: &str| match name {
        "array" => format!("list of {}", type_of(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("object of {}", type_of(&schema["additionalProperties"]))
        }
        other => other.to_string(),
    };
    match &schema["type"] {
        Value::String(name) => named(name),
        Value::Array(all) => {
            let names = all.iter().filter_map(Value::as_str).map(named);
            names.collect::<vec::Vec<_>>().join(" or ")
        }
        _ => "any".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Body {
        /// Duration of the run, ns.
        duration_ns: u64,
        part: Option<Part>,
        /// Absent when the list is empty.
        #[serde(skip_serializing_if = "vec::Vec::is_empty")]
        rest: vec::Vec<u64>,
    }

    #[derive(Serialize, JsonSchema)]
    struct Part {
        mean: Number,
    }

    #[test]
    fn a_document_begins_with_its_schema_and_kind() {
        let text =
            Document::new(Kind::Run, Body { duration_ns: 7, part: None, rest: vec::Vec::new() })
                .to_json();
        assert!(text.starts_with("{\n  \"schema\": \"weir.results/1\",\n  \"kind\": \"run\",\n"));
    }

    #[test]
    fn the_schema_closes_objects_and_the_reference_names_every_key() {
        let schema = Schemas::new().with::<Body>(Kind::Run).finish();
        let run = &schema["$defs"]["run"];
        assert_eq!(run["properties"]["kind"]["const"], "run");
        assert_eq!(run["additionalProperties"], false);
        assert_eq!(schema["$defs"]["Part"]["additionalProperties"], false);
        // A key that may be null is always written; a key that may be absent is not required.
        assert_eq!(run["required"], json!(["schema", "kind", "duration_ns", "part"]));
        let text = markdown(&schema);
        assert!(text.contains("| `duration_ns` | integer | Duration of the run, ns. |"), "{text}");
        assert!(text.contains("[Part](#part) or null"), "{text}");
    }

    #[test]
    fn numbers_are_whole_or_have_nine_digits() {
        let text = |value| serde_json::to_string(&Number::new(value)).unwrap();
        assert_eq!([text(3.0), text(1.0 / 3.0), text(-0.5)], ["3", "0.333333333", "-0.5"]);
    }
}
