//! Messages that go in parcels, from hand to hand: longer than a few lines, and not so long that they had better wait for
//! their receives.

use core::ptr::NonNull;

use super::packet::{Packet, Payload};
use super::peer::{Outbox, Peer};
use super::request::Outgoing;
use super::{Bypass, Engine, ProgressError, SentShort, Status, Want};
use crate::layout::Corrupt;
use crate::memory::Memory;
use crate::shm::{PARCEL, PIECES_MAX, Run, copy_cached, copy_short};
use crate::sync::{Step, finish_look, reached};
use crate::wire::{Key, Kind, ParcelHead};

/// Fewest bytes of a piece but the last: less would not be worth the line of its mark.
const PIECE_LEAST: usize = 2048;

/// Looks for the next piece of a message, whose sender is writing it, before a receive goes the way on which other things
/// come, too.
const LOOKS_AT_PIECE: u32 = 1000;

impl<M: Memory + Clone> Engine<M> {
    /// True when messages of `length` bytes to `destination` want the memory of parcels, and nobody has said yet whether
    /// there is any. Back the range that [`crate::layout::Plan::parcel_range`] gives for (this rank, `destination`), and say
    /// how it went with [`Engine::parcels_backed`]. Until then such messages take other ways.
    #[inline]
    #[must_use]
    pub fn wants_parcels(&self, destination: u32, length: usize) -> bool {
        self.tuning.suits_parcels(length)
            && self.segment.plan().parcel_bytes() > 0
            && self.peers.get(destination as usize).is_some_and(|peer| !peer.parcels_asked)
    }

    /// The answer to [`Engine::wants_parcels`].
    pub fn parcels_backed(&mut self, destination: u32, backed: bool) {
        let Some(peer) = self.peers.get_mut(destination as usize) else { return };
        let asked = core::mem::replace(&mut peer.parcels_asked, true);
        if backed && !asked {
            peer.parcels.open();
        }
    }

    /// Whether a message of `total` bytes to `destination` goes in parcels now.
    pub(super) fn goes_in_parcels(&self, destination: u32, total: usize) -> bool {
        let peer = &self.peers[destination as usize];
        self.tuning.suits_parcels(total)
            && peer.outbox == Outbox::Open
            && peer.parcels.hold(total)
            && !self.must_offer(destination, total)
    }

    /// Sends the next part of a message in a run of parcels, if one is here and there is room for the packet that names it.
    pub(super) fn push_parcel(
        &mut self,
        destination: u32,
        message: &mut Outgoing,
    ) -> Result<bool, Corrupt> {
        let peer = &mut self.peers[destination as usize];
        let Some((run, place)) = peer.parcels.next(message.left()) else { return Ok(false) };
        let (mut data, length) = (message.data, message.left().min(run.length));
        let mut head = head(message.total, message.sent, Run { length, ..run });
        // SAFETY: the run is in our hands and has room for so much; it lies in the segment, where no user buffer does.
        let fill = |to, piece| unsafe { data.gather(to, piece) };
        // No older send waits.
        peer.open();
        let sent = if peer.send_in_pieces(message.key, head, place, fill)? {
            self.shut_if_told_to_keep(destination);
            self.notify(destination);
            true
        } else {
            data = message.data;
            // SAFETY: as above.
            unsafe { data.gather(place, length) };
            head.pieces = 0;
            let sent = self.push_control(destination, Kind::Parcel, message.key, &head.pack())?;
            if sent {
                self.peers[destination as usize].parcels.hand_over(head.run());
            }
            sent
        };
        if sent {
            message.data = data;
            message.sent += length;
        }
        Ok(sent)
    }

    /// As [`Engine::send_medium`], whose checks have been made, for a message that suits parcels.
    #[inline(always)]
    pub(super) fn send_parcel(&mut self, destination: u32, key: Key, payload: &[u8]) -> SentShort {
        let (peer, length) = (&mut self.peers[destination as usize], payload.len());
        let next = peer.parcels.next(length);
        let Some((run, place)) = next.filter(|(run, _)| length <= run.length) else {
            return SentShort::No;
        };
        let head = head(length, 0, Run { length, ..run });
        let mut rest = payload;
        let fill = |to: NonNull<u8>, piece| {
            let (next, others) = rest.split_at(piece);
            rest = others;
            // SAFETY: as in `push_parcel`.
            unsafe { copy_cached(next.as_ptr(), to.as_ptr(), piece) };
        };
        // Corruption is reported by the way that can, as in `send_medium`.
        if !peer.send_in_pieces(key, head, place, fill).unwrap_or(false) {
            return SentShort::No;
        }
        peer.eager.set(key);
        if peer.bell.get().is_wanted() { SentShort::ToSleeper } else { SentShort::Yes }
    }

