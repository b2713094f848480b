//! Tables for readers, as wide as their terminal at most.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use console::Term;

/// Maximum width of a table where standard output is no terminal, in columns. It is fixed, so that
/// the output of one run can be compared with that of another.
pub(crate) const PIPED_WIDTH: u16 = 80;

/// Minimum width of a table in columns. Below it, words would be cut into single letters.
const LEAST_WIDTH: u16 = 40;

/// A table without lines between its cells. Cells that do not fit are wrapped.
#[derive(Debug)]
pub(crate) struct TextTable(Table);

impl TextTable {
    /// Makes an empty table.
    pub(crate) fn new() -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        Self(table)
    }

    /// Sets the names of the columns. All columns except the first are aligned to the right.
    pub(crate) fn columns(&mut self, names: &[&str]) {
        self.0.set_header(names);
        for column in self.0.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, cells: Vec<String>) {
        self.0.add_row(cells);
    }

    /// Keeps the first column as wide as its longest cell. The other columns share the rest.
    pub(crate) fn keep_first_column(&mut self) {
        if let Some(first) = self.0.column_mut(0) {
            first.set_constraint(ColumnConstraint::ContentWidth);
        }
    }

    /// Puts one blank between the columns that are set, not two.
    pub(crate) fn narrow(&mut self) {
        for column in self.0.column_iter_mut() {
            column.set_padding((0, 1));
        }
    }

    /// Returns the table in `width` columns at most, without blanks at the ends of its lines, which
    /// would disturb copies of them.
    pub(crate) fn text(&mut self, width: u16) -> String {
        self.0.set_width(width.max(LEAST_WIDTH));
        self.0.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the width of the terminal that shows standard output, or [`PIPED_WIDTH`] without one.
pub(crate) fn reader_width() -> u16 {
    let terminal = Term::stdout();
    terminal.is_term().then(|| terminal.size_checked()).flatten().map_or(PIPED_WIDTH, |size| size.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a table with a line of `cells` cells.
    fn table(cells: usize) -> TextTable {
        let mut table = TextTable::new();
        let names: Vec<String> = (0..cells).map(|cell| format!("column {cell}")).collect();
        table.columns(&names.iter().map(String::as_str).collect::<Vec<_>>());
        table.line((0..cells).map(|_| "123.45 µs".to_owned()).collect());
        table
    }

    fn width(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_table_is_as_wide_as_its_cells_or_its_reader() {
        assert_eq!(table(3).text(80), table(3).text(200));
        assert!(width(&table(3).text(80)) < 40);
        for reader in [40, 80, 120] {
            assert!(width(&table(12).text(reader)) <= usize::from(reader), "{reader}");
        }
        assert_eq!(width(&table(12).text(10)), width(&table(12).text(LEAST_WIDTH)));
    }

    #[test]
    fn a_kept_column_is_not_wrapped() {
        let mut table = TextTable::new();
        table.line(vec!["STRAIT_UNEXPECTED_MAX".into(), "a remark ".repeat(20)]);
        table.keep_first_column();
        assert!(table.text(40).contains("STRAIT_UNEXPECTED_MAX"));
    }
}
