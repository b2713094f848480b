//! The large messages that a transfer method moves, in both directions.

use core::fmt;
use core::ptr::NonNull;

use super::request::SendStage;
use crate::buffer::Cursor;
use crate::lmt::{CookieOut, Ending, RecvSide, SendSide, TransferMethod, TransferSide};
use crate::memory::{Memory, OutOfMemory, Slab};
use crate::wire::{Key, Offer, PacketKind};

/// The embedder's method.
#[derive(Clone, Copy)]
struct MethodPointer(NonNull<dyn TransferMethod>);

impl fmt::Debug for MethodPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MethodPointer").finish_non_exhaustive()
    }
}

/// One side of a message that the method moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct MethodTransfer {
    /// Distinguishes this use of the entry from others. [`MethodTransfers::add`] sets it.
    pub(super) serial: u32,
    pub(super) role: MethodRole,
    pub(super) peer: u32,
    pub(super) key: Key,
    pub(super) stage: MethodStage,
    /// The request that waits for the end. A sender's is known when its RTS has left.
    pub(super) request: Option<u32>,
    /// The message as an offer, by which it moves if the method refuses it.
    pub(super) offer: Offer,
    /// Number of bytes to move.
    pub(super) bytes: usize,
    pub(super) data: Cursor,
    /// The other side's name of the transfer, once it is known and may be written to.
    pub(super) remote: Option<u64>,
    pub(super) out: CookieOut,
    /// The kind of the packet that carries `out`.
    pub(super) out_kind: PacketKind,
    /// Whether the receiver was asked for the buffer of this message back.
    pub(super) is_retracted: bool,
    /// A DONE packet that has to leave, and whether it says that the message is complete.
    pub(super) done: Option<bool>,
}

/// The side of a message on which a rank is.
#[derive(Clone, Copy, Debug)]
pub(super) enum MethodRole {
    /// The sender. Without the method, the message would be in this stage first.
    Sender { first_stage: SendStage },
    /// The receiver, with a buffer of `capacity` bytes.
    Receiver { capacity: usize },
}

/// How far one side of a message has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MethodStage {
    /// The method has prepared it. A sender's RTS has not left.
    Prepared,
    /// The RTS has left.
    Announced,
    /// The method has started to move it.
    Started,
    /// The sender has refused it. It waits for the receiver, which pulls the message unless it has
    /// it already.
    Refused,
    /// This side is over. It may still have a packet to send.
    Over,
}

impl MethodTransfer {
    /// Returns one side of a message of which nothing has happened yet.
    pub(super) fn new(role: MethodRole, peer: u32, key: Key, offer: Offer, data: Cursor) -> Self {
        let out_kind = match role {
            MethodRole::Sender { .. } => PacketKind::MethodCookie,
            MethodRole::Receiver { .. } => PacketKind::MethodCts,
        };
        Self {
            serial: 0,
            role,
            peer,
            key,
            stage: MethodStage::Prepared,
            request: None,
            offer,
            bytes: 0,
            data,
            remote: None,
            out: CookieOut::default(),
            out_kind,
            is_retracted: false,
            done: None,
        }
    }

    /// Returns whether this rank sends the message.
    pub(super) const fn is_send(&self) -> bool {
        matches!(self.role, MethodRole::Sender { .. })
    }

    /// Returns whether this side is over and has no packet to send.
    pub(super) fn is_finished(&self) -> bool {
        let has_packet = self.out.is_full || self.done.is_some();
        self.stage == MethodStage::Over && !(self.remote.is_some() && has_packet)
    }

    /// Returns the message's length in bytes.
    pub(super) const fn total(&self) -> usize {
        // `Offer::parse` checked it.
        self.offer.total as usize
    }
}

/// The method of this rank, and the messages that it moves.
#[derive(Debug)]
pub(super) struct MethodTransfers<M: Memory> {
    method: Option<MethodPointer>,
    entries: Slab<MethodTransfer, M>,
    serial: u32,
}

impl<M: Memory> MethodTransfers<M> {
    pub(super) const fn new(memory: M) -> Self {
        Self { method: None, entries: Slab::new(memory), serial: 0 }
    }

    /// Sets the method. Returns false if there is one.
    ///
    /// # Safety
    ///
    /// The method is valid, and no other code accesses it, until this value is dropped.
    pub(super) unsafe fn set(&mut self, method: NonNull<dyn TransferMethod>) -> bool {
        let is_first = self.method.is_none();
        self.method.get_or_insert(MethodPointer(method));
        is_first
    }

    /// Returns whether there is a method, which has to be asked about messages.
    #[inline]
    pub(super) const fn is_set(&self) -> bool {
        self.method.is_some()
    }

    /// Returns whether the method is to move a message.
    pub(super) fn serves(&self, peer: u32, bytes: usize) -> bool {
        self.method.is_some_and(|MethodPointer(method)| {
            // SAFETY: the method is valid, and no other code accesses it (contract of `set`).
            unsafe { method.as_ref() }.serves(peer, bytes)
        })
    }

    #[inline(always)]
    pub(super) const fn len(&self) -> u32 {
        self.entries.len()
    }

