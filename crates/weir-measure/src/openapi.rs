//! Descriptions of the types for an OpenAPI document, made from the rows of counters and reasons.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::latency::Latency;
use crate::stats::{DropReason, LinkCounters, MarkReason, Reasons};

impl PartialSchema for LinkCounters {
    fn schema() -> RefOr<Schema> {
        let rows = Self::ROWS.into_iter().map(|row| (row.name, row.meaning));
        with_reasons(numbers(rows)).into()
    }
}

impl ToSchema for LinkCounters {}

impl PartialSchema for Reasons {
    fn schema() -> RefOr<Schema> {
        with_reasons(ObjectBuilder::new()).into()
    }
}

impl ToSchema for Reasons {}

impl PartialSchema for Latency {
    fn schema() -> RefOr<Schema> {
        numbers(Self::ROWS.into_iter()).into()
    }
}

impl ToSchema for Latency {}

/// Adds the drops and marks by reason to the schema of an object.
fn with_reasons(object: ObjectBuilder) -> ObjectBuilder {
    let drops = DropReason::ALL.into_iter().map(|reason| (reason.name(), reason.meaning()));
    let marks = MarkReason::ALL.into_iter().map(|reason| (reason.name(), reason.meaning()));
    object
        .property("drops", numbers(drops).description(Some("Dropped packets by reason.")))
        .property("marks", numbers(marks).description(Some("Marked packets by reason.")))
}

/// An object with the given names as keys and non-negative integers as values. Each name comes with
/// its meaning.
fn numbers(rows: impl Iterator<Item = (&'static str, &'static str)>) -> ObjectBuilder {
    rows.fold(ObjectBuilder::new(), |object, (name, meaning)| {
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .description(Some(meaning));
        object.property(name, number)
    })
}
