//! Requests: the handles of pending operations.

use core::cell::RefCell;
use core::ffi::c_int;

use shim::World;
use shim::raw::Unscoped;

use crate::border::{HandleArg, HandlePlaceArg, OutArg};
use crate::entry::enter;
use crate::failure::Called;
use crate::handle::{self, Handle, HandleKind};
use crate::instance::Instance;
use crate::pending::PendingOperation;

/// `strait_status` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CStatus {
    pub(crate) source: u32,
    pub(crate) tag: u32,
    pub(crate) bytes: u64,
}

impl From<shim::Status> for CStatus {
    #[inline(always)]
    fn from(status: shim::Status) -> Self {
        let shim::Status { source, tag, bytes } = status;
        Self { source, tag, bytes: bytes as u64 }
    }
}

impl Instance {
    /// Stores an operation, and returns the handle of its request. Settles the operation if the
    /// table is full.
    #[inline]
    pub(crate) fn keep(&self, pending: PendingOperation) -> Called<Handle> {
        self.requests().insert(pending).map_err(|(failure, mut pending)| {
            pending.settle(self.world());
            failure
        })
    }

    /// Stores an operation, and returns its request to C.
    #[inline(always)]
    pub(crate) fn give(&self, pending: PendingOperation, request: OutArg<'_, Handle>) -> Called {
        request.write(self.keep(pending)?)
    }

    /// Waits for an operation, and delivers the packets that arrive meanwhile.
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

    /// Calls `act` with the operation of `request`, and ends the request if the operation is
    /// complete. The handle stays in use during the call.
    fn with<R>(
        &self,
        request: Handle,
        act: impl FnOnce(&mut Unscoped, &World) -> R,
    ) -> Called<(R, bool)> {
        let taken = self.requests().take(request)?;
        let mut lent = TakenOperation { instance: self, request, pending: Some(taken) };
        let Some(pending) = &mut lent.pending else {
            return Err(handle::bad(request, HandleKind::Request));
        };
        let result = act(pending.operation_mut(), self.world());
        Ok((result, pending.operation().is_over()))
    }
}

/// An operation that is taken out of its table. It returns to the table, or its handle ends if it
/// is complete.
struct TakenOperation<'a> {
    instance: &'a Instance,
    request: Handle,
    pending: Option<PendingOperation>,
}

impl Drop for TakenOperation<'_> {
    fn drop(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let mut requests = self.instance.requests();
        if pending.operation().is_over() {
            requests.remove(self.request);
        } else {
            requests.put_back(self.request, pending);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn strait_test(
    request: HandlePlaceArg<'_>,
    done: OutArg<'_, c_int>,
    status: OutArg<'_, CStatus>,
) -> c_int {
    enter("strait_test", request.peek(), || {
        let (handle, instance) = request.open(HandleKind::Request)?;
        done.need()?;
        let (tested, over) = instance.with(handle, Unscoped::test)?;
        if !over {
            instance.deliver()?;
        }
        done.write(over.into())?;
        if over {
            request.clear();
        }
        if let Some(ended) = tested? {
            status.write_if_wanted(ended.into());
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_wait(request: HandlePlaceArg<'_>, status: OutArg<'_, CStatus>) -> c_int {
    enter("strait_wait", request.peek(), || wait_at(request, status))
}

/// Waits for the request stored at `place`.
pub(crate) fn wait_at(place: HandlePlaceArg<'_>, status: OutArg<'_, CStatus>) -> Called {
    let (handle, instance) = place.open(HandleKind::Request)?;
    let (waited, _) = instance.with(handle, |operation, _| instance.wait(operation))?;
    place.clear();
    status.write_if_wanted(waited?.into());
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn strait_cancel(request: HandleArg<'_>, cancelled: OutArg<'_, c_int>) -> c_int {
    enter("strait_cancel", request, || {
        let instance = request.world_of(HandleKind::Request)?;
        let did = {
            let mut requests = instance.requests();
            requests.get(request.handle())?.operation_mut().cancel(instance.world())
        };
        cancelled.write_if_wanted(did.into());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_request_free(request: HandlePlaceArg<'_>) -> c_int {
    enter("strait_request_free", request.peek(), || {
        let (handle, instance) = request.open(HandleKind::Request)?;
        instance.with(handle, Unscoped::settle)?;
        request.clear();
        Ok(())
    })
}
