//! Dynamic windows, to which memory is attached.

use core::ffi::c_int;

use shim::{Window, WindowError};

use super::{CMembers, make, with};
use crate::border::{CountArg, HandleArg, LastingArg, OutArg, StructInArg};
use crate::handle::Handle;

#[unsafe(no_mangle)]
extern "C" fn strait_window_create_dynamic(
    world: HandleArg<'_>,
    members: StructInArg<'_, CMembers<'_>>,
    window: OutArg<'_, Handle>,
) -> c_int {
    make("strait_window_create_dynamic", world, members, window, |group, options| {
        Ok(Window::builder(&group).options(options).dynamic()?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_attach(
    window: HandleArg<'_>,
    base: LastingArg,
    bytes: CountArg,
    displacement: OutArg<'_, usize>,
) -> c_int {
    with("strait_window_attach", window, |window| {
        displacement.need()?;
        displacement.write(base.window_memory(bytes)?.attach(window)?.displacement())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_detach(window: HandleArg<'_>, displacement: usize) -> c_int {
    with("strait_window_detach", window, |window| {
        let target = window.group().place();
        let nothing = WindowError::Detached { target, displacement, extent: 0 };
        let attached = window.attachment(displacement).ok_or(shim::Error::from(nothing))?;
        Ok(window.detach(attached)?)
    })
}
