//! Operations under way.

use core::cell::RefCell;
use core::ffi::c_int;

use shim::{Part, Unscoped, Wait, World};

use crate::buffer::{answer, answer_if_wanted, need};
use crate::entry::{Called, enter};
use crate::handle::{self, Handle, Kind};
use crate::instance::Instance;

/// `strait_status` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Status {
    pub(crate) source: u32,
    pub(crate) tag: u32,
    pub(crate) bytes: u64,
}

impl From<shim::Status> for Status {
    #[inline(always)]
    fn from(status: shim::Status) -> Self {
        let shim::Status { source, tag, bytes } = status;
        Self { source, tag, bytes: bytes as u64 }
    }
}

/// An operation under way, and the list of buffers that it reads.
#[derive(Debug)]
pub(crate) struct Pending {
    operation: Unscoped,
    parts: Option<Box<[Part]>>,
}

impl Pending {
    pub(crate) const fn new(operation: Unscoped, parts: Option<Box<[Part]>>) -> Self {
        Self { operation, parts }
    }

    /// True when the operation is over. Makes no progress.
    pub(crate) fn look(&mut self, world: &World) -> bool {
        self.operation.look(world)
    }

    /// What the operation waits for.
    pub(crate) fn wait_of(&self, world: &World) -> Wait {
        self.operation.wait_of(world)
    }

    /// Ends its claim on its buffers.
    pub(crate) fn settle(&mut self, world: &World) {
        self.operation.settle(world);
        self.parts = None;
    }
}

impl Instance {
    /// The request for an operation. When there is no room for it the operation is settled.
    #[inline]
    pub(crate) fn keep(&self, pending: Pending) -> Called<Handle> {
        self.requests().insert(pending).map_err(|(failure, mut pending)| {
            pending.settle(self.world());
            failure
        })
    }

    /// Waits for an operation, and hands over the packets that come meanwhile.
    fn wait(&self, operation: &mut Unscoped) -> Called<shim::Status> {
        let world = self.world();
        if !self.expects_packets() {
            return Ok(operation.wait(world)?);
        }
        let mut served = Ok(());
        let waiting = RefCell::new(&mut *operation);
        let what = || waiting.borrow().wait_of(world);
        let waited = world.wait_until(what, || {
            let operation = &mut **waiting.borrow_mut();
            if !operation.look(world) && served.is_ok() {
                served = self.deliver();
            }
            operation.look(world).then_some(())
        });
        if waited.is_err() {
            operation.settle(world);
        }
        waited?;
        let status = operation.wait(world)?;
        served.map(|()| status)
    }

    /// Has `act` do something with the operation of `request`, during which the handle is in use; ends the request when the
    /// operation is over.
    fn with<R>(
        &self,
        request: Handle,
        act: impl FnOnce(&mut Unscoped, &World) -> R,
    ) -> Called<(R, bool)> {
        let taken = self.requests().take(request)?;
        let mut lent = Lent { instance: self, request, pending: Some(taken) };
        let Some(pending) = &mut lent.pending else {
            return Err(handle::bad(request, Kind::Request));
        };
        let result = act(&mut pending.operation, self.world());
        Ok((result, pending.operation.is_over()))
    }
}

/// An operation that was taken out of its table. It goes back, or its handle ends if it is over.
struct Lent<'a> {
    instance: &'a Instance,
    request: Handle,
    pending: Option<Pending>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let mut requests = self.instance.requests();
        if pending.operation.is_over() {
            requests.remove(self.request);
        } else {
            requests.put_back(self.request, pending);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_test(
    request: *mut Handle,
    done: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: by the contract.
    enter("strait_test", unsafe { handle::peek(request) }, || {
        // SAFETY: by the contract.
        let (handle, instance) = unsafe { handle::at(request, Kind::Request) }?;
        need(done)?;
        let (tested, over) = instance.with(handle, Unscoped::test)?;
        if !over {
            instance.deliver()?;
        }
        // SAFETY: by the contract.
        unsafe {
            answer(done, over.into())?;
            if over {
                request.write(Handle::NONE);
            }
            if let Some(ended) = tested? {
                answer_if_wanted(status, ended.into());
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_wait(request: *mut Handle, status: *mut Status) -> c_int {
    // SAFETY: by the contract.
    enter("strait_wait", unsafe { handle::peek(request) }, || {
        // SAFETY: by the contract.
        unsafe { wait_at(request, status) }
    })
}

/// Waits for the request there.
///
/// # Safety
///
/// As for [`strait_wait`].
pub(crate) unsafe fn wait_at(request: *mut Handle, status: *mut Status) -> Called {
    // SAFETY: by the contract.
    let (handle, instance) = unsafe { handle::at(request, Kind::Request) }?;
    let (waited, _) = instance.with(handle, |operation, _| instance.wait(operation))?;
    // SAFETY: by the contract.
    unsafe {
        request.write(Handle::NONE);
        answer_if_wanted(status, waited?.into());
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_cancel(request: Handle, cancelled: *mut c_int) -> c_int {
    enter("strait_cancel", request, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world_of(request, Kind::Request) }?;
        let did = {
            let mut requests = instance.requests();
            requests.get(request)?.operation.cancel(instance.world())
        };
        // SAFETY: by the contract.
        unsafe { answer_if_wanted(cancelled, did.into()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_request_free(request: *mut Handle) -> c_int {
    // SAFETY: by the contract.
    enter("strait_request_free", unsafe { handle::peek(request) }, || {
        // SAFETY: by the contract.
        let (handle, instance) = unsafe { handle::at(request, Kind::Request) }?;
        instance.with(handle, Unscoped::settle)?;
        // SAFETY: by the contract.
        unsafe { request.write(Handle::NONE) };
        Ok(())
    })
}
