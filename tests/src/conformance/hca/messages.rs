//! Checks messages and immediates, which consume the other party's receives.

use core::time::Duration;

use strait_core::hca::{Done, Operation};

use super::side::{Side, pattern, request};
use super::{Applicable, Party};

const LENGTHS: [usize; 7] = [0, 1, 8, 100, 1024, 5000, 70_000];

pub(super) fn messages_meet_receives<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const ROOM: usize = 70_001;
    let link = side.connect();
    let (buffer, _) = side.shared(ROOM * LENGTHS.len());
    if side.is_first() {
        side.meet();
        for (turn, length) in LENGTHS.into_iter().enumerate() {
            buffer.put(turn * ROOM, &pattern(turn, length));
            let from = [buffer.piece(turn * ROOM, length)];
            assert_eq!(side.perform(link, Operation::Send { from: &from }), Done::Send);
        }
    } else {
        let posted = |turn| buffer.piece(turn * ROOM, ROOM);
        let ids: Vec<u64> = (0..LENGTHS.len()).map(|turn| side.receive(posted(turn))).collect();
        side.meet();
        for (turn, length) in LENGTHS.into_iter().enumerate() {
            // They complete in the order of posting, since there is one sender.
            let done = side.done(link, ids[turn]);
            assert_eq!(done, Done::Receive { length: length as u32 });
            assert!(buffer.get(turn * ROOM, length) == pattern(turn, length), "{length} bytes");
            assert_eq!(buffer.byte(turn * ROOM + length), 0, "after {length} bytes");
        }
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn both_send_at_once<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const TURNS: usize = 200;
    const ROOM: usize = 64;
    const POSTED: usize = 16;
    let link = side.connect();
    let (buffer, _) = side.shared(ROOM * (POSTED + 1));
    let mut ids: Vec<u64> =
        (0..POSTED).map(|at| side.receive(buffer.piece(at * ROOM, ROOM))).collect();
    side.meet();
    let rank = side.rank() as usize;
    let (mut sent, mut came) = (0, 0);
    let mut sending = None;
    while came < TURNS || sending.is_some() || sent < TURNS {
        // At most half of the posted receives: the other party had consumed all but half a window
        // of mine when it sent the last message that arrived. So no message lacks a receive.
        if sending.is_none() && sent < TURNS && sent < came + POSTED / 2 {
            buffer.put(POSTED * ROOM, &pattern(sent * 2 + rank, ROOM));
            let id = side.new_id();
            let from = [buffer.piece(POSTED * ROOM, ROOM)];
            side.post(link, &request(id, Operation::Send { from: &from }));
            sending = Some(id);
            sent += 1;
        }
        let completion = side.complete();
        assert_eq!(completion.connection, link);
        if Some(completion.id) == sending {
            assert_eq!(completion.result, Ok(Done::Send));
            sending = None;
        } else {
            let at = came % POSTED;
            assert_eq!(completion.id, ids[at], "receives complete in their order");
            assert_eq!(completion.result, Ok(Done::Receive { length: ROOM as u32 }));
            assert_eq!(buffer.get(at * ROOM, ROOM), pattern(came * 2 + 1 - rank, ROOM));
            came += 1;
            if came + POSTED <= TURNS {
                ids[at] = side.receive(buffer.piece(at * ROOM, ROOM));
            }
        }
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn a_write_brings_a_number<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const TURNS: usize = 20;
    const ROOM: usize = 3000;
    if !side.capabilities().immediate {
        return Err("the device has no immediates");
    }
    let link = side.connect();
    let (buffer, far) = side.shared(ROOM * TURNS + 8);
    let number = |turn: usize| 0xfedc_0000 | turn as u32;
    let length = |turn: usize| turn * 150;
    if side.is_first() {
        side.meet();
        for turn in 0..TURNS {
            buffer.put(turn * ROOM, &pattern(turn, length(turn)));
            let from = [buffer.piece(turn * ROOM, length(turn))];
            let from = if turn == 0 { &[] } else { &from[..] };
            let (to, immediate) = (far.at(turn * ROOM), number(turn));
            let done = side.perform(link, Operation::WriteImmediate { from, to, immediate });
            assert_eq!(done, Done::Write);
        }
    } else {
        let piece = buffer.piece(ROOM * TURNS, 8);
        let ids: Vec<u64> = (0..TURNS).map(|_| side.receive(piece)).collect();
        side.meet();
        for (turn, id) in ids.into_iter().enumerate() {
            let done = side.done(link, id);
            let length = length(turn);
            assert_eq!(done, Done::Immediate { immediate: number(turn), length: length as u32 });
            assert!(buffer.get(turn * ROOM, length) == pattern(turn, length), "{length} bytes");
        }
        assert_eq!(buffer.word(ROOM * TURNS), 0, "the receives' own piece stays as it is");
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn a_late_receive_is_waited_for<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    if !side.habits().patient {
        return Err("the device does not wait for receives");
    }
    let link = side.connect();
    let (buffer, _) = side.shared(64);
    if side.is_first() {
        buffer.put(0, &pattern(9, 64));
        let from = [buffer.whole()];
        let id = side.new_id();
        side.post(link, &request(id, Operation::Send { from: &from }));
        side.meet();
        assert_eq!(side.done(link, id), Done::Send);
    } else {
        side.meet();
        // Long enough for a first attempt of the sender, and short enough that it does not give up.
        std::thread::sleep(Duration::from_millis(5));
        let id = side.receive(buffer.whole());
        assert_eq!(side.done(link, id), Done::Receive { length: 64 });
        assert_eq!(buffer.get(0, 64), pattern(9, 64));
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}
