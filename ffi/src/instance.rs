//! All that a world's handle leads to.

use core::cell::{RefCell, RefMut};

use shim::{Endpoint, World};

use crate::entry::Called;
use crate::failure::Failure;
use crate::handle::{Entries, Handle, Kind};
use crate::options::Options;
use crate::requests::Pending;

/// Contexts from here on are kept for this interface's own messages: `STRAIT_CONTEXT_MAX` in C, and one.
const OWN_CONTEXTS: u32 = 0x7fff_fff0;

/// A world, and what C has open in it.
#[derive(Debug)]
pub(crate) struct Instance {
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
        Self { requests, options, world }
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
        if context >= OWN_CONTEXTS {
            return Err(no_context(context));
        }
        Ok(self.world.endpoint().with_context(context))
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
    Failure::argument(format!(
        "context {context} does not exist: contexts go from 0 to {}",
        OWN_CONTEXTS - 1
    ))
}
