//! Reads the properties of a shared library that `cargo xtask library` checks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use object::elf;
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Object as _, ObjectSection as _, ObjectSymbol};

use super::SONAME;
use crate::stop::Stop;

/// The most relocations that the dynamic linker may have to do before the first call, somewhat
/// above the present number. Each one writes to a page, which then becomes private to the process.
const RELOCATIONS_MAX: u64 = 2500;

/// The libraries that it may need: the C library, the dynamic linker (for thread-local storage),
/// and the unwinder (for caught panics).
const NEEDED: [&str; 3] = ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"];

/// A shared library.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Exported symbols with their versions; the version is empty if there is none.
    pub(super) exported: BTreeMap<String, String>,
    /// Functions in the section of the fast path.
    pub(super) hot: BTreeSet<String>,
    soname: String,
    needed: Vec<String>,
    /// [`elf::DT_FLAGS`].
    flags: u64,
    /// [`elf::DT_TEXTREL`], or a segment that is both writable and executable.
    writes_code: bool,
    executable_stack: bool,
    relro: bool,
    /// Size of the relocations of all kinds, in bytes.
    relocations: u64,
}

impl Shared {
    /// Reads the library at `path`.
    pub(super) fn read(path: &Path) -> Result<Self, Stop> {
        let bytes = std::fs::read(path).map_err(|error| Stop::io(path, &error))?;
        Self::parse(&bytes).map_err(|error| Stop::Failed(format!("{}: {error}", path.display())))
    }

    fn parse(bytes: &[u8]) -> object::Result<Self> {
        let file = ElfFile64::<object::Endianness>::parse(bytes)?;
        let endian = file.endian();
        let mut shared = Self::default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();

        let versions = file.elf_section_table().versions(endian, bytes)?;
        for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_definition) {
            let version = match &versions {
                None => None,
                Some(table) => {
                    table.version(table.version_index(endian, symbol.index()).index())?
                }
            };
            let version = version.map(|version| text(version.name())).unwrap_or_default();
            // The version itself is a symbol, too.
            if symbol.kind() != object::SymbolKind::Unknown || symbol.size() > 0 {
                shared.exported.insert(symbol.name()?.to_owned(), version);
            }
        }
        if let Some(section) = file.section_by_name(".text.hot") {
            let in_it = |symbol: &object::read::elf::ElfSymbol64<'_, '_>| {
                symbol.section_index() == Some(section.index())
            };
            for symbol in file.symbols().filter(in_it) {
                shared.hot.insert(symbol.name()?.to_owned());
            }
        }
        for entry in &file.elf_dynamic_table()? {
            let table = file.elf_dynamic_table()?;
            match entry.tag {
                elf::DT_SONAME => shared.soname = text(table.string(entry)?),
                elf::DT_NEEDED => shared.needed.push(text(table.string(entry)?)),
                elf::DT_FLAGS => shared.flags = entry.val,
                elf::DT_TEXTREL => shared.writes_code = true,
                elf::DT_RELASZ | elf::DT_PLTRELSZ => shared.relocations += entry.val,
                _ => {}
            }
        }
        for segment in file.elf_program_headers() {
            let flags = segment.p_flags(endian);
            let (writes, runs) = (flags.0 & elf::PF_W.0 != 0, flags.0 & elf::PF_X.0 != 0);
            match segment.p_type(endian) {
                elf::PT_GNU_STACK => shared.executable_stack |= runs,
                elf::PT_GNU_RELRO => shared.relro = true,
                _ => shared.writes_code |= writes && runs,
            }
        }
        Ok(shared)
    }

    /// Lists what is wrong with the way the library loads.
    pub(super) fn start_up(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut expect = |is_so: bool, complaint: String| {
            if !is_so {
                wrong.push(complaint);
            }
        };
        expect(self.soname == SONAME, format!("its soname is {:?}, not {SONAME:?}", self.soname));
        for library in &self.needed {
            expect(NEEDED.contains(&library.as_str()), format!("it needs {library}"));
        }
        let flag = |flag: elf::DynamicFlags| self.flags & flag.0 != 0;
        expect(flag(elf::DF_BIND_NOW), "a first call may have to resolve a symbol".into());
        expect(self.relro, "memory that the dynamic linker wrote stays writable".into());
        expect(!self.writes_code, "loading writes to its code".into());
        expect(!self.executable_stack, "it needs an executable stack".into());
        expect(
            !flag(elf::DF_STATIC_TLS),
            "a program that loads it late may have no room for its thread-local storage".into(),
        );
        let count = self.relocations / size_of::<elf::Rela64<object::Endianness>>() as u64;
        expect(
            (1..=RELOCATIONS_MAX).contains(&count),
            format!("it has {count} relocations, the limit is {RELOCATIONS_MAX}"),
        );
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Shared {
        Shared {
            soname: SONAME.into(),
            needed: vec!["libc.so.6".into()],
            flags: elf::DF_BIND_NOW.0,
            relro: true,
            relocations: 24 * 1000,
            ..Shared::default()
        }
    }

    #[test]
    fn each_flaw_of_the_start_up_is_named() {
        assert_eq!(good().start_up(), [""; 0]);
        let flaws = [
            Shared { soname: "libstrait.so".into(), ..good() },
            Shared { needed: vec!["libstdc++.so.6".into()], ..good() },
            Shared { flags: 0, ..good() },
            Shared { flags: elf::DF_BIND_NOW.0 | elf::DF_STATIC_TLS.0, ..good() },
            Shared { relro: false, ..good() },
            Shared { writes_code: true, ..good() },
            Shared { executable_stack: true, ..good() },
            Shared { relocations: 24 * (RELOCATIONS_MAX + 1), ..good() },
            Shared { relocations: 0, ..good() },
        ];
        for flaw in flaws {
            assert_eq!(flaw.start_up().len(), 1, "{flaw:?}");
        }
    }
}
