//! Markdown with lines of at most 100 columns.

/// The text with its long lines wrapped. Tables, code blocks, headings and code spans are not
/// split.
pub(crate) fn wrap(text: &str) -> String {
    let (mut out, mut in_code) = (String::new(), false);
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        if in_code || line.starts_with("```") || line.starts_with(['|', '#', '<']) {
            out += line;
        } else {
            wrap_line(&mut out, line);
        }
        out.push('\n');
    }
    out
}

fn wrap_line(out: &mut String, line: &str) {
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let (mut column, mut in_span) = (0, false);
    let words = line.split(|c| {
        // A space inside a code span does not separate words.
        in_span ^= c == '`';
        c == ' ' && !in_span
    });
    for (i, word) in words.enumerate() {
        let width = word.chars().count();
        if i > 0 && column + 1 + width > WIDTH {
            out.push('\n');
            out.push_str(indent);
            column = indent.len();
        } else if i > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
}

/// Maximum number of columns in a line.
const WIDTH: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_between_words() {
        let word = "abcdefgh ".repeat(13);
        let text = format!("- {word}`one span`\n| {word} |\n```\n{word}\n```\n");
        let wrapped = wrap(&text);
        let lines: Vec<_> = wrapped.lines().collect();
        assert_eq!(lines[0].len(), WIDTH);
        assert!(
            lines[1].starts_with("  abcdefgh") && lines[1].ends_with("`one span`"),
            "{wrapped}"
        );
        assert_eq!(
            wrapped.lines().skip(2).collect::<Vec<_>>(),
            text.lines().skip(1).collect::<Vec<_>>()
        );
    }
}
