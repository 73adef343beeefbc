//! A span of time with what some objects did in it, for a report.

use super::{ChangeView, ObjectView, Point};

/// A span of time. Times in points and changes are on the page's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// The name of the session.
    pub name: String,
    /// The program, or the interfaces.
    pub program: String,
    /// The start on the page's clock, in ns.
    pub from_ns: u64,
    /// The end on the page's clock, in ns.
    pub to_ns: u64,
    /// The start, in ms since 1970.
    pub from_ms: i64,
    /// The end, in ms since 1970.
    pub to_ms: i64,
    /// The objects.
    pub objects: Vec<Watched>,
    /// The changes in the span.
    pub changes: Vec<ChangeView>,
}

/// An object with its points in the span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// The object with its configuration.
    pub view: ObjectView,
    /// The points, in the order of their times.
    pub points: Vec<Point>,
}
