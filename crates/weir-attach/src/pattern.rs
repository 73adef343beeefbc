//! Patterns for names of targets: one name, or a regular expression that several names may match.

use std::fmt;
use std::str::FromStr;

use regex::{Regex, RegexBuilder};

/// A name, or a regular expression after `re:`.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Exactly this name.
    Name(String),
    /// All names in which the expression occurs.
    Expression(Regex),
}

impl Pattern {
    /// Whether a name matches.
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        match self {
            Pattern::Name(own) => own == name,
            Pattern::Expression(regex) => regex.is_match(name),
        }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        match text.strip_prefix("re:") {
            None if text.is_empty() => Err("a name is missing after the colon".into()),
            None => Ok(Pattern::Name(text.to_owned())),
            Some("") => Err("a regular expression is missing after re:".into()),
            Some(expression) => RegexBuilder::new(expression)
                .size_limit(LARGEST)
                .build()
                .map(Pattern::Expression)
                .map_err(|error| format!("'{expression}' is no regular expression: {error}")),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Name(name) => write!(f, "{name}"),
            Pattern::Expression(regex) => write!(f, "re:{regex}"),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.to_string() == other.to_string()
    }
}

/// Maximum length of a compiled expression in bytes.
const LARGEST: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_exactly_and_expressions_anywhere() {
        let pattern = |text: &str| text.parse::<Pattern>();
        assert!(pattern("web").unwrap().fits("web"));
        assert!(!pattern("web").unwrap().fits("web-1"));
        assert!(pattern("re:^web-").unwrap().fits("web-1"));
        assert!(!pattern("re:^web-").unwrap().fits("my-web-1"));
        assert!(pattern("").is_err() && pattern("re:").is_err() && pattern("re:(").is_err());
        assert!(pattern("re:(a{1000}){1000}").is_err(), "an expression has a bounded size");
    }
}
