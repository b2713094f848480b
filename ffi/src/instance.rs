//! All that a world's handle leads to.

use core::cell::{Cell, RefCell, RefMut};
use std::collections::HashMap;

use shim::{Endpoint, Matched, SharedMemory, World};

use crate::entry::Called;
use crate::failure::{Code, Failure};
use crate::handle::{Entries, Handle, Kind};
use crate::options::Options;
use crate::packets::Handlers;
use crate::pipe::Pipe;
use crate::requests::Pending;
use crate::windows;

/// The last context that C may name; those beyond are kept for this interface's own messages. `STRAIT_CONTEXT_MAX` in C.
pub(crate) const CONTEXT_MAX: u32 = 0x7fff_ffef;

/// Where active messages go.
pub(crate) const PACKETS: u32 = CONTEXT_MAX + 1;

/// Where large messages go that the embedder announces.
pub(crate) const LARGE: u32 = CONTEXT_MAX + 2;

/// Where the bytes of pipes go.
pub(crate) const PIPES: u32 = CONTEXT_MAX + 3;

/// A world, and what C has open in it.
#[derive(Debug)]
pub(crate) struct Instance {
    handle: Handle,
    requests: RefCell<Entries<Pending>>,
    messages: RefCell<Entries<Matched>>,
    windows: RefCell<Entries<windows::Open>>,
    /// Connections, once the RDMA channel is open; which rank each is to.
    connections: RefCell<Entries<(u32, Pipe)>>,
    /// The connection to each rank.
    by_rank: RefCell<Vec<Handle>>,
    packets: Handlers,
    /// Large messages announced so far.
    large: Cell<u32>,
    memory: RefCell<HashMap<usize, SharedMemory<u8>>>,
    options: Options,
    world: World,
}

impl Instance {
    pub(crate) fn new(handle: Handle, mut world: World, options: Options) -> Self {
        if let Some(idle) = options.idle() {
            world.set_idle(idle);
        }
        if let Some(watch) = options.watch() {
            // SAFETY: by the contract of `strait_init`.
            unsafe { world.watch_memory(watch) };
        }
        Self {
            handle,
            requests: RefCell::new(Entries::new(Kind::Request, handle)),
            messages: RefCell::new(Entries::new(Kind::Message, handle)),
            windows: RefCell::new(Entries::new(Kind::Window, handle)),
            connections: RefCell::new(Entries::new(Kind::Connection, handle)),
            by_rank: RefCell::default(),
            packets: Handlers::default(),
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

    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) const fn packets(&self) -> &Handlers {
        &self.packets
    }

    /// The number of the next large message.
    pub(crate) fn next_large(&self) -> u32 {
        self.large.replace(self.large.get().wrapping_add(1))
    }

    /// The endpoint of `context`.
    #[inline(always)]
    pub(crate) fn endpoint(&self, context: u32) -> Called<Endpoint<'_>> {
        if context > CONTEXT_MAX {
            return Err(Failure::no_context(context));
        }
        Ok(self.any_endpoint(context))
    }

    /// The endpoint of a context that has been checked, or is one of this interface's own.
    #[inline(always)]
    pub(crate) const fn any_endpoint(&self, context: u32) -> Endpoint<'_> {
        self.world.endpoint().with_context(context)
    }

    /// The requests. Not held while anything of the embedder's may run.
    #[inline(always)]
    pub(crate) fn requests(&self) -> RefMut<'_, Entries<Pending>> {
        self.requests.borrow_mut()
    }

    /// The messages that probes have matched. Not held while anything of the embedder's may run.
    pub(crate) fn messages(&self) -> RefMut<'_, Entries<Matched>> {
        self.messages.borrow_mut()
    }

    /// The windows. Not held while anything of the embedder's may run.
    #[inline(always)]
    pub(crate) fn windows(&self) -> RefMut<'_, Entries<windows::Open>> {
        self.windows.borrow_mut()
    }

    /// Memory in the segment that C has, by where it begins.
    pub(crate) fn memory(&self) -> RefMut<'_, HashMap<usize, SharedMemory<u8>>> {
        self.memory.borrow_mut()
    }

    /// The connection to `rank`, which is opened if it is not.
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
            let inserted = self.connections.borrow_mut().insert((rank, Pipe::default()));
            *handle = inserted.map_err(|(failure, _)| failure)?;
        }
        Ok(*handle)
    }

    /// Opens the RDMA channel, whose connections are made as they are asked for.
    pub(crate) fn open_pipes(&self) {
        self.by_rank.borrow_mut().resize(self.world.size() as usize, Handle::NONE);
    }

    /// Closes it: its connections are no more.
    pub(crate) fn close_pipes(&self) {
        self.by_rank.borrow_mut().clear();
        let pipes: Vec<_> = self.connections.borrow_mut().drain().collect();
        pipes.into_iter().for_each(|(_, pipe)| pipe.close(&self.world));
    }

    /// Lends the pipe of a connection, and says to whom it leads.
    pub(crate) fn lend_pipe(&self, connection: Handle) -> Called<(u32, Pipe)> {
        self.connections.borrow_mut().take(connection)
    }

    pub(crate) fn return_pipe(&self, connection: Handle, peer: u32, pipe: Pipe) {
        self.connections.borrow_mut().put_back(connection, (peer, pipe));
    }

    /// Refuses to end a world in which something is open that reaches into it.
    pub(crate) fn check_closed(&self) -> Called {
        let windows = self.windows.borrow().len();
        if windows > 0 {
            let text = format!("{windows} windows of the world are open: free them first");
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

    /// Leaves the job. What has not ended is settled first.
    pub(crate) fn finalize(self) -> Called {
        self.close_pipes();
        let Self { requests, world, .. } = self;
        for mut pending in requests.into_inner().drain() {
            pending.settle(&world);
        }
        Ok(world.finalize()?)
    }
}
