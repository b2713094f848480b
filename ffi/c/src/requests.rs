//! Requests: the handles of pending operations.

use core::cell::RefCell;
use core::ffi::c_int;

use shim::World;
use shim::raw::{Bypass, RawRequests as _, RequestId, Unscoped};

use crate::border::{HandleArg, HandlePlaceArg, OutArg, no_place};
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

impl CStatus {
    /// The status of an operation that has none: MPI's empty status.
    const EMPTY: Self = Self { source: u32::MAX, tag: u32::MAX, bytes: 0 };
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
        if pending.needs_no_entry() {
            return Ok(Handle::DONE);
        }
        if let Some(outcome) = pending.operation().outcome() {
            return self.handle_of(self.world().keep_outcome(outcome)?);
        }
        if let Some(request) = pending.operation().request()
            && !pending.has_parts()
        {
            return self.handle_of(request);
        }
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
        if let Some(id) = self.request_of(request)? {
            let mut lent = LentRequest::new(self, id);
            let result = act(&mut lent.operation, self.world());
            return Ok((result, lent.operation.is_over()));
        }
        let taken = self.requests().take(request)?;
        let mut lent = TakenOperation { instance: self, request, pending: Some(taken) };
        let Some(pending) = &mut lent.pending else {
            return Err(handle::bad(request, HandleKind::Request));
        };
        let result = act(pending.operation_mut(), self.world());
        Ok((result, pending.operation().is_over()))
    }
}

/// An operation of the engine in use. Its handle ends if it is complete.
struct LentRequest<'a> {
    instance: &'a Instance,
    request: RequestId,
    operation: Unscoped,
}

impl<'a> LentRequest<'a> {
    fn new(instance: &'a Instance, request: RequestId) -> Self {
        instance.world().lend_request(request, true);
        Self { instance, request, operation: Unscoped::of_request(instance.world(), request) }
    }
}

impl Drop for LentRequest<'_> {
    fn drop(&mut self) {
        if !self.operation.is_over() {
            self.instance.world().lend_request(self.request, false);
        }
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

/// Ends the request if it is known to be complete without a failure, and returns its status. Does
/// nothing else.
#[inline(always)]
fn finish(request: HandleArg<'_>) -> Option<CStatus> {
    let handle = request.handle();
    if handle == Handle::DONE {
        return Some(CStatus::EMPTY);
    }
    let instance = request.world_if_any()?;
    Some(instance.world().take_status(instance.ticket_of(handle)?)?.into())
}

/// Ends the request at `place` as [`finish`] does, and returns its result to C. Returns false if
/// the request goes on.
#[inline(always)]
pub(crate) fn finish_at(place: HandlePlaceArg<'_>, status: OutArg<'_, CStatus>) -> bool {
    let Some(ended) = place.stored().and_then(finish) else { return false };
    place.clear();
    status.write_if_wanted(ended);
    true
}

#[unsafe(no_mangle)]
extern "C" fn strait_test(
    request: HandlePlaceArg<'_>,
    done: OutArg<'_, c_int>,
    status: OutArg<'_, CStatus>,
) -> c_int {
    enter("strait_test", request.peek(), || {
        done.need()?;
        if finish_at(request, status) {
            return done.write(1);
        }
        let (handle, instance) = request.open(HandleKind::Request)?;
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
    if request.stored().is_some_and(|stored| stored.handle() == Handle::DONE) {
        request.clear();
        status.write_if_wanted(CStatus::EMPTY);
        return 0;
    }
    wait(request, status)
}

/// Waits for a request that is under way, or was when it started. It is a function of its own, so
/// that the wait for a send that was over at once saves no registers.
#[inline(never)]
extern "C" fn wait(request: HandlePlaceArg<'_>, status: OutArg<'_, CStatus>) -> c_int {
    if let Some(stored) = request.stored()
        && let Some(instance) = stored.world_if_any()
        && let Some(ticket) = instance.ticket_of(stored.handle())
    {
        match instance.world().take_line(ticket) {
            Bypass::Received(received) => {
                request.clear();
                status.write_if_wanted(received.into());
                return 0;
            }
            // Another look would take the line from the peer, which is about to write it.
            Bypass::Nothing => return enter_wait(request, status),
            Bypass::Closed => {}
        }
    }
    wait_for_any(request, status)
}

/// Waits for a request other than a receive that finds its message in the next line.
#[inline(never)]
extern "C" fn wait_for_any(request: HandlePlaceArg<'_>, status: OutArg<'_, CStatus>) -> c_int {
    if finish_at(request, status) { 0 } else { enter_wait(request, status) }
}

#[inline(never)]
extern "C" fn enter_wait(request: HandlePlaceArg<'_>, status: OutArg<'_, CStatus>) -> c_int {
    enter("strait_wait", request.peek(), || wait_longer(request, status))
}

/// Waits for the request stored at `place`.
#[inline]
pub(crate) fn wait_at(place: HandlePlaceArg<'_>, status: OutArg<'_, CStatus>) -> Called {
    if finish_at(place, status) { Ok(()) } else { wait_longer(place, status) }
}

/// Waits for the request stored at `place`, which [`finish_at`] has not ended.
#[inline(never)]
pub(crate) fn wait_longer(place: HandlePlaceArg<'_>, status: OutArg<'_, CStatus>) -> Called {
    let stored = place.stored().ok_or_else(no_place)?;
    if let Some(instance) = stored.world_if_any()
        && let Some(ticket) = instance.ticket_of(stored.handle())
        && !instance.expects_packets()
        && let Some(ended) = instance.world().wait_in_lines(ticket)
    {
        place.clear();
        status.write_if_wanted(ended.into());
        return Ok(());
    }
    let (handle, instance) = place.open(HandleKind::Request)?;
    let (waited, _) = instance.with(handle, |operation, _| instance.wait(operation))?;
    place.clear();
    status.write_if_wanted(waited?.into());
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn strait_cancel(request: HandleArg<'_>, cancelled: OutArg<'_, c_int>) -> c_int {
    enter("strait_cancel", request, || {
        if request.handle() == Handle::DONE {
            cancelled.write_if_wanted(0);
            return Ok(());
        }
        let instance = request.world_of(HandleKind::Request)?;
        let did = if let Some(id) = instance.request_of(request.handle())? {
            Unscoped::of_request(instance.world(), id).cancel(instance.world())
        } else {
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
        if request.peek().handle() == Handle::DONE {
            request.clear();
            return Ok(());
        }
        let (handle, instance) = request.open(HandleKind::Request)?;
        instance.with(handle, Unscoped::settle)?;
        request.clear();
        Ok(())
    })
}
