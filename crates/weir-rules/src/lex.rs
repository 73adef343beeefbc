//! The words of the command language, with their places.
//!
//! White space separates words. A word that begins with `"` extends to the closing quote and may
//! contain `\"` and `\\`. A `#` at the beginning of a word starts a comment, which extends to the
//! end of the line.

use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span};

/// A word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The word without quotes and escapes.
    pub(crate) text: String,
    /// The place of the word in the text, including quotes.
    pub(crate) span: Span,
    /// Whether the word is quoted; a quoted word is never a keyword.
    pub(crate) quoted: bool,
}

impl Word {
    /// The place of the part of `len` bytes at `offset`. If the word's text differs from the
    /// source, because it was quoted or is the value of a variable, this is the place of the whole
    /// word.
    pub(crate) fn part(&self, offset: usize, len: usize) -> Span {
        let start = self.span.start + offset;
        if self.span.len() == self.text.len() { start..start + len } else { self.span.clone() }
    }
}

/// Splits a text into words.
pub(crate) fn lex(text: &str, diagnostics: &mut Diagnostics) -> Vec<Word> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(|c: char| !c.is_whitespace()).map(|i| at + i) {
        let rest = &text[start..];
        at = if rest.starts_with('#') {
            rest.find('\n').map_or(text.len(), |i| start + i)
        } else if let Some(inside) = rest.strip_prefix('"') {
            let (content, len) = quoted(inside).unwrap_or_else(|| {
                let message = "the quoted word has no closing quote";
                diagnostics.push(
                    Diagnostic::new(Code::UnclosedQuote, text, start..text.len(), message)
                        .label("opened here"),
                );
                (inside.to_owned(), inside.len())
            });
            let end = start + 1 + len;
            words.push(Word { text: content, span: start..end, quoted: true });
            end
        } else {
            let end = rest.find(char::is_whitespace).map_or(text.len(), |i| start + i);
            words.push(Word { text: text[start..end].to_owned(), span: start..end, quoted: false });
            end
        };
    }
    words
}

/// The word in a form that the lexers of specifications and scripts read back, quoted if necessary.
/// `is_keyword` returns whether a word is a keyword.
pub(crate) fn quote(word: &str, is_keyword: impl Fn(&str) -> bool) -> String {
    let special = |c: char| c.is_whitespace() || "\"'\\$`;&|<>(){}=,".contains(c);
    let plain = !word.is_empty()
        && !word.starts_with('#')
        && !word.starts_with("//")
        && !word.contains(special)
        && !is_keyword(word);
    if plain {
        return word.to_owned();
    }
    let escaped =
        word.chars().flat_map(|c| "\\\"$`".contains(c).then_some('\\').into_iter().chain([c]));
    format!("\"{}\"", escaped.collect::<String>())
}

/// The content of a quoted word, and its length in the text including the closing quote; `None` if
/// the closing quote is missing.
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut content = String::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return Some((content, i + 1)),
            '\\' => content.push(chars.next()?.1),
            _ => content.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        lex(text, &mut Diagnostics::default()).into_iter().map(|w| w.text).collect()
    }

    #[test]
    fn words_quotes_and_comments() {
        assert_eq!(words("bw  4M # comment\n delay\t20ms"), ["bw", "4M", "delay", "20ms"]);
        assert_eq!(words(r#"profile "a \"b\\.txt" queue"#), ["profile", r#"a "b\.txt"#, "queue"]);
        assert_eq!(words("a#b"), ["a#b"]);
    }

    #[test]
    fn a_quoted_word_reads_back() {
        for word in
            ["plain", "", "two words", "#x", r#"q"u\o"#, "\"", "bw", "$HOME`x`", "//", "a=b"]
        {
            let text = quote(word, |w| w == "bw");
            let read = lex(&text, &mut Diagnostics::default());
            assert_eq!(read.len(), 1, "{text}");
            assert_eq!(read[0].text, word);
        }
        assert!(quote("bw", |w| w == "bw").starts_with('"'));
    }

    #[test]
    fn a_missing_quote_is_reported() {
        let mut diagnostics = Diagnostics::default();
        lex("profile \"abc", &mut diagnostics);
        assert_eq!(diagnostics.iter().next().map(|d| d.code), Some(Code::UnclosedQuote));
    }
}
