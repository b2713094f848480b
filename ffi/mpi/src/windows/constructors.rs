//! Windows: how they are made and freed (MPI-5.0 §12.2).
//!
//! The members of a communicator of ours make Strait's window first. It is made by all of them or
//! by none: a member's memory may not be reachable, or the segment may have no room. Then the host
//! makes the carrier over the same memory, or, where there is no window of ours, its own window.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null_mut};

use strait::raw::RawRecords as _;
use strait::{Error, ErrorKind, Window, WindowBuilder, World};

use super::epochs::in_order;
use super::errors::call;
use super::host;
use super::pause::Waiting;
use super::table::{AccessEpoch, Win};
use crate::abi::{Handle, windows as abi};
use crate::front::comms::Comm;
use crate::front::errors;
use crate::front::explain::explain;
use crate::front::helper::inside_host;
use crate::front::host::{HandlePtr, MpiCount, Pointer};
use crate::front::state::{self, Entered, Front};

/// A window of ours without a carrier.
struct Made {
    window: Window<'static>,
    units: Box<[usize]>,
    /// This member's memory.
    base: *mut c_void,
}

/// How the host makes a window.
struct ByHost<'a> {
    /// A window of its own.
    whole: &'a dyn Fn() -> c_int,
    /// The carrier over memory of this member.
    carrier: &'a dyn Fn(*mut c_void) -> c_int,
}

/// Makes a window of this flavor, where each member's memory comes from `part`.
///
/// # Safety
///
/// The program passes the place of a window.
unsafe fn make(
    (comm, unit, flavor): (Handle, Option<usize>, c_int),
    part: impl FnOnce(WindowBuilder<'_, 'static>) -> Result<Window<'static>, Error>,
    by_host: &ByHost<'_>,
    win: HandlePtr,
) -> c_int {
    let whole = || {
        let _helper = inside_host();
        (by_host.whole)()
    };
    let Some(unit) = unit else { return whole() };
    let Some(front) = state::enter() else { return whole() };
    // A process alone has nothing to gain, and Open MPI 4.1 has no carrier for it.
    let Some(comm_found) = front.comms.find(comm).filter(|comm| comm.size > 1) else {
        drop(front);
        return whole();
    };
    if !is_on_one_node(&front, &comm_found) {
        explain_nodes(&front, &comm_found);
        drop((comm_found, front));
        return whole();
    }
    let made = match ours(front, &comm_found, unit, part) {
        Ok(made) => made,
        Err(error) if matches!(error.kind(), ErrorKind::PeerFailed | ErrorKind::PeerLeft) => {
            return errors::report(comm, &error);
        }
        Err(_) => return whole(),
    };
    let code = {
        let _helper = inside_host();
        (by_host.carrier)(made.base)
    };
    let Some(front) = state::enter() else { return code };
    if code != 0 {
        // The other members' carriers have failed, too, so all of them free the window.
        let waiting = Waiting::begin(front);
        waiting.world.set_caller(|| "MPI_Win_create or _allocate");
        let _ = made.window.free();
        drop(waiting);
        return code;
    }
    // SAFETY: the host has written the handle.
    let handle = unsafe { *win };
    add(&front, made, handle, flavor);
    0
}

/// Returns whether all members of a communicator are on this node.
fn is_on_one_node(front: &Front, comm: &Comm) -> bool {
    let here = Some(front.world.node());
    let mut members = (0..comm.size as c_int).filter_map(|rank| comm.in_world(rank));
    members.all(|rank| front.world.node_of(rank) == here)
}

/// Tells the user that the host keeps a window, if `STRAIT_MPI_VERBOSE` is set.
fn explain_nodes(front: &Front, comm: &Comm) {
    if comm.of_world(front.world.rank()) == 0 {
        let size = comm.size;
        explain(|| format!("the host keeps a window of {size} ranks: they are on several nodes"));
    }
}

/// Makes Strait's window, and tells all members the units of all.
fn ours(
    front: Entered,
    comm: &Comm,
    unit: usize,
    part: impl FnOnce(WindowBuilder<'_, 'static>) -> Result<Window<'static>, Error>,
) -> Result<Made, Error> {
    if !front.accumulate_locks.are_open() {
        return Err(Error::Stopped);
    }
    // SAFETY: the front forgets its windows before the world ends.
    let world: &'static World = unsafe { &*core::ptr::from_ref(&front.front().world) };
    let _waiting = Waiting::begin(front);
    world.set_caller(|| "MPI_Win_create or _allocate");
    let ranks: Vec<u32> = (0..comm.size as c_int).filter_map(|rank| comm.in_world(rank)).collect();
    let group = comm.endpoint(world).group(&ranks).map_err(Error::from)?;
    let window = part(Window::builder(&group))?;
    let mut units = vec![0_u64; ranks.len()];
    group.allgather(&[unit as u64], &mut units)?;
    let base = window.mapped(group.place()).map_or(null_mut(), |part| part.as_ptr().cast());
    Ok(Made { window, units: units.into_iter().map(|unit| unit as usize).collect(), base })
}

