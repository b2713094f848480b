//! Making the front for one host: a copy of our library with the host's name, which needs the host.
//!
//! A program, or a library that it loads by name, then finds our library in place of the host's,
//! and the host is loaded with it. The copy differs in strings and in two entries of the dynamic
//! section alone, so no linker is needed.

use core::error::Error;
use std::env;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::elf::{Elf, NEEDED, RPATH, RUNPATH, SONAME, STRING_TABLE};
use super::host::Host;

/// Marks the room for the names in our library (`ffi/mpi/src/libraries.rs`).
const MARK: &[u8] = b"strait-mpi: names of the host";

/// Alignment of the mark in the file. Of 19 MB of a library only every 64th byte is looked at.
const MARK_ALIGN: usize = 64;

/// Bytes of the room: for the name, and for the path behind it.
const NAME_ROOM: usize = 256;
const PATH_ROOM: usize = 4096;

/// Returns the path of the front for a host, which the first call makes.
pub(super) fn prepare(host: &Host, library: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let unreadable = |error| format!("cannot read {}: {error}", library.display());
    let found = fs::metadata(library).map_err(unreadable)?;
    let folder = cache()?.join(format!("{:016x}", key(host, &found)));
    let front = folder.join(&host.soname);
    // The copy has the length of the original.
    if fs::metadata(&front).is_ok_and(|made| made.len() == found.len()) {
        return Ok(front);
    }
    let original = fs::read(library).map_err(unreadable)?;
    let made = fill(original, &host.soname, &host.path)
        .ok_or_else(|| format!("{} is not a library of `strait mpi`", library.display()))?;
    let failed = |error| format!("cannot write {}: {error}", front.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    // Another process may make the same file now: each puts a whole one in its place.
    let new = folder.join(format!(".{}", std::process::id()));
    fs::write(&new, made).and_then(|()| fs::rename(&new, &front)).map_err(failed)?;
    Ok(front)
}

/// Writes the host's names into our library.
fn fill(bytes: Vec<u8>, soname: &str, path: &Path) -> Option<Vec<u8>> {
    let path = path.to_str().filter(|path| path.len() < PATH_ROOM)?;
    let mut places = (0..bytes.len()).step_by(MARK_ALIGN);
    let room = places.find(|at| bytes[*at..].starts_with(MARK))?;
    let mut elf = Elf::parse(bytes)?;
    let table = elf.value(STRING_TABLE)?;
    let name_at = elf.address(room)?.checked_sub(table)?;
    let entry =
        |tags: &[u64]| elf.dynamic().find(|(_, tag, _)| tags.contains(tag)).map(|(at, _, _)| at);
    let (name_entry, needed_entry) = (entry(&[SONAME])?, entry(&[RUNPATH, RPATH])?);
    elf.set(name_entry, SONAME, name_at);
    elf.set(needed_entry, NEEDED, name_at + NAME_ROOM as u64);
    let places = [(room, soname, NAME_ROOM), (room + NAME_ROOM, path, PATH_ROOM)];
    for (at, text, length) in places {
        let place = elf.bytes.get_mut(at..at + length)?;
        place.fill(0);
        place.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    }
    Some(elf.bytes)
}

/// Returns the folder of the copies.
fn cache() -> Result<PathBuf, Box<dyn Error>> {
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let base = base.filter(|path| path.is_absolute()).or_else(home);
    let base = base.ok_or("neither XDG_CACHE_HOME nor HOME names a folder for the front")?;
    Ok(base.join("strait/mpi"))
}

/// Returns the number of the front for a host that is made of our library with these data. Every
/// change of the library changes them, so that its bytes need not be read: every start of a program
/// would wait for that.
fn key(host: &Host, library: &Metadata) -> u64 {
    let place = [library.dev(), library.ino(), library.len()];
    let times = [library.mtime(), library.mtime_nsec(), library.ctime(), library.ctime_nsec()];
    digest(format!("{place:?} {times:?} {} {}", host.soname, host.path.display()).as_bytes())
}

/// Returns a number that differs between different texts. The rotation brings each bit to all
/// others.
fn digest(bytes: &[u8]) -> u64 {
    let step = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(0, |hash, word| step(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, byte| step(hash, u64::from(*byte)))
}

/// An odd number without a pattern: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::super::host::Interface;
    use super::*;

    #[test]
    fn files_that_differ_in_a_bit_or_two_have_different_digests() {
        let mut file: Vec<u8> = (0..=255).cycle().take(1027).collect();
        let whole = digest(&file);
        for (one, other) in [(7, 15), (7, 1026), (0, 1000), (3, 11), (1024, 1025)] {
            for bit in 0..8 {
                file[one] ^= 1 << bit;
                assert_ne!(digest(&file), whole, "bit {bit} of byte {one}");
                file[other] ^= 1 << bit;
                assert_ne!(digest(&file), whole, "bit {bit} of bytes {one} and {other}");
                file[one] ^= 1 << bit;
                file[other] ^= 1 << bit;
            }
        }
        assert_eq!(digest(&file), whole);
    }

    #[test]
    fn another_library_or_host_has_another_front() {
        let host = |path: &str| Host {
            path: path.into(),
            soname: "libmpi.so.12".to_owned(),
            interface: Interface::Mpich,
        };
        let file = env::temp_dir().join(format!("strait-front-{}", std::process::id()));
        let key_of = |path: &str| key(&host(path), &fs::metadata(&file).unwrap());
        fs::write(&file, "one").unwrap();
        let one = key_of("/a");
        assert_eq!(key_of("/a"), one);
        assert_ne!(key_of("/b"), one);
        fs::write(&file, "other").unwrap();
        assert_ne!(key_of("/a"), one);
        fs::remove_file(&file).unwrap();
    }
}
