//! Tables of text for a terminal.

use std::fmt::Write as _;

use weir_report::format::printable;

/// Rows of cells below a row of headings. Unless [`Self::left_aligned`] is called, only the first
/// column is left-aligned, and all others are right-aligned. Control characters are replaced,
/// because other users may choose the text of cells, such as command lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// The headings, then the rows.
    rows: Vec<Vec<String>>,
    left_aligned: bool,
}

impl Table {
    pub(crate) fn new<T: ToString>(headings: impl IntoIterator<Item = T>) -> Self {
        let headings =
            headings.into_iter().map(|heading| printable(&heading.to_string()).into_owned());
        Self { rows: vec![headings.collect()], left_aligned: false }
    }

    pub(crate) fn left_aligned(self) -> Self {
        Self { left_aligned: true, ..self }
    }

    pub(crate) fn add_row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell).into_owned()).collect());
    }

    /// The table in lines of at most `width` characters. Columns that do not fit follow in further
    /// tables below, each of which repeats the first column. A line is longer than `width` only if
    /// the first column and one other column do not fit side by side.
    pub(crate) fn text_within(&self, width: usize) -> String {
        let widths = self.widths();
        let Some((&first, others)) = widths.split_first() else { return String::new() };
        let (mut blocks, mut used) = (vec![vec![0]], 2 + first);
        for (column, column_width) in (1..).zip(others) {
            if used + 2 + column_width > width && used > 2 + first {
                blocks.push(vec![0]);
                used = 2 + first;
            }
            used += 2 + column_width;
            if let Some(block) = blocks.last_mut() {
                block.push(column);
            }
        }
        let text_of = |columns: &Vec<usize>| {
            let cells = |row: &Vec<String>| {
                columns.iter().map(|&column| row.get(column).cloned().unwrap_or_default()).collect()
            };
            let rows = self.rows.iter().map(cells).collect();
            Self { rows, left_aligned: self.left_aligned }.text()
        };
        blocks.iter().map(text_of).collect::<Vec<_>>().join("\n")
    }

    /// The width of each column, in characters.
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
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
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a String cannot fail.
                let _ = match (column, self.left_aligned) {
                    (0, _) => write!(line, " {cell:<width$}"),
                    (_, true) => write!(line, "  {cell:<width$}"),
                    (_, false) => write!(line, "  {cell:>width$}"),
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
    fn cells_have_no_control_characters() {
        let mut table = Table::new(["program", "a\x1b[1mb"]).left_aligned();
        table.add_row(["sh \x1b[8mhidden", "x\ny"].map(str::to_owned).to_vec());
        assert_eq!(table.text(), "  program        a·[1mb\n  sh ·[8mhidden  x·y\n");
    }

    #[test]
    fn columns_that_do_not_fit_follow_below() {
        let mut table = Table::new(["queue", "goodput", "delay", "loss"]);
        table.add_row(["codel", "9.87", "1.25", "0.5"].map(str::to_owned).to_vec());
        let expected =
            "  queue  goodput  delay\n  codel     9.87   1.25\n\n  queue  loss\n  codel   0.5\n";
        assert_eq!(table.text_within(24), expected);
        assert_eq!(table.text_within(80), table.text());
        assert!(table.text_within(1).contains("  codel   0.5"), "no cell is missing");
    }
}
