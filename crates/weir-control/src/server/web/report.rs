//! A report of a span of time: one HTML file, from the points that are kept of some objects.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

use super::hub::Hub;
use crate::dashboard::{NoObject, Object, Span, Watched, thinned};
use crate::server::reject::Reject;

/// A span of time and the objects of the report.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    /// A JSON list of objects.
    objects: String,
    from_ms: i64,
    to_ms: i64,
}

impl Wish {
    /// The objects, each once. Refuses a list or a span that is not allowed.
    pub(super) fn objects(&self) -> Result<Vec<Object>, Reject> {
        let wrong = |text: String| Reject::new(StatusCode::BAD_REQUEST, text);
        let names: Vec<String> = serde_json::from_str(&self.objects).map_err(|error| {
            wrong(format!("objects is a JSON list such as [\"pipe:1\",\"link:up\"]: {error}"))
        })?;
        if names.is_empty() || names.len() > MOST_OBJECTS {
            return Err(wrong(format!("a report has 1 to {MOST_OBJECTS} objects")));
        }
        let length = self.to_ms.saturating_sub(self.from_ms);
        if !(1..=LONGEST_MS).contains(&length) {
            return Err(wrong(
                "a report begins before it ends, and spans at most a day".to_owned(),
            ));
        }
        let mut objects: Vec<Object> = Vec::new();
        for name in names {
            let object = name.parse().map_err(|error: NoObject| wrong(error.to_string()))?;
            if !objects.contains(&object) {
                objects.push(object);
            }
        }
        Ok(objects)
    }
}

/// Makes the report. The call may block.
pub(super) fn make(
    hub: &Hub,
    wish: &Wish,
    objects: &[Object],
    (name, program): (String, String),
    write: fn(&Span) -> String,
) -> Result<Response, Reject> {
    let (from_ns, to_ns) = (hub.clock_ns(wish.from_ms), hub.clock_ns(wish.to_ms));
    let most = (MOST_POINTS / objects.len()).min(MOST_POINTS_OF_ONE);
    let views = hub.source.objects(MOST_VIEWS).objects;
    let watched = |object: &Object| {
        let text = object.to_string();
        let view = views.iter().find(|view| view.object == text)?.clone();
        let points = hub.past(object, from_ns, |points| {
            thinned(points.into_iter().filter(|point| point.at_ns <= to_ns), most)
        });
        Some(Watched { view, points })
    };
    let mut found = Vec::with_capacity(objects.len());
    for object in objects {
        let text = || Reject::new(StatusCode::NOT_FOUND, format!("there is no {}", object.name()));
        found.push(watched(object).ok_or_else(text)?);
    }
    if found.iter().all(|one| one.points.is_empty()) {
        let text = "nothing is known about these objects in this time: objects are read while a \
                    page shows them, and the first 64 always";
        return Err(Reject::new(StatusCode::NOT_FOUND, text));
    }
    let mut changes = hub.changes(0).0;
    changes.retain(|change| (from_ns..=to_ns).contains(&change.at_ns));
    let file = format!("weir-{}-{}.html", plain(&name), wish.from_ms / 1000);
    let page = write(&Span {
        name,
        program,
        from_ns,
        to_ns,
        from_ms: wish.from_ms,
        to_ms: wish.to_ms,
        objects: found,
        changes,
    });
    if page.len() > MOST_BYTES {
        let text = format!(
            "the report would have more than {} MiB; choose fewer objects or a shorter time",
            MOST_BYTES >> 20
        );
        return Err(Reject::new(StatusCode::PAYLOAD_TOO_LARGE, text));
    }
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{file}\"")),
    ];
    Ok((headers, page).into_response())
}

/// A name as a part of a file's name.
fn plain(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    name.chars().take(40).map(fits).collect()
}

pub(super) const MOST_OBJECTS: usize = 16;
/// Maximum number of points of all objects together.
const MOST_POINTS: usize = 4000;
const MOST_POINTS_OF_ONE: usize = 600;
/// Maximum number of bytes of a report.
const MOST_BYTES: usize = 8 << 20;
/// The longest span, in ms: a day, for which points are kept.
const LONGEST_MS: i64 = 86_400_000;
/// Maximum number of objects among which those of a report are looked up.
const MOST_VIEWS: usize = 70_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_bounded() {
        let wish = |objects: &str, to_ms| Wish { objects: objects.to_owned(), from_ms: 0, to_ms };
        assert_eq!(wish(r#"["pipe:1","pipe:1","link:a"]"#, 10).objects().unwrap().len(), 2);
        let many: Vec<String> = (0..17).map(|n| format!("\"pipe:{n}\"")).collect();
        for (objects, to_ms) in [
            ("[]", 10),
            ("pipe:1", 10),
            (r#"["what"]"#, 10),
            (&format!("[{}]", many.join(",")), 10),
            (r#"["pipe:1"]"#, 0),
            (r#"["pipe:1"]"#, 86_400_001),
        ] {
            assert!(wish(objects, to_ms).objects().is_err(), "{objects} {to_ms}");
        }
        assert_eq!(plain("a b/../\"c"), "a-b-..--c");
    }
}
