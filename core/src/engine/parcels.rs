//! Messages in parcels: longer than a few lines, but short enough to be sent before their receives
//! are posted.

use core::ptr::NonNull;

use super::fill_stores::STREAMED_FILL_LEAST;
use super::packet::{Packet, PacketPayload};
use super::peer::Peer;
use super::peer_parcels::{FIRST_MAX, LOOKS_OF_PROGRESS};
use super::request::{OutgoingMessage, RequestState, SendStage};
use super::{Bypass, Engine, ProgressError, SentShort, Status, Want};
use crate::buffer::Cursor;
use crate::buffer::copy::{Stores, fill, fills_alike};
use crate::matching::Envelope;
use crate::memory::Memory;
use crate::shm::{LineMessage, ParcelSet};
use crate::wire::{Corrupt, Key, PARCEL, PIECES_MAX, PacketKind, ParcelHead, ParcelRun};

/// Fewest bytes of a piece, except the last. A shorter one is not worth the line of its mark.
const PIECE_LEAST: usize = 2048;

impl<M: Memory + Clone> Engine<M> {
    /// Returns parcels for which `data`, about to be sent to `destination`, wants memory, while no
    /// answer is known yet.
    ///
    /// First call [`Engine::wants_ring`]: a message too long for the first parcels wants none while
    /// it can go by one copy. Back the range that [`crate::layout::SegmentPlan::parcel_range`]
    /// returns for (this rank, `destination`) and the set, report the result with
    /// [`Engine::parcels_backed`], and ask again. Until then such messages take other paths.
    #[inline]
    #[must_use]
    pub fn wants_parcels(&self, destination: u32, data: &Cursor) -> Option<ParcelSet> {
        let (length, peer) = (data.remaining(), self.peers.get(destination as usize)?);
        let set = self.parcels_without_memory(peer, length)?;
        let is_deferred =
            length > FIRST_MAX && peer.large.defers_parcels() && self.is_one_copy(data);
        (!is_deferred).then_some(set)
    }

    /// Returns the parcels that messages of `length` bytes to `peer` could use, if their memory was
    /// not asked for.
    #[inline]
    pub(super) fn parcels_without_memory(&self, peer: &Peer, length: usize) -> Option<ParcelSet> {
        let set = self.tuning.suits_parcels(length).then(|| peer.parcels.wants_memory(length))?;
        // Messages that want the last set go in parcels only as answers.
        set.filter(|set| *set != ParcelSet::Last || peer.large.has_announced())
    }

    /// Takes the answer to [`Engine::wants_parcels`]. Returns false without memory for the state
    /// about the peer: the next message asks again.
    pub fn parcels_backed(&mut self, destination: u32, set: ParcelSet, backed: bool) -> bool {
        self.contact(destination).map(|peer| peer.parcels.backed(set, backed)).is_ok()
    }

    /// Returns whether a message of `total` bytes to `destination` goes in parcels: now, or when
    /// those that are lent come back.
    pub(super) fn goes_in_parcels(&mut self, destination: u32, total: usize) -> bool {
        let peer = &mut self.peers[destination as usize];
        self.tuning.suits_parcels(total)
            && peer.paths.is_announced()
            && peer.parcels.have_room(total)
            && !self.must_offer(destination, total)
    }

    /// Sends the next part of a message in a run of parcels. Returns false if this rank has no run,
    /// or if there is no room for the packet that names the run.
    pub(super) fn push_parcel(
        &mut self,
        destination: u32,
        message: &mut OutgoingMessage,
    ) -> Result<bool, Corrupt> {
        let peer = &mut self.peers[destination as usize];
        let Some((run, place)) = peer.parcels.next(message.left()) else { return Ok(false) };
        let (mut data, length) = (message.data, message.left().min(run.length));
        if message.sent == 0 {
            peer.parcels.begin(message.total);
        }
        let run = ParcelRun { length, ..run };
        let mut head = head(message.total, message.sent, run, peer.parcels.lends());
        head.asks = (message.stage == SendStage::Synchronous).into();
        let stores = peer.parcel_stores(length);
        // SAFETY: the run belongs to this rank and has room for `length` bytes. It is in the
        // segment, which no user's buffer overlaps.
        let fill = |to, piece| unsafe { data.gather_by(stores, to, piece) };
        // No older send waits.
        peer.open();
        let pieces = &mut peer.parcels;
        let sent = if pieces.send_in_pieces(&mut peer.paths, message.key, head, place, fill)? {
            self.shut_if_told_to_keep(destination);
            self.notify(destination);
            true
        } else {
            data = message.data;
            // SAFETY: the run belongs to this rank and has room for the data. It is in the segment,
            // which no user's buffer overlaps.
            unsafe { data.gather_by(stores, place, length) };
            head.pieces = 0;
            let sent =
                self.push_control(destination, PacketKind::Parcel, message.key, &head.pack())?;
            if sent {
                self.peers[destination as usize].parcels.hand_over(&head);
            }
            sent
        };
        if sent {
            self.peers[destination as usize].count_filled_parcels(length);
            message.data = data;
            message.sent += length;
        }
        Ok(sent)
    }

