//! Atomic operations on the memory of other processes. The owner performs them one after the other,
//! in the order of their arrival.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use strait_core::buffer::{Cursor, Part};
use strait_core::engine::Sent;

use super::send::refusal;
use super::{LINE, OperationKind, Traffic};
use crate::abi::{CqEntry, Ioc, Ssize, errno, flag};
use crate::numbers::{self, Form, element_bytes};
use crate::wire::{HeadKind, ProviderHead};

/// Maximum size of one operand in bytes.
pub(crate) const ATOMIC_MAX: usize = 4096;

/// Size in bytes of the part of a request before its operands.
const REQUEST: usize = 16;

/// Maximum size of a request in bytes.
pub(super) const REQUEST_MAX: usize = ProviderHead::BYTES + REQUEST + 2 * ATOMIC_MAX;

/// Maximum size of an answer in bytes.
pub(super) const ANSWER_MAX: usize = ProviderHead::BYTES + ATOMIC_MAX;

/// An atomic operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    pub(crate) form: Form,
    pub(crate) datatype: u32,
    pub(crate) operator: u32,
    pub(crate) rank: u32,
    /// The address of the first element in the owner's process.
    pub(crate) address: u64,
    /// The owner's key of the region.
    pub(crate) key: u64,
    pub(crate) context: *mut c_void,
    /// No completion entry is written.
    pub(crate) quiet: bool,
}

/// An operation without its answer yet.
#[derive(Debug)]
pub(super) struct PendingAtomic {
    pub(super) number: u64,
    atomic: Atomic,
    result: Vec<Part>,
}

impl Atomic {
    const fn op(&self) -> OperationKind {
        match self.form {
            Form::Write => OperationKind::Write,
            Form::Fetch | Form::Compare => OperationKind::Read,
        }
    }
}

impl Traffic {
    /// Starts an atomic operation on as many elements as the first operand has.
    ///
    /// # Safety
    ///
    /// Each of `operands` points to elements of the operation's type. `result` has room for as
    /// many, and stays valid until the completion.
    pub(crate) unsafe fn begin_atomic(
        &mut self,
        atomic: Atomic,
        count: usize,
        operands: [&[Ioc]; 2],
        result: &[Ioc],
    ) -> Ssize {
        let Atomic { form, datatype, operator, rank, address, key, .. } = atomic;
        let Some(size) = element_bytes(datatype, operator, form) else {
            return -(errno::EOPNOTSUPP as Ssize);
        };
        // The operation would overtake the accesses.
        if self.has_far(rank) {
            self.progress();
            return -(errno::EAGAIN as Ssize);
        }
        let bytes = count.saturating_mul(size);
        if bytes > ATOMIC_MAX {
            return -(errno::EINVAL as Ssize);
        }
        self.next_atomic += 1;
        let number = self.next_atomic;
        let mut request = core::mem::take(&mut self.request);
        if let Some(head) = request.first_chunk_mut() {
            ProviderHead { tag: number, data: address }.write(head);
        }
        request[ProviderHead::BYTES] = datatype as u8;
        request[ProviderHead::BYTES + 1] = operator as u8;
        request[ProviderHead::BYTES + 2] = form as u8;
        request[ProviderHead::BYTES + 4..][..4].copy_from_slice(&(count as u32).to_le_bytes());
        request[ProviderHead::BYTES + 8..][..8].copy_from_slice(&key.to_le_bytes());
        let mut length = ProviderHead::BYTES + REQUEST;
        for list in operands {
            // SAFETY: the lists may be read (contract of `begin_atomic`).
            unsafe { gather(list, size, &mut request[length..][..bytes]) };
            length += if form == Form::Compare || length == ProviderHead::BYTES + REQUEST {
                bytes
            } else {
                0
            };
        }
        let begun = self.send_bytes(rank, HeadKind::Atomic, &mut request[..length]);
        self.request = request;
        if begun < 0 {
            return begun;
        }
        let part = |ioc: &Ioc| {
            let base = NonNull::new(ioc.addr.cast()).unwrap_or(NonNull::dangling());
            Part { base, length: ioc.count.saturating_mul(size) }
        };
        let result = result.iter().map(part).collect();
        self.atomics.push_back(PendingAtomic { number, atomic, result });
        0
    }

    /// Returns whether operations on the memory of `rank` are pending.
    pub(super) fn has_atomics(&self, rank: u32) -> bool {
        self.atomics.iter().any(|waiting| waiting.atomic.rank == rank)
    }

    /// Performs a peer's operation on this process's memory. The answer says whether it succeeded.
    pub(super) fn serve_atomic(&mut self, source: u32, head: ProviderHead, body: &[u8]) {
        let mut answer = core::mem::take(&mut self.answer);
        let done = self.carry_out(head, body, &mut answer[ProviderHead::BYTES..]);
        let refused = if done.is_some() { 0 } else { errno::EACCES as u64 };
        if let Some(to) = answer.first_chunk_mut() {
            ProviderHead { tag: head.tag, data: refused }.write(to);
        }
        let length = ProviderHead::BYTES + done.unwrap_or(0);
        // A peer that is gone waits for no answer.
        let _ = self.send_bytes(source, HeadKind::AtomicDone, &mut answer[..length]);
        self.answer = answer;
    }

