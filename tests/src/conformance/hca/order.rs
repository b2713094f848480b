//! Checks the order of operations on one connection.

use strait_core::hca::{Atomics, Connection, Done, Operation, WorkRequest};
use strait_core::sync::Ordering::Acquire;
use strait_core::sync::fence;

use super::side::{Buffer, Far, Side, pattern, request};
use super::{Applicable, Party};

pub(super) fn completions_come_in_order<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const TURNS: usize = 60;
    const BYTES: usize = 20_000;
    let has_atomics = side.capabilities().atomics != Atomics::None;
    let link = side.connect();
    let (buffer, far) = side.shared(2 * BYTES + 64);
    if side.is_first() {
        let mut expected = Vec::new();
        for turn in 0..TURNS {
            let id = side.new_id();
            // Long and short operations, in both directions, mixed.
            let length = if turn % 3 == 0 { BYTES } else { 8 };
            let (from, into) = ([buffer.piece(0, length)], [buffer.piece(BYTES, length)]);
            let result = buffer.piece(2 * BYTES, 8);
            let (operation, done) = match turn % 4 {
                0 | 1 => (Operation::Write { from: &from, to: far.at(0) }, Done::Write),
                2 if has_atomics => {
                    let target = far.at(2 * BYTES + 8);
                    (Operation::FetchAndAdd { result, target, addend: 1 }, Done::Atomic)
                }
                _ => (Operation::Read { into: &into, from: far.at(BYTES) }, Done::Read),
            };
            side.post(link, &request(id, operation));
            expected.push((id, done));
        }
        for (id, done) in expected {
            assert_eq!(side.done(link, id), done);
        }
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

/// The first party writes words of equal bytes, and the second polls all the time.
pub(super) fn a_word_is_never_seen_in_part<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const TURNS: u8 = 200;
    let link = side.connect();
    let (buffer, far) = side.shared(16);
    if side.is_first() {
        for turn in 1..=TURNS {
            buffer.put(0, &[turn; 8]);
            let from = [buffer.piece(0, 8)];
            side.perform(link, Operation::Write { from: &from, to: far.at(8) });
        }
    } else {
        let mut last = 0;
        while last < TURNS {
            let [first, rest @ ..] = buffer.word_at_once(8).to_ne_bytes();
            assert_eq!(rest, [first; 7], "a word in parts");
            assert!(first >= last, "{first} after {last}");
            last = first;
            side.look();
        }
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

/// Data go back and forth, each followed by a flag in a separate write. A party that sees the flag
/// sees the data.
pub(super) fn a_flag_comes_after_its_data<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const TURNS: usize = 100;
    const BYTES: usize = 5000;
    let link = side.connect();
    // Data and flag to write from, then data and flag that arrive.
    let (buffer, far) = side.shared(2 * (BYTES + 64));
    let (flag, data_in, flag_in) = (BYTES, BYTES + 64, 2 * BYTES + 64);
    let await_flag = |side: &mut Side<'_, P>, turn: usize| {
        while buffer.byte(flag_in) != turn as u8 {
            // This also lets a device move that moves only in calls.
            side.look();
        }
        assert!(buffer.get(data_in, BYTES) == pattern(turn, BYTES), "turn {turn}");
    };
    for turn in 1..=TURNS {
        if !side.is_first() {
            await_flag(side, turn);
        }
        buffer.put(0, &pattern(turn, BYTES));
        buffer.put(flag, &[turn as u8]);
        let (data, flag) = ([buffer.piece(0, BYTES)], [buffer.piece(flag, 1)]);
        let ids = [side.new_id(), side.new_id()];
        let write_data = Operation::Write { from: &data, to: far.at(data_in) };
        let write_flag = Operation::Write { from: &flag, to: far.at(flag_in) };
        side.post(link, &request(ids[0], write_data));
        side.post(link, &request(ids[1], write_flag));
        if side.is_first() {
            await_flag(side, turn);
        }
        for id in ids {
            assert_eq!(side.done(link, id), Done::Write);
        }
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

/// Data and the word after them go back and forth in one write. A party that sees the word sees the
/// data.
pub(super) fn the_last_word_comes_last<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const TURNS: usize = 100;
    const BYTES: usize = 20_000;
    if !side.capabilities().ordered_bytes {
        return Err("the device promises no order within a write");
    }
    let link = side.connect();
    // Data and word to write from, then those that arrive.
    let (buffer, far) = side.shared(2 * (BYTES + 8));
    let incoming = BYTES + 8;
    let await_word = |side: &mut Side<'_, P>, turn: usize| {
        while buffer.word_at_once(incoming + BYTES) != turn as u64 {
            side.look();
        }
        fence(Acquire);
        assert!(buffer.get(incoming, BYTES) == pattern(turn, BYTES), "turn {turn}");
    };
    for turn in 1..=TURNS {
        if !side.is_first() {
            await_word(side, turn);
        }
        buffer.put(0, &pattern(turn, BYTES));
        buffer.put(BYTES, &(turn as u64).to_ne_bytes());
        let from = [buffer.piece(0, incoming)];
        let id = side.new_id();
        side.post(link, &request(id, Operation::Write { from: &from, to: far.at(incoming) }));
        if side.is_first() {
            await_word(side, turn);
        }
        assert_eq!(side.done(link, id), Done::Write);
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn a_message_comes_after_writes<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const BYTES: usize = 100_000;
    let link = side.connect();
    let (buffer, far) = side.shared(BYTES);
    for turn in 0..10 {
        if side.is_first() {
            side.meet();
            buffer.put(0, &pattern(turn, BYTES));
            let from = [buffer.whole()];
            let (write, send) = (side.new_id(), side.new_id());
            let to = far.at(0);
            side.post(link, &request(write, Operation::Write { from: &from, to }));
            side.post(link, &request(send, Operation::Send { from: &[] }));
            assert_eq!(side.done(link, write), Done::Write);
            assert_eq!(side.done(link, send), Done::Send);
        } else {
            let id = side.receive(buffer.piece(0, 0));
            side.meet();
            assert_eq!(side.done(link, id), Done::Receive { length: 0 });
            assert!(buffer.get(0, BYTES) == pattern(turn, BYTES), "turn {turn}");
        }
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

/// Posts both without a wait between them, and waits for both.
fn pair<P: Party>(
    side: &mut Side<'_, P>,
    link: Connection,
    operations: [Operation<'_>; 2],
    fenced: bool,
) {
    let ids = [side.new_id(), side.new_id()];
    side.post(link, &request(ids[0], operations[0]));
    let second = WorkRequest { fenced, ..request(ids[1], operations[1]) };
    side.post(link, &second);
    for id in ids {
        side.done(link, id);
    }
}

/// In each turn the first party writes `turn` over `turn - 1` and reads, in either order.
fn write_and_read<P: Party>(
    side: &mut Side<'_, P>,
    turns: usize,
    turn: impl Fn(&mut Side<'_, P>, Connection, &Buffer, Far, usize),
) {
    const BYTES: usize = 2000;
    let link = side.connect();
    let (buffer, far) = side.shared(2 * BYTES);
    if side.is_first() {
        for at in 1..=turns {
            buffer.put(0, &pattern(at, BYTES));
            turn(side, link, &buffer, far, BYTES);
        }
    }
    side.meet();
    side.free(buffer);
    side.close(link);
}

pub(super) fn a_read_sees_earlier_writes<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    write_and_read(side, 50, |side, link, buffer, far, bytes| {
        let (from, into) = ([buffer.piece(0, bytes)], [buffer.piece(bytes, bytes)]);
        let write = Operation::Write { from: &from, to: far.at(0) };
        let read = Operation::Read { into: &into, from: far.at(0) };
        pair(side, link, [write, read], false);
        assert!(buffer.get(bytes, bytes) == buffer.get(0, bytes), "the write came later");
    });
    Ok(())
}

pub(super) fn a_fence_holds_writes_back<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let before = core::cell::RefCell::new(None);
    write_and_read(side, 50, |side, link, buffer, far, bytes| {
        let (from, into) = ([buffer.piece(0, bytes)], [buffer.piece(bytes, bytes)]);
        let write = Operation::Write { from: &from, to: far.at(0) };
        let read = Operation::Read { into: &into, from: far.at(0) };
        pair(side, link, [read, write], true);
        let expected = before.replace(Some(buffer.get(0, bytes))).unwrap_or(vec![0; bytes]);
        assert!(buffer.get(bytes, bytes) == expected, "the write came earlier");
    });
    Ok(())
}

/// Both parties have a long read under way and a write behind it, at the same time. Neither write
/// delays the answer to the other's read, fenced or not, and neither is reported first. In odd
/// turns only the last request is signaled.
pub(super) fn reads_with_writes_behind_cross<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const TURNS: usize = 30;
    const BYTES: usize = 200_000;
    let link = side.connect();
    let inline = side.capabilities().inline >= 8;
    // The source of the read, its destination, and two words: one to write from, and one that is
    // written.
    let (buffer, far) = side.shared(2 * BYTES + 16);
    let (word, incoming) = (2 * BYTES, 2 * BYTES + 8);
    let theirs = 1 - side.rank() as usize;
    for turn in 1..=TURNS {
        buffer.put(0, &pattern(turn + side.rank() as usize, BYTES));
        side.meet();
        let (into, from) = ([buffer.piece(BYTES, BYTES)], [buffer.piece(word, 8)]);
        let read = request(side.new_id(), Operation::Read { into: &into, from: far.at(0) });
        let signaled = turn % 2 == 0;
        side.post(link, &WorkRequest { signaled, ..read });
        buffer.put(word, &(turn as u64).to_ne_bytes());
        let write = Operation::Write { from: &from, to: far.at(incoming) };
        let write = request(side.new_id(), write);
        side.post(link, &WorkRequest { inline, fenced: turn % 4 < 2, ..write });
        if inline {
            buffer.put(word, &u64::MAX.to_ne_bytes());
        }
        if signaled {
            assert_eq!(side.done(link, read.id), Done::Read);
        }
        assert_eq!(side.done(link, write.id), Done::Write);
        assert!(buffer.get(BYTES, BYTES) == pattern(turn + theirs, BYTES), "turn {turn}");
        loop {
            match buffer.word_at_once(incoming) as usize {
                word if word == turn => break,
                word => assert_eq!(word, turn - 1, "what came in turn {turn}"),
            }
            side.look();
        }
        side.meet();
    }
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn the_last_of_a_chain_speaks_for_all<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let depth = side.capabilities().depth.min(64) as usize;
    let link = side.connect();
    let (buffer, far) = side.shared(depth * 8);
    if side.is_first() {
        buffer.put(0, &pattern(5, depth * 8));
        for _ in 0..10 {
            for at in 0..depth {
                let id = side.new_id();
                let from = [buffer.piece(at * 8, 8)];
                let operation = Operation::Write { from: &from, to: far.at(at * 8) };
                let signaled = at + 1 == depth;
                side.post(link, &WorkRequest { signaled, ..request(id, operation) });
                if signaled {
                    // This is the only completion: `done` takes no other.
                    assert_eq!(side.done(link, id), Done::Write);
                }
            }
        }
        side.settle(link, buffer.whole(), far.at(0));
        side.meet();
    } else {
        side.meet();
        assert_eq!(buffer.get(0, depth * 8), pattern(5, depth * 8));
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}
