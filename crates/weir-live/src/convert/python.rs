//! Divides a Python script into words. The script is not executed, so only its text is known.

use super::error::ConvertError;

/// A word with its line, from 1 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) line: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Name(String),
    /// A number as it is written.
    Number(String),
    /// A string without its quotes.
    Text(String),
    /// A string with an unknown value: a formatted string, a string of bytes, a string with an
    /// escape that is not read here, or a short string that does not end in its line.
    Computed,
    /// One character that belongs to no other kind, such as a bracket.
    Sign(char),
    /// The end of a line outside brackets.
    End,
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, ConvertError> {
    let mut reader = Reader { rest: text, line: 1, depth: 0, tokens: Vec::new() };
    while reader.step() {
        if reader.tokens.len() > MOST_TOKENS {
            return Err(ConvertError::TooMany { most: MOST_TOKENS, what: "words" });
        }
    }
    reader.push(Kind::End);
    Ok(reader.tokens)
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    /// The number of open brackets.
    depth: usize,
    tokens: Vec<Token>,
}

impl Reader<'_> {
    /// Reads a word, or the space between words. Returns `false` at the end.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        let word = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let word = &self.rest[..word.unwrap_or(self.rest.len())];
        match first {
            '\n' => {
                if self.depth == 0 {
                    self.push(Kind::End);
                }
                self.line += 1;
                self.skip(1);
            }
            '#' => self.skip(self.rest.find('\n').unwrap_or(self.rest.len())),
            '\\' if self.rest[1..].starts_with('\n') => {
                self.line += 1;
                self.skip(2);
            }
            '\'' | '"' => self.string(""),
            c if c.is_ascii_digit() => {
                let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
                let number = self.rest[..end.unwrap_or(self.rest.len())].to_owned();
                self.skip(number.len());
                self.push(Kind::Number(number));
            }
            _ if !word.is_empty() => {
                let after = self.rest[word.len()..].chars().next();
                let prefix = word.to_ascii_lowercase();
                if word.len() <= 2 && matches!(after, Some('\'' | '"')) {
                    self.skip(word.len());
                    self.string(&prefix);
                } else {
                    let name = word.to_owned();
                    self.skip(name.len());
                    self.push(Kind::Name(name));
                }
            }
            c => {
                self.skip(c.len_utf8());
                match c {
                    '(' | '[' | '{' => self.depth += 1,
                    ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                if !c.is_whitespace() {
                    self.push(Kind::Sign(c));
                }
            }
        }
        true
    }

    /// Reads a string, which begins with its quote. `prefix` has the letters before the quote, such
    /// as `r`, in lower case.
    fn string(&mut self, prefix: &str) {
        let quote = &self.rest[..1];
        let long = quote.repeat(3);
        let quote = if self.rest.starts_with(&long) { &*long } else { quote };
        let line = self.line;
        let body = &self.rest[quote.len()..];
        let mut value = String::new();
        let mut chars = body.char_indices();
        let mut length = body.len();
        let mut is_known = !prefix.contains(['f', 'b', 't']);
        while let Some((at, c)) = chars.next() {
            if body[at..].starts_with(quote) {
                length = at + quote.len();
                break;
            }
            // A short string ends with its line at the latest.
            if c == '\n' && quote.len() == 1 {
                length = at;
                is_known = false;
                break;
            }
            self.line += usize::from(c == '\n');
            if c != '\\' {
                value.push(c);
                continue;
            }
            let Some((_, escaped)) = chars.next() else { break };
            self.line += usize::from(escaped == '\n');
            match escaped {
                _ if prefix.contains('r') => value.extend([c, escaped]),
                '\\' | '\'' | '"' => value.push(escaped),
                'n' => value.push('\n'),
                't' => value.push('\t'),
                '\n' => {}
                _ => is_known = false,
            }
        }
        self.rest = &self.rest[quote.len() + length.min(body.len())..];
        let kind = if is_known { Kind::Text(value) } else { Kind::Computed };
        self.tokens.push(Token { line, kind });
    }

    fn push(&mut self, kind: Kind) {
        self.tokens.push(Token { line: self.line, kind });
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }
}

/// Maximum number of words of a script.
const MOST_TOKENS: usize = 300_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn words_are_names_numbers_strings_and_signs() {
        let text = |value: &str| Kind::Text(value.to_owned());
        assert_eq!(
            kinds("h1 = f('a', 10.5)  # g('b')"),
            [
                Kind::Name("h1".to_owned()),
                Kind::Sign('='),
                Kind::Name("f".to_owned()),
                Kind::Sign('('),
                text("a"),
                Kind::Sign(','),
                Kind::Number("10.5".to_owned()),
                Kind::Sign(')'),
                Kind::End,
            ]
        );
        assert_eq!(
            kinds(r#""a\"b\n" r'\d' '''x'y'''"#)[..3],
            [text("a\"b\n"), text("\\d"), text("x'y")]
        );
        assert_eq!(kinds("f'{x}' b'x' u'y'")[..3], [Kind::Computed, Kind::Computed, text("y")]);
    }

    #[test]
    fn lines_are_counted_through_strings_and_brackets() {
        let all = tokens("f(1,\n2)\n'''a\nb'''\\\nx\n").unwrap();
        let line = |kind: &Kind| all.iter().find(|token| token.kind == *kind).unwrap().line;
        assert_eq!(line(&Kind::Number("2".to_owned())), 2);
        assert_eq!(line(&Kind::Text("a\nb".to_owned())), 3);
        assert_eq!(line(&Kind::Name("x".to_owned())), 5);
        assert_eq!(all.iter().filter(|token| token.kind == Kind::End).count(), 3);
    }

    #[test]
    fn any_text_is_divided_into_words() {
        for text in
            ["'", "\"\"\"a", "'a\nb", "\\", "'\\", "(((", ")))", "ä'x", "0x", "f'", "é\"é\\é"]
        {
            let _ = kinds(text);
        }
        assert!(tokens(&"a ".repeat(MOST_TOKENS)).is_ok());
        assert!(tokens(&"a ".repeat(MOST_TOKENS + 2)).is_err());
    }
}
