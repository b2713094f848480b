//! What `strait mpi` reads and writes of ELF files of 64 bits (`elf(5)`).

use core::ops::Range;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Type of a segment that is loaded, of the dynamic section, and of the interpreter's name.
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;

/// Tags of entries of the dynamic section.
pub(super) const END: u64 = 0;
pub(super) const NEEDED: u64 = 1;
pub(super) const STRING_TABLE: u64 = 5;
const STRING_BYTES: u64 = 10;
pub(super) const SONAME: u64 = 14;
pub(super) const RPATH: u64 = 15;
pub(super) const RUNPATH: u64 = 29;

/// How the files begin.
const MAGIC: &[u8] = b"\x7fELF\x02\x01";

/// Bytes that hold the headers of all but strange files.
const HEADERS: usize = 4096;

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
    /// Reads what tells how a file is linked: the headers, the dynamic section and its names. The
    /// rest is zero. A program may have hundreds of megabytes, for which every start would wait.
    pub(super) fn of_links(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let mut magic = [0; MAGIC.len()];
        file.read_exact_at(&mut magic, 0).ok().filter(|()| magic == MAGIC)?;
        // The system gives a page of zeros when it is written, so the rest costs nothing.
        let mut bytes = vec![0; usize::try_from(file.metadata().ok()?.len()).ok()?];
        let headers = bytes.len().min(HEADERS);
        file.read_exact_at(&mut bytes[..headers], 0).ok()?;
        let mut elf = Self::parse(bytes)?;
        let dynamic = elf.segments.iter().find(|segment| segment.kind == DYNAMIC);
        let Some(dynamic) = dynamic.map(|dynamic| dynamic.file.clone()) else { return Some(elf) };
        elf.read(&file, dynamic)?;
        let start = elf.place(elf.value(STRING_TABLE)?)?;
        let length = usize::try_from(elf.value(STRING_BYTES)?).ok()?;
        elf.read(&file, start..start.checked_add(length)?)?;
        Some(elf)
    }

    fn read(&mut self, file: &File, range: Range<usize>) -> Option<()> {
        let at = range.start as u64;
        file.read_exact_at(self.bytes.get_mut(range)?, at).ok()
    }

    /// Reads the headers. Returns `None` for a file that is no such file.
    pub(super) fn parse(bytes: Vec<u8>) -> Option<Self> {
        if !bytes.starts_with(MAGIC) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_of_a_file_are_those_of_the_whole_file() {
        let program = Path::new("/proc/self/exe");
        let whole = Elf::parse(std::fs::read(program).unwrap()).unwrap();
        let links = Elf::of_links(program).unwrap();
        assert_eq!(links.names(NEEDED), whole.names(NEEDED));
        assert!(links.names(NEEDED).iter().any(|name| name.starts_with("libc.so")));
        assert_eq!(links.has_interpreter(), whole.has_interpreter());
    }

    #[test]
    fn a_file_that_is_no_program_has_no_links() {
        assert!(Elf::of_links(Path::new("/proc/self/status")).is_none());
        assert!(Elf::of_links(Path::new("/dev/null")).is_none());
    }
}
