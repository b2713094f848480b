//! Fastbox and baton: messages in lines.

use core::ptr::NonNull;

use strait_core::shm::{FastboxReceiver, FastboxSender, LineMessage, SHORT_MAX};
use strait_core::wire::{Key, KindLength, PacketKind, Sequence};

use crate::place::{Flaw, Party, check};

const MESSAGES: u64 = 20_000;

/// Payload lengths in bytes, used in turn, for one line and for several.
const LENGTHS: [usize; 6] = [8, 1, SHORT_MAX, SHORT_MAX + 1, 160, 16];
const LONGEST: usize = 160;

fn length(number: u64) -> usize {
    LENGTHS[number as usize % LENGTHS.len()]
}

fn payload(number: u64) -> [u8; LONGEST] {
    core::array::from_fn(|at| number.wrapping_mul(31).wrapping_add(at as u64) as u8)
}

/// Returns a function that writes pieces of `payload` into lines.
fn fill(payload: &[u8]) -> impl Fn(NonNull<u8>, usize, usize) {
    move |to, offset, length| {
        let piece = &payload[offset..offset + length];
        // SAFETY: the line has room for `length` bytes, and no array of ours is in a line.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(piece).cast(), length) };
    }
}

/// Checks that message `number` has arrived.
fn check_message(found: KindLength, message: LineMessage, number: u64) -> Result<(), Flaw> {
    let (length, expected) = (length(number), payload(number));
    check("kind of a message", found.kind()? as u8, PacketKind::Eager as u64)?;
    check("length of a message", found.length(), length as u64)?;
    check("key of a message", message.key().0, !number)?;
    let mut bytes = [0_u8; LONGEST];
    if length <= SHORT_MAX {
        // SAFETY: the array is longer than `length` bytes.
        unsafe { message.copy_short(NonNull::from(&mut bytes).cast(), length) };
    } else {
        let mut at = 0;
        message.copy(length, |from, piece| {
            let to = NonNull::from(&mut bytes[at..at + piece]).cast();
            // SAFETY: `copy` passes `piece` bytes of a line, and no array of ours is in a line.
            unsafe { from.copy_to_nonoverlapping(to, piece) };
            at += piece;
        });
    }
    for (found, expected) in bytes[..length].iter().zip(expected) {
        check("byte of a payload", *found, expected.into())?;
    }
    Ok(())
}

/// Sends from the second processor to the first, around the ring.
pub(super) fn fastbox(party: &Party) -> Result<(), Flaw> {
    let ring = party.segment.fastbox(1, 0);
    let mut sequence = Sequence::first(1, 0);
    if party.rank == 0 {
        let mut receiver = FastboxReceiver::new(ring);
        for number in 0..MESSAGES {
            let found = party.wait(|| Ok(receiver.peek(sequence)))?;
            check_message(found, receiver.message(), number)?;
            match length(number) {
                ..=SHORT_MAX => receiver.release_short(),
                length => receiver.release(length),
            }
            sequence += 1;
        }
        return Ok(());
    }
    let mut sender = FastboxSender::new(ring);
    sender.open();
    for number in 0..MESSAGES {
        let (key, length, payload) = (Key(!number), length(number), payload(party.say(number)));
        let payload = &payload[..length];
        party.wait(|| {
            // The short path reads no credit.
            let sent = length <= SHORT_MAX && sender.send_short(sequence, key, payload)
                || sender.send(sequence, PacketKind::Eager, key, length, fill(payload))?;
            Ok(sent.then_some(()))
        })?;
        sequence += 1;
    }
    Ok(())
}

/// Sends messages back and forth.
pub(super) fn baton(party: &Party) -> Result<(), Flaw> {
    let mut baton = party.segment.baton(party.rank, party.peer());
    baton.open();
    let mut outgoing = Sequence::first(party.rank, party.peer());
    let mut incoming = Sequence::first(party.peer(), party.rank);
    for turn in 0..2 * MESSAGES {
        let number = turn / 2;
        if turn % 2 != u64::from(party.rank) {
            let found = party.wait(|| Ok(baton.peek(incoming)))?;
            check_message(found, baton.message(), number)?;
            baton.release();
            incoming += 1;
            continue;
        }
        let (key, length, payload) = (Key(!number), length(number), payload(party.say(number)));
        let payload = &payload[..length];
        let sent = match length {
            ..=SHORT_MAX => baton.send_short(outgoing, key, payload),
            _ => baton.send(outgoing, PacketKind::Eager, key, length, fill(payload)),
        };
        check("batons that the next sender holds", sent, 1)?;
        outgoing += 1;
    }
    Ok(())
}
