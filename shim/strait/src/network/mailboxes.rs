//! The mailboxes of this rank with leaders of other nodes, and the lanes on which they write to
//! each other.
//!
//! A rank closes its mailboxes with a peer without asking the peer. Its last message may then still
//! be with the device, so the lane closes when that has arrived.

use core::ptr::NonNull;

use bytemuck::{Pod, Zeroable};
use strait_core::hca::{Access, Address, Completion, Hca, Region, RemoteAddress};
use strait_core::rma::{LENT, Lane, LaneError, MAILBOX_BYTES, MailError, MailboxPair};
use strait_platform::Rank;
use strait_platform::segment::Mapping;

use super::Network;
use super::owners::ConnectionOwner;
use super::window_tables::{MailboxId, NameTable};
use crate::NetworkError;

/// Number of groups of leaders of all nodes for which a rank has mailboxes at a time.
const MAIL_GROUPS: u32 = 4;

/// Largest number of members between which mailboxes exist.
pub(crate) const MAIL_MEMBERS: u32 = 16;

/// Returns the largest number of peers with which a rank has mailboxes at a time, if its job has
/// so many nodes. A peer counts once for each group.
pub(super) const fn mailboxes(nodes: u32) -> u32 {
    let members = if nodes < MAIL_MEMBERS { nodes } else { MAIL_MEMBERS };
    MAIL_GROUPS * members.saturating_sub(1)
}

/// What a peer needs for mailboxes with this rank.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct MailboxAddress {
    /// Address of this rank's mailbox for the peer.
    mailbox: u64,
    key: u32,
    _padding: u32,
    /// Address of this side's end of the lane.
    lane: [u8; Address::LENGTH],
}

impl Default for MailboxAddress {
    fn default() -> Self {
        Self::zeroed()
    }
}

/// A message that was taken out of a mailbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedMail {
    /// Its length in bytes.
    pub(crate) length: usize,
    /// True if so many messages have come since the last time that progress is due.
    pub(crate) is_progress_due: bool,
}

/// The mailboxes with one peer.
#[derive(Debug)]
struct OpenMailboxes {
    peer: Rank,
    lane: Lane,
    /// `None` until the lane is connected.
    pair: Option<MailboxPair>,
    /// True when this rank sends no more messages.
    is_closing: bool,
    region: Region,
    memory: Mapping,
}

impl OpenMailboxes {
    /// Returns this rank's mailbox. It lies behind the memory lent to the lane.
    const fn mailbox(&self) -> NonNull<u8> {
        // SAFETY: the memory has `LENT` bytes, and those of a mailbox.
        unsafe { self.memory.base().add(LENT) }
    }
}

/// The mailboxes of a rank.
#[derive(Debug, Default)]
pub(super) struct MailboxTable {
    all: NameTable<OpenMailboxes>,
    /// Number of mailboxes that are open or closing.
    count: u32,
    /// Number of mailboxes that are closing.
    closing: u32,
    /// True while this rank waits for a message in a mailbox.
    is_awaited: bool,
    /// Memory that a device may still access, since it could not close a connection.
    lost: Vec<Mapping>,
}

impl MailboxTable {
    /// Returns true if a rank waits for a message, for which no device makes an event.
    pub(super) const fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Returns true if all messages of closed mailboxes have arrived.
    pub(super) const fn is_drained(&self) -> bool {
        self.closing == 0
    }
}

impl<H: Hca> Network<H> {
    /// Opens this side's mailboxes with `peer`, in a job with so many nodes. Returns their address,
    /// for the peer. Returns `None` if there is no room or memory for them.
    pub(crate) fn open_mailboxes(
        &mut self,
        peer: Rank,
        nodes: u32,
    ) -> Option<(MailboxId, MailboxAddress)> {
        if self.mailboxes.count >= mailboxes(nodes) {
            return None;
        }
        self.try_open_mailboxes(peer).ok()
    }

