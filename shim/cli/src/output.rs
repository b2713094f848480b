//! What the program prints: lines on standard output, and errors as one sentence.

use core::error::Error;
use core::fmt;
use std::io::{self, Write};

/// Writes a line to standard output. A closed reader is no error.
pub(crate) fn say(line: &str) -> io::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Writes an error to standard error, under the program's name.
///
/// It is one write, so that lines of several ranks do not get mixed up. A closed reader is no
/// error.
pub(crate) fn complain(text: impl fmt::Display) {
    let _ = io::stderr().write_all(format!("strait: {text}\n").as_bytes());
}

/// Formats an error with its causes, except those that its text already contains.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}
