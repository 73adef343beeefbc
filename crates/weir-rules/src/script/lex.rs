//! Splits a script into lines and words, with quotes, variables, comments and continued lines.
//!
//! Words are as in a shell. White space separates them, but `"…"` and `'…'` may contain it. A `\`
//! removes the special meaning of the next character. Outside quotes, a `\` before a letter, a
//! digit or a space is an ordinary character. `$name` and `${name}` are values of variables. Within
//! `'…'`, neither `\` nor `$` has a meaning. At the beginning of a word, `#` starts a comment, and
//! `//` starts the comment of a rule. Both extend to the end of the line.

use crate::diagnostic::{Code, Diagnostic, Span, shorten};
use crate::lex::Word;

use super::variables::Variables;

type Problem = Box<Diagnostic>;

/// One line of the text, or several lines of which all but the last end with `\`.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    /// The text without the final line break.
    pub(crate) text: &'a str,
    /// The number of the first line, from 1.
    pub(crate) number: usize,
    /// The offset of the line in the script.
    pub(crate) start: usize,
}

impl Line<'_> {
    pub(crate) fn span(&self) -> Span {
        self.start..self.start + self.text.len()
    }
}

#[derive(Debug)]
pub(crate) struct Lexed<'a> {
    pub(crate) text: &'a str,
    pub(crate) words: Vec<Word>,
    pub(crate) comment: Option<String>,
    /// The offset of the `#` that starts a comment.
    pub(crate) hash: Option<usize>,
}

/// The lines of a script, without the byte order mark with which some editors begin a file.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mark = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
    let (mut start, mut number) = (mark, 1);
    std::iter::from_fn(move || {
        if start >= text.len() {
            return None;
        }
        let (first, mut end, mut count) = (start, start, 0);
        loop {
            let len = text[end..].find('\n').map_or(text.len() - end, |i| i + 1);
            let line = text[end..end + len].trim_end_matches(['\n', '\r']);
            end += len;
            count += 1;
            if !continues(line) || end >= text.len() {
                let line = Line {
                    text: text[first..end].trim_end_matches(['\n', '\r']),
                    number,
                    start: first,
                };
                start = end;
                number += count;
                return Some(line);
            }
        }
    })
}

/// Whether the next line continues this one: it ends with an odd number of `\` and has no comment.
fn continues(line: &str) -> bool {
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1 && !has_comment(line)
}

fn has_comment(line: &str) -> bool {
    if !line.contains('#') && !line.contains("//") {
        return false;
    }
    let (mut quote, mut before) = (None, ' ');
    let mut signs = line.char_indices();
    while let Some((at, c)) = signs.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None | Some('"'), '\\') => _ = signs.next(),
            (None, '#') if before.is_whitespace() => return true,
            (None, '/') if before.is_whitespace() && line[at..].starts_with("//") => return true,
            _ => {}
        }
        before = c;
    }
    false
}

/// The words of a line, with variables replaced by their values.
pub(crate) fn words<'a>(text: &'a str, variables: &mut Variables) -> Result<Lexed<'a>, Problem> {
    variables.begin_line(text.len());
    let mut lexer = Lexer { text, at: 0, variables, words: Vec::new() };
    loop {
        lexer.skip_space();
        let rest = lexer.rest();
        if rest.is_empty() || rest.starts_with('#') {
            let hash = (!rest.is_empty()).then_some(lexer.at);
            return Ok(Lexed { text, words: lexer.words, comment: None, hash });
        }
        if let Some(comment) = rest.strip_prefix("//") {
            let comment = tidy_comment(comment);
            return Ok(Lexed { text, words: lexer.words, comment, hash: None });
        }
        lexer.word()?;
    }
}

/// Removes the rule's comment from words that a shell has separated, and returns it.
pub(crate) fn take_comment(words: &mut Vec<Word>) -> Option<String> {
    let at = words.iter().position(|word| word.text.starts_with("//"))?;
    let comment: Vec<String> = words.split_off(at).into_iter().map(|word| word.text).collect();
    tidy_comment(&comment.join(" ")[2..])
}

/// A comment in a form that fits on one line: words separated by single spaces, without a `\` that
/// would continue the line.
pub(crate) fn tidy_comment(text: &str) -> Option<String> {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty() && *w != "\\")
        .collect();
    let joined = words.join(" ");
    let tidy = joined.trim_end_matches(['\\', ' ']);
    (!tidy.is_empty()).then(|| tidy.to_owned())
}

struct Lexer<'a, 'v> {
    text: &'a str,
    /// The offset of the next character.
    at: usize,
    variables: &'v mut Variables,
    words: Vec<Word>,
}

