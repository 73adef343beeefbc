//! YAML as a tree of bounded size. An alias counts as all values that it stands for, so a small
//! file cannot become a large tree.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScanError};

use super::error::ConvertError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Yaml {
    /// A text or number, as it is written.
    Scalar(String),
    List(Vec<Yaml>),
    /// Entries in the order of the file. Keys are texts.
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    /// The first document of a text; an empty map if there is none.
    pub(super) fn parse(text: &str) -> Result<Yaml, ConvertError> {
        let mut reader = Reader {
            parser: Parser::new_from_str(text),
            anchors: HashMap::new(),
            left: MOST_VALUES,
            line: 1,
        };
        loop {
            match reader.next()? {
                Event::DocumentStart(_) => {
                    let first = reader.next()?;
                    return reader.value(first, 0).map(|(value, _)| value);
                }
                Event::StreamEnd => return Ok(Yaml::Map(Vec::new())),
                _ => {}
            }
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Yaml> {
        self.entries().iter().find(|(own, _)| own == key).map(|(_, value)| value)
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Yaml::Scalar(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> &[Yaml] {
        match self {
            Yaml::List(list) => list,
            _ => &[],
        }
    }

    pub(super) fn entries(&self) -> &[(String, Yaml)] {
        match self {
            Yaml::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The value in one line, for a comment.
    pub(super) fn shown(&self) -> String {
        match self {
            Yaml::Scalar(text) => text.clone(),
            Yaml::List(list) => {
                let shown: Vec<String> = list.iter().take(MOST_SHOWN).map(Yaml::shown).collect();
                format!("[{}]", shown.join(", "))
            }
            Yaml::Map(entries) => {
                let shown = entries.iter().take(MOST_SHOWN);
                let shown: Vec<String> =
                    shown.map(|(key, value)| format!("{key}: {}", value.shown())).collect();
                format!("{{{}}}", shown.join(", "))
            }
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// The anchored values by their anchors, each with the number of values in it.
    anchors: HashMap<usize, (Yaml, usize)>,
    /// The number of values that may still be read.
    left: usize,
    line: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Event<'a>, ConvertError> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                Ok(event)
            }
            Some(Err(error)) => Err(syntax(&error)),
            None => Ok(Event::StreamEnd),
        }
    }

    /// The value that begins with this event, and the number of values in it.
    fn value(&mut self, event: Event<'a>, depth: usize) -> Result<(Yaml, usize), ConvertError> {
        if depth > DEEPEST {
            return Err(ConvertError::TooMany { most: DEEPEST, what: "levels of nesting" });
        }
        self.take(1)?;
        let mut size = 1;
        let (value, anchor) = match event {
            Event::Scalar(text, _, anchor, _) => (Yaml::Scalar(text.into_owned()), anchor),
            Event::Alias(anchor) => {
                let found = self.anchors.get(&anchor).cloned();
                let Some((value, size)) = found else {
                    return Err(self.error("an alias refers to a value that contains it"));
                };
                self.take(size)?;
                return Ok((value, size + 1));
            }
            Event::SequenceStart(anchor, _) => {
                let mut list = Vec::new();
                loop {
                    let event = self.next()?;
                    if event == Event::SequenceEnd {
                        break;
                    }
                    let (value, more) = self.value(event, depth + 1)?;
                    size += more;
                    list.push(value);
                }
                (Yaml::List(list), anchor)
            }
            Event::MappingStart(anchor, _) => {
                let mut entries = Vec::new();
                loop {
                    let event = self.next()?;
                    if event == Event::MappingEnd {
                        break;
                    }
                    let (key, more) = self.value(event, depth + 1)?;
                    size += more;
                    let Yaml::Scalar(key) = key else {
                        return Err(self.error("a key is a list or a map"));
                    };
                    let event = self.next()?;
                    let (value, more) = self.value(event, depth + 1)?;
                    size += more;
                    entries.push((key, value));
                }
                (merged(entries), anchor)
            }
            _ => return Err(self.error("the document ends inside a value")),
        };
        if anchor != 0 {
            // The anchored value is stored a second time.
            self.take(size)?;
            self.anchors.insert(anchor, (value.clone(), size));
        }
        Ok((value, size))
    }

    /// Counts values that were read. Fails beyond [`MOST_VALUES`].
    fn take(&mut self, count: usize) -> Result<(), ConvertError> {
        let error =
            ConvertError::TooMany { most: MOST_VALUES, what: "values, with those of its aliases" };
        self.left = self.left.checked_sub(count).ok_or(error)?;
        Ok(())
    }

    fn error(&self, reason: &str) -> ConvertError {
        ConvertError::Syntax { line: self.line, reason: reason.to_owned() }
    }
}

fn syntax(error: &ScanError) -> ConvertError {
    ConvertError::Syntax { line: error.marker().line(), reason: error.info().to_owned() }
}

/// A map in which the key `<<` adds entries of other maps. Entries of the map itself take
/// precedence.
fn merged(entries: Vec<(String, Yaml)>) -> Yaml {
    let (merges, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| key == "<<");
    for (_, value) in merges {
        let maps = if let Yaml::List(list) = value { list } else { vec![value] };
        for (key, value) in maps.into_iter().flat_map(|map| match map {
            Yaml::Map(entries) => entries,
            _ => Vec::new(),
        }) {
            if !own.iter().any(|(other, _)| *other == key) {
                own.push((key, value));
            }
        }
    }
    Yaml::Map(own)
}

/// Maximum number of values of a document. An alias counts as the values that it stands for, plus
/// one. A value with an anchor counts twice.
pub(super) const MOST_VALUES: usize = 200_000;
/// The deepest nesting.
pub(super) const DEEPEST: usize = 50;
/// Maximum number of entries of a list or map in a comment.
const MOST_SHOWN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_becomes_a_tree() {
        let text = "a: &x {b: 1, c: [2, 'three']}\nd:\n  <<: *x\n  b: 4\ne: *x\n";
        let tree = Yaml::parse(text).unwrap();
        assert_eq!(tree.get("a").unwrap().shown(), "{b: 1, c: [2, three]}");
        assert_eq!(tree.get("d").unwrap().shown(), "{b: 4, c: [2, three]}");
        assert_eq!(tree.get("e"), tree.get("a"));
        assert_eq!(Yaml::parse("").unwrap(), Yaml::Map(Vec::new()));
        assert_eq!(Yaml::parse("x").unwrap().text(), Some("x"));
    }

    #[test]
    fn a_fault_is_reported_with_its_line() {
        for (text, line) in [("a: 1\nb: [\n", 3), ("a: 1\n  b: 2\n", 2), ("? [a]\n: b\n", 1)] {
            match Yaml::parse(text) {
                Err(ConvertError::Syntax { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn aliases_count_as_the_values_that_they_stand_for() {
        // Each line has ten times the values of the line before.
        let mut text = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n".to_owned();
        for level in 1..9 {
            let below = vec![format!("*a{}", level - 1); 10].join(",");
            text += &format!("a{level}: &a{level} [{below}]\n");
        }
        let error = Yaml::parse(&text).unwrap_err();
        assert!(matches!(error, ConvertError::TooMany { most: MOST_VALUES, .. }), "{error}");
        let within: String = text.lines().take(4).flat_map(|line| [line, "\n"]).collect();
        assert!(Yaml::parse(&within).is_ok());
    }

    #[test]
    fn an_alias_to_a_value_that_contains_it_is_refused() {
        assert!(Yaml::parse("a: &x [1, *x]\n").is_err());
        assert!(Yaml::parse("a: *nothing\n").is_err());
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Yaml::parse(&nested(DEEPEST)).is_ok());
        for depth in [DEEPEST + 2, 200, 300, 100_000] {
            assert!(Yaml::parse(&nested(depth)).is_err(), "{depth}");
        }
        let block: String = (0..1000).map(|depth| " ".repeat(depth) + "a:\n").collect();
        assert!(Yaml::parse(&block).is_err());
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let list = |count: usize| "- 1\n".repeat(count);
        assert!(Yaml::parse(&list(MOST_VALUES - 1)).is_ok());
        assert!(Yaml::parse(&list(MOST_VALUES)).is_err());
    }
}
