//! One-sided communication: windows, how they come and go, and what they say of themselves.

mod attach;
mod epoch;
pub(crate) mod lock;
mod members;
pub(crate) mod numbers;
pub(crate) mod transfer;

use core::ffi::{c_int, c_void};
use std::rc::Rc;

use shim::{AtomicityDomain, Error, Group, Operation, Window, WindowOptions};

pub(crate) use members::Members;

use crate::buffer::{answer, need, part};
use crate::entry::{Called, enter};
use crate::failure::{Code, Failure};
use crate::handle::{self, Handle, Kind};

/// A window that a world has open. Its world outlives it: `strait_finalize` refuses while there are any.
pub(crate) type Open = Rc<Window<'static>>;

/// Makes a window and answers with its handle.
///
/// # Safety
///
/// As `strait.h` says of the function called `call`.
unsafe fn make(
    call: &'static str,
    world: Handle,
    members: *const Members,
    window: *mut Handle,
    make: impl FnOnce(Group<'static>, WindowOptions) -> Called<Window<'static>>,
) -> c_int {
    enter(call, world, || {
        need(window)?;
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        // SAFETY: by the contract; no window outlives its world.
        let (group, options) = unsafe { members::read(instance, members) }?;
        let made = Rc::new(make(group, options)?);
        let handle = instance.windows().insert(made).map_err(|(failure, _)| failure)?;
        // SAFETY: by the contract.
        unsafe { answer(window, handle) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_allocate(
    world: Handle,
    members: *const Members,
    bytes: usize,
    unit: usize,
    window: *mut Handle,
) -> c_int {
    let allocate =
        |group: Group<'static>, options| Ok(group.allocate_window_for(bytes, unit, options)?);
    // SAFETY: by the contract.
    unsafe { make("strait_window_allocate", world, members, window, allocate) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_allocate_shared(
    world: Handle,
    members: *const Members,
    bytes: usize,
    unit: usize,
    window: *mut Handle,
) -> c_int {
    let allocate =
        |group: Group<'static>, options| Ok(group.shared_window_for(bytes, unit, options)?);
    // SAFETY: by the contract.
    unsafe { make("strait_window_allocate_shared", world, members, window, allocate) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_create(
    world: Handle,
    members: *const Members,
    base: *mut c_void,
    bytes: usize,
    unit: usize,
    window: *mut Handle,
) -> c_int {
    let create = |group: Group<'static>, options| {
        let memory = part(base, bytes)?;
        // SAFETY: by the contract the memory is the window's until it is freed.
        Ok(unsafe { group.create_window_over(memory.base, memory.length, unit, options) }?)
    };
    // SAFETY: by the contract.
    unsafe { make("strait_window_create", world, members, window, create) }
}

/// Has `act` do something with an open window.
///
/// # Safety
///
/// As `strait.h` says of the function called `call`.
#[inline(always)]
unsafe fn with(
    call: &'static str,
    window: Handle,
    act: impl FnOnce(&Window<'static>) -> Called,
) -> c_int {
    enter(call, window, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world_of(window, Kind::Window) }?;
        let open = Rc::clone(instance.windows().get(window)?);
        act(&open)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_free(window: *mut Handle) -> c_int {
    // SAFETY: by the contract.
    enter("strait_window_free", unsafe { handle::peek(window) }, || {
        // SAFETY: by the contract.
        let (handle, instance) = unsafe { handle::at(window, Kind::Window) }?;
        let open = Rc::clone(instance.windows().get(handle)?);
        if Rc::strong_count(&open) > 2 {
            return Err(Failure::new(Code::Busy, "the window is in use further up the stack"));
        }
        drop(instance.windows().remove(handle));
        // SAFETY: by the contract.
        unsafe { window.write(Handle::NONE) };
        match Rc::try_unwrap(open) {
            Ok(open) => Ok(open.free()?),
            Err(_) => Ok(()),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_part(
    window: Handle,
    target: u32,
    base: *mut *mut c_void,
    bytes: *mut usize,
    unit: *mut usize,
) -> c_int {
    let tell = |window: &Window<'_>| {
        let (length, width) = window.shape_of(target).map_err(Error::from)?;
        let mapped = window.mapped(target).map_or(core::ptr::null_mut(), |part| part.as_ptr());
        // SAFETY: by the contract.
        unsafe {
            crate::buffer::answer_if_wanted(base, mapped.cast());
            crate::buffer::answer_if_wanted(bytes, length);
            crate::buffer::answer_if_wanted(unit, width);
        }
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with("strait_window_part", window, tell) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_place(window: Handle, place: *mut u32) -> c_int {
    // SAFETY: by the contract.
    unsafe { with("strait_window_place", window, |window| answer(place, window.group().place())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_atomicity(window: Handle, atomicity: *mut c_int) -> c_int {
    let tell = |window: &Window<'_>| {
        let domain = match window.atomicity() {
            AtomicityDomain::Processor => 0,
            AtomicityDomain::Device => 2,
            // Locks, and whatever is slower.
            _ => 1,
        };
        // SAFETY: by the contract.
        unsafe { answer(atomicity, domain) }
    };
    // SAFETY: by the contract.
    unsafe { with("strait_window_atomicity", window, tell) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_needs_target(
    window: Handle,
    operation: c_int,
    needs: *mut c_int,
) -> c_int {
    let tell = |window: &Window<'_>| {
        let told = match operation {
            0 => window.needs_target(Operation::Put),
            1 => window.needs_target(Operation::Get),
            2 => window.needs_target(Operation::Accumulate),
            3 => window.needs_target(Operation::FetchAndOp),
            4 => window.lock_needs_target(),
            5 => window.needs_target(Operation::Blocks),
            number => {
                let text = format!("operation {number}: use a strait_operation");
                return Err(Failure::argument(text));
            }
        };
        // SAFETY: by the contract.
        unsafe { answer(needs, told.into()) }
    };
    // SAFETY: by the contract.
    unsafe { with("strait_window_needs_target", window, tell) }
}