impl<'a> Lexer<'a, '_> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        loop {
            let rest = self.rest().trim_start();
            self.at = self.text.len() - rest.len();
            let continued = ["\\\n", "\\\r\n"].iter().find(|end| rest.starts_with(**end));
            match continued {
                Some(end) => self.at += end.len(),
                None if rest == "\\" => self.at += 1,
                None => return,
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn word(&mut self) -> Result<(), Problem> {
        let start = self.at;
        let quoted = self.rest().starts_with(['"', '\'']);
        let first = self.words.len();
        let mut text = String::new();
        while let Some(c) = self.rest().chars().next().filter(|c| !c.is_whitespace()) {
            self.at += c.len_utf8();
            match c {
                '"' => self.double_quoted(&mut text)?,
                '\'' => self.single_quoted(&mut text)?,
                '\\' => self.escaped(&mut text),
                '$' => {
                    let value = self.variable()?;
                    if is_assignment(&text) {
                        text += &value;
                    } else {
                        // The value of a variable outside quotes may consist of several words.
                        self.split(&mut text, &value, start)?;
                    }
                }
                '`' => return Err(self.substitution(start)),
                c => text.push(c),
            }
            if text.len() > LONGEST_WORD {
                let message = format!("a word longer than {LONGEST_WORD} bytes");
                return Err(Box::new(
                    Diagnostic::new(Code::TooMuch, self.text, start..self.at, message)
                        .label("ends nowhere near"),
                ));
            }
        }
        let span = start..self.at;
        self.words[first..].iter_mut().for_each(|word| word.span = span.clone());
        if quoted || !text.is_empty() {
            self.push(Word { text, span, quoted })?;
        }
        Ok(())
    }

    fn push(&mut self, word: Word) -> Result<(), Problem> {
        if self.words.len() >= MOST_WORDS {
            let message = format!("the line has more than {MOST_WORDS} words");
            let error = Diagnostic::new(Code::TooMuch, self.text, word.span, message);
            let help = "put a long list into a table: `table NAME add ADDRESS`, then `table(NAME)`";
            return Err(Box::new(error.label("one word too many").help(help)));
        }
        self.words.push(word);
        Ok(())
    }

    /// Appends a variable's value. White space in it ends the current word and begins the next one.
    fn split(&mut self, text: &mut String, value: &str, start: usize) -> Result<(), Problem> {
        for (i, piece) in value.split(char::is_whitespace).enumerate() {
            if i > 0 && !text.is_empty() {
                let text = std::mem::take(text);
                self.push(Word { text, span: start..start, quoted: false })?;
            }
            text.push_str(piece);
        }
        Ok(())
    }

    fn double_quoted(&mut self, text: &mut String) -> Result<(), Problem> {
        let start = self.at - 1;
        while let Some(c) = self.next() {
            match c {
                '"' => return Ok(()),
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(c) => text.push(c),
                },
                '$' => {
                    let value = self.variable()?;
                    text.push_str(&value);
                }
                '`' => return Err(self.substitution(start)),
                c => text.push(c),
            }
        }
        Err(self.unclosed(start))
    }

    fn single_quoted(&mut self, text: &mut String) -> Result<(), Problem> {
        let start = self.at - 1;
        let Some(end) = self.rest().find('\'') else { return Err(self.unclosed(start)) };
        text.push_str(&self.rest()[..end]);
        self.at += end + 1;
        Ok(())
    }

    /// Handles a `\` outside quotes. Before a letter, a digit or a space, the `\` is an ordinary
    /// character. At the end of a line, the `\` and the line break are dropped.
    fn escaped(&mut self, text: &mut String) {
        let rest = self.rest();
        match rest.chars().next() {
            None => {}
            Some('\n') => self.at += 1,
            Some('\r') if rest.starts_with("\r\n") => self.at += 2,
            Some(c) if c.is_alphanumeric() || c.is_whitespace() => text.push('\\'),
            Some(c) => {
                self.at += c.len_utf8();
                text.push(c);
            }
        }
    }

    /// The value of the variable after the `$` that was read.
    fn variable(&mut self) -> Result<String, Problem> {
        let start = self.at - 1;
        let rest = self.rest();
        let (braced, inside) =
            rest.strip_prefix('{').map_or((false, rest), |inside| (true, inside));
        let name = &inside[..name_len(inside)];
        let closed = !braced || inside[name.len()..].starts_with('}');
        if name.is_empty() || !closed {
            return Err(self.substitution(start));
        }
        self.at += name.len() + if braced { 2 } else { 0 };
        let place = start..self.at;
        match self.variables.expand(name) {
            Some(Ok(value)) => Ok(value.to_owned()),
            Some(Err(too_much)) => {
                let error = Diagnostic::new(Code::TooMuch, self.text, place, too_much.to_string());
                Err(Box::new(error.label("more than that from here on").help(too_much.help())))
            }
            None => Err(self.unknown_variable(name, place)),
        }
    }

    fn unknown_variable(&self, name: &str, place: Span) -> Problem {
        let name = shorten(name);
        let error = Diagnostic::new(
            Code::UnknownVariable,
            self.text,
            place,
            format!("`{name}` has no value"),
        );
        let known = crate::suggest::closest(&name, self.variables.names());
        let error = error.label(known.map_or_else(
            || "never assigned".to_owned(),
            |meant| format!("did you mean `${meant}`?"),
        ));
        Box::new(error.help(format!("assign it in a line before this one: `{name}=\"…\"`")))
    }

    fn substitution(&self, start: usize) -> Problem {
        let end = (self.at + 1).min(self.text.len());
        let error =
            Diagnostic::new(Code::Shell, self.text, start..end, "only a shell can carry this out");
        let help = "a script may have these parts of a shell's language: `name=\"value\"`, `$name` \
                    and `${name}`; write the result here, or `\\$` for the sign";
        Box::new(error.label("a substitution").help(help))
    }

    fn unclosed(&self, start: usize) -> Problem {
        let error = Diagnostic::new(
            Code::UnclosedQuote,
            self.text,
            start..self.text.len(),
            "the quoted word has no closing quote",
        );
        Box::new(error.label("opened here"))
    }
}

