//! The loaded objects of the process, as the dynamic linker describes them (`elf(5)`).

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;

/// An entry of the dynamic section.
#[derive(Clone, Copy)]
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// A relocation with an addend.
#[derive(Clone, Copy)]
#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// Types of relocations that hold the address of a function.
#[cfg(target_arch = "x86_64")]
const FUNCTIONS: [u32; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const FUNCTIONS: [u32; 2] = [1025, 1026];

/// A loaded object.
pub(crate) struct LoadedObject {
    pub(crate) file: String,
    base: usize,
    /// The addresses from the first to the last segment that is loaded.
    image: Range<usize>,
    /// Start and end of the pages that were made writable last.
    writable: Cell<(usize, usize)>,
    strings: *const c_char,
    symbols: *mut libc::Elf64_Sym,
    relocations: [(*const Relocation, usize); 2],
    hash: *const u32,
}

/// Calls `visit` with each loaded object.
pub(crate) fn for_each(mut visit: impl FnMut(&LoadedObject)) {
    let mut visit: &mut dyn FnMut(&LoadedObject) = &mut visit;
    // SAFETY: `each` is called with `visit` only while this call lasts.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut visit).cast()) };
}

extern "C" fn each(info: *mut libc::dl_phdr_info, _size: usize, visit: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description, and `for_each` passes its function.
    let (info, visit) = unsafe { (&*info, &mut *visit.cast::<&mut dyn FnMut(&LoadedObject)>()) };
    // SAFETY: the description is of a loaded object.
    if let Some(object) = unsafe { LoadedObject::read(info) } {
        visit(&object);
    }
    0
}

impl LoadedObject {
    /// # Safety
    ///
    /// The description is of a loaded object.
    unsafe fn read(info: &libc::dl_phdr_info) -> Option<Self> {
        let base = info.dlpi_addr as usize;
        // SAFETY: the contract of `read`: the headers are as many, and the name is a string.
        let (headers, file) = unsafe {
            let headers = core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            (headers, CStr::from_ptr(info.dlpi_name).to_string_lossy().into_owned())
        };
        // The kernel's object has addresses that are not relocated.
        if file.contains("vdso") {
            return None;
        }
        let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let mut entry = at::<Dynamic>(base.wrapping_add(dynamic.p_vaddr as usize));
        let mut object = Self {
            file,
            base,
            image: image(base, headers),
            writable: Cell::default(),
            strings: core::ptr::null(),
            symbols: core::ptr::null_mut(),
            relocations: [(core::ptr::null(), 0); 2],
            hash: core::ptr::null(),
        };
        loop {
            // SAFETY: the section ends with a null entry.
            let Dynamic { tag, value } = unsafe { *entry };
            match tag {
                DT_NULL => break,
                DT_STRTAB => object.strings = at(value),
                DT_SYMTAB => object.symbols = at(value),
                DT_JMPREL => object.relocations[0].0 = at(value),
                DT_PLTRELSZ => object.relocations[0].1 = value / size_of::<Relocation>(),
                DT_RELA => object.relocations[1].0 = at(value),
                DT_RELASZ => object.relocations[1].1 = value / size_of::<Relocation>(),
                DT_GNU_HASH => object.hash = at(value),
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
        (!object.strings.is_null() && !object.symbols.is_null()).then_some(object)
    }

    /// Returns whether an address is in this object's image.
    pub(crate) fn has(&self, address: *const c_void) -> bool {
        self.image.contains(&address.addr())
    }

    fn name(&self, symbol: &libc::Elf64_Sym) -> &CStr {
        // SAFETY: a symbol's name is a string in the table of strings.
        unsafe { CStr::from_ptr(self.strings.add(symbol.st_name as usize)) }
    }

    /// Replaces the addresses of functions that this object calls by those that `replace` returns.
    pub(crate) fn replace_calls(&self, replace: impl Fn(&CStr) -> *mut c_void) {
        for (table, count) in self.relocations.into_iter().filter(|(table, _)| !table.is_null()) {
            for number in 0..count {
                // SAFETY: the table has that many entries, which name symbols of the table.
                let (entry, symbol) = unsafe {
                    let entry = *table.add(number);
                    (entry, &*self.symbols.add((entry.info >> 32) as usize))
                };
                if !FUNCTIONS.contains(&(entry.info as u32)) {
                    continue;
                }
                let new = replace(self.name(symbol));
                if !new.is_null() {
                    let slot = at(self.base.wrapping_add(entry.offset));
                    // SAFETY: the slot is the object's, which the linker fills with an address.
                    unsafe { self.write::<*mut c_void>(slot, new) };
                }
            }
        }
    }

    /// Changes symbols that this object defines.
    pub(crate) fn change_symbols(&self, change: impl Fn(&CStr, &mut libc::Elf64_Sym, usize)) {
        for number in 0..self.symbol_count() {
            // SAFETY: the table has that many entries.
            let place = unsafe { self.symbols.add(number) };
            // SAFETY: as above.
            let mut symbol = unsafe { *place };
            if symbol.st_shndx == 0 {
                continue;
            }
            let before = (symbol.st_value, symbol.st_info);
            change(self.name(&symbol), &mut symbol, self.base);
            if before != (symbol.st_value, symbol.st_info) {
                // SAFETY: as above.
                unsafe { self.write(place, symbol) };
            }
        }
    }

    /// Returns the number of symbols: the hash table's last chain ends with the last symbol.
    fn symbol_count(&self) -> usize {
        if self.hash.is_null() {
            return 0;
        }
        // SAFETY: the table has the layout of a GNU hash table: four words, the filter of 8-byte
        // words, the buckets, the chains.
        unsafe {
            let word = |number: usize| *self.hash.add(number) as usize;
            let (buckets, first, filter) = (word(0), word(1), word(2));
            let start = 4 + 2 * filter;
            let last = (0..buckets).map(|bucket| word(start + bucket)).max().unwrap_or(0);
            if last < first {
                return first;
            }
            let chains = start + buckets;
            let mut symbol = last;
            while word(chains + symbol - first) & 1 == 0 {
                symbol += 1;
            }
            symbol + 1
        }
    }

    /// Writes to pages that may be protected against writes.
    ///
    /// # Safety
    ///
    /// The place is of this type and in this object, and nothing else accesses it.
    unsafe fn write<T>(&self, place: *mut T, value: T) {
        const PAGE: usize = 4096;
        let start = place.addr() & !(PAGE - 1);
        let end = (place.addr() + size_of::<T>()).next_multiple_of(PAGE);
        let page = place.with_addr(start).cast();
        let (first, last) = self.writable.get();
        // SAFETY: the pages are mapped, and stay readable. A write that the kernel refuses to allow
        // is not tried.
        unsafe {
            if first <= start && end <= last
                || libc::mprotect(page, end - start, libc::PROT_READ | libc::PROT_WRITE) == 0
            {
                self.writable.set((start, end));
                place.write(value);
            }
        }
    }
}

fn at<T>(address: usize) -> *mut T {
    core::ptr::with_exposed_provenance_mut(address)
}

/// Returns the addresses of the image of the object that an address is in. `dladdr` would look
/// through all symbols of the object each time.
pub(crate) fn image_of(address: *const c_void) -> Range<usize> {
    let mut image = 0..0;
    for_each(|object| {
        if object.has(address) {
            image = object.image.clone();
        }
    });
    image
}

/// Returns the addresses of an object that is loaded at `base`.
fn image(base: usize, headers: &[libc::Elf64_Phdr]) -> Range<usize> {
    let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let start = loads().map(|header| header.p_vaddr).min().unwrap_or(0);
    let end = loads().map(|header| header.p_vaddr.saturating_add(header.p_memsz)).max();
    base.wrapping_add(start as usize)..base.wrapping_add(end.unwrap_or(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_in_the_image_of_its_object() {
        let (own, other) = (image_of as *const c_void, libc::getpid as *const c_void);
        let image = image_of(own);
        assert!(image.contains(&own.addr()) && !image.contains(&other.addr()));
        assert!(image_of(other).contains(&other.addr()));
        assert_eq!(image_of(core::ptr::null()), 0..0, "no object is at address 0");
    }
}
