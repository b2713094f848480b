//! All that a world's handle leads to.

use core::cell::{RefCell, RefMut};

use shim::{Endpoint, World};

use crate::entry::Called;
use crate::failure::Failure;
use crate::handle::{Entries, Handle, Kind};
use crate::options::Options;
use crate::requests::Pending;

/// The last context that C may name; those beyond are kept for this interface's own messages. `STRAIT_CONTEXT_MAX` in C.
pub(crate) const CONTEXT_MAX: u32 = 0x7fff_ffef;

/// A world, and what C has open in it.
#[derive(Debug)]
pub(crate) struct Instance {
    handle: Handle,
    requests: RefCell<Entries<Pending>>,
    options: Options,
    world: World,
}

impl Instance {
    pub(crate) fn new(handle: Handle, mut world: World, options: Options) -> Self {
        if let Some(idle) = options.idle() {
            world.set_idle(idle);
        }
        let requests = RefCell::new(Entries::new(Kind::Request, handle));
        Self { handle, requests, options, world }
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

    /// The endpoint of `context`.
    #[inline(always)]
    pub(crate) fn endpoint(&self, context: u32) -> Called<Endpoint<'_>> {
        if context > CONTEXT_MAX {
            return Err(no_context(context));
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

    /// Leaves the job. What has not ended is settled first.
    pub(crate) fn finalize(self) -> Called {
        let Self { requests, world, .. } = self;
        for mut pending in requests.into_inner().drain() {
            pending.settle(&world);
        }
        Ok(world.finalize()?)
    }
}

#[cold]
#[inline(never)]
fn no_context(context: u32) -> Box<Failure> {
    let text = format!("context {context} does not exist: contexts go from 0 to {CONTEXT_MAX}");
    Failure::argument(text)
}
