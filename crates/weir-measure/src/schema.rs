//! JSON Schemas of the types that are defined by tables: counters, reasons, latencies.

use alloc::borrow::Cow;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::latency::Latency;
use crate::means::{LinkMeans, ReasonMeans};
use crate::stats::{DropCounts, DropReason, LinkCounters, MarkCounts, MarkReason, Reasons};

impl JsonSchema for DropCounts {
    fn schema_name() -> Cow<'static, str> {
        "DropCounts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let rows = DropReason::ALL.map(|reason| (reason.name(), reason.meaning()));
        object("Dropped packets by reason; reasons that did not occur are absent.", &rows, COUNTS)
    }
}

impl JsonSchema for MarkCounts {
    fn schema_name() -> Cow<'static, str> {
        "MarkCounts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let rows = MarkReason::ALL.map(|reason| (reason.name(), reason.meaning()));
        let what = "Packets marked with congestion experienced, by reason; reasons that did not \
                    occur are absent.";
        object(what, &rows, COUNTS)
    }
}

impl JsonSchema for Reasons {
    fn schema_name() -> Cow<'static, str> {
        "Reasons".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        with_reasons::<DropCounts, MarkCounts>(
            object("Drops and marks by reason.", &[], ALL),
            generator,
        )
    }
}

impl JsonSchema for LinkCounters {
    fn schema_name() -> Cow<'static, str> {
        "LinkCounters".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let rows = Self::ROWS.map(|row| (row.name, row.meaning));
        with_reasons::<DropCounts, MarkCounts>(object("Counters of a link.", &rows, ALL), generator)
    }
}

impl JsonSchema for Latency {
    fn schema_name() -> Cow<'static, str> {
        "Latency".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let what = "A distribution of times, ns. All keys are 0 if there are no values.";
        object(what, &Self::ROWS, ALL)
    }
}

impl JsonSchema for DropMeans {
    fn schema_name() -> Cow<'static, str> {
        "DropMeans".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let rows = DropReason::ALL.map(|reason| (reason.name(), reason.meaning()));
        object("Dropped packets by reason, means over runs.", &rows, MEANS)
    }
}

impl JsonSchema for MarkMeans {
    fn schema_name() -> Cow<'static, str> {
        "MarkMeans".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let rows = MarkReason::ALL.map(|reason| (reason.name(), reason.meaning()));
        object("Marked packets by reason, means over runs.", &rows, MEANS)
    }
}

impl JsonSchema for ReasonMeans {
    fn schema_name() -> Cow<'static, str> {
        "ReasonMeans".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let empty = object("Drops and marks by reason, means over runs.", &[], ALL_MEANS);
        with_reasons::<DropMeans, MarkMeans>(empty, generator)
    }
}

impl JsonSchema for LinkMeans {
    fn schema_name() -> Cow<'static, str> {
        "LinkMeans".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let rows = LinkCounters::ROWS.map(|row| (row.name, row.meaning));
        let counters = object("Counters of a link, means over runs.", &rows, ALL_MEANS);
        with_reasons::<DropMeans, MarkMeans>(counters, generator)
    }
}

/// Names the schema of the drops in [`ReasonMeans`].
struct DropMeans;
/// Names the schema of the marks in [`ReasonMeans`].
struct MarkMeans;

/// The JSON type of an object's numbers, and whether every key is required.
type Numbers = (&'static str, bool);

/// Integers; keys may be absent.
const COUNTS: Numbers = ("integer", false);
/// Numbers; keys may be absent.
const MEANS: Numbers = ("number", false);
/// Integers; every key is required.
const ALL: Numbers = ("integer", true);
/// Numbers; every key is required.
const ALL_MEANS: Numbers = ("number", true);

/// The schema of an object with non-negative numbers, from the names and meanings of its keys.
fn object(what: &str, rows: &[(&str, &str)], (kind, all): Numbers) -> Schema {
    let number = |meaning: &str| json!({ "type": kind, "minimum": 0, "description": meaning });
    let properties: Map<String, Value> =
        rows.iter().map(|(name, meaning)| (name.to_string(), number(meaning))).collect();
    let required: Vec<&str> = rows.iter().filter(|_| all).map(|row| row.0).collect();
    schemars::json_schema!({
        "type": "object", "description": what, "properties": properties, "required": required,
    })
}

/// Adds the drops and marks by reason to an object's schema.
fn with_reasons<D: JsonSchema, M: JsonSchema>(
    mut schema: Schema,
    generator: &mut SchemaGenerator,
) -> Schema {
    let (drops, marks) = (generator.subschema_for::<D>(), generator.subschema_for::<M>());
    if let Some(object) = schema.as_object_mut() {
        object["properties"]["drops"] = drops.into();
        object["properties"]["marks"] = marks.into();
        if let Some(required) = object["required"].as_array_mut() {
            required.extend(["drops".into(), "marks".into()]);
        }
    }
    schema
}
