//! Names for observers (`strait why`): those of the function that the program has called, and of
//! its communicators.

use core::ffi::{CStr, c_char, c_int};

use strait::raw::{Communicator, RawRecords as _, ShortName};

use super::comms::Comm;
use super::host;
use super::state::{self, Front};
use crate::abi::{self, Handle};

/// Room for a name of any host, in bytes: `MPI_MAX_OBJECT_NAME` is 64 or 128.
const NAME_MAX: usize = 256;

/// Returns the name of the function of the standard in which a closure is written.
///
/// The functions that serve a call get closures that call the host's function with the same
/// arguments. So the name need not be passed on the short path.
fn function_of<F>() -> &'static str {
    let path = core::any::type_name::<F>();
    let name = path.split("::").find(|word| word.starts_with("MPI_"));
    name.unwrap_or("a function of MPI")
}

/// Returns a function that returns the name of the function in which this closure is written. It
/// searches for the name, so only a wait that takes long calls it.
pub(crate) fn name_of<F>(_closure: &F) -> fn() -> &'static str {
    function_of::<F>
}

/// Returns the communicator's name, if the program or the host has given it one.
fn given_name(comm: Handle) -> Option<ShortName> {
    let (mut name, mut length) = ([0_u8; NAME_MAX], 0);
    // SAFETY: the communicator exists, and there is room for a name of any host.
    let code = unsafe { host::Comm_get_name(comm, name.as_mut_ptr().cast(), &raw mut length) };
    let name = CStr::from_bytes_until_nul(&name).ok().filter(|_| code == 0)?;
    ShortName::new(&name.to_string_lossy())
}

/// Leaves a communicator of ours in the record of this rank. `maker` is the function that made it.
pub(crate) fn record(front: &Front, comm: &Comm, maker: &str) {
    let Ok(rank) = u32::try_from(comm.of_world(front.world.rank())) else { return };
    let unnamed = || ShortName::new(&format!("{maker} {}", comm.context));
    let name = given_name(comm.handle).or_else(unnamed);
    let (context, size) = (comm.context, comm.size);
    front.world.add_communicator(Communicator { context, rank, size, name });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Comm_set_name(comm: Handle, name: *const c_char) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    let code = unsafe { host::Comm_set_name(comm, name.cast_mut()) };
    if code == 0
        && comm != abi::comm_null()
        && let Some(front) = state::enter()
        && let Some(found) = front.comms.find(comm)
    {
        record(&front, &found, "");
    }
    code
}
