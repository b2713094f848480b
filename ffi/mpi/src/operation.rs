//! Operations of Strait that the program has started.

use core::ffi::c_int;

use strait::raw::{Matched, RawEndpoint as _, RawWorld as _, ShortName, Unscoped};
use strait::{ANY_TAG, Call, Error, Status, Wait};

use super::base::Base;
use super::comms::Comm;
use super::pack::{Elements, ElementsRefused, MessageMemory};
use crate::abi;
use crate::front::shared::Shared;

/// How a send is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SendForm {
    /// When the buffer may be used again.
    Standard,
    /// When the receive has begun, too.
    Synchronous,
    /// At once: a copy is sent.
    Buffered,
}

/// The arguments of a send or a receive.
#[derive(Clone, Debug)]
pub(crate) struct MessageArgs {
    pub(crate) elements: Elements,
    /// A rank of the communicator, or `ANY_SOURCE`.
    pub(crate) peer: c_int,
    pub(crate) tag: c_int,
}

/// An operation, with the memory that it uses.
pub(crate) struct StartedOperation {
    pub(crate) unscoped: Unscoped,
    /// Kept until the operation is over. A whole buffer is the program's.
    memory: MessageMemory,
    pub(crate) comm: Shared<Comm>,
    pub(crate) is_send: bool,
    /// Whether the program cancelled it.
    pub(crate) was_cancelled: bool,
}

/// The reason why an operation did not start.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// The memory cannot be used, or the host's own function finds the wrong argument.
    Refused(ElementsRefused),
    /// Strait did not start it.
    Failed(Error),
}

impl From<ElementsRefused> for NotStarted {
    fn from(refused: ElementsRefused) -> Self {
        Self::Refused(refused)
    }
}

impl From<Error> for NotStarted {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What an operation that is over reports to the program.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) source: c_int,
    pub(crate) tag: c_int,
    pub(crate) bytes: usize,
    pub(crate) was_cancelled: bool,
    pub(crate) error: Option<Error>,
}

impl Finished {
    /// MPI's empty status (MPI-5.0 §3.7.3).
    pub(crate) const EMPTY: Self = Self {
        source: abi::ANY_SOURCE,
        tag: abi::ANY_TAG,
        bytes: 0,
        was_cancelled: false,
        error: None,
    };

    /// The status of a receive from `PROC_NULL` (MPI-5.0 §3.10).
    pub(crate) const FROM_NONE: Self = Self { source: abi::PROC_NULL, ..Self::EMPTY };

    /// Returns what a message that arrived reports.
    #[inline(always)]
    pub(crate) fn received(comm: &Comm, status: Status) -> Self {
        Self {
            source: comm.of_world(status.source),
            tag: status.tag as c_int,
            bytes: status.bytes,
            was_cancelled: false,
            error: None,
        }
    }
}

/// Returns Strait's number of the source in the world, if the rank exists.
#[inline(always)]
pub(crate) fn source(comm: &Comm, rank: c_int) -> Option<u32> {
    if rank == abi::ANY_SOURCE { Some(strait::raw::ANY_SOURCE) } else { comm.in_world(rank) }
}

/// Returns Strait's tag of a receive or a probe, if it is one.
#[inline(always)]
pub(crate) const fn wanted_tag(tag: c_int) -> Option<u32> {
    if tag == abi::ANY_TAG {
        Some(ANY_TAG)
    } else if tag >= 0 {
        Some(tag as u32)
    } else {
        None
    }
}

impl StartedOperation {
    /// Starts to send.
    ///
    /// # Safety
    ///
    /// The elements stay valid and unchanged until the operation is over, or `mode` is buffered.
    pub(crate) unsafe fn send(
        base: &Base,
        comm: &Shared<Comm>,
        mode: SendForm,
        args: &MessageArgs,
    ) -> Result<Self, NotStarted> {
        let peer = comm.in_world(args.peer).ok_or(ElementsRefused::Argument(abi::ERR_RANK))?;
        if args.tag < 0 {
            return Err(ElementsRefused::Argument(abi::ERR_TAG).into());
        }
        let (endpoint, tag) = (comm.endpoint(&base.world), args.tag as u32);
        // SAFETY: the elements are valid (contract of `send`). The memory of the message is kept
        // with the operation, and its lists do not move.
        unsafe {
            let mut memory = match mode {
                SendForm::Buffered => MessageMemory::Packed(args.elements.copied(&base.types)?),
                _ => args.elements.memory(&base.types, true)?,
            };
            let is_synchronous = mode == SendForm::Synchronous;
            let unscoped = match &mut memory {
                MessageMemory::Whole(part) if is_synchronous => {
                    endpoint.begin_ssend(*part, peer, tag)?
                }
                MessageMemory::Whole(part) => endpoint.begin_send(*part, peer, tag)?,
                MessageMemory::Parts(parts) if is_synchronous => {
                    endpoint.begin_ssend_vectored(parts, peer, tag)?
                }
                MessageMemory::Parts(parts) => endpoint.begin_send_vectored(parts, peer, tag)?,
                MessageMemory::Packed(copy) if is_synchronous => {
                    endpoint.begin_ssend(copy.part(), peer, tag)?
                }
                MessageMemory::Packed(copy) => endpoint.begin_send(copy.part(), peer, tag)?,
            };
            Ok(Self::new(unscoped, memory, Shared::clone(comm), true))
        }
    }

