//! One-sided communication: functions that make, free and describe windows.

mod attach;
mod epoch;
pub(crate) mod lock;
mod members;
pub(crate) mod numbers;
pub(crate) mod transfer;

use core::ffi::{c_int, c_void};
use std::rc::Rc;

use shim::{AtomicityDomain, Error, Group, RmaOperation, Window, WindowOptions};

pub(crate) use members::CMembers;

use crate::border::{CountArg, HandleArg, HandlePlaceArg, LastingArg, OutArg, StructInArg};
use crate::entry::enter;
use crate::failure::{Called, Code, Failure};
use crate::handle::{Handle, HandleKind};
use crate::instance::Instance;
use crate::pending::PendingOperation;

/// Makes a window and returns its handle.
fn make(
    call: &'static str,
    world: HandleArg<'_>,
    members: StructInArg<'_, CMembers<'_>>,
    window: OutArg<'_, Handle>,
    make: impl FnOnce(Group<'static>, WindowOptions) -> Called<Window<'static>>,
) -> c_int {
    enter(call, world, || {
        window.need()?;
        let instance = world.world()?;
        // SAFETY: the world outlives its windows, since `strait_finalize` fails while there are
        // any.
        let (group, options) = unsafe { members::read(instance, members) }?;
        let made = Rc::new(make(group, options)?);
        let handle = instance.windows().insert(made).map_err(|(failure, _)| failure)?;
        window.write(handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_allocate(
    world: HandleArg<'_>,
    members: StructInArg<'_, CMembers<'_>>,
    bytes: usize,
    unit: usize,
    window: OutArg<'_, Handle>,
) -> c_int {
    make("strait_window_allocate", world, members, window, |group, options| {
        Ok(Window::builder(&group).unit(unit).options(options).allocate(bytes)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_allocate_shared(
    world: HandleArg<'_>,
    members: StructInArg<'_, CMembers<'_>>,
    bytes: usize,
    unit: usize,
    window: OutArg<'_, Handle>,
) -> c_int {
    make("strait_window_allocate_shared", world, members, window, |group, options| {
        Ok(Window::builder(&group).unit(unit).options(options).allocate_shared(bytes)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_create(
    world: HandleArg<'_>,
    members: StructInArg<'_, CMembers<'_>>,
    base: LastingArg,
    bytes: CountArg,
    unit: usize,
    window: OutArg<'_, Handle>,
) -> c_int {
    make("strait_window_create", world, members, window, |group, options| {
        Ok(base.window_memory(bytes)?.create_window(&group, unit, options)?)
    })
}

/// Calls `act` with the open window that `window` leads to, and with its world.
#[inline(always)]
fn with_world(
    call: &'static str,
    window: HandleArg<'_>,
    act: impl FnOnce(&Instance, &Window<'static>) -> Called,
) -> c_int {
    enter(call, window, || {
        let instance = window.world_of(HandleKind::Window)?;
        let open = Rc::clone(instance.windows().get(window.handle())?);
        act(instance, &open)
    })
}

/// Calls `act` with the open window that `window` leads to.
#[inline(always)]
fn with(
    call: &'static str,
    window: HandleArg<'_>,
    act: impl FnOnce(&Window<'static>) -> Called,
) -> c_int {
    with_world(call, window, |_, window| act(window))
}

/// Starts an operation on a window, and returns its request.
fn start(
    call: &'static str,
    window: HandleArg<'_>,
    request: OutArg<'_, Handle>,
    start: impl FnOnce(&Window<'static>) -> Called<PendingOperation>,
) -> c_int {
    with_world(call, window, |instance, window| {
        request.need()?;
        instance.give(start(window)?, request)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_free(window: HandlePlaceArg<'_>) -> c_int {
    enter("strait_window_free", window.peek(), || {
        let (handle, instance) = window.open(HandleKind::Window)?;
        let open = Rc::clone(instance.windows().get(handle)?);
        if Rc::strong_count(&open) > 2 {
            return Err(Failure::new(Code::Busy, "the window is in use further up the stack"));
        }
        drop(instance.windows().remove(handle));
        window.clear();
        match Rc::try_unwrap(open) {
            Ok(open) => Ok(open.free()?),
            Err(_) => Ok(()),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_part(
    window: HandleArg<'_>,
    target: u32,
    base: OutArg<'_, *mut c_void>,
    bytes: OutArg<'_, usize>,
    unit: OutArg<'_, usize>,
) -> c_int {
    with("strait_window_part", window, |window| {
        let (length, width) = window.shape_of(target).map_err(Error::from)?;
        let mapped = window.mapped(target).map_or(core::ptr::null_mut(), |part| part.as_ptr());
        base.write_if_wanted(mapped.cast());
        bytes.write_if_wanted(length);
        unit.write_if_wanted(width);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_place(window: HandleArg<'_>, place: OutArg<'_, u32>) -> c_int {
    with("strait_window_place", window, |window| place.write(window.group().place()))
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_atomicity(
    window: HandleArg<'_>,
    atomicity: OutArg<'_, c_int>,
) -> c_int {
    with("strait_window_atomicity", window, |window| {
        atomicity.write(match window.atomicity() {
            AtomicityDomain::Processor => 0,
            AtomicityDomain::Device => 2,
            // Locks, and every slower mechanism.
            _ => 1,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_needs_target(
    window: HandleArg<'_>,
    operation: c_int,
    needs: OutArg<'_, c_int>,
) -> c_int {
    with("strait_window_needs_target", window, |window| {
        let answer = match operation {
            0 => window.needs_target(RmaOperation::Put),
            1 => window.needs_target(RmaOperation::Get),
            2 => window.needs_target(RmaOperation::Accumulate),
            3 => window.needs_target(RmaOperation::FetchAndOp),
            4 => window.lock_needs_target(),
            5 => window.needs_target(RmaOperation::Blocks),
            number => {
                let text = format!("operation {number}: use a strait_operation");
                return Err(Failure::argument(text));
            }
        };
        needs.write(answer.into())
    })
}
