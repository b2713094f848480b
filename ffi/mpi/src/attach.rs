//! How the program's calls reach us where the order of the libraries does not suffice.
//!
//! - Fortran interfaces of hosts call `PMPI_` functions: they reach our `MPI_` functions.
//! - A host's parallel I/O calls `MPI_` functions: they reach the host's `PMPI_` functions.
//! - A program that asks the host's library for a function by name finds ours.
//! - A function that the host lacks is not found in our library either: a program may ask.

use core::ffi::{CStr, c_void};
use core::ops::Range;
use std::sync::OnceLock;

use super::bypass;
use super::libraries;
use super::objects::{self, LoadedObject};

/// Runs before the program.
#[used]
#[unsafe(link_section = ".init_array")]
static ATTACH: extern "C" fn() = attach;

extern "C" fn attach() {
    // A process without the host, such as a launcher, is left as it is.
    if libraries::symbol(c"PMPI_Send").is_null() {
        return;
    }
    bypass::look_at_end();
    let own = attach as *const c_void;
    objects::for_each(|object| {
        if object.has(own) {
            object.change_symbols(|name, symbol, _| hide_unless_known(name, symbol));
        }
    });
    objects::for_each(|object| {
        if object.has(own) {
            // Its calls of the host are by name.
        } else if libraries::is_host(&object.file) {
            object.replace_calls(hosts_own);
            object.change_symbols(|name, symbol, base| {
                if let Some(ours) = ours_of(name) {
                    symbol.st_value = (ours.addr().wrapping_sub(base)) as u64;
                }
            });
        } else if is_part_of_host(object) {
            object.replace_calls(hosts_own);
        } else {
            object.replace_calls(ours);
        }
    });
}

/// Returns whether an object is a part of the host that communicates for itself.
fn is_part_of_host(object: &LoadedObject) -> bool {
    let name = object.file.rsplit('/').next().unwrap_or_default();
    ["mca_", "libopen-", "libmca_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Returns our function of this `MPI_` name, if we define one that the host has too.
fn ours_of(name: &CStr) -> Option<*mut c_void> {
    let bytes = name.to_bytes();
    if !bytes.starts_with(b"MPI_") {
        return None;
    }
    // SAFETY: the name is a string.
    let found = unsafe { libc::dlsym(own_library(), name.as_ptr()) };
    (!found.is_null() && is_ours(found)).then_some(found)
}

/// Returns our function for a call of the host's profiling name.
fn ours(name: &CStr) -> *mut c_void {
    match name.to_bytes_with_nul().strip_prefix(b"P") {
        Some(rest) => {
            let rest = CStr::from_bytes_with_nul(rest).unwrap_or_default();
            ours_of(rest).unwrap_or(core::ptr::null_mut())
        }
        None => core::ptr::null_mut(),
    }
}

/// Returns the host's function for a call of its own.
fn hosts_own(name: &CStr) -> *mut c_void {
    if !name.to_bytes().starts_with(b"MPI_") || ours_of(name).is_none() {
        return core::ptr::null_mut();
    }
    profiling(name)
}

/// Returns the host's function of the profiling name.
fn profiling(name: &CStr) -> *mut c_void {
    let mut bytes = b"P".to_vec();
    bytes.extend_from_slice(name.to_bytes_with_nul());
    CStr::from_bytes_with_nul(&bytes).map_or(core::ptr::null_mut(), libraries::symbol)
}

/// Hides a function of ours that the host lacks.
fn hide_unless_known(name: &CStr, symbol: &mut libc::Elf64_Sym) {
    const LOCAL: u8 = 0;
    if name.to_bytes().starts_with(b"MPI_") && profiling(name).is_null() {
        symbol.st_info = LOCAL << 4 | symbol.st_info & 0xf;
    }
}

/// Returns a handle of this library for `dlsym`.
fn own_library() -> *mut c_void {
    static HANDLE: OnceLock<usize> = OnceLock::new();
    let find = || {
        // SAFETY: all-zero bytes are a value of the structure.
        let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
        // SAFETY: the result has a place; the file is loaded.
        unsafe {
            libc::dladdr(attach as *const c_void, &raw mut found);
            libc::dlopen(found.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD).expose_provenance()
        }
    };
    core::ptr::with_exposed_provenance_mut(*HANDLE.get_or_init(find))
}

fn is_ours(address: *mut c_void) -> bool {
    static OWN: OnceLock<Range<usize>> = OnceLock::new();
    OWN.get_or_init(|| objects::image_of(attach as *const c_void)).contains(&address.addr())
}