    /// As [`Engine::recv_medium`], for a message in one run of parcels.
    #[inline(never)]
    pub(super) fn take_parcel(
        &mut self,
        source: u32,
        want: Want,
        buffer: &mut [u8],
        idle: bool,
    ) -> Bypass {
        let peer = &mut self.peers[source as usize];
        let Some((found, by_baton)) = peer.find_next() else { return Bypass::Nothing };
        let message = peer.lines_of_next(by_baton);
        let key = message.key();
        if found.kind() != Ok(Kind::Parcel) || !want.accepts(key) || !idle {
            return Bypass::Closed;
        }
        let mut head = [0; ParcelHead::LENGTH];
        // SAFETY: the array has the length of a head.
        unsafe { message.copy_short(NonNull::from(&mut head).cast(), ParcelHead::LENGTH) };
        let Ok(head) = ParcelHead::parse(head) else { return Bypass::Closed };
        let Ok(place) = peer.parcels.find(head.run()) else { return Bypass::Closed };
        let bytes = head.length as usize;
        let begun = head.offset > 0 || peer.taken > 0;
        if begun || head.total != u64::from(head.length) || bytes > buffer.len() {
            return Bypass::Closed;
        }
        let (mut done, mut looks) = (0, LOOKS_AT_PIECE);
        while done < bytes {
            let filled = peer.parcels.filled(&head, peer.next_in, done);
            if filled == done {
                // Nothing has been taken yet that could not be taken again.
                let Some(left) = looks.checked_sub(1) else { return Bypass::Closed };
                looks = left;
                finish_look();
                continue;
            }
            // SAFETY: so much of the run is ours to read, and it has room for all of it (`parse`); it lies in the segment,
            // where no user buffer does; the buffer has room for it, too.
            unsafe {
                let to = NonNull::from(&mut *buffer).cast::<u8>().add(done);
                copy_cached(place.add(done).as_ptr(), to.as_ptr(), filled - done);
            }
            done = filled;
        }
        peer.release_next(by_baton, ParcelHead::LENGTH);
        peer.parcels.keep(head.run());
        Bypass::Received(Status { source, tag: key.tag(), bytes })
    }

    /// Delivers what is there, and was not before, of the part of a message that `packet` names, which lies in parcels. The
    /// packet is the next of its source.
    pub(super) fn deliver_parcel(&mut self, packet: &Packet) -> Result<Filled, ProgressError> {
        let source = packet.envelope.source as usize;
        let head = ParcelHead::parse(packet.head_of_payload()?)?;
        let (run, part) = (head.run(), head.length as usize);
        let peer = &self.peers[source];
        let place = peer.parcels.find(run)?;
        let taken = peer.taken;
        if taken >= part {
            return Err(Corrupt::Length { found: part as u64, max: taken as u64 }.into());
        }
        let filled = peer.parcels.filled(&head, peer.next_in, taken);
        if filled == taken {
            return Ok(Filled::Nothing);
        }
        // No message is longer than the address space is (`parse`).
        let (total, offset) = (head.total as usize, head.offset as usize + taken);
        let length = filled - taken;
        let kind = match offset {
            0 if length == total => Kind::Eager,
            0 => Kind::EagerFirst,
            _ => Kind::EagerMore,
        };
        // SAFETY: a run has room for the part (`parse`).
        let payload = Payload::Whole(unsafe { place.add(taken) });
        self.deliver(Packet { kind, total, length, payload, ..*packet })?;
        let peer = &mut self.peers[source];
        peer.taken = if filled == part { 0 } else { filled };
        if filled < part {
            return Ok(Filled::Part);
        }
        peer.parcels.keep(run);
        Ok(Filled::All)
    }
}

impl Peer {
    /// Hands the peer a run of our parcels by a packet in lines, and fills it piece by piece: `fill(to, length)` writes the next
    /// bytes. A short part is filled before, and so is what is not the first of its message: then the peer is busy with that.
    /// False: no line is free; what was written meanwhile is written again.
    #[inline(always)]
    fn send_in_pieces(
        &mut self,
        key: Key,
        head: ParcelHead,
        place: NonNull<u8>,
        mut fill: impl FnMut(NonNull<u8>, usize),
    ) -> Result<bool, Corrupt> {
        let (Run { number, length }, sequence) = (head.run(), self.next_out);
        if head.pieces == 0 {
            fill(place, length);
        }
        let words = head.pack();
        let write = |to: NonNull<u8>, _, _| {
            // SAFETY: `send_lines` gives room for the head, which fits one line.
            unsafe { copy_short(words.as_ptr(), to.as_ptr(), ParcelHead::LENGTH) };
        };
        if !self.send_lines(Kind::Parcel, key, ParcelHead::LENGTH, write)? {
            return Ok(false);
        }
        reached(Step::ParcelNamed);
        self.parcels.hand_over(head.run());
        self.next_out += 1;
        let mut done = 0;
        for piece in 0..u32::from(head.pieces) {
            let bytes = head.piece().min(length - done);
            // SAFETY: the run has room for the part.
            fill(unsafe { place.add(done) }, bytes);
            reached(Step::PieceFilled);
            self.parcels.mark(number, piece, sequence);
            done += bytes;
        }
        Ok(true)
    }
}

/// How much has come of a part that is filled while it is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Filled {
    /// Nothing new.
    Nothing,
    /// Something, and the rest will come.
    Part,
    /// The last of it.
    All,
}

/// Of the part at `offset` of a message of `total` bytes, which `run` holds.
#[inline(always)]
const fn head(total: usize, offset: usize, run: Run) -> ParcelHead {
    let Run { number, length } = run;
    let pieces = if offset == 0 { pieces(total, length) } else { 0 };
    // At most `PARCELS_MAX`, and `PIECES_MAX`.
    let (number, pieces) = (number as u16, pieces as u16);
    ParcelHead { total: total as u64, offset: offset as u64, length: length as u32, number, pieces }
}

/// Pieces in which the first part of a message of `total` bytes is filled while the peer reads. 0: it is filled before.
#[inline(always)]
const fn pieces(total: usize, length: usize) -> u32 {
    if length < total && length <= PARCEL {
        // The peer meets the message meanwhile. Smaller pieces it would read while we fill the next parcel, which is slower.
        return 1;
    }
    match length.div_ceil(PIECE_LEAST) as u32 {
        1 => 0,
        pieces @ 2..PIECES_MAX => pieces,
        _ => PIECES_MAX,
    }
}
