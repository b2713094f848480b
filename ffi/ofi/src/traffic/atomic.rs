//! Atomic operations on the memory of other processes. The owner performs them one after the other,
//! in the order of their arrival.

use core::ptr;

use super::Traffic;
use super::atomic_op::{ATOMIC_MAX, Atomic, AtomicRequest, BEFORE_OPERANDS, PendingAtomic};
use crate::abi::{Ioc, Ssize, errno};
use crate::buffer::UserBuffer;
use crate::cause::ErrorCause;
use crate::numbers::{self, Form, element_bytes};
use crate::wire::{HeadKind, ProviderHead};

impl Traffic {
    /// Starts an atomic operation on `count` elements. `result` has room for as many.
    pub(crate) fn begin_atomic(
        &mut self,
        atomic: Atomic,
        count: usize,
        operands: [&[Ioc]; 2],
        result: &[Ioc],
    ) -> Ssize {
        let Atomic { form, datatype, operator, rank, address, .. } = atomic;
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
        let lists = if form == Form::Compare { &operands[..] } else { &operands[..1] };
        let length = BEFORE_OPERANDS + lists.len() * bytes;
        let mut request = core::mem::take(&mut self.request);
        let (head, rest) = request.split_at_mut(ProviderHead::BYTES);
        if let Some(head) = head.first_chunk_mut() {
            ProviderHead { tag: number, data: address }.write(head);
        }
        if let Some((front, operands)) = rest.split_first_chunk_mut() {
            AtomicRequest::write(&atomic, count, front);
            for (list, to) in lists.iter().zip(operands.chunks_exact_mut(bytes.max(1))) {
                let mut to = to;
                for ioc in *list {
                    to = ioc.copy_to(size, to);
                }
            }
        }
        let begun = self.send_at_once(rank, HeadKind::Atomic.key(0), &mut request[..length]);
        self.request = request;
        if begun < 0 {
            return begun;
        }
        let result = UserBuffer::elements(result, size);
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
        let _ = self.send_at_once(source, HeadKind::AtomicDone.key(0), &mut answer[..length]);
        self.answer = answer;
    }

    /// Performs a request, and stores the old values in `old`. Returns their size in bytes.
    ///
    /// Returns `None` for a request that does not fit the region of its key, or that no provider
    /// sends.
    fn carry_out(&self, head: ProviderHead, body: &[u8], old: &mut [u8]) -> Option<usize> {
        let AtomicRequest { datatype, operator, form, key, operands, compare } =
            AtomicRequest::parse(body)?;
        let bytes = operands.len();
        let address = usize::try_from(head.data).ok()?;
        let found = self.domain.region(key)?;
        let reads = form != Form::Write;
        let writes = operator != numbers::READ;
        let may = (found.access.remote_read || !reads) && (found.access.remote_atomic || !writes);
        if !may || !found.holds(head.data, bytes) {
            return None;
        }
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
            self.out.fail(atomic.op(), atomic.entry(0), 0, ErrorCause::Access);
            return;
        }
        // Bytes that do not fit are dropped.
        result.fill(old);
        self.out.complete(atomic.op(), atomic.entry(old.len()), atomic.quiet, atomic.rank);
    }

    /// Fails the operations on the memory of peers that are gone.
    pub(super) fn reap_atomics(&mut self) {
        while let Some(place) =
            self.atomics.iter().position(|waiting| self.port.gone(waiting.atomic.rank).is_some())
            && let Some(PendingAtomic { atomic, .. }) = self.atomics.remove(place)
        {
            let cause = self.cause_of_end(atomic.rank);
            self.out.fail(atomic.op(), atomic.entry(0), 0, cause);
        }
    }
}
