//! One-sided communication: flushes, and epochs that pass a part from its owner to an origin and
//! back.

use strait_core::rma::{Attachment, AttachmentTable, Pair, Signal, find, flush};
use strait_core::sync::Ordering::Relaxed;
use strait_core::sync::{AtomicU64, UnsafeCell};
use strait_loom_tests::{Arc, model, model_in_full, thread};

/// Number of epochs in the models.
const EPOCHS: u64 = 2;

/// A part that its owner and one origin access alternately, and the signals between them.
struct Exposed {
    /// Signals at the origin.
    posts: Signal,
    /// Signals at the target.
    completions: Signal,
    part: UnsafeCell<u64>,
}

// SAFETY: the models check which thread may access the part; loom sees each access.
unsafe impl Sync for Exposed {}

impl Exposed {
    fn new() -> Self {
        Self { posts: Signal::new(), completions: Signal::new(), part: UnsafeCell::new(0) }
    }

    fn add(&self) -> u64 {
        // SAFETY: the calling thread is within its epoch.
        self.part.with_mut(|part| unsafe {
            *part += 1;
            *part
        })
    }
}

/// Polls a signal a few times.
fn look(mut is_there: impl FnMut() -> bool) -> bool {
    (0..2).any(|_| {
        let found = is_there();
        if !found {
            thread::yield_now();
        }
        found
    })
}

/// Runs the origin's epochs, as far as the target posts in time. Returns the number of epochs.
fn access(exposed: &Exposed) -> u64 {
    let mut pair = Pair::default();
    for epoch in 0..EPOCHS {
        pair.start();
        if !look(|| pair.is_posted(&exposed.posts)) {
            return epoch;
        }
        exposed.add();
        exposed.completions.raise(pair.complete());
    }
    EPOCHS
}

/// Runs the target's epochs, and adds before each. Returns the final number if all epochs were
/// completed.
fn expose(exposed: &Exposed) -> Option<u64> {
    let mut pair = Pair::default();
    let mut found = 0;
    for _ in 0..EPOCHS {
        exposed.add();
        exposed.posts.raise(pair.post());
        if !look(|| pair.is_completed(&exposed.completions)) {
            return None;
        }
        found = exposed.add();
    }
    Some(found)
}

#[test]
fn a_part_goes_to_its_origin_and_back() {
    model_in_full(|| {
        let exposed = Arc::new(Exposed::new());
        let origin = {
            let exposed = Arc::clone(&exposed);
            thread::spawn(move || access(&exposed))
        };
        let found = expose(&exposed);
        let epochs = origin.join().unwrap();
        assert!(found.is_none_or(|found| found == 3 * EPOCHS && epochs == EPOCHS));
    });
}

#[test]
fn two_origins_have_their_turns_in_parts_of_their_own() {
    model(|| {
        let parts = Arc::new([Exposed::new(), Exposed::new()]);
        let origins = [0, 1].map(|origin| {
            let parts = Arc::clone(&parts);
            thread::spawn(move || {
                let mut pair = Pair::default();
                pair.start();
                let posted = look(|| pair.is_posted(&parts[origin].posts));
                if posted {
                    parts[origin].add();
                }
                // An empty epoch is completed without a poll.
                parts[origin].completions.raise(pair.complete());
                posted
            })
        });
        let mut pairs = [Pair::default(); 2];
        for (pair, part) in pairs.iter_mut().zip(parts.iter()) {
            part.add();
            part.posts.raise(pair.post());
        }
        let completed: Vec<_> = pairs
            .iter()
            .zip(parts.iter())
            .map(|(pair, part)| look(|| pair.is_completed(&part.completions)).then(|| part.add()))
            .collect();
        for (origin, completed) in origins.into_iter().zip(completed) {
            let posted = origin.join().unwrap();
            assert!(completed.is_none_or(|found| found == 2 + u64::from(posted)));
        }
    });
}

#[test]
fn one_of_two_that_flush_sees_the_other() {
    model_in_full(|| {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let put_and_get = |words: &[AtomicU64; 2], own: usize| {
            words[own].store(1, Relaxed);
            flush();
            words[1 - own].load(Relaxed)
        };
        let other = {
            let words = Arc::clone(&words);
            thread::spawn(move || put_and_get(&words, 1))
        };
        let found = put_and_get(&words, 0) + other.join().unwrap();
        assert!(found > 0, "both read the old value");
    });
}

#[test]
fn who_sees_an_operation_after_a_flush_sees_those_before_it() {
    model_in_full(|| {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let origin = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                words[0].store(1, Relaxed);
                flush();
                words[1].store(1, Relaxed);
            })
        };
        if words[1].load(Relaxed) == 1 {
            flush();
            assert_eq!(words[0].load(Relaxed), 1);
        }
        origin.join().unwrap();
    });
}

/// A process that finds an attachment finds all of its fields.
#[test]
fn an_attachment_is_found_whole_or_not_at_all() {
    model(|| {
        let at = |address| Attachment { address, length: 16, place: address / 2, key: 3 };
        let table = Arc::new(AttachmentTable::default());
        let first = table.fill(at(64));
        let owner = {
            let table = Arc::clone(&table);
            thread::spawn(move || table.fill(at(128)))
        };
        let found = find(table.words(), 130, 8);
        assert!(found.is_none_or(|(found, _)| found == at(128)), "{found:?}");
        assert_eq!(find(table.words(), 64, 16).map(|(_, tag)| tag), first);
        let second = owner.join().unwrap();
        assert_eq!(find(table.words(), 143, 1), second.map(|tag| (at(128), tag)));
    });
}