    /// Sends a message that suits parcels. The caller has made the checks of
    /// [`Engine::send_medium`].
    #[inline(always)]
    pub(super) fn send_parcel(&mut self, destination: u32, key: Key, payload: &[u8]) -> SentShort {
        let (peer, length) = (&mut self.peers[destination as usize], payload.len());
        if !peer.parcels.have_room(length) {
            return SentShort::No;
        }
        let next = peer.parcels.next(length);
        let Some((run, place)) = next.filter(|(run, _)| length <= run.length) else {
            return SentShort::No;
        };
        peer.parcels.begin(length);
        if peer.is_parcel_fill_due(length) {
            return SentShort::No;
        }
        let head = head(length, 0, ParcelRun { length, ..run }, peer.parcels.lends());
        let stores = peer.parcel_stores(length);
        let mut rest = payload;
        let fill = |to: NonNull<u8>, piece| {
            let (next, others) = rest.split_at(piece);
            rest = others;
            // SAFETY: the run belongs to this rank and has room for the payload. It is in the
            // segment, which no user's buffer overlaps.
            unsafe { fill(next.as_ptr(), to.as_ptr(), piece, stores) };
        };
        // Corruption is reported by `isend`: the caller uses it next, and it meets the same
        // corruption.
        let sent = peer.parcels.send_in_pieces(&mut peer.paths, key, head, place, fill);
        if !sent.unwrap_or(false) {
            return SentShort::No;
        }
        peer.eager.set(key);
        if peer.wants_bell() { SentShort::ToSleeper } else { SentShort::Yes }
    }

    /// Receives a message in one run of parcels, under the conditions of [`Engine::recv_medium`].
    #[inline(never)]
    pub(super) fn take_parcel(
        &mut self,
        source: u32,
        want: Want,
        buffer: &mut [u8],
        idle: bool,
    ) -> Bypass {
        let peer = &mut self.peers[source as usize];
        let Some((found, by_baton)) = peer.paths.find_next() else { return Bypass::Nothing };
        let message = peer.paths.lines_of_next(by_baton);
        let key = message.key();
        if found.kind() != Ok(PacketKind::Parcel) || !want.accepts(key) || !idle {
            return Bypass::Closed;
        }
        let mut head = [0; ParcelHead::LENGTH];
        // SAFETY: the array has the length of a head.
        unsafe { message.copy_short(NonNull::from(&mut head).cast(), ParcelHead::LENGTH) };
        let Ok(head) = ParcelHead::parse(head) else { return Bypass::Closed };
        if (head.lent != 0) | (head.asks != 0) && peer.wants_bell() {
            // The peer may sleep until its parcels come back, or until the answer comes, and the
            // general way wakes it.
            return Bypass::Closed;
        }
        let bytes = head.length as usize;
        if !peer.parcels.take_message(&head, peer.paths.next_in(), buffer) {
            return Bypass::Closed;
        }
        peer.paths.release_next(by_baton, ParcelHead::LENGTH);
        // The peer may have fallen asleep meanwhile.
        self.end_whole_parcel(source, &head);
        Bypass::Received(Status { source, tag: key.tag(), bytes })
    }

    /// Copies a message that takes one run to its posted receive, while its sender fills the run.
    /// `message` is the packet that names the run. Returns false if there is more to do, or if the
    /// sender is slow: bytes that were copied are then copied again.
    #[inline]
    pub(super) fn take_posted_parcel(&mut self, envelope: &Envelope, message: LineMessage) -> bool {
        let mut head = [0; ParcelHead::LENGTH];
        // SAFETY: the array has the length of a head, and each line has room for one.
        unsafe { message.copy_short(NonNull::from(&mut head).cast(), ParcelHead::LENGTH) };
        let Ok(head) = ParcelHead::parse(head) else { return false };
        let Envelope { source, tag, .. } = *envelope;
        let peer = &self.peers[source as usize];
        let Some(place) = peer.parcels.whole(&head) else { return false };
        let (requests, bytes) = (&mut self.requests, head.length as usize);
        let met = self.posted.take_with(envelope, |id| {
            let (state, to) = requests.posted_place(*id, bytes)?;
            let (sequence, looks) = (peer.paths.next_in(), LOOKS_OF_PROGRESS);
            // SAFETY: the receive lends room for the message (contract of `irecv`), which lies
            // outside the segment.
            if !unsafe { peer.parcels.copy_out(place, &head, sequence, to, looks) } {
                return None;
            }
            *state = RequestState::Done(Ok(Status { source, tag, bytes }));
            Some(())
        });
        let is_taken = matches!(met, Some(Some(())));
        if is_taken {
            self.end_whole_parcel(source, &head);
        }
        is_taken
    }

