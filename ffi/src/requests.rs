//! Operations under way.

use core::ffi::c_int;

use shim::{Part, Unscoped, World};

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
        let waited = world.wait_until(|| {
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

/// The request at `place`, and its world.
///
/// # Safety
///
/// As `strait.h` says of requests.
unsafe fn at<'a>(place: *mut Handle) -> Called<(Handle, &'a Instance)> {
    need(place)?;
    // SAFETY: by the contract.
    let request = unsafe { place.read() };
    // SAFETY: by the contract.
    Ok((request, unsafe { handle::world_of(request, Kind::Request) }?))
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
        let (handle, instance) = unsafe { at(request) }?;
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

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_wait_all(
    count: usize,
    requests: *mut Handle,
    statuses: *mut Status,
    codes: *mut c_int,
) -> c_int {
    enter("strait_wait_all", Handle::NONE, || {
        if count > 0 {
            need(requests)?;
        }
        let mut result = Ok(());
        for place in 0..count {
            // SAFETY: by the contract there are as many requests, and statuses and codes if any.
            let ended = unsafe {
                let request = requests.add(place);
                let status = if statuses.is_null() { statuses } else { statuses.add(place) };
                let ended = match request.read() {
                    Handle::NONE => Ok(()),
                    _ => wait_at(request, status),
                };
                let code = ended.as_ref().map_or_else(|failure| failure.code as c_int, |()| 0);
                if !codes.is_null() {
                    codes.add(place).write(code);
                }
                ended
            };
            result = result.and(ended);
        }
        result
    })
}

/// Waits for one of several.
///
/// # Safety
///
/// As for [`strait_wait`].
unsafe fn wait_at(request: *mut Handle, status: *mut Status) -> Called {
    // SAFETY: by the contract.
    let (handle, instance) = unsafe { at(request) }?;
    let (waited, _) = instance.with(handle, |operation, _| instance.wait(operation))?;
    // SAFETY: by the contract.
    unsafe {
        request.write(Handle::NONE);
        answer_if_wanted(status, waited?.into());
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_wait_any(
    count: usize,
    requests: *mut Handle,
    index: *mut usize,
    status: *mut Status,
) -> c_int {
    enter("strait_wait_any", Handle::NONE, || {
        need(index)?;
        if count > 0 {
            need(requests)?;
        }
        // SAFETY: by the contract.
        let found = unsafe { find_any(count, requests) }?;
        // SAFETY: by the contract.
        unsafe { answer(index, found.unwrap_or(usize::MAX)) }?;
        match found {
            // SAFETY: by the contract; this one does not wait any more.
            Some(place) => unsafe { wait_at(requests.add(place), status) },
            None => Ok(()),
        }
    })
}

/// Waits until one of the requests is over, and gives its place; `None` when all are null.
///
/// # Safety
///
/// As `strait.h` says of `strait_wait_any`.
unsafe fn find_any(count: usize, requests: *mut Handle) -> Called<Option<usize>> {
    // SAFETY: by the contract.
    let handles = (0..count).map(|place| (place, unsafe { requests.add(place).read() }));
    let open: Vec<_> = handles.filter(|(_, handle)| *handle != Handle::NONE).collect();
    let Some((_, first)) = open.first() else { return Ok(None) };
    // SAFETY: by the contract.
    let instance = unsafe { handle::world_of(*first, Kind::Request) }?;
    for (_, handle) in &open {
        // One of another world is none of this one's.
        instance.requests().get(*handle)?;
    }
    let mut served = Ok(());
    let found = instance.world().wait_until(|| {
        let over = open.iter().find(|(_, handle)| {
            // One that is gone meanwhile is over, too: waiting for it says so.
            let mut requests = instance.requests();
            requests.get(*handle).map_or(true, |pending| pending.operation.look(instance.world()))
        });
        if over.is_none() && served.is_ok() {
            served = instance.deliver();
        }
        over.map(|(place, _)| *place)
    })?;
    served.map(|()| Some(found))
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
        let (handle, instance) = unsafe { at(request) }?;
        instance.with(handle, Unscoped::settle)?;
        // SAFETY: by the contract.
        unsafe { request.write(Handle::NONE) };
        Ok(())
    })
}
