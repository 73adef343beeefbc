//! Tables of words for a terminal.

use std::fmt::Write as _;

/// Rows of text with column heads. The first column is left-aligned, all others are right-aligned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    left: bool,
}

impl Table {
    pub(crate) fn new<T: ToString>(head: impl IntoIterator<Item = T>) -> Self {
        Self { rows: vec![head.into_iter().map(|word| word.to_string()).collect()], left: false }
    }

    /// Left-aligns all columns.
    pub(crate) fn left(self) -> Self {
        Self { left: true, ..self }
    }

    pub(crate) fn row(&mut self, words: Vec<String>) {
        self.rows.push(words);
    }

    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|word| word.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width_of).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::from(" ");
            for (place, (word, width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a String cannot fail.
                let _ = match (place, self.left) {
                    (0, _) => write!(line, " {word:<width$}"),
                    (_, true) => write!(line, "  {word:<width$}"),
                    (_, false) => write!(line, "  {word:>width$}"),
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}
