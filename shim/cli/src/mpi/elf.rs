//! What `strait mpi` reads and writes of ELF files of 64 bits (`elf(5)`).

use core::ops::Range;

/// Type of a segment that is loaded, of the dynamic section, and of the interpreter's name.
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;

/// Tags of entries of the dynamic section.
pub(super) const END: u64 = 0;
pub(super) const NEEDED: u64 = 1;
pub(super) const STRING_TABLE: u64 = 5;
pub(super) const SONAME: u64 = 14;
pub(super) const RPATH: u64 = 15;
pub(super) const RUNPATH: u64 = 29;

/// A file in memory.
#[derive(Debug)]
pub(super) struct Elf {
    pub(super) bytes: Vec<u8>,
    segments: Vec<ElfSegment>,
}

#[derive(Debug)]
struct ElfSegment {
    kind: u32,
    file: Range<usize>,
    address: u64,
}

impl Elf {
    /// Reads the headers. Returns `None` for a file that is no such file.
    pub(super) fn parse(bytes: Vec<u8>) -> Option<Self> {
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let headers = usize::try_from(number(&bytes, 32, 8)?).ok()?;
        let (size, count) = (number(&bytes, 54, 2)? as usize, number(&bytes, 56, 2)? as usize);
        let segments = (0..count).map(|n| {
            let at = headers.checked_add(n * size)?;
            let start = usize::try_from(number(&bytes, at + 8, 8)?).ok()?;
            let length = usize::try_from(number(&bytes, at + 32, 8)?).ok()?;
            let file = start..start.checked_add(length)?;
            let kind = number(&bytes, at, 4)? as u32;
            Some(ElfSegment { kind, file, address: number(&bytes, at + 16, 8)? })
        });
        let segments = segments.collect::<Option<_>>()?;
        Some(Self { bytes, segments })
    }

    /// Returns whether the program is linked dynamically.
    pub(super) fn has_interpreter(&self) -> bool {
        self.segments.iter().any(|segment| segment.kind == INTERPRETER)
    }

    /// Returns the entries of the dynamic section: place in the file, tag, value.
    pub(super) fn dynamic(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        let section = self.segments.iter().find(|segment| segment.kind == DYNAMIC);
        let places = section.map_or(0..0, |section| section.file.clone()).step_by(16);
        let entries = places.filter_map(|at| Some((at, self.number(at)?, self.number(at + 8)?)));
        entries.take_while(|(_, tag, _)| *tag != END)
    }

    /// Returns the value of the first entry with this tag.
    pub(super) fn value(&self, wanted: u64) -> Option<u64> {
        self.dynamic().find(|(_, tag, _)| *tag == wanted).map(|(_, _, value)| value)
    }

    /// Returns the strings that entries with this tag name.
    pub(super) fn names(&self, wanted: u64) -> Vec<String> {
        let Some(table) = self.value(STRING_TABLE) else { return Vec::new() };
        let of_tag = self.dynamic().filter(|(_, tag, _)| *tag == wanted);
        of_tag.filter_map(|(_, _, value)| self.string(table.checked_add(value)?)).collect()
    }

    fn string(&self, address: u64) -> Option<String> {
        let rest = self.bytes.get(self.place(address)?..)?;
        let text = rest.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// Returns the place in the file of a loaded address.
    fn place(&self, address: u64) -> Option<usize> {
        self.segments.iter().filter(|segment| segment.kind == LOAD).find_map(|segment| {
            let offset = usize::try_from(address.checked_sub(segment.address)?).ok()?;
            (offset < segment.file.len()).then(|| segment.file.start + offset)
        })
    }

    /// Returns the loaded address of a place in the file.
    pub(super) fn address(&self, place: usize) -> Option<u64> {
        let loads = self.segments.iter().filter(|segment| segment.kind == LOAD);
        let mut holders = loads.filter(|segment| segment.file.contains(&place));
        holders.next().map(|segment| segment.address + (place - segment.file.start) as u64)
    }

    fn number(&self, at: usize) -> Option<u64> {
        number(&self.bytes, at, 8)
    }

    /// Replaces an entry of the dynamic section.
    pub(super) fn set(&mut self, at: usize, tag: u64, value: u64) {
        self.bytes[at..at + 8].copy_from_slice(&tag.to_le_bytes());
        self.bytes[at + 8..at + 16].copy_from_slice(&value.to_le_bytes());
    }
}

/// Returns the number of `length` bytes at a place, the lowest byte first.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let found = bytes.get(at..at.checked_add(length)?)?;
    Some(found.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
