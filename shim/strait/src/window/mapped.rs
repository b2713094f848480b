//! The parts that are mapped into this process.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::Window;
use super::local::Local;
use super::part::PartAccess;

impl Window<'_> {
    /// Returns this rank's own part.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// window.local().write(8, &[1.5_f32, 2.5])?;
    /// assert_eq!(window.local().load::<f32>(12)?, 2.5);
    /// window.free()
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn local(&self) -> Local<'_> {
        let own = self.mapped(self.group.place());
        own.unwrap_or(Local { base: NonNull::dangling(), length: 0, place: 0, window: PhantomData })
    }

    /// Returns the part of the member in `place` if loads and stores reach it. That is so if it
    /// lies in the segment, or is this rank's own.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).allocate_shared(64)?;
    /// let part = window.mapped(1).expect("all parts of a shared window are mapped");
    /// assert_eq!(part.len(), 64);
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.3, `MPI_WIN_SHARED_QUERY`.
    #[must_use]
    pub fn mapped(&self, place: u32) -> Option<Local<'_>> {
        let part = self.part(place).ok().filter(|part| !part.is_dynamic)?;
        let PartAccess::Mapped(base) = part.reach.get() else { return None };
        Some(Local { base, length: part.length, place, window: PhantomData })
    }
}
