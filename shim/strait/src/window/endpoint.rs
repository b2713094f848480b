//! Windows of all ranks, made through an [`Endpoint`].

use strait_platform::Rank;

use super::Window;
use super::expose::Exposable;
use crate::{Endpoint, Error, Group};

impl<'world> Endpoint<'world> {
    /// Makes a window of all ranks over memory that each of them allocates: see
    /// [`Group::allocate_window`].
    ///
    /// # Errors
    ///
    /// Fails as [`Group::allocate_window`] does.
    pub fn allocate_window(&self, bytes: usize, unit: usize) -> Result<Window<'world>, Error> {
        self.group_of_all()?.allocate_window(bytes, unit)
    }

    /// Makes a window of all ranks over consecutive memory: see [`Group::shared_window`].
    ///
    /// # Errors
    ///
    /// Fails as [`Group::shared_window`] does.
    pub fn shared_window(&self, bytes: usize, unit: usize) -> Result<Window<'world>, Error> {
        self.group_of_all()?.shared_window(bytes, unit)
    }

    /// Makes a window of all ranks over memory that they have: see [`Group::create_window`].
    ///
    /// # Errors
    ///
    /// Fails as [`Group::create_window`] does.
    pub fn create_window(
        &self,
        memory: impl Exposable,
        unit: usize,
    ) -> Result<Window<'world>, Error> {
        self.group_of_all()?.create_window(memory, unit)
    }

    fn group_of_all(&self) -> Result<Group<'world>, Error> {
        let all: Vec<Rank> = (0..self.world().size()).collect();
        Ok(self.group(&all)?)
    }
}
