//! Checks that no file is too long to read at a sitting.

use super::{Finding, Repository};

/// The first length, in lines, that is too long.
const LIMIT: usize = 500;

pub(super) fn findings(repository: &Repository) -> Vec<Finding> {
    let too_long = |lines: &usize| *lines >= LIMIT;
    let finding = |(file, lines): (&String, usize)| Finding {
        file: file.clone(),
        line: LIMIT,
        problem: format!("{lines} lines, the limit is {LIMIT}: split it, one concept a file"),
    };
    let lengths =
        repository.sources.iter().map(|source| (&source.path, source.text.lines().count()));
    lengths.filter(|(_, lines)| too_long(lines)).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::{file, lines};
    use super::*;

    #[test]
    fn five_hundred_lines_are_too_many() {
        let long = findings(&file("a.rs", &"\n".repeat(500)));
        assert_eq!(lines(&long, "500 lines"), [500]);
        assert_eq!(findings(&file("a.rs", &"\n".repeat(499))), []);
    }
}
