//! Dynamic windows: memory comes and goes.

use core::ffi::{c_int, c_void};

use shim::{Group, Window, WindowError};

use super::{Members, make, with};
use crate::buffer::{answer, need, part};
use crate::handle::Handle;

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_create_dynamic(
    world: Handle,
    members: *const Members,
    window: *mut Handle,
) -> c_int {
    let create = |group: Group<'static>, options| Ok(group.dynamic_window_for(options)?);
    // SAFETY: by the contract.
    unsafe { make("strait_window_create_dynamic", world, members, window, create) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_attach(
    window: Handle,
    base: *mut c_void,
    bytes: usize,
    displacement: *mut usize,
) -> c_int {
    let attach = |window: &Window<'_>| {
        need(displacement)?;
        let memory = part(base, bytes)?;
        // SAFETY: by the contract the memory is the window's until it is detached.
        let attached = unsafe { window.attach_over(memory.base, memory.length) }?;
        // SAFETY: by the contract.
        unsafe { answer(displacement, attached.displacement()) }
    };
    // SAFETY: by the contract.
    unsafe { with("strait_window_attach", window, attach) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_detach(window: Handle, displacement: usize) -> c_int {
    let detach = |window: &Window<'_>| {
        let target = window.group().place();
        let nothing = WindowError::Detached { target, displacement, extent: 0 };
        let attached = window.attachment(displacement).ok_or(shim::Error::from(nothing))?;
        Ok(window.detach(attached)?)
    };
    // SAFETY: by the contract.
    unsafe { with("strait_window_detach", window, detach) }
}
