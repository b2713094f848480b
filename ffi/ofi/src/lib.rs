//! Strait as a provider of libfabric: MPICH, Open MPI and Intel MPI run on it without changes.
//!
//! libfabric loads `libstrait-fi.so` and calls [`fi_prov_ini`], which leads to everything else. The
//! module `abi` describes the structures and functions of that border.
//!
//! An endpoint is a rank of a universe ([`strait::boot::Universe`]), which all processes of a job
//! join as they start. Strait carries its messages. The matching of core matches them under
//! libfabric's 64-bit tags (`traffic`).

mod abi;
mod av;
mod bind;
mod buffer;
mod cause;
mod cntr;
mod completions;
mod counts;
mod cq;
mod domain;
mod endpoint;
mod endpoint_list;
mod eq;
mod fabric;
mod info;
mod mr;
mod numbers;
mod object;
mod operation;
mod regions;
mod traffic;
mod wire;

use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use abi::{API_VERSION, Provider};

extern "C" fn cleanup() {}

/// Describes the provider. libfabric calls it after it has loaded the library.
///
/// # Source
///
/// `rdma/providers/fi_prov.h`, `FI_EXT_INI`.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut core::ffi::c_void {
    // libfabric writes to it, and uses it for as long as the library is loaded.
    static PROVIDER: AtomicPtr<Provider> = AtomicPtr::new(ptr::null_mut());
    let known = PROVIDER.load(Relaxed);
    if !known.is_null() {
        return known.cast();
    }
    let provider = Box::into_raw(Box::new(Provider {
        version: 1 << 16,
        fi_version: API_VERSION,
        context: [ptr::null_mut(); 4],
        name: info::NAME.as_ptr(),
        getinfo: info::getinfo,
        fabric: fabric::open,
        cleanup,
    }));
    PROVIDER.store(provider, Relaxed);
    provider.cast()
}
