//! Programs that use a GPU: their buffers may lie in memory that no processor reaches, so all
//! messages of their job stay the host's.
//!
//! A receiver cannot know where a sender's buffer lies, so the whole job decides alike, at the
//! start of MPI. Where a process loads a GPU's library later, the communicators that are made from
//! then on are the host's.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::objects;

/// Libraries through which programs use GPUs, of NVIDIA, AMD and Intel.
const LIBRARIES: [&str; 6] = [
    "libcuda.so",
    "libcudart.so",
    "libamdhip64.so",
    "libhsa-runtime64.so",
    "libze_loader.so",
    "libsycl.so",
];

/// Sections of a program with code for a GPU. Such a program may load the library later.
const SECTIONS: [&str; 2] = [".nv_fatbin", ".hip_fatbin"];

/// Limits of what is read of a program's table of sections, in bytes.
const TABLE_MAX: usize = 1 << 20;

/// Returns the name of a library that this process has loaded to use a GPU.
pub(crate) fn loaded() -> Option<String> {
    let mut loaded = None;
    objects::for_each(|object| {
        let name = object.file.rsplit('/').next().unwrap_or_default();
        if LIBRARIES.iter().any(|library| name.starts_with(library)) {
            loaded = Some(name.to_owned());
        }
    });
    loaded
}

/// Returns why this process must not join Strait's world, if it uses a GPU.
pub(crate) fn objection() -> Option<String> {
    let loaded = loaded().map(|name| format!("the program uses a GPU: it has loaded {name}"));
    loaded.or_else(|| {
        let program = File::open("/proc/self/exe").ok()?;
        let names = section_names(&program)?;
        let mut names = names.split(|byte| *byte == 0);
        let found =
            names.find(|name| SECTIONS.iter().any(|section| section.as_bytes() == *name))?;
        let name = String::from_utf8_lossy(found).into_owned();
        Some(format!("the program uses a GPU: it has code for one ({name})"))
    })
}

/// Returns the names of the sections of an ELF file, one after the other.
fn section_names(file: &File) -> Option<Vec<u8>> {
    let header = read(file, 0, size_of::<libc::Elf64_Ehdr>())?;
    let short = |at: usize| Some(u16::from_ne_bytes(header.get(at..at + 2)?.try_into().ok()?));
    let table = u64::from_ne_bytes(header.get(0x28..0x30)?.try_into().ok()?);
    let (size, number) = (u64::from(short(0x3a)?), u64::from(short(0x3e)?));
    let entry = read(file, table.checked_add(number * size)?, size_of::<libc::Elf64_Shdr>())?;
    let word = |at: usize| Some(u64::from_ne_bytes(entry.get(at..at + 8)?.try_into().ok()?));
    read(file, word(0x18)?, usize::try_from(word(0x20)?).ok()?.min(TABLE_MAX))
}

fn read(file: &File, at: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_this_program_are_found() {
        let names = section_names(&File::open("/proc/self/exe").unwrap()).unwrap();
        assert!(names.split(|byte| *byte == 0).any(|name| name == b".text"));
    }

    #[test]
    fn a_file_that_is_no_program_has_no_sections() {
        assert_eq!(section_names(&File::open("/dev/null").unwrap()), None);
    }
}
