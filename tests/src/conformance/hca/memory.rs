//! Checks reads and writes of the other party's memory.

use strait_core::hca::{Access, Done, Operation, Sge, WorkRequest};

use super::side::{Side, pattern, request};
use super::{Applicable, Party};

/// Lengths around limits: words, lines, inline data, packets, pages.
const LENGTHS: [usize; 12] = [0, 1, 7, 8, 63, 65, 256, 1023, 4096, 4097, 65_537, 300_001];

/// Bytes around the written bytes.
const MARGIN: usize = 64;

pub(super) fn writes_arrive_whole<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let link = side.connect();
    for (seed, length) in LENGTHS.into_iter().enumerate() {
        let (buffer, far) = side.shared(length + 2 * MARGIN);
        if side.is_first() {
            buffer.put(MARGIN, &pattern(seed, length));
            let from = [buffer.piece(MARGIN, length)];
            let done = side.perform(link, Operation::Write { from: &from, to: far.at(MARGIN) });
            assert_eq!(done, Done::Write);
            side.meet();
        } else {
            side.meet();
            assert!(buffer.get(MARGIN, length) == pattern(seed, length), "{length} bytes");
            assert!(buffer.get(0, MARGIN) == [0; MARGIN], "before {length} bytes");
            assert!(buffer.get(MARGIN + length, MARGIN) == [0; MARGIN], "after {length} bytes");
        }
        side.meet();
        side.free(buffer);
    }
    side.close(link);
    Ok(())
}

pub(super) fn reads_bring_all<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let link = side.connect();
    for (seed, length) in LENGTHS.into_iter().enumerate() {
        let buffer = side.buffer(length + 2 * MARGIN, Access::ALL);
        if !side.is_first() {
            buffer.put(MARGIN, &pattern(seed, length));
        }
        let far = side.swap(&buffer.region);
        if side.is_first() {
            let into = [buffer.piece(MARGIN, length)];
            let done = side.perform(link, Operation::Read { into: &into, from: far.at(MARGIN) });
            assert_eq!(done, Done::Read);
            assert!(buffer.get(MARGIN, length) == pattern(seed, length), "{length} bytes");
            assert!(buffer.get(0, MARGIN) == [0; MARGIN], "before {length} bytes");
            assert!(buffer.get(MARGIN + length, MARGIN) == [0; MARGIN], "after {length} bytes");
        }
        side.meet();
        side.free(buffer);
    }
    side.close(link);
    Ok(())
}

/// A few bytes lie on two pages, divided in every way. They are read and then, without a wait,
/// written and sent.
pub(super) fn short_pieces_may_cross_pages<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const PAGE: u64 = 4096;
    const ROOM: usize = 64;
    const LENGTHS: [usize; 8] = [2, 3, 8, 17, 31, 32, 33, ROOM];
    let link = side.connect();
    // Places to read, write and send to, then two pages with the bytes where the pages meet.
    let (buffer, far) = side.shared(3 * ROOM + 2 * PAGE as usize);
    let crossing = |base: u64, before: usize| {
        let places = base + 3 * ROOM as u64;
        ((places + PAGE).next_multiple_of(PAGE) - base) as usize - before
    };
    let divided = |length: usize| [1, length / 3, length - 1].map(|before| (length, before.max(1)));
    for (seed, (length, before)) in LENGTHS.into_iter().flat_map(divided).enumerate() {
        let from = crossing(buffer.region.base, before);
        let bytes = |rank: u32| pattern(2 * seed + rank as usize, length);
        buffer.put(0, &[0; 3 * ROOM]);
        buffer.put(from, &bytes(side.rank()));
        if side.is_first() {
            side.meet();
            let (here, into) = ([buffer.piece(from, length)], [buffer.piece(0, length)]);
            let there = far.at(crossing(far.base, before));
            let operations = [
                Operation::Read { into: &into, from: there },
                Operation::Write { from: &here, to: far.at(ROOM) },
                Operation::Send { from: &here },
            ];
            let ids = operations.map(|operation| {
                let id = side.new_id();
                side.post(link, &request(id, operation));
                id
            });
            assert_eq!(ids.map(|id| side.done(link, id)), [Done::Read, Done::Write, Done::Send]);
            assert_eq!(buffer.get(0, length), bytes(1), "read: {before} of {length} before");
        } else {
            let id = side.receive(buffer.piece(2 * ROOM, ROOM));
            side.meet();
            assert_eq!(side.done(link, id), Done::Receive { length: length as u32 });
            assert_eq!(buffer.get(ROOM, length), bytes(0), "written: {before} of {length} before");
            let sent = buffer.get(2 * ROOM, length);
            assert_eq!(sent, bytes(0), "sent: {before} of {length} before");
        }
        side.meet();
    }
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn pieces_are_gathered_and_scattered<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const STRIDE: usize = 1000;
    let count = side.capabilities().pieces.min(32) as usize;
    if count < 2 {
        return Err("the device takes one piece");
    }
    let link = side.connect();
    let (buffer, far) = side.shared(STRIDE * count);
    let lengths: Vec<usize> = (0..count).map(|at| (at * 37) % 300).collect();
    let total = lengths.iter().sum();
    let pieces = |from: usize| -> Vec<Sge> {
        let each = lengths.iter().enumerate();
        each.map(|(at, length)| buffer.piece(at * STRIDE + from, *length)).collect()
    };
    let source = pattern(3, STRIDE * count);
    let mut expected = Vec::new();
    for (at, length) in lengths.iter().enumerate() {
        expected.extend_from_slice(&source[at * STRIDE + 5..][..*length]);
    }
    if side.is_first() {
        buffer.put(0, &source);
        side.perform(link, Operation::Write { from: &pieces(5), to: far.at(1) });
        let mut read = 0;
        for into in pieces(500).chunks(side.capabilities().read_pieces as usize) {
            side.perform(link, Operation::Read { into, from: far.at(1 + read) });
            read += into.iter().map(|piece| piece.length as usize).sum::<usize>();
        }
        let mut found = Vec::new();
        for (at, length) in lengths.iter().enumerate() {
            found.extend(buffer.get(at * STRIDE + 500, *length));
        }
        assert_eq!(found, expected);
        side.meet();
    } else {
        side.meet();
        assert_eq!(buffer.get(1, total), expected);
        assert_eq!(buffer.byte(0), 0);
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn inline_data_is_taken_at_once<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let most = side.capabilities().inline as usize;
    if most == 0 {
        return Err("the device sends nothing inline");
    }
    let link = side.connect();
    let (buffer, far) = side.shared(most * 4);
    if side.is_first() {
        for (turn, length) in [1, most / 2 + 1, most].into_iter().enumerate() {
            // Unregistered memory, which changes as soon as the request is posted.
            let mut data = pattern(turn, length);
            let id = side.new_id();
            let piece = Sge {
                base: core::ptr::NonNull::from(&mut data[..]).cast(),
                length: length as u32,
                key: 0,
            };
            let from = [piece];
            let operation = Operation::Write { from: &from, to: far.at(turn * most) };
            let inline = WorkRequest { id, operation, signaled: true, inline: true, fenced: false };
            side.post(link, &inline);
            data.fill(0xee);
            assert_eq!(side.done(link, id), Done::Write);
        }
        side.settle(link, buffer.whole(), far.at(0));
        side.meet();
    } else {
        side.meet();
        for (turn, length) in [1, most / 2 + 1, most].into_iter().enumerate() {
            assert_eq!(buffer.get(turn * most, length), pattern(turn, length));
        }
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}
