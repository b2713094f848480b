//! Collective operations (MPI-5.0 §6): those on communicators of ours are Strait's.
//!
//! Which operations are Strait's depends on the communicator alone, so it is the same at all
//! members. A call with a wrong argument goes to the host, and the host's own check reports it.

use strait::raw::RawRecords as _;
use strait::{Error, Group};

use super::comms::Comm;
use super::complete::inside_host;
use super::errors;
use super::names::name_of;
use super::state::{self, Front};
use super::types::TypeRefused;
use super::windows::Waiting;
use crate::abi::Handle;
use core::ffi::c_int;

mod alias;
mod arguments;
mod by_root;
mod functions;
mod host;
mod neighbours;
mod operator;
mod reduce;
mod to_all;
mod vector;

/// The reason why an operation did nothing, or failed.
#[derive(Debug)]
enum CollectiveRefusal {
    /// The host's own check finds the wrong argument.
    Argument,
    /// A function of the host failed, and has reported it.
    Reported(c_int),
    Failed(Error),
}

impl From<Error> for CollectiveRefusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<TypeRefused> for CollectiveRefusal {
    fn from(refused: TypeRefused) -> Self {
        match refused {
            TypeRefused::Argument => Self::Argument,
            TypeRefused::Reported(code) => Self::Reported(code),
        }
    }
}

/// The members of a communicator, in a call.
struct CommMembers<'a> {
    front: &'a Front,
    group: &'a Group<'static>,
}

impl CommMembers<'_> {
    fn count(&self) -> usize {
        self.group.ranks().len()
    }

    fn place(&self) -> usize {
        self.group.place() as usize
    }

    /// Returns the place of a root, if it exists, and whether it is this process.
    fn root(&self, root: c_int) -> Result<(u32, bool), CollectiveRefusal> {
        match u32::try_from(root) {
            Ok(root) if (root as usize) < self.count() => Ok((root, root == self.group.place())),
            _ => Err(CollectiveRefusal::Argument),
        }
    }
}

/// Makes a collective call. `by_host` is the host's function with the same arguments.
fn call(
    comm: Handle,
    act: impl FnOnce(&CommMembers<'_>) -> Result<(), CollectiveRefusal>,
    by_host: impl FnOnce() -> c_int,
) -> c_int {
    let unlocked = state::unlocked();
    // In a program with several threads that call MPI.
    let locked = if unlocked.is_some() { None } else { state::enter().map(Waiting::begin) };
    let done = {
        let front = match (unlocked, &locked) {
            (Some(front), _) => front,
            (None, Some(locked)) => locked.front(),
            (None, None) => return by_host(),
        };
        front.world.set_caller(name_of(&by_host));
        let Some(found) = front.comms.find(comm) else {
            drop(locked);
            return inside_host(by_host);
        };
        found.with_group(&front.world, |group| act(&CommMembers { front, group }))
    };
    drop(locked);
    end(comm, done, by_host)
}

/// Returns the code of a call that is over, or leaves it to the host. The caller holds no lock.
fn end(
    comm: Handle,
    done: Result<(), CollectiveRefusal>,
    by_host: impl FnOnce() -> c_int,
) -> c_int {
    match done {
        Ok(()) => 0,
        Err(CollectiveRefusal::Argument) => inside_host(by_host),
        Err(CollectiveRefusal::Reported(code)) => code,
        Err(CollectiveRefusal::Failed(error)) => errors::report(comm, &error),
    }
}

impl Comm {
    /// Calls `act` with the group of the members.
    fn with_group(
        &self,
        world: &strait::World,
        act: impl FnOnce(&Group<'static>) -> Result<(), CollectiveRefusal>,
    ) -> Result<(), CollectiveRefusal> {
        if self.group.borrow().is_none() {
            // SAFETY: the front drops the group before the world ends.
            let world: &'static strait::World = unsafe { &*core::ptr::from_ref(world) };
            let ranks: Vec<u32> =
                (0..self.size).filter_map(|n| self.in_world(n as c_int)).collect();
            let group = self.endpoint(world).group(&ranks).map_err(Error::from)?;
            *self.group.borrow_mut() = Some(group);
        }
        match &*self.group.borrow() {
            Some(group) => act(group),
            None => Err(CollectiveRefusal::Argument),
        }
    }
}
