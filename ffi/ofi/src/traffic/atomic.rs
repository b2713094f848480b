//! Atomic operations on the memory of others. Its owner carries them out, one after the other, as they come to it.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use strait_core::progress::{Cursor, Part, Sent};

use super::send::refusal;
use super::{LINE, Op, Traffic};
use crate::abi::{CqEntry, Ioc, Ssize, errno, flag};
use crate::numbers::{self, Form, element_bytes};
use crate::wire::{Head, Kind};

/// Most bytes of one operand.
pub(crate) const ATOMIC_MAX: usize = 4096;

/// Bytes before the operands.
const REQUEST: usize = 16;

/// Longest request.
pub(super) const REQUEST_MAX: usize = Head::BYTES + REQUEST + 2 * ATOMIC_MAX;

/// Longest answer.
pub(super) const ANSWER_MAX: usize = Head::BYTES + ATOMIC_MAX;

/// An atomic operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    pub(crate) form: Form,
    pub(crate) datatype: u32,
    pub(crate) operator: u32,
    pub(crate) rank: u32,
    /// The first element, by the address that it has for its owner.
    pub(crate) address: u64,
    /// The owner's name of the region.
    pub(crate) key: u64,
    pub(crate) context: *mut c_void,
    /// Without a completion entry.
    pub(crate) quiet: bool,
}

/// One whose answer has not come.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) number: u64,
    atomic: Atomic,
    result: Vec<Part>,
}

impl Atomic {
    const fn op(&self) -> Op {
        match self.form {
            Form::Write => Op::Write,
            Form::Fetch | Form::Compare => Op::Read,
        }
    }
}

impl Traffic {
    /// Begins an atomic operation on as many elements as the first operand has.
    ///
    /// # Safety
    ///
    /// Each of `operands` points to elements of the operation's type, of which there are as many in `result`, which stays valid until
    /// the completion.
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
        // It would overtake them.
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
            Head { tag: number, data: address }.write(head);
        }
        request[Head::BYTES] = datatype as u8;
        request[Head::BYTES + 1] = operator as u8;
        request[Head::BYTES + 2] = form as u8;
        request[Head::BYTES + 4..][..4].copy_from_slice(&(count as u32).to_le_bytes());
        request[Head::BYTES + 8..][..8].copy_from_slice(&key.to_le_bytes());
        let mut length = Head::BYTES + REQUEST;
        for list in operands {
            // SAFETY: by the contract.
            unsafe { gather(list, size, &mut request[length..][..bytes]) };
            length +=
                if form == Form::Compare || length == Head::BYTES + REQUEST { bytes } else { 0 };
        }
        let begun = self.send_bytes(rank, Kind::Atomic, &mut request[..length]);
        self.request = request;
        if begun < 0 {
            return begun;
        }
        let part = |ioc: &Ioc| {
            let base = NonNull::new(ioc.addr.cast()).unwrap_or(NonNull::dangling());
            Part { base, length: ioc.count.saturating_mul(size) }
        };
        let result = result.iter().map(part).collect();
        self.atomics.push_back(Waiting { number, atomic, result });
        0
    }

    /// Whether operations on the memory of `rank` are under way.
    pub(super) fn has_atomics(&self, rank: u32) -> bool {
        self.atomics.iter().any(|waiting| waiting.atomic.rank == rank)
    }

    /// A peer wants an operation on our memory. The answer says whether it was carried out.
    pub(super) fn serve_atomic(&mut self, source: u32, head: Head, body: &[u8]) {
        let mut answer = core::mem::take(&mut self.answer);
        let done = self.carry_out(head, body, &mut answer[Head::BYTES..]);
        let refused = if done.is_some() { 0 } else { errno::EACCES as u64 };
        if let Some(to) = answer.first_chunk_mut() {
            Head { tag: head.tag, data: refused }.write(to);
        }
        let length = Head::BYTES + done.unwrap_or(0);
        // Whoever is gone waits for no answer.
        let _ = self.send_bytes(source, Kind::AtomicDone, &mut answer[..length]);
        self.answer = answer;
    }

    /// Does what a request says, and puts the old values into `old`. Returns how many bytes they have; `None` for a request that does
    /// not suit the region of its key, or that no provider makes.
    fn carry_out(&self, head: Head, body: &[u8], old: &mut [u8]) -> Option<usize> {
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
        // SAFETY: a domain outlives what was made in it.
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
        // SAFETY: the user registered the memory for it.
        unsafe { numbers::apply((datatype, operator), target, operands, compare, old) };
        Some(answered)
    }

    /// The answer to an operation has come.
    pub(super) fn finish_atomic(&mut self, source: u32, head: Head, old: &[u8]) {
        let is_it = |it: &Waiting| (it.atomic.rank, it.number) == (source, head.tag);
        let Some(place) = self.atomics.iter().position(is_it) else { return };
        let Some(Waiting { atomic, result, .. }) = self.atomics.remove(place) else { return };
        if head.data != 0 {
            self.out.fail(atomic.op(), entry(&atomic, 0), 0, errno::EACCES);
            return;
        }
        // SAFETY: by the contract of `begin_atomic`; what does not fit is left out.
        unsafe { Cursor::parts(&result).scatter(NonNull::from(old).cast(), old.len()) };
        self.out.complete(atomic.op(), entry(&atomic, old.len()), atomic.quiet, atomic.rank);
    }

    /// Ends the operations on the memory of those that are gone.
    pub(super) fn reap_atomics(&mut self) {
        while let Some(place) =
            self.atomics.iter().position(|waiting| self.port.gone(waiting.atomic.rank).is_some())
            && let Some(Waiting { atomic, .. }) = self.atomics.remove(place)
        {
            self.out.fail(atomic.op(), entry(&atomic, 0), 0, errno::ECONNRESET);
        }
    }

    /// Sends a head and what stands behind it, all in `bytes`, of which a copy is made if that takes time.
    fn send_bytes(&mut self, rank: u32, kind: Kind, bytes: &mut [u8]) -> Ssize {
        let key = kind.key(0);
        if bytes.len() <= LINE && self.port.send_short(rank, key, bytes) {
            return 0;
        }
        let part = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
        // SAFETY: what is left of it is copied before this returns.
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

/// Copies the elements of `list` to `to`, as many as there are and have room.
///
/// # Safety
///
/// Each part of the list is null, or may be read.
unsafe fn gather(list: &[Ioc], size: usize, to: &mut [u8]) {
    let mut to = to;
    for Ioc { addr, count } in list.iter().filter(|ioc| !ioc.addr.is_null()) {
        let length = count.saturating_mul(size).min(to.len());
        let (front, rest) = to.split_at_mut(length);
        // SAFETY: by the contract; a user's buffer does not overlap ours.
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
