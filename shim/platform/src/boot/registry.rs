//! The registry of a user's universes: a file that tells which process made which universe.
//!
//! Each line is one entry, three fields with a space between them:
//!
//! | field   | written as                   | meaning                                      |
//! |---------|------------------------------|----------------------------------------------|
//! | key     | letters, digits, `-` and `_` | the key that the processes have in common    |
//! | process | decimal digits               | the process that keeps the segment open      |
//! | nonce   | 16 hexadecimal digits        | the segment's nonce, a part of its file name |
//!
//! An entry is a hint and proves nothing: the process has to have the segment open. So a line that
//! cannot be parsed is dropped, and an entry of a process that has ended does no harm.

/// Longest registry that is read, in bytes.
pub(super) const LONGEST: usize = 1 << 20;

/// A universe, and where its segment is found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct UniverseEntry {
    pub(super) key: String,
    /// The process that made the segment.
    pub(super) process: u32,
    /// The nonce of the segment.
    pub(super) nonce: u64,
}

/// The entries of the file, oldest universe first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct UniverseRegistry {
    pub(super) entries: Vec<UniverseEntry>,
}

impl UniverseRegistry {
    /// Parses a registry. It leaves out lines that are not entries.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let lines = bytes.get(..LONGEST).unwrap_or(bytes).split(|byte| *byte == b'\n');
        Self { entries: lines.filter_map(UniverseEntry::parse).collect() }
    }

    /// Returns the file's bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let line = |UniverseEntry { key, process, nonce }: &UniverseEntry| {
            format!("{key} {process} {nonce:016x}\n")
        };
        self.entries.iter().map(line).collect::<String>().into_bytes()
    }
}

impl UniverseEntry {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = str::from_utf8(line).ok()?.split(' ');
        let (key, process, nonce) = (fields.next()?, fields.next()?, fields.next()?);
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_one = is_key(key) && is_digits(process) && is_digits(nonce);
        if !is_one || nonce.len() != 16 || fields.next().is_some() {
            return None;
        }
        let process = process.parse().ok().filter(|process| *process > 0)?;
        Some(Self { key: key.into(), process, nonce: u64::from_str_radix(nonce, 16).ok()? })
    }
}

/// Returns whether `key` may be written into a registry.
pub(super) fn is_key(key: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=128).contains(&key.len()) && key.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_read_as_it_is_written() {
        let entry = |key: &str, process, nonce| UniverseEntry { key: key.into(), process, nonce };
        let entries = vec![entry("pmi-7", 1, u64::MAX), entry("a_b", 2, 0), entry("pmi-7", 3, 9)];
        let registry = UniverseRegistry { entries };
        assert_eq!(UniverseRegistry::parse(&registry.to_bytes()), registry);
    }

    #[test]
    fn lines_that_are_no_entries_are_left_out() {
        let whole = b"user 12 00000000000000ff\n";
        let bad: [&[u8]; 8] = [
            b"",
            b"user 12",
            b"user 12 ff\n",
            b"user 0 00000000000000ff\n",
            b"user -1 00000000000000ff\n",
            b"us/er 12 00000000000000ff\n",
            b"user 12 00000000000000ff more\n",
            b"\xff\xfe 12 00000000000000ff\n",
        ];
        for bad in bad {
            let bytes = [whole, bad, b"\n", &whole[..]].concat();
            assert_eq!(UniverseRegistry::parse(&bytes).entries.len(), 2, "{bad:?}");
        }
    }
}
