//! The instance of a world: everything that its handle leads to.

use core::cell::{Cell, RefCell, RefMut};
use std::collections::HashMap;
use std::rc::Rc;

use shim::raw::{Matched, RawRequests as _, RdmaChannel, RequestId, Ticket, Ticketed, Unscoped};
use shim::{Endpoint, Error, Group, SharedMemory, Window, World};

use crate::contexts::{CONTEXT_MAX, PIPES};
use crate::entries::{Entries, full, in_use};
use crate::failure::{Called, Code, Failure};
use crate::handle::{
    ENTRIES, GENERATION_SHIFT, Handle, HandleKind, INDEX_SHIFT, SERIAL_SHIFT, bad, common,
};
use crate::handlers::PacketHandlers;
use crate::options::COptions;
use crate::pending::PendingOperation;

/// A window that a world has open. The world outlives it: `strait_finalize` fails while there are
/// windows.
type OpenWindow = Rc<Window<'static>>;

/// A group that a world has open. The world outlives it: `strait_finalize` fails while there are
/// groups.
type OpenGroup = Rc<Group<'static>>;

/// A world, and the objects that C has open in it.
#[derive(Debug)]
pub(crate) struct Instance {
    handle: Handle,
    /// The bits that all handles of messages of this world share.
    operations: u64,
    /// Requests that are no entries of the engine's table.
    requests: RefCell<Entries<PendingOperation>>,
    messages: RefCell<Entries<Matched>>,
    windows: RefCell<Entries<OpenWindow>>,
    groups: RefCell<Entries<OpenGroup>>,
    /// The rank at the other end of each connection of the RDMA channel.
    connections: RefCell<Entries<u32>>,
    /// The RDMA channel, once a connection was used.
    channel: RefCell<Option<Box<RdmaChannel>>>,
    /// Number of times that the RDMA channel was opened.
    channels: Cell<u32>,
    /// The connection to each rank.
    by_rank: RefCell<Vec<Handle>>,
    packets: PacketHandlers,
    /// Number of large messages announced so far.
    large: Cell<u32>,
    memory: RefCell<HashMap<usize, SharedMemory<u8>>>,
    options: COptions,
    world: World,
}

impl Instance {
    pub(crate) fn new(handle: Handle, mut world: World, options: COptions) -> Self {
        if let Some(idle) = options.idle() {
            world.set_idle(idle);
        }
        if let Some(watch) = options.watch() {
            // SAFETY: the embedder reports all memory that it unmaps, as `strait.h` demands.
            unsafe { world.watch_memory(watch) };
        }
        Self {
            handle,
            operations: common(HandleKind::Operation, handle),
            requests: RefCell::new(Entries::new(HandleKind::Request, handle)),
            messages: RefCell::new(Entries::new(HandleKind::Message, handle)),
            windows: RefCell::new(Entries::new(HandleKind::Window, handle)),
            groups: RefCell::new(Entries::new(HandleKind::Group, handle)),
            connections: RefCell::new(Entries::new(HandleKind::Connection, handle)),
            channel: RefCell::default(),
            channels: Cell::new(0),
            by_rank: RefCell::default(),
            packets: PacketHandlers::default(),
            large: Cell::new(0),
            memory: RefCell::default(),
            options,
            world,
        }
    }

    pub(crate) const fn handle(&self) -> Handle {
        self.handle
    }

    #[inline(always)]
    pub(crate) const fn world(&self) -> &World {
        &self.world
    }

    pub(crate) const fn options(&self) -> &COptions {
        &self.options
    }

    pub(crate) const fn packets(&self) -> &PacketHandlers {
        &self.packets
    }

    /// Returns the number of the next large message.
    pub(crate) fn next_large(&self) -> u32 {
        self.large.replace(self.large.get().wrapping_add(1))
    }

