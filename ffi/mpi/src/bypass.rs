//! A program that loads an MPI other than the host when it runs. Its calls do not reach us, so the
//! user is told at its end, if the user asked for explanations.

use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use super::explain::explain;
use super::libraries;
use super::objects::{self, LoadedObject};

/// How the names of MPI libraries begin.
const LIBRARIES: [&str; 3] = ["libmpi.so", "libmpich.so", "libmpi_abi.so"];

/// Variables in which launchers tell a process its rank.
const RANKS: [&str; 2] = ["PMI_RANK", "OMPI_COMM_WORLD_RANK"];

/// Whether the program has initialised MPI through us.
static IS_SERVED: AtomicBool = AtomicBool::new(false);

/// Notes that the program has initialised MPI through us.
pub(crate) fn set_served() {
    IS_SERVED.store(true, Relaxed);
}

/// Looks for another MPI at the end of this process, if `STRAIT_MPI_VERBOSE` is set.
pub(crate) fn look_at_end() {
    let is_first = RANKS.iter().filter_map(|name| std::env::var(name).ok()).all(|rank| rank == "0");
    if strait::env::MPI_VERBOSE.is_set() && is_first {
        // SAFETY: the function stays loaded until the process ends. Where it cannot be registered,
        // an explanation is missing.
        unsafe { libc::atexit(look) };
    }
}

extern "C" fn look() {
    if IS_SERVED.load(Relaxed) {
        return;
    }
    let known = [look as *const c_void, libraries::symbol(c"PMPI_Send").cast_const()];
    let mut other = None;
    objects::for_each(|object| {
        if is_mpi(object) && !known.into_iter().any(|address| object.has(address)) {
            other = Some(object.file.clone());
        }
    });
    if let Some(file) = other {
        explain(|| {
            format!(
                "all messages are the host's: the program has loaded {file}, which is not the MPI \
                 of its launcher: name it with --library {file}"
            )
        });
    }
}

fn is_mpi(object: &LoadedObject) -> bool {
    let name = object.file.rsplit('/').next().unwrap_or_default();
    LIBRARIES.iter().any(|prefix| name.starts_with(prefix))
}
