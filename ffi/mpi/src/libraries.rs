//! Finding the host among the libraries of the process.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::OnceLock;

use crate::abi;

/// Returns whether a file is the library of a host of this binary interface.
pub(crate) fn is_host(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    abi::LIBRARIES.iter().any(|prefix| name.starts_with(prefix))
}

/// A handle of the host's library for `dlsym`, or null.
struct HostLibrary(*mut c_void);

// SAFETY: any thread may use a handle of `dlopen`.
unsafe impl Send for HostLibrary {}
// SAFETY: as above.
unsafe impl Sync for HostLibrary {}

/// Finds a loaded library that is named like the host's and has its functions. The front may have
/// that name itself, and finds functions of the host by its own handle.
fn host() -> *mut c_void {
    static HOST: OnceLock<HostLibrary> = OnceLock::new();
    HOST.get_or_init(|| {
        let mut found = HostLibrary(core::ptr::null_mut());
        // SAFETY: `look` is called with `found` only while this call lasts.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
        found
    })
    .0
}

extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description, and `host` passes the place of the result.
    let (name, found) = unsafe { ((*info).dlpi_name, &mut *found.cast::<HostLibrary>()) };
    if name.is_null() {
        return 0;
    }
    // SAFETY: the name of a loaded object is a string.
    let file = unsafe { CStr::from_ptr(name) };
    if !is_host(&file.to_string_lossy()) {
        return 0;
    }
    // SAFETY: the name is a string; the library is loaded already.
    let handle = unsafe { libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    // SAFETY: the handle is valid, and the name is a string.
    if handle.is_null() || unsafe { libc::dlsym(handle, c"PMPI_Send".as_ptr()) }.is_null() {
        return 0;
    }
    found.0 = handle;
    1
}

/// Returns the address of a symbol of the host, or null.
pub(crate) fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a string.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() || host().is_null() {
        return next;
    }
    // SAFETY: the handle is valid, and the name is a string.
    unsafe { libc::dlsym(host(), name.as_ptr()) }
}

/// Returns the address of a data symbol, which may lie in the program, or null.
pub(crate) fn data(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() { symbol(name) } else { found }
}

/// A function of the host, which is looked up at its first call.
pub(crate) struct HostFunction {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl HostFunction {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Returns the function's address. Ends the process if the host lacks the function.
    #[inline(always)]
    pub(crate) fn address(&self) -> *mut c_void {
        let address = self.address.load(Relaxed);
        if address.is_null() { self.find() } else { address }
    }

    /// Returns the function's address, or null.
    pub(crate) fn find_if_any(&self) -> *mut c_void {
        let address = symbol(self.name);
        self.address.store(address, Relaxed);
        address
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> *mut c_void {
        let address = self.find_if_any();
        if address.is_null() {
            eprintln!(
                "strait: the {} library of this program has no {}: run the program without \
                 `strait mpi`",
                abi::NAME,
                self.name.to_string_lossy()
            );
            std::process::abort();
        }
        address
    }
}

/// Bytes of [`NAMES`].
const ROOM: usize = 256 + 4096;

#[expect(dead_code, reason = "`strait mpi` and the dynamic linker read it")]
#[repr(align(64))]
struct Names([u8; ROOM]);

/// Room for the host's name and path, which `strait mpi` writes into its copy of this file: strings
/// of up to 256 and 4096 bytes. Entries of the dynamic section then name them. `strait mpi` looks
/// for it at multiples of its alignment.
#[used]
static NAMES: Names = {
    let mut names = [0; ROOM];
    let mark = b"strait-mpi: names of the host";
    let mut at = 0;
    while at < mark.len() {
        names[at] = mark[at];
        at += 1;
    }
    Names(names)
};
