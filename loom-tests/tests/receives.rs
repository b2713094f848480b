//! The receives that a rank has posted at its software device, and the ranks that send to it.

use strait_core::hca::fabric::{ReceiveBuffer, ReceiveResult, ReceiveSlot, Receives, Use};
use strait_core::sync::UnsafeCell;
use strait_loom_tests::{Arc, model, model_in_full, thread};

/// One rank's receives. The base that a slot lends is an index into `memory`.
struct Shared {
    receives: Receives,
    slots: [ReceiveSlot; 2],
    memory: [UnsafeCell<u32>; 3],
}

// SAFETY: the models check which thread owns a place of the memory; loom sees each access.
unsafe impl Sync for Shared {}

/// Returns what sender `rank` writes.
const fn message(rank: u32) -> u32 {
    100 + rank
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            receives: Receives::none(),
            slots: [ReceiveSlot::free(), ReceiveSlot::free()],
            memory: [UnsafeCell::new(0), UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    /// Posts receive `number`, which lends the place of that number.
    fn post(&self, number: u32) {
        self.receives.post(
            &self.slots,
            number,
            ReceiveBuffer { base: number.into(), length: 4, key: 1 },
        );
    }

    /// Sends one message if there is a receive and the lock is free within two polls.
    fn send(&self, rank: u32) -> bool {
        for _ in 0..2 {
            if self.receives.lock().try_acquire(rank).is_ok() {
                let taken = self.receives.take(&self.slots, rank, 10 + rank);
                self.receives.lock().release(rank);
                if let Some((at, lent)) = taken {
                    assert_eq!((lent.length, lent.key), (4, 1), "what an earlier receive lent");
                    // SAFETY: this sender took the slot.
                    self.memory[lent.base as usize]
                        .with_mut(|place| unsafe { *place = message(rank) });
                    self.slots[at].complete(ReceiveResult::Message, 4, 0);
                    return true;
                }
            }
            thread::yield_now();
        }
        false
    }

    /// Takes the message of receive `number`, if it has arrived, and returns its sender.
    fn look(&self, number: u32) -> Option<u32> {
        let slot = &self.slots[number as usize % self.slots.len()];
        if slot.state() != Use::Done {
            return None;
        }
        assert_eq!(slot.outcome(), Some((ReceiveResult::Message, 4, 0)));
        let rank = slot.connection() - 10;
        // SAFETY: the receive is complete.
        self.memory[number as usize].with(|place| assert_eq!(unsafe { *place }, message(rank)));
        slot.take_back();
        Some(rank)
    }
}

#[test]
fn a_message_is_there_when_it_is_said_to_be() {
    model_in_full(|| {
        let shared = Shared::new();
        shared.post(0);
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.send(1))
        };
        let mut early = shared.look(0);
        if early.is_none() {
            thread::yield_now();
            early = shared.look(0);
        }
        let sent = sender.join().unwrap();
        let came = early.or_else(|| shared.look(0));
        assert_eq!(came, sent.then_some(1));
    });
}

/// Three receives in two slots: the first slot is lent again while messages arrive.
#[test]
fn a_slot_is_lent_again() {
    model_in_full(|| {
        let shared = Shared::new();
        shared.post(0);
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || [shared.send(1), shared.send(1), shared.send(1)])
        };
        shared.post(1);
        let first = shared.look(0);
        if first.is_some() {
            shared.post(2);
        }
        let sent = sender.join().unwrap().into_iter().filter(|sent| *sent).count();
        let first = first.or_else(|| shared.look(0));
        let posted = shared.look(1).into_iter().chain(first);
        let came = posted.count();
        // Slot 0 was lent again only if its first message had been taken out.
        let third = if sent > came { shared.look(2) } else { None };
        assert_eq!(came + usize::from(third.is_some()), sent, "a message is lost");
    });
}

#[test]
fn two_senders_take_two_receives() {
    model(|| {
        let shared = Shared::new();
        shared.post(0);
        shared.post(1);
        let senders = [1, 2].map(|rank| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.send(rank))
        });
        let early = [shared.look(0), shared.look(1)];
        let sent = senders.map(|sender| sender.join().unwrap());
        let late = [0, 1].map(|number| early[number as usize].or_else(|| shared.look(number)));
        for (rank, sent) in [1, 2].into_iter().zip(sent) {
            let came = late.iter().filter(|from| **from == Some(rank)).count();
            assert_eq!(came, usize::from(sent), "rank {rank}: {late:?}");
        }
    });
}
