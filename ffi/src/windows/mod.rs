//! One-sided communication: windows, how they come and go, and what they say of themselves.

mod attach;
mod epoch;
mod lock;
pub(crate) mod numbers;
pub(crate) mod transfer;

use core::ffi::{c_int, c_void};
use std::rc::Rc;

use shim::{Accumulates, AtomicityDomain, Error, Group, LockDesign, Window, WindowOptions, World};

use crate::buffer::{answer, need, part};
use crate::entry::{Called, enter};
use crate::failure::{Code, Failure};
use crate::handle::{self, Handle, Kind};
use crate::instance::{CONTEXT_MAX, Instance};
use crate::options::{self, Sized};

/// A window that a world has open. Its world outlives it: `strait_finalize` refuses while there are any.
pub(crate) type Open = Rc<Window<'static>>;

/// `strait_members` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Members {
    pub(crate) size: usize,
    pub(crate) ranks: *const u32,
    pub(crate) count: u32,
    pub(crate) context: u32,
    pub(crate) single_accumulates: u32,
    pub(crate) lock_design: u32,
}

// SAFETY: as declared above.
unsafe impl Sized for Members {}

/// The group of a window that is to be made, and what its members promise.
///
/// # Safety
///
/// As `strait.h` says of `members`; the world outlives the group.
unsafe fn group(
    instance: &Instance,
    members: *const Members,
) -> Called<(Group<'static>, WindowOptions)> {
    // SAFETY: by the contract.
    let world: &'static World = unsafe { &*core::ptr::from_ref(instance.world()) };
    // SAFETY: by the contract.
    let members = unsafe { options::read(members) }?;
    let context = members.map_or(0, |members| members.context);
    if context > CONTEXT_MAX {
        return Err(Failure::no_context(context));
    }
    let accumulates = match members {
        Some(members) if members.single_accumulates != 0 => Accumulates::Single,
        _ => Accumulates::Any,
    };
    let design = match members.map_or(0, |members| members.lock_design) {
        0 => None,
        number => {
            let design = LockDesign::ALL.get(number as usize - 1);
            Some(*design.ok_or_else(|| {
                Failure::argument(format!("lock design {number}: use a strait_lock_design"))
            })?)
        }
    };
    let options = WindowOptions { accumulates, lock: design, ..WindowOptions::default() };
    let ranks: Vec<u32> = match members {
        Some(members) if !members.ranks.is_null() => {
            // SAFETY: by the contract.
            unsafe { core::slice::from_raw_parts(members.ranks, members.count as usize) }.to_vec()
        }
        _ => (0..world.size()).collect(),
    };
    let group = world.endpoint().with_context(context).group(&ranks).map_err(Error::from)?;
    Ok((group, options))
}

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
        let (group, options) = unsafe { group(instance, members) }?;
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
        need(window)?;
        // SAFETY: by the contract.
        let handle = unsafe { window.read() };
        // SAFETY: by the contract.
        let instance = unsafe { handle::world_of(handle, Kind::Window) }?;
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
