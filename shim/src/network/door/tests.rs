//! Doors and calls in one process.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

fn contact(rank: u32) -> Contact {
    Contact { nonce: crate::segment::nonce().unwrap(), rank, host: 0, address: None, key: [0; 16] }
}

fn is_readable(door: &Door) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&door.events, PollFlags::IN)], Some(&now)).unwrap() > 0
}

/// What `look` finds, in the end.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        std::thread::yield_now();
    }
}

#[test]
fn who_knocks_is_answered_and_who_means_somebody_else_is_not() {
    let [mine, theirs] = [1, 2].map(|byte| Card::from_bytes([byte; Card::LENGTH]));
    for open in [false, true] {
        let (own, caller) = (contact(0), contact(1));
        let mut door = Door::open(own, open).unwrap();
        let own = door.own();
        assert_eq!(own.address.is_some(), open);
        let mut call = Call::new(&caller, own, &theirs);
        // It has the address of the door, and not the key.
        let mut stray = Call::new(&caller, Contact { key: [1; 16], ..own }, &theirs);
        let mut lost = Call::new(&caller, Contact { rank: 7, ..own }, &theirs);
        let callers = Door::open(contact(2), false).unwrap();
        let hello = until(|| {
            assert_eq!(call.poll(&callers), Ok(None));
            let _ = (stray.poll(&callers), lost.poll(&callers));
            door.is_called().then(|| door.next()).flatten()
        });
        assert_eq!((hello.from, hello.card), (caller.without_key(), theirs));
        let mut guest = hello.answer(&mine);
        until(|| is_readable(&callers).then_some(()));
        assert_eq!(until(|| call.poll(&callers).unwrap()), mine);
        assert_eq!(guest.is_connected(), Ok(false));
        call.confirm();
        until(|| guest.is_connected().unwrap().then_some(()));
        drop(call);
        assert_eq!(guest.is_connected(), Ok(true), "what was said stays");
        until(|| {
            assert!(!door.is_called() || door.next().is_none());
            stray.poll(&callers).err().and(lost.poll(&callers).err())
        });
    }
}

#[test]
fn a_door_goes_with_its_owner() {
    let card = Card::from_bytes([0; Card::LENGTH]);
    for open in [false, true] {
        let [door, callers] = [0, 1].map(|rank| Door::open(contact(rank), open).unwrap());
        let own = door.own();
        let mut call = Call::new(&own, own, &card);
        assert_eq!(call.poll(&callers), Ok(None));
        drop(door);
        until(|| call.poll(&callers).err());
        let mut late = Call::new(&own, own, &card);
        until(|| late.poll(&callers).err());
    }
}

/// Callers that say nothing keep few descriptors, and others get in behind them.
#[test]
fn silent_callers_are_few_and_do_not_stay() {
    let (card, caller) = (Card::from_bytes([1; Card::LENGTH]), contact(1));
    let callers = Door::open(contact(2), false).unwrap();
    for open in [false, true] {
        let mut door = Door::open(contact(0), open).unwrap();
        let own = door.own();
        let silent = Call::new(&caller, own, &card);
        let silent: Vec<_> = (0..3 * CALLERS).map(|_| silent.connect().unwrap()).collect();
        let mut call = Call::new(&caller, own, &card);
        until(|| {
            assert!(!door.is_called());
            (door.callers.len() == CALLERS).then_some(())
        });
        // Time goes by.
        until(|| {
            assert!(door.callers.len() <= CALLERS);
            let _ = call.poll(&callers).unwrap();
            door.let_in(Instant::now() + HURRY);
            door.is_called().then_some(())
        });
        door.let_in(Instant::now() + PATIENCE + PATIENCE);
        assert!(door.callers.len() <= CALLERS);
        assert_eq!(door.next().unwrap().from, caller.without_key());
        drop(silent);
    }
}

/// A caller that was dropped because it took long calls again.
#[test]
fn a_caller_that_computed_for_long_is_answered_in_the_end() {
    let [mine, theirs] = [1, 2].map(|byte| Card::from_bytes([byte; Card::LENGTH]));
    let mut door = Door::open(contact(0), true).unwrap();
    let callers = Door::open(contact(2), false).unwrap();
    let mut call = Call::new(&contact(1), door.own(), &theirs);
    for _ in 0..3 {
        until(|| {
            assert_eq!(call.poll(&callers), Ok(None));
            door.let_in(Instant::now());
            (!door.callers.is_empty()).then_some(())
        });
        door.callers.clear();
    }
    let hello = until(|| {
        assert_eq!(call.poll(&callers), Ok(None));
        door.is_called().then(|| door.next()).flatten()
    });
    let _guest = hello.answer(&mine);
    assert_eq!(until(|| call.poll(&callers).unwrap()), mine);
}