    /// Ensures that the next [`MethodTransfers::add`] does not fail.
    pub(super) fn reserve(&mut self) -> Result<(), OutOfMemory> {
        self.entries.reserve()
    }

    pub(super) fn add(&mut self, transfer: MethodTransfer) -> Result<u32, OutOfMemory> {
        let serial = self.serial;
        let number = self.entries.insert(MethodTransfer { serial, ..transfer })?;
        self.serial = serial.wrapping_add(1);
        Ok(number)
    }

    pub(super) fn get(&self, number: u32) -> Option<&MethodTransfer> {
        self.entries.get(number)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut MethodTransfer> {
        self.entries.get_mut(number)
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<MethodTransfer> {
        self.entries.remove(number)
    }

    /// Returns the first transfer with a number of at least `from`. A loop that changes transfers
    /// uses it to continue.
    pub(super) fn next_from(&self, from: u32) -> Option<u32> {
        self.entries.iter_from(from).next().map(|(number, _)| number)
    }

    /// Returns this rank's name of a transfer.
    pub(super) fn name(&self, number: u32) -> u64 {
        let serial = self.get(number).map_or(0, |transfer| transfer.serial);
        u64::from(number) << 32 | u64::from(serial)
    }

    /// Returns the transfer with this name, if it is not over.
    pub(super) fn find(&self, name: u64) -> Option<u32> {
        let (number, serial) = ((name >> 32) as u32, name as u32);
        let is_named = |transfer: &&MethodTransfer| transfer.serial == serial;
        self.get(number).filter(is_named).map(|_| number)
    }

    /// Calls the method about a transfer. Returns `None` if there is no such transfer.
    pub(super) fn call<T>(
        &mut self,
        number: u32,
        call: impl FnOnce(&mut dyn TransferMethod, &mut TransferSide<'_>) -> T,
    ) -> Option<T> {
        let MethodPointer(mut method) = self.method?;
        let name = self.name(number);
        let transfer = self.entries.get_mut(number)?;
        let (id, bytes, data) = ((name, transfer.peer), transfer.bytes, transfer.data);
        let out = transfer.remote.and(Some(&mut transfer.out));
        // SAFETY: the engine's caller keeps `data` valid and unchanged until the operation is over
        // (contracts of `isend` and `irecv`), and it has at least `bytes` bytes.
        let mut side = unsafe {
            match transfer.role {
                MethodRole::Sender { .. } => {
                    TransferSide::Send(SendSide::new(id, bytes, data, out))
                }
                MethodRole::Receiver { .. } => {
                    TransferSide::Recv(RecvSide::new(id, bytes, data, out))
                }
            }
        };
        // SAFETY: the method is valid, and no other code accesses it (contract of `set`). It makes
        // no call of the engine, so this is the only reference.
        Some(call(unsafe { method.as_mut() }, &mut side))
    }
}

impl<M: Memory> MethodTransfers<M> {
    /// Ends the method's part in a message: the buffer is not the method's any more. Returns the
    /// transfer as it was, or `None` if this side was over.
    pub(super) fn end_side(&mut self, number: u32, ending: Ending) -> Option<MethodTransfer> {
        let before = *self.get(number).filter(|transfer| transfer.stage != MethodStage::Over)?;
        if before.stage != MethodStage::Refused {
            self.call(number, |method, side| match side {
                TransferSide::Send(side) => method.post_send(side, ending),
                TransferSide::Recv(side) => method.post_recv(side, ending),
            });
        }
        self.get_mut(number)?.stage = MethodStage::Over;
        Some(before)
    }

    /// Ends the method's part in all messages.
    pub(super) fn end_all(&mut self) {
        let mut from = 0;
        while let Some(number) = self.next_from(from) {
            from = number + 1;
            self.end_side(number, Ending::Abandoned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::SendMode;
    use crate::engine::testing::nothing;
    use crate::memory::counted::Counted;

    fn sending() -> MethodTransfer {
        let role = MethodRole::Sender { first_stage: SendMode::Standard.first_stage() };
        let offer = Offer { total: 100, place: 0, number: 1 };
        MethodTransfer::new(role, 1, Key::new(0, 7), offer, nothing())
    }

    #[test]
    fn a_name_leads_to_its_own_transfer_only() {
        let mut transfers = MethodTransfers::new(Counted::default());
        let first = transfers.add(sending()).unwrap();
        let name = transfers.name(first);
        assert_eq!(transfers.find(name), Some(first));
        assert!(transfers.remove(first).is_some());
        assert_eq!(transfers.find(name), None);
        let second = transfers.add(sending()).unwrap();
        assert_eq!(second, first, "the entry is used again");
        assert_eq!(transfers.find(name), None, "the old name is that of a transfer that is over");
        assert_eq!(transfers.find(transfers.name(second)), Some(second));
        assert_eq!(transfers.find(u64::MAX), None);
    }

    #[test]
    fn without_a_method_nothing_is_served_or_called() {
        let mut transfers = MethodTransfers::new(Counted::default());
        let number = transfers.add(sending()).unwrap();
        assert!(!transfers.is_set() && !transfers.serves(1, 1 << 20));
        assert!(transfers.call(number, |_, _| ()).is_none());
    }
}
