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

    /// The text in lines of at most `width` columns, if each cell fits beside the first one.
    /// Columns that do not fit follow below, each time with the first column in front.
    pub(crate) fn text_within(&self, width: usize) -> String {
        let widths = self.widths();
        let Some((&first, others)) = widths.split_first() else { return String::new() };
        let (mut blocks, mut used) = (vec![vec![0]], 2 + first);
        for (place, cell) in (1..).zip(others) {
            if used + 2 + cell > width && used > 2 + first {
                blocks.push(vec![0]);
                used = 2 + first;
            }
            used += 2 + cell;
            if let Some(block) = blocks.last_mut() {
                block.push(place);
            }
        }
        let part = |columns: &Vec<usize>| {
            let cells = |row: &Vec<String>| {
                columns.iter().map(|&column| row.get(column).cloned().unwrap_or_default()).collect()
            };
            Self { rows: self.rows.iter().map(cells).collect(), left: self.left }.text()
        };
        blocks.iter().map(part).collect::<Vec<_>>().join("\n")
    }

    /// The width of each column.
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|word| word.chars().count())
                .max()
                .unwrap_or(0)
        };
        (0..columns).map(width_of).collect()
    }

    pub(crate) fn text(&self) -> String {
        let widths = self.widths();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_do_not_fit_follow_below() {
        let mut table = Table::new(["queue", "goodput", "delay", "loss"]);
        table.row(["codel", "9.87", "1.25", "0.5"].map(str::to_owned).to_vec());
        let expected =
            "  queue  goodput  delay\n  codel     9.87   1.25\n\n  queue  loss\n  codel   0.5\n";
        assert_eq!(table.text_within(24), expected);
        assert_eq!(table.text_within(80), table.text());
        assert!(table.text_within(1).contains("  codel   0.5"), "no cell is left out");
    }
}