/// Whether a word begins with `NAME=`.
pub(crate) fn is_assignment(word: &str) -> bool {
    let len = name_len(word);
    len > 0 && word[len..].starts_with('=')
}

/// The length of the variable name at the beginning of a text.
fn name_len(text: &str) -> usize {
    let len = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if text.starts_with(|c: char| c.is_ascii_digit()) { 0 } else { len }
}

const BYTE_ORDER_MARK: char = '\u{feff}';
/// Maximum length of a word in bytes.
const LONGEST_WORD: usize = 1_000_000;
/// Maximum number of words of a line after variables are replaced. Even a word of a single letter
/// takes some dozens of bytes in memory.
const MOST_WORDS: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        let mut variables = Variables::default();
        variables.assign("a", "one two").unwrap();
        variables.assign("e", "").unwrap();
        words(line, &mut variables).unwrap().words.into_iter().map(|w| w.text).collect()
    }

    #[test]
    fn words_are_split_as_in_a_shell() {
        assert_eq!(
            texts(r#"add "pipe 1" it\'s \{ a\b 'x $a'"#),
            ["add", "pipe 1", "it's", "{", r"a\b", "x $a"]
        );
        assert_eq!(texts("x${a}y \"$a\" $e \"$e\""), ["xone", "twoy", "one two", ""]);
        assert_eq!(texts("n=$a m"), ["n=one two", "m"]);
        assert_eq!(texts("a \\\n  b # c"), ["a", "b"]);
    }

    #[test]
    fn lines_continue_after_a_backslash() {
        let all: Vec<_> = lines("a \\\nb\r\n# c \\\nd # c \\\n\ne '#' \\\nf")
            .map(|l| (l.number, l.text))
            .collect();
        assert_eq!(
            all,
            [(1, "a \\\nb"), (3, "# c \\"), (4, "d # c \\"), (5, ""), (6, "e '#' \\\nf")]
        );
    }

    #[test]
    fn a_byte_order_mark_at_the_beginning_is_skipped() {
        let all: Vec<_> =
            lines("\u{feff}a\n\u{feff}b").map(|l| (l.number, l.text, l.start)).collect();
        assert_eq!(all, [(1, "a", 3), (2, "\u{feff}b", 5)]);
        assert_eq!(lines("\u{feff}").count(), 0);
    }

    #[test]
    fn a_comment_is_kept_for_the_rule() {
        let lexed = words("add allow //  it's #1 \\", &mut Variables::default()).unwrap();
        assert_eq!(lexed.comment.as_deref(), Some("it's #1"));
        assert_eq!(lexed.words.len(), 2);
    }

    #[test]
    fn constructs_that_only_a_shell_has_are_refused() {
        for (line, code) in [
            ("a $(b)", Code::Shell),
            ("a `b`", Code::Shell),
            ("a ${b:-c}", Code::Shell),
            ("a $1", Code::Shell),
            ("$b", Code::UnknownVariable),
            ("a 'b", Code::UnclosedQuote),
        ] {
            assert_eq!(words(line, &mut Variables::default()).unwrap_err().code, code, "{line}");
        }
    }
}
