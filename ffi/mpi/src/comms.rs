//! The communicators with messages of ours.
//!
//! A communicator that is not in the table is the host's: an intercommunicator, one of a session,
//! one with a process that is not in `MPI_COMM_WORLD`, or one that the host made for itself.

use core::cell::{Cell, OnceCell, RefCell};
use core::ffi::c_int;
use std::collections::{HashMap, HashSet};

use strait::{Endpoint, Group, World};

use crate::abi::{self, Handle};
use crate::front::shared::Shared;
use crate::front::topology::Topology;
use crate::front::windows::CONTEXT_OF_LOCKS as OF_LOCKS;

/// A communicator of ours.
pub(crate) struct Comm {
    pub(crate) handle: Handle,
    pub(crate) context: u32,
    pub(crate) size: u32,
    /// `None` where ranks are those of the world.
    members: Option<MemberTable>,
    /// The members, from the first collective operation on.
    pub(crate) group: RefCell<Option<Group<'static>>>,
    /// The neighbours, from the first operation on that asks for them. `None`: it has no topology.
    pub(crate) topology: OnceCell<Option<Topology>>,
}

/// Bit in the contexts of messages between neighbours. No proposed context has it.
const OF_NEIGHBOURS: u32 = 1 << 30;

/// The ranks of a communicator with other numbers than in the world.
struct MemberTable {
    /// The rank in the world of each rank.
    in_world: Box<[u32]>,
    /// The rank of each rank in the world, or -1.
    of_world: Box<[c_int]>,
}

impl Comm {
    /// Describes a communicator from the ranks in the world of its ranks.
    pub(crate) fn new(handle: Handle, context: u32, in_world: Box<[u32]>, world: u32) -> Self {
        let size = in_world.len() as u32;
        let same = size == world && in_world.iter().enumerate().all(|(n, rank)| n as u32 == *rank);
        let members = (!same).then(|| {
            let mut of_world = vec![-1; world as usize].into_boxed_slice();
            for (rank, at) in in_world.iter().enumerate() {
                of_world[*at as usize] = rank as c_int;
            }
            MemberTable { in_world, of_world }
        });
        Self {
            handle,
            context,
            size,
            members,
            group: RefCell::default(),
            topology: OnceCell::new(),
        }
    }

    /// Returns the same members with the context of messages between neighbours.
    pub(crate) fn for_neighbours(&self, world: u32) -> Self {
        let ranks = 0..self.size as c_int;
        let in_world = ranks.filter_map(|rank| self.in_world(rank)).collect();
        Self::new(self.handle, self.context | OF_NEIGHBOURS, in_world, world)
    }

    /// Returns the endpoint of this communicator's context.
    #[inline(always)]
    pub(crate) const fn endpoint<'world>(&self, world: &'world World) -> Endpoint<'world> {
        world.endpoint().with_context(self.context)
    }

    /// Returns the rank in the world of a rank, if it exists.
    #[inline(always)]
    pub(crate) fn in_world(&self, rank: c_int) -> Option<u32> {
        let rank = rank as u32;
        match &self.members {
            None => (rank < self.size).then_some(rank),
            Some(members) => members.in_world.get(rank as usize).copied(),
        }
    }

    /// Returns the rank of a rank in the world.
    #[inline(always)]
    pub(crate) fn of_world(&self, rank: u32) -> c_int {
        match &self.members {
            None => rank as c_int,
            Some(members) => members.of_world.get(rank as usize).copied().unwrap_or(-1),
        }
    }
}

/// The communicators of ours, by handle, and the contexts in use.
pub(crate) struct CommTable {
    world: Shared<Comm>,
    latest: RefCell<Option<Shared<Comm>>>,
    all: RefCell<HashMap<Handle, Shared<Comm>>>,
    contexts: RefCell<HashSet<u32>>,
    next_context: Cell<u32>,
}

impl CommTable {
    /// Makes the table with the two communicators that every program has.
    pub(crate) fn new(world: Comm, own: Comm) -> Self {
        let (world, own) = (Shared::new(world), Shared::new(own));
        let contexts = HashSet::from([world.context, own.context, OF_LOCKS]);
        let next = world.context.max(own.context).max(OF_LOCKS) + 1;
        let all = [(world.handle, Shared::clone(&world)), (own.handle, own)];
        Self {
            world,
            latest: RefCell::default(),
            all: RefCell::new(all.into()),
            contexts: RefCell::new(contexts),
            next_context: Cell::new(next),
        }
    }

    /// Returns the communicator of a handle, if it is ours.
    #[inline(always)]
    pub(crate) fn find(&self, handle: Handle) -> Option<Shared<Comm>> {
        if handle == abi::comm_world() {
            return Some(Shared::clone(&self.world));
        }
        self.find_other(handle)
    }

    /// Returns the communicator of a handle, if it is ours, without a new reference if it is the
    /// world's. Otherwise `held` keeps the reference.
    #[inline(always)]
    pub(crate) fn find_in<'a>(
        &'a self,
        handle: Handle,
        held: &'a mut Option<Shared<Comm>>,
    ) -> Option<&'a Shared<Comm>> {
        if handle == abi::comm_world() {
            return Some(&self.world);
        }
        *held = self.find_other(handle);
        held.as_ref()
    }

    #[inline(never)]
    fn find_other(&self, handle: Handle) -> Option<Shared<Comm>> {
        let mut latest = self.latest.borrow_mut();
        if let Some(comm) = &*latest
            && comm.handle == handle
        {
            return Some(Shared::clone(comm));
        }
        let found = self.all.borrow().get(&handle).cloned();
        if found.is_some() {
            latest.clone_from(&found);
        }
        found
    }

    /// Returns a context that this process has not used yet, to propose it.
    pub(crate) fn propose(&self) -> u32 {
        let context = self.next_context.get();
        self.next_context.set(context + 1);
        context
    }

    /// Reserves a context that was agreed on. Returns false if it is in use.
    pub(crate) fn reserve(&self, context: u32) -> bool {
        self.next_context.set(self.next_context.get().max(context + 1));
        self.contexts.borrow_mut().insert(context)
    }

    /// Gives a reserved context back.
    pub(crate) fn release(&self, context: u32) {
        self.contexts.borrow_mut().remove(&context);
    }

    /// Ends all groups. Call it before the world ends.
    pub(crate) fn end_groups(&self) {
        self.all.borrow().values().for_each(|comm| *comm.group.borrow_mut() = None);
    }

    /// Returns whether nothing but this table refers to a communicator.
    pub(crate) fn are_only_here(&self) -> bool {
        *self.latest.borrow_mut() = None;
        let all = self.all.borrow();
        all.values().all(|comm| comm.count() == 1 + usize::from(comm.is_same(&self.world)))
    }

    /// Adds a communicator with a reserved context.
    pub(crate) fn add(&self, comm: Comm) {
        self.all.borrow_mut().insert(comm.handle, Shared::new(comm));
    }

    /// Forgets a communicator that is about to be freed: the host may use its handle again at once.
    /// Returns its context.
    pub(crate) fn remove(&self, handle: Handle) -> Option<u32> {
        *self.latest.borrow_mut() = None;
        let comm = self.all.borrow_mut().remove(&handle)?;
        *comm.group.borrow_mut() = None;
        self.release(comm.context);
        Some(comm.context)
    }
}