    /// Ends the run of a whole message that a receive has taken, and answers a synchronous one.
    #[inline(always)]
    fn end_whole_parcel(&mut self, source: u32, head: &ParcelHead) {
        self.end_parcel(source, head);
        if head.asks != 0 {
            self.end_synchronous(source);
        }
    }

    /// Keeps or returns the run of a part that was read to its end.
    #[inline(always)]
    fn end_parcel(&mut self, source: u32, head: &ParcelHead) {
        self.peers[source as usize].parcels.keep(head);
        if head.lent != 0 {
            // The peer may sleep because it lacks these parcels.
            self.notify(source);
        }
    }

    /// Delivers the new bytes of the part of a message that `packet` names and that lies in
    /// parcels. The packet is the next of its source.
    pub(super) fn deliver_parcel(&mut self, packet: &Packet) -> Result<Filled, ProgressError> {
        let source = packet.envelope.source;
        let head = ParcelHead::parse(packet.head_of_payload()?)?;
        let peer = &self.peers[source as usize];
        let Some(new) = peer.parcels.new_bytes(&head, peer.paths.next_in())? else {
            return Ok(Filled::Nothing);
        };
        // No message is longer than the address space, which `parse` has checked.
        let (total, offset) = (head.total as usize, head.offset as usize + new.from);
        let length = new.length;
        let kind = match offset {
            0 if head.asks != 0 => PacketKind::Synchronous,
            0 if length == total => PacketKind::Eager,
            0 => PacketKind::EagerFirst,
            _ => PacketKind::EagerMore,
        };
        let payload = PacketPayload::Whole(new.place);
        self.deliver(Packet { kind, total, length, payload, ..*packet })?;
        let all = self.peers[source as usize].parcels.take(&head, new);
        if all {
            self.end_parcel(source, &head);
        }
        Ok(if all { Filled::All } else { Filled::Part })
    }
}

impl Peer {
    /// Returns the stores for a part of `length` bytes that is to fill parcels. Those that were
    /// lent are, like cells, in the caches of the peer.
    #[inline(always)]
    fn parcel_stores(&self, length: usize) -> Stores {
        if self.parcels.lends() { self.fill_stores.of_lent_parcels(length) } else { Stores::Cached }
    }

    /// Counts a part that has filled parcels.
    fn count_filled_parcels(&mut self, length: usize) {
        if self.parcels.lends() {
            self.fill_stores.count(length);
        }
    }

    /// Counts a message of `length` bytes that is about to fill parcels. Returns whether the
    /// general path is to send it, which has it timed.
    #[inline(always)]
    fn is_parcel_fill_due(&mut self, length: usize) -> bool {
        self.parcels.lends()
            && length >= STREAMED_FILL_LEAST
            && !fills_alike(length)
            && self.fill_stores.is_due()
    }
}

/// The progress of a part that is filled while it is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Filled {
    /// Nothing new.
    Nothing,
    /// Some bytes; the rest will come.
    Part,
    /// The last bytes.
    All,
}

/// Returns the head of the part at `offset` of a message of `total` bytes, which `run` holds.
///
/// A run that is lent is filled before its packet leaves. The receiver is busy with the messages
/// before it, and a mark for each piece would cost more than it gains.
#[inline(always)]
const fn head(total: usize, offset: usize, run: ParcelRun, lent: bool) -> ParcelHead {
    let ParcelRun { number, length } = run;
    let pieces = if offset == 0 && !lent { pieces(total, length) } else { 0 };
    // At most `PARCELS_MAX`, and at most `PIECES_MAX`.
    let (number, pieces) = (number as u8, pieces as u8);
    let (total, offset, length) = (total as u64, offset as u64, length as u32);
    ParcelHead { total, offset, length, number, asks: 0, pieces, lent: lent as u8 }
}

/// Returns the number of pieces in which the first part of a message of `total` bytes is filled
/// while the peer reads. 0: it is filled before.
#[inline(always)]
const fn pieces(total: usize, length: usize) -> u32 {
    if length < total && length <= PARCEL {
        // The peer matches the message while this rank fills the parcel. With smaller pieces it
        // would also read while this rank fills the next parcel, which is slower.
        return 1;
    }
    match length.div_ceil(PIECE_LEAST) as u32 {
        1 => 0,
        pieces @ 2..PIECES_MAX => pieces,
        _ => PIECES_MAX,
    }
}