    /// Returns the endpoint of `context`.
    #[inline(always)]
    pub(crate) fn endpoint(&self, context: u32) -> Called<Endpoint<'_>> {
        if context > CONTEXT_MAX {
            return Err(Failure::no_context(context));
        }
        Ok(self.any_endpoint(context))
    }

    /// Returns the endpoint of a context that has been checked, or that belongs to this interface.
    #[inline(always)]
    pub(crate) const fn any_endpoint(&self, context: u32) -> Endpoint<'_> {
        self.world.endpoint().with_context(context)
    }

    /// Returns the requests. The borrow must end before any code of the embedder runs.
    #[inline(always)]
    pub(crate) fn requests(&self) -> RefMut<'_, Entries<PendingOperation>> {
        self.requests.borrow_mut()
    }

    /// Returns the handle of a request of the engine. Fails when the request has no handle: its
    /// operation is settled then.
    #[inline]
    pub(crate) fn handle_of(&self, request: RequestId) -> Called<Handle> {
        self.handle_of_ticket(self.world.ticket(request)).ok_or_else(|| {
            Unscoped::of_request(&self.world, request).settle(&self.world);
            full(HandleKind::Request)
        })
    }

    /// Returns the handle of a request of the engine. `None`: handles have no room for its number.
    #[inline(always)]
    pub(crate) fn handle_of_ticket(&self, Ticket { index, generation }: Ticket) -> Option<Handle> {
        let numbers = u64::from(generation) << GENERATION_SHIFT | u64::from(index) << INDEX_SHIFT;
        ((index as usize) < ENTRIES).then_some(Handle(self.operations | numbers))
    }

    /// Returns the ticket of a handle of kind [`HandleKind::Operation`], or `None` if it is of
    /// another world or kind.
    #[inline(always)]
    pub(crate) const fn ticket_of(&self, handle: Handle) -> Option<Ticket> {
        const COMMON: u64 = !0 << SERIAL_SHIFT | !(!0 << INDEX_SHIFT);
        if handle.0 & COMMON != self.operations {
            return None;
        }
        let generation = (handle.0 >> GENERATION_SHIFT) as u32 % Ticket::GENERATIONS;
        Some(Ticket { index: handle.index() as u32, generation })
    }

    /// Returns the request of the engine that a handle names. `None` for a handle of another kind.
    #[inline]
    pub(crate) fn request_of(&self, handle: Handle) -> Called<Option<RequestId>> {
        if !handle.is_of(HandleKind::Operation) {
            return Ok(None);
        }
        let ticket = self.ticket_of(handle).ok_or_else(|| bad(handle, HandleKind::Request))?;
        match self.world.find_ticket(ticket) {
            Ticketed::Request(request) => Ok(Some(request)),
            Ticketed::Lent => Err(in_use(HandleKind::Request)),
            Ticketed::Nothing => Err(bad(handle, HandleKind::Request)),
        }
    }

    /// Returns the messages that probes have matched. The borrow must end before any code of the
    /// embedder runs.
    pub(crate) fn messages(&self) -> RefMut<'_, Entries<Matched>> {
        self.messages.borrow_mut()
    }

    /// Returns the windows. The borrow must end before any code of the embedder runs.
    #[inline(always)]
    pub(crate) fn windows(&self) -> RefMut<'_, Entries<OpenWindow>> {
        self.windows.borrow_mut()
    }

    /// Returns the groups. The borrow must end before any code of the embedder runs.
    #[inline(always)]
    pub(crate) fn groups(&self) -> RefMut<'_, Entries<OpenGroup>> {
        self.groups.borrow_mut()
    }

    /// Returns the segment memory that C holds, by its start address.
    pub(crate) fn memory(&self) -> RefMut<'_, HashMap<usize, SharedMemory<u8>>> {
        self.memory.borrow_mut()
    }

    /// Returns the connection to `rank`, and opens it if necessary.
    pub(crate) fn pipe_handle(&self, rank: u32) -> Called<Handle> {
        let mut by_rank = self.by_rank.borrow_mut();
        let Some(handle) = by_rank.get_mut(rank as usize) else {
            return Err(if rank < self.world.size() {
                Failure::new(Code::Handle, "there is no channel: call strait_rdma_init first")
            } else {
                Failure::no_rank(rank, self.world.size())
            });
        };
        if *handle == Handle::NONE {
            let inserted = self.connections.borrow_mut().insert(rank);
            *handle = inserted.map_err(|(failure, _)| failure)?;
        }
        Ok(*handle)
    }

    /// Opens the RDMA channel. Its connections are made on demand.
    pub(crate) fn open_channel(&self) {
        self.channels.set(self.channels.get().wrapping_add(1));
        self.by_rank.borrow_mut().resize(self.world.size() as usize, Handle::NONE);
    }

    /// Closes the RDMA channel and its connections.
    pub(crate) fn close_channel(&self) -> Called {
        let channel = match self.channel.try_borrow_mut() {
            Ok(mut channel) => channel.take(),
            Err(_) => return Err(in_use(HandleKind::Connection)),
        };
        self.by_rank.borrow_mut().clear();
        self.connections.borrow_mut().drain().for_each(drop);
        Ok(channel.map_or(Ok(()), |channel| channel.close(&self.world))?)
    }

    /// Runs `act` on the RDMA channel and the rank at the other end of a connection.
    pub(crate) fn use_channel<T>(
        &self,
        connection: Handle,
        act: impl FnOnce(&mut RdmaChannel, &World, u32) -> Result<T, Error>,
    ) -> Called<T> {
        let rank = *self.connections.borrow_mut().get(connection)?;
        // A wait inside may run code of the embedder, which may come here again.
        let Ok(mut channel) = self.channel.try_borrow_mut() else {
            return Err(in_use(HandleKind::Connection));
        };
        let channel = match &mut *channel {
            Some(channel) => channel,
            none => {
                let opened = RdmaChannel::open(&self.world, PIPES, self.channels.get())?;
                none.insert(Box::new(opened))
            }
        };
        Ok(act(channel, &self.world, rank)?)
    }

    /// Fails if an open object uses the world, so that the world cannot end.
    pub(crate) fn check_closed(&self) -> Called {
        let windows = self.windows.borrow().len();
        if windows > 0 {
            let text = format!("{windows} windows of the world are open: free them first");
            return Err(Failure::new(Code::Busy, text));
        }
        let groups = self.groups.borrow().len();
        if groups > 0 {
            let text = format!("{groups} groups of the world are open: free them first");
            return Err(Failure::new(Code::Busy, text));
        }
        if self.packets.is_busy() {
            return Err(Failure::new(
                Code::Busy,
                "a packet's handler runs: finalize when it is done",
            ));
        }
        Ok(())
    }

    /// Leaves the job, after it has settled unfinished operations.
    pub(crate) fn finalize(self) -> Called {
        let closed = self.close_channel();
        let Self { requests, world, options, .. } = self;
        world.take_warnings().iter().for_each(|warning| options.warn(warning));
        for mut pending in requests.into_inner().drain() {
            pending.settle(&world);
        }
        world.settle_requests();
        world.finalize()?;
        closed
    }
}
