//! Distribution tables in netem's `.dist` format: integers separated by white space, and comments
//! that start with `#`. An entry is a deviation from the mean delay, in units of 1/8192 of the
//! jitter.

use weir_core::dist::Distribution;

use crate::diagnostic::{Code, Diagnostic, span_of};

/// Parses the text of a table. `name` is the file's name and becomes the name of the distribution.
///
/// # Errors
/// An entry is not a 32-bit integer, or there are too few or too many entries.
pub fn parse(text: &str, name: &str) -> Result<Distribution, Box<Diagnostic>> {
    let error = |word: &str, message: String| {
        Diagnostic::new(Code::BadFile, text, span_of(text, word), message).in_file(name)
    };
    let mut table = Vec::new();
    for word in
        text.lines().flat_map(|line| line.split('#').next().unwrap_or_default().split_whitespace())
    {
        let value = word.parse::<i32>().map_err(|_| {
            let message = format!("`{word}` is no entry of a distribution table");
            error(word, message)
                .label("expected a whole number")
                .help("an entry is a deviation in units of 1/8192 of the jitter, such as -8192")
        })?;
        table.push(value);
    }
    Distribution::from_table(name.to_owned(), table)
        .map_err(|problem| Box::new(error(&text[..0], problem.to_string()).label("this file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_white_space_are_skipped() {
        let table =
            parse("# two values\n-8192 0\t8192 # the end\n", "x.dist").map_err(|e| e.message);
        assert_eq!(
            table.as_ref().map(|d| (d.name(), d.table())),
            Ok(("x.dist", &[-8192, 0, 8192][..]))
        );
    }

    #[test]
    fn the_bad_word_is_named_with_its_line() {
        let error = parse("1 2\n3 x4 5\n", "x.dist").unwrap_err();
        assert_eq!(
            (error.line, error.span.clone(), error.file.as_deref()),
            (2, 2..4, Some("x.dist"))
        );
        assert!(parse("7", "x.dist").unwrap_err().message.contains("2 to"));
    }
}
