//! PMI-1: what MPI's launchers and their processes say to each other, in lines of text.
//!
//! A line is `key=value` fields with spaces between them, ended by a newline. The process asks (`cmd=get …`), the launcher
//! answers (`cmd=get_result rc=0 …`). The order of fields differs between launchers, so they are found by key. Hydra and
//! its relatives speak it, Slurm's `pmi2` plugin answers it. [`client`] is the process's side, [`server`] the launcher's.
//!
//! Source: the "simple" PMI wire protocol of MPICH (version 1.1), which has no other text than its implementations.

pub(super) mod client;
pub(super) mod mapping;
pub(super) mod server;

/// Longest line that is taken in, bytes. The longest values and names make no line of half this length.
const LONGEST_LINE: usize = 4096;

/// The fields of a line.
#[derive(Clone, Copy, Debug)]
struct Line<'a>(&'a str);

impl<'a> Line<'a> {
    /// The value of the field `key`. That of `msg` and of `value` may hold `=`.
    fn get(self, key: &str) -> Option<&'a str> {
        let mut fields = self.0.split_ascii_whitespace().filter_map(|field| field.split_once('='));
        fields.find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    fn number<T: core::str::FromStr>(self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }
}

/// Bytes as they come in, line by line.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line, without its end.
    fn next(&mut self) -> Option<String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.bytes.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    /// True when what has come cannot become a line any more.
    fn is_overlong(&self) -> bool {
        self.bytes.len() > LONGEST_LINE
    }
}

/// The lines in these bytes.
pub(crate) fn lines_of(bytes: &[u8]) -> Vec<String> {
    let mut lines = Lines::default();
    lines.push(bytes);
    core::iter::from_fn(|| lines.next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_key_in_any_order() {
        let line = Line("value=a=b rc=0 cmd=get_result");
        assert_eq!(line.get("cmd"), Some("get_result"));
        assert_eq!(line.get("value"), Some("a=b"));
        assert_eq!((line.number::<i32>("rc"), line.number::<i32>("value")), (Some(0), None));
        assert_eq!((line.get("a"), line.get("key")), (None, None));
    }

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let mut lines = Lines::default();
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