    /// Performs a request, and stores the old values in `old`. Returns their size in bytes.
    ///
    /// Returns `None` for a request that does not fit the region of its key, or that no provider
    /// sends.
    fn carry_out(&self, head: ProviderHead, body: &[u8], old: &mut [u8]) -> Option<usize> {
        let (&[datatype, operator, form, _], body) = body.split_first_chunk()?;
        let (count, body) = body.split_first_chunk()?;
        let (key, operands) = body.split_first_chunk()?;
        let (datatype, operator) = (u32::from(datatype), u32::from(operator));
        let form = Form::parse(form)?;
        let bytes = usize::try_from(u32::from_le_bytes(*count)).ok()?;
        let bytes = bytes.checked_mul(element_bytes(datatype, operator, form)?)?;
        let expected = if form == Form::Compare { 2 * bytes } else { bytes };
        let suits = bytes <= ATOMIC_MAX && operands.len() == expected;
        let address = usize::try_from(head.data).ok().filter(|_| suits)?;
        // SAFETY: a domain outlives its endpoints.
        let found = unsafe { &*self.domain }.region(u64::from_le_bytes(*key))?;
        let reads = form != Form::Write;
        let writes = operator != numbers::READ;
        let may = (found.access.remote_read || !reads) && (found.access.remote_atomic || !writes);
        if !may || !found.holds(head.data, bytes) {
            return None;
        }
        let (operands, compare) = operands.split_at(bytes);
        let answered = if form == Form::Write { 0 } else { bytes };
        let target = ptr::with_exposed_provenance_mut(address);
        let old = &mut old[..answered];
        // SAFETY: the user registered the memory for such operations.
        unsafe { numbers::apply((datatype, operator), target, operands, compare, old) };
        Some(answered)
    }

    /// Handles the answer to an operation.
    pub(super) fn finish_atomic(&mut self, source: u32, head: ProviderHead, old: &[u8]) {
        let is_it = |it: &PendingAtomic| (it.atomic.rank, it.number) == (source, head.tag);
        let Some(place) = self.atomics.iter().position(is_it) else { return };
        let Some(PendingAtomic { atomic, result, .. }) = self.atomics.remove(place) else { return };
        if head.data != 0 {
            self.out.fail(atomic.op(), entry(&atomic, 0), 0, errno::EACCES);
            return;
        }
        // SAFETY: the result stays valid until the completion (contract of `begin_atomic`). Bytes
        // that do not fit are dropped.
        unsafe { Cursor::parts(&result).scatter(NonNull::from(old).cast(), old.len()) };
        self.out.complete(atomic.op(), entry(&atomic, old.len()), atomic.quiet, atomic.rank);
    }

    /// Fails the operations on the memory of peers that are gone.
    pub(super) fn reap_atomics(&mut self) {
        while let Some(place) =
            self.atomics.iter().position(|waiting| self.port.gone(waiting.atomic.rank).is_some())
            && let Some(PendingAtomic { atomic, .. }) = self.atomics.remove(place)
        {
            self.out.fail(atomic.op(), entry(&atomic, 0), 0, errno::ECONNRESET);
        }
    }

    /// Sends a head and the bytes behind it, all in `bytes`. If the send does not complete at once,
    /// the bytes are copied.
    fn send_bytes(&mut self, rank: u32, kind: HeadKind, bytes: &mut [u8]) -> Ssize {
        let key = kind.key(0);
        if bytes.len() <= LINE && self.port.send_short(rank, key, bytes) {
            return 0;
        }
        let part = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
        // SAFETY: bytes that have not been sent are copied before this returns.
        match unsafe { self.port.isend(rank, key, Cursor::contiguous(part)) } {
            Ok(Sent::Done) => 0,
            Ok(Sent::Pending(id)) => {
                self.port.settle(id);
                0
            }
            Err(error) => refusal(&error),
        }
    }
}

/// Copies the elements of `list` to `to`, as many as there are and as fit.
///
/// # Safety
///
/// Each part of the list is null, or may be read.
unsafe fn gather(list: &[Ioc], size: usize, to: &mut [u8]) {
    let mut to = to;
    for Ioc { addr, count } in list.iter().filter(|ioc| !ioc.addr.is_null()) {
        let length = count.saturating_mul(size).min(to.len());
        let (front, rest) = to.split_at_mut(length);
        // SAFETY: the part may be read (contract of `gather`), and does not overlap this library's
        // memory.
        unsafe { front.as_mut_ptr().copy_from_nonoverlapping(addr.cast(), length) };
        to = rest;
    }
}

const fn entry(atomic: &Atomic, len: usize) -> CqEntry {
    let direction = match atomic.form {
        Form::Write => flag::WRITE,
        Form::Fetch | Form::Compare => flag::READ,
    };
    let (op_context, flags) = (atomic.context, flag::ATOMIC | direction);
    CqEntry { op_context, flags, len, buf: ptr::null_mut(), data: 0, tag: 0 }
}
