//! PMI-1: the text protocol between MPI launchers and their processes.
//!
//! A line is `key=value` fields with spaces between them, ended by a newline. The process sends a
//! command (`cmd=get …`), the launcher answers (`cmd=get_result rc=0 …`). The order of fields
//! differs between launchers, so they are found by key. Hydra and its relatives speak PMI-1, and
//! Slurm's `pmi2` plugin answers it. [`client`] is the process's side, [`server`] the launcher's.
//!
//! Source: the "simple" PMI wire protocol of MPICH (version 1.1). Its implementations are its only
//! specification.

pub(super) mod client;
pub(super) mod mapping;
pub(super) mod server;

/// Longest line that is accepted, in bytes. The longest values and names make no line of half this
/// length.
const LONGEST_LINE: usize = 4096;

/// The fields of a line.
#[derive(Clone, Copy, Debug)]
struct PmiLine<'a>(&'a str);

impl<'a> PmiLine<'a> {
    /// Returns the value of the field `key`. The values of `msg` and of `value` may contain `=`.
    fn get(self, key: &str) -> Option<&'a str> {
        let mut fields = self.0.split_ascii_whitespace().filter_map(|field| field.split_once('='));
        fields.find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    fn number<T: core::str::FromStr>(self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }
}

/// Splits incoming bytes into lines.
#[derive(Debug, Default)]
struct LineReader {
    bytes: Vec<u8>,
}

impl LineReader {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete line, without its end.
    fn next(&mut self) -> Option<String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.bytes.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    /// Returns true when the pending bytes exceed the longest line.
    fn is_overlong(&self) -> bool {
        self.bytes.len() > LONGEST_LINE
    }
}

/// Returns the lines in these bytes.
pub(crate) fn lines_of(bytes: &[u8]) -> Vec<String> {
    let mut lines = LineReader::default();
    lines.push(bytes);
    core::iter::from_fn(|| lines.next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_key_in_any_order() {
        let line = PmiLine("value=a=b rc=0 cmd=get_result");
        assert_eq!(line.get("cmd"), Some("get_result"));
        assert_eq!(line.get("value"), Some("a=b"));
        assert_eq!((line.number::<i32>("rc"), line.number::<i32>("value")), (Some(0), None));
        assert_eq!((line.get("a"), line.get("key")), (None, None));
    }

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let mut lines = LineReader::default();
        lines.push(b"cmd=bar");
        assert_eq!(lines.next(), None);
        lines.push(b"rier_in\ncmd=finalize\ncm");
        assert_eq!(lines.next().as_deref(), Some("cmd=barrier_in"));
        assert_eq!(lines.next().as_deref(), Some("cmd=finalize"));
        assert_eq!(lines.next(), None);
        lines.push(&[b'x'; LONGEST_LINE]);
        assert!(lines.is_overlong());
    }
}