    fn try_open_mailboxes(
        &mut self,
        peer: Rank,
    ) -> Result<(MailboxId, MailboxAddress), NetworkError> {
        let memory = Mapping::private(LENT + MAILBOX_BYTES).map_err(NetworkError::Memory)?;
        // SAFETY: the memory stays mapped until its region is retired or the device is dropped. The
        // peer's device writes only to the mailbox. One that writes to the lane's slots damages
        // only messages to the peer itself.
        let region = unsafe { self.device.register(memory.base(), memory.length(), Access::ALL) };
        let region = region.map_err(NetworkError::Device)?;
        // SAFETY: the slots are registered, and belong to this lane alone until it is closed.
        let opened = unsafe { Lane::open(&mut self.device, peer, memory.base(), region.local_key) };
        let (lane, address) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.device.retire(region).map_err(NetworkError::Device)?;
                return Err(NetworkError::Device(error));
            }
        };
        let connection = lane.connection();
        let open = OpenMailboxes { peer, lane, pair: None, is_closing: false, region, memory };
        let mailbox = open.mailbox().addr().get() as u64;
        let id = MailboxId(self.mailboxes.all.add(open));
        self.mailboxes.count += 1;
        self.owners.set(connection, ConnectionOwner::Mailboxes(id));
        let (key, lane) = (region.remote_key, address.0);
        Ok((id, MailboxAddress { mailbox, key, _padding: 0, lane }))
    }

    /// Connects the mailboxes with the peer's, which have this address. The caller repeats the call
    /// until it returns true. After an error the peer cannot connect to this side either.
    pub(crate) fn connect_mailboxes(
        &mut self,
        MailboxId(id): MailboxId,
        address: &MailboxAddress,
    ) -> Result<bool, LaneError> {
        let keeps_order = self.device.capabilities().ordered_bytes;
        let Some(open) = self.mailboxes.all.get_mut(id) else { return Ok(false) };
        match open.lane.connect(&mut self.device, &Address(address.lane)) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => {
                // A peer that waits for this end must not wait any longer. The lane counts as
                // closed even if the device fails.
                let _ = open.lane.close(&mut self.device);
                return Err(error);
            }
        }
        let there = RemoteAddress { address: address.mailbox, key: address.key };
        // SAFETY: the mailbox lies in the memory, aligned to a page and zeroed before the peer
        // could write to it. It stays until the mailboxes are closed, and the pair is dropped then.
        let pair = unsafe { MailboxPair::new(open.peer, open.mailbox(), there, keeps_order) };
        open.pair.get_or_insert(pair);
        Ok(true)
    }

    /// Sends a message through the peer's mailbox. Returns false if that is not possible now.
    #[inline]
    pub(crate) fn send_mail(
        &mut self,
        MailboxId(id): MailboxId,
        message: &[u8],
    ) -> Result<bool, MailError> {
        match self.mailboxes.all.get_mut(id) {
            Some(OpenMailboxes { lane, pair: Some(pair), .. }) => {
                pair.send(lane, &mut self.device, message)
            }
            _ => Ok(false),
        }
    }

    /// Takes the next message out of this rank's mailbox, if it has arrived.
    #[inline]
    pub(crate) fn receive_mail(
        &mut self,
        MailboxId(id): MailboxId,
        into: &mut [u8],
    ) -> Result<Option<ReceivedMail>, MailError> {
        let Some(OpenMailboxes { lane, pair: Some(pair), .. }) = self.mailboxes.all.get_mut(id)
        else {
            return Ok(None);
        };
        let Some(length) = pair.receive(into)? else { return Ok(None) };
        let is_progress_due = pair.owes_acknowledgement();
        // A lane that broke takes no message either, and then the sender learns of it.
        let _ = pair.acknowledge(lane, &mut self.device);
        Ok(Some(ReceivedMail { length, is_progress_due }))
    }

    /// States whether this rank waits for a message in a mailbox. It must not sleep for long then.
    pub(crate) const fn await_mail(&mut self, is_awaited: bool) {
        self.mailboxes.is_awaited = is_awaited;
    }

    /// Handles the completion of a request.
    pub(super) fn mail_completed(&mut self, MailboxId(id): MailboxId, completion: &Completion) {
        let Some(OpenMailboxes { lane, pair, .. }) = self.mailboxes.all.get_mut(id) else { return };
        lane.handle(completion);
        if let Some(pair) = pair {
            // The next message reports a lane that broke.
            let _ = pair.acknowledge(lane, &mut self.device);
        }
    }

    /// Closes mailboxes. Messages that this rank has sent still arrive. None arrives at this rank.
    pub(crate) fn close_mailboxes(&mut self, MailboxId(id): MailboxId) {
        if let Some(open) = self.mailboxes.all.get_mut(id)
            && !core::mem::replace(&mut open.is_closing, true)
        {
            self.mailboxes.closing += 1;
        }
        self.end_mailboxes();
    }

    /// Ends the mailboxes that are closing and of which all messages have arrived, or never will.
    #[inline]
    pub(super) fn end_mailboxes(&mut self) {
        if self.mailboxes.closing > 0 {
            (0..self.mailboxes.all.end()).for_each(|id| self.end_if_sent(id));
        }
    }

    fn end_if_sent(&mut self, id: usize) {
        let Some(open) = self.mailboxes.all.get_mut(id) else { return };
        let OpenMailboxes { lane, pair, is_closing: true, .. } = open else { return };
        let there = pair.as_ref().map(MailboxPair::there);
        let is_sent =
            there.is_none_or(|there| lane.is_flushed(&mut self.device, there).unwrap_or(true));
        if !is_sent {
            return;
        }
        let connection = lane.connection();
        // The device may have given a connection that could not be made to another owner.
        let owner = self.owners.of(connection);
        if matches!(owner, Some(ConnectionOwner::Mailboxes(owner)) if owner.0 == id) {
            self.owners.clear(connection);
        }
        let is_closed = lane.close(&mut self.device).is_ok();
        let Some(open) = self.mailboxes.all.take(id) else { return };
        self.mailboxes.closing -= 1;
        self.mailboxes.count -= 1;
        if !is_closed || self.device.retire(open.region).is_err() {
            self.mailboxes.lost.push(open.memory);
        }
    }
}