    /// Starts to receive.
    ///
    /// # Safety
    ///
    /// The elements stay valid, and nothing else accesses them, until the operation is over.
    pub(crate) unsafe fn recv(
        base: &Base,
        comm: &Shared<Comm>,
        args: &MessageArgs,
    ) -> Result<Self, NotStarted> {
        let peer = source(comm, args.peer).ok_or(ElementsRefused::Argument(abi::ERR_RANK))?;
        let tag = wanted_tag(args.tag).ok_or(ElementsRefused::Argument(abi::ERR_TAG))?;
        let endpoint = comm.endpoint(&base.world);
        // SAFETY: the elements are valid (contract of `recv`). The memory of the message is kept
        // with the operation, and its lists do not move.
        unsafe {
            let mut memory = args.elements.memory(&base.types, false)?;
            let unscoped = match &mut memory {
                MessageMemory::Whole(part) => endpoint.begin_recv(*part, peer, tag)?,
                MessageMemory::Parts(parts) => endpoint.begin_recv_vectored(parts, peer, tag)?,
                MessageMemory::Packed(copy) => endpoint.begin_recv(copy.part(), peer, tag)?,
            };
            Ok(Self::new(unscoped, memory, Shared::clone(comm), false))
        }
    }

    /// Starts to receive a message that a probe has matched.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`StartedOperation::recv`].
    pub(crate) unsafe fn mrecv(
        base: &Base,
        comm: &Shared<Comm>,
        matched: &Matched,
        elements: &Elements,
    ) -> Result<Self, NotStarted> {
        let world = &base.world;
        // SAFETY: the elements are valid (contract of `mrecv`). The memory of the message is kept
        // with the operation, and its lists do not move.
        unsafe {
            let mut memory = elements.memory(&base.types, false)?;
            let unscoped = match &mut memory {
                MessageMemory::Whole(part) => world.begin_mrecv(matched, *part)?,
                MessageMemory::Parts(parts) => world.begin_mrecv_vectored(matched, parts)?,
                MessageMemory::Packed(copy) => world.begin_mrecv(matched, copy.part())?,
            };
            Ok(Self::new(unscoped, memory, Shared::clone(comm), false))
        }
    }

    #[inline(always)]
    pub(crate) const fn new(
        unscoped: Unscoped,
        memory: MessageMemory,
        comm: Shared<Comm>,
        is_send: bool,
    ) -> Self {
        Self { unscoped, memory, comm, is_send, was_cancelled: false }
    }

    /// Drops a whole operation that has a request: nothing but its communicator owns anything.
    ///
    /// # Safety
    ///
    /// The operation is such a one, and is neither used nor dropped after that.
    #[inline(always)]
    pub(crate) unsafe fn drop_whole(&mut self) {
        // SAFETY: the caller guarantees it (contract of `drop_whole`).
        unsafe { core::ptr::drop_in_place(&raw mut self.comm) };
    }

    /// Returns whether the message is in the program's buffer as it is.
    pub(crate) const fn is_whole(&self) -> bool {
        matches!(self.memory, MessageMemory::Whole(_))
    }

    /// Returns whether the message is a packed copy.
    pub(crate) const fn is_packed(&self) -> bool {
        matches!(self.memory, MessageMemory::Packed(_))
    }

    /// Returns whether the operation is over. Makes no progress.
    #[inline]
    pub(crate) fn look(&mut self, base: &Base) -> bool {
        self.unscoped.is_over() || self.unscoped.look(&base.world)
    }

    /// Returns a description of a wait for the operation in this function of the standard. Only a
    /// wait that takes long calls it.
    pub(crate) fn describe<'a>(
        &self,
        base: &'a Base,
        caller: fn() -> &'static str,
    ) -> impl Fn() -> Wait + use<'a> {
        let (request, context) = (self.unscoped.request(), self.comm.context);
        move || {
            let operation = request.map(|id| Unscoped::of_request(&base.world, id));
            let wait = operation.map(|operation| operation.wait_of(&base.world));
            let wait = wait.unwrap_or(Wait::new(Call::Request));
            let (context, caller) = (wait.context.or(Some(context)), ShortName::new(caller()));
            Wait { context, caller, ..wait }
        }
    }

    /// Returns what the operation waits for, for observers. The call walks lists.
    pub(crate) fn wait_of(&self, base: &Base) -> Wait {
        let wait = self.unscoped.wait_of(&base.world);
        Wait { context: wait.context.or(Some(self.comm.context)), ..wait }
    }

    /// Returns what an operation that is over reports, and writes a message that was received
    /// packed to where it belongs.
    pub(crate) fn finish(&self) -> Finished {
        let status = match self.unscoped.status() {
            Ok(Some(status)) => status,
            Ok(None) => return Finished::EMPTY,
            Err(_) if self.was_cancelled => {
                return Finished { was_cancelled: true, ..Finished::EMPTY };
            }
            Err(error) => return self.failed(error),
        };
        if self.is_send {
            return Finished::EMPTY;
        }
        self.unpack(status.bytes);
        Finished::received(&self.comm, status)
    }

    /// Returns what a failed operation reports. A message that was too long leaves its beginning.
    fn failed(&self, error: Error) -> Finished {
        let Error::Fault(strait::Fault::Truncated { source, tag, buffer, .. }) = error else {
            return Finished { error: Some(error), ..Finished::EMPTY };
        };
        self.unpack(buffer);
        let status = Status { source, tag, bytes: buffer };
        Finished { error: Some(error), ..Finished::received(&self.comm, status) }
    }

    fn unpack(&self, received: usize) {
        if let (MessageMemory::Packed(copy), false) = (&self.memory, self.is_send) {
            // SAFETY: the program keeps the elements of a receive until it has asked for the end of
            // the operation, which it does now.
            unsafe { copy.unpack(received) };
        }
    }
}