fn add(front: &Front, made: Made, handle: Handle, flavor: c_int) {
    let Made { window, units, .. } = made;
    let mut group = Default::default();
    // SAFETY: the window exists, and the group has a place.
    unsafe { host::Win_get_group(handle, &raw mut group) };
    let open = units.iter().map(|_| Cell::new(false)).collect();
    front.windows.add(Win {
        handle,
        window,
        group,
        units,
        flavor,
        model: abi::WIN_UNIFIED,
        access: AccessEpoch::None.into(),
        is_exposed: false.into(),
        named: None.into(),
        open,
    });
}

/// Returns the number of bytes of a part and its unit, if the host does not object to them.
fn checked(size: MpiCount, unit: MpiCount) -> Option<(usize, usize)> {
    let unit = usize::try_from(unit).ok().filter(|unit| *unit > 0)?;
    Some((usize::try_from(size).ok()?, unit))
}

/// Returns where a part begins. One without bytes may lie anywhere.
fn start(base: Pointer) -> NonNull<u8> {
    NonNull::new(base.cast()).unwrap_or(NonNull::dangling())
}

/// Defines the constructors for each type of the unit.
macro_rules! constructors {
    ($($create:ident, $allocate:ident, $share:ident
        = $create_host:ident, $allocate_host:ident, $share_host:ident($unit:ty);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $create(
            base: Pointer, size: MpiCount, unit: $unit, info: Handle, comm: Handle, win: HandlePtr,
        ) -> c_int {
            // SAFETY: the program guarantees the contract of the function in the standard: it keeps
            // the memory until it has freed the window.
            unsafe {
                let (bytes, width) = checked(size, unit.into()).unzip();
                let bytes = bytes.filter(|bytes| *bytes == 0 || !base.is_null());
                let part = |builder: WindowBuilder<'_, 'static>| {
                    builder.over_raw(start(base), bytes.unwrap_or(0))
                };
                let create = || host::$create_host(base, size, unit, info, comm, win);
                let by_host = ByHost { whole: &create, carrier: &|_| create() };
                let width = width.filter(|_| bytes.is_some());
                make((comm, width, abi::WIN_FLAVOR_CREATE), part, &by_host, win)
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $allocate(
            size: MpiCount, unit: $unit, info: Handle, comm: Handle, base: Pointer, win: HandlePtr,
        ) -> c_int {
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                let (bytes, width) = checked(size, unit.into()).unzip();
                let part = |builder: WindowBuilder<'_, 'static>| {
                    builder.allocate(bytes.unwrap_or(0))
                };
                let whole = || host::$allocate_host(size, unit, info, comm, base, win);
                let carrier = |at| {
                    base.cast::<*mut c_void>().write(at);
                    host::$create_host(at, size, unit, info, comm, win)
                };
                let by_host = ByHost { whole: &whole, carrier: &carrier };
                make((comm, width, abi::WIN_FLAVOR_ALLOCATE), part, &by_host, win)
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $share(
            size: MpiCount, unit: $unit, info: Handle, comm: Handle, base: Pointer, win: HandlePtr,
        ) -> c_int {
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                let (bytes, width) = checked(size, unit.into()).unzip();
                let part = |builder: WindowBuilder<'_, 'static>| {
                    builder.allocate_shared(bytes.unwrap_or(0))
                };
                let whole = || host::$share_host(size, unit, info, comm, base, win);
                let carrier = |at| {
                    base.cast::<*mut c_void>().write(at);
                    host::$create_host(at, size, unit, info, comm, win)
                };
                let by_host = ByHost { whole: &whole, carrier: &carrier };
                make((comm, width, abi::WIN_FLAVOR_SHARED), part, &by_host, win)
            }
        }
    )*};
}

constructors! {
    MPI_Win_create, MPI_Win_allocate, MPI_Win_allocate_shared
        = Win_create, Win_allocate, Win_allocate_shared(c_int);
    MPI_Win_create_c, MPI_Win_allocate_c, MPI_Win_allocate_shared_c
        = Win_create_c, Win_allocate_c, Win_allocate_shared_c(MpiCount);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_create_dynamic(info: Handle, comm: Handle, win: HandlePtr) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        let create = || host::Win_create_dynamic(info, comm, win);
        let by_host = ByHost { whole: &create, carrier: &|_| create() };
        let part = |builder: WindowBuilder<'_, 'static>| builder.dynamic();
        make((comm, Some(1), abi::WIN_FLAVOR_DYNAMIC), part, &by_host, win)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_free(win: HandlePtr) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        let found = state::enter().and_then(|front| front.windows.find(*win));
        // The host waits for all members, also for one that has died.
        let meet = |win: &Win| {
            in_order(!abi::REFUSES_FREE_IN_EPOCH || win.may_be_freed())?;
            Ok(win.window.group().barrier()?)
        };
        let code = call(*win, |_, win| meet(win), || 0);
        if code != 0 {
            return code;
        }
        // Callbacks of attributes may still use the window.
        let code = {
            let _helper = inside_host();
            host::Win_free(win)
        };
        if code != 0 {
            return code;
        }
        let (Some(found), Some(front)) = (found, state::enter()) else { return 0 };
        front.windows.remove(&found);
        let mut group = found.group;
        crate::front::host::Group_free(&raw mut group);
        let waiting = Waiting::begin(front);
        waiting.world.set_caller(|| "MPI_Win_free");
        // No call uses the window any more. A member that died has not freed it.
        if let Some(found) = found.into_inner() {
            drop(found.window.free());
        }
        0
    }
}
