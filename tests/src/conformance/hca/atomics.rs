//! Checks atomics on the other party's memory.

use strait_core::hca::{Atomics, Done, Operation};

use super::side::{Side, request};
use super::{Applicable, Party};

pub(super) fn atomics_change_one_word<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    if side.capabilities().atomics == Atomics::None {
        return Err("the device has no atomics");
    }
    let link = side.connect();
    let (buffer, far) = side.shared(32);
    if side.is_first() {
        let (result, target) = (buffer.piece(0, 8), far.at(8));
        let mut add = |addend: u64| {
            let done = side.perform(link, Operation::FetchAndAdd { result, target, addend });
            assert_eq!(done, Done::Atomic);
            buffer.word(0)
        };
        assert_eq!(add(5), 0);
        assert_eq!(add(u64::MAX - 4), 5, "and it wraps");
        assert_eq!(add(1 << 40), 0);
        let mut swap = |expected: u64, desired: u64| {
            let operation = Operation::CompareAndSwap { result, target, expected, desired };
            assert_eq!(side.perform(link, operation), Done::Atomic);
            buffer.word(0)
        };
        assert_eq!(swap(7, 8), 1 << 40, "not what was expected: it stays");
        assert_eq!(swap(1 << 40, u64::MAX), 1 << 40);
        assert_eq!(swap(0, 3), u64::MAX);
        side.meet();
    } else {
        side.meet();
        let words: Vec<u64> = (0..4).map(|at| buffer.word(at * 8)).collect();
        assert_eq!(words, [0, u64::MAX, 0, 0], "one word, and no other");
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

/// Both parties add to one word of the second party at the same time, the first over two
/// connections.
pub(super) fn atomics_exclude_each_other<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const TURNS: usize = 300;
    if side.capabilities().atomics == Atomics::None {
        return Err("the device has no atomics");
    }
    if !side.habits().loops {
        return Err("a rank cannot connect to itself");
    }
    let (one, two) = (side.connect(), side.connect());
    let own = side.connect_to_itself();
    let (buffer, far) = side.shared(64);
    let target = |side: &Side<'_, P>| {
        if side.is_first() { far.at(0) } else { super::side::place(&buffer, 0) }
    };
    let links = if side.is_first() { [one, two] } else { [own.0, own.1] };
    let mut ids = Vec::new();
    side.meet();
    for turn in 0..TURNS {
        let at = turn % 2;
        let id = side.new_id();
        let (result, target) = (buffer.piece(8 + 8 * at, 8), target(side));
        side.post(links[at], &request(id, Operation::FetchAndAdd { result, target, addend: 1 }));
        ids.push(id);
        if turn % 2 == 1 {
            for _ in 0..2 {
                let completion = side.complete();
                assert_eq!(completion.result, Ok(Done::Atomic));
                assert!(ids.contains(&completion.id));
            }
            ids.clear();
        }
    }
    side.meet();
    if !side.is_first() {
        assert_eq!(buffer.word(0), 2 * TURNS as u64, "additions got lost");
    }
    side.meet();
    side.free(buffer);
    for link in [one, two, own.0, own.1] {
        side.close(link);
    }
    Ok(())
}
