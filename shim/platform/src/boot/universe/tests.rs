//! Universes of keys that only the tests have.

use core::time::Duration;
use std::process::Command;

use super::*;

/// Returns a key that no other process and no other test has.
fn key(test: &str) -> String {
    format!("test-{}-{test}", std::process::id())
}

#[test]
fn processes_with_one_key_share_a_universe_and_have_ranks_of_their_own() {
    let first = Universe::enter(&key("same"), 3).unwrap();
    let second = Universe::enter(&key("same"), 3).unwrap();
    let other = Universe::enter(&key("other"), 3).unwrap();
    assert_eq!(first.nonce(), second.nonce());
    assert_ne!(first.nonce(), other.nonce());
    let ranks = [first.claim(), second.claim(), other.claim()];
    assert_eq!(ranks.map(Result::unwrap), [0, 1, 0]);
}

/// A process that finds room keeps it, however many others come before it opens its port.
#[test]
fn a_rank_is_claimed_on_entry() {
    let entered: Vec<_> = (0..7).map(|_| Universe::enter(&key("entry"), 3).unwrap()).collect();
    let ranks: Vec<_> = entered.iter().map(|universe| universe.claim().unwrap()).collect();
    assert_eq!(ranks, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn a_universe_that_is_full_is_followed_by_another() {
    let full = Universe::enter(&key("full"), 1).unwrap();
    assert_eq!(full.claim().unwrap(), 0);
    let error = full.claim().unwrap_err().to_string();
    assert!(error.contains("STRAIT_UNIVERSE"), "{error}");
    let next = Universe::enter(&key("full"), 1).unwrap();
    assert_ne!(next.nonce(), full.nonce());
}

#[test]
fn a_universe_ends_with_the_process_that_made_it() {
    let nonce = Universe::enter(&key("gone"), 2).unwrap().nonce();
    assert_ne!(Universe::enter(&key("gone"), 2).unwrap().nonce(), nonce);
}

#[test]
fn processes_that_enter_at_once_have_ranks_of_their_own() {
    let enter = || Universe::enter(&key("at-once"), 3).unwrap();
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(enter)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut places: Vec<_> = all.iter().map(|it| (it.nonce(), it.claim().unwrap())).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), all.len());
}

#[test]
fn an_entry_of_a_process_that_has_ended_or_never_had_the_segment_is_stale() {
    let entry = |process| UniverseEntry { key: key("stale"), process, nonce: 7 };
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    assert!(!entry(child.id()).may_be_open(), "it has ended");
    let own = entry(std::process::id());
    assert!(!own.may_be_open(), "it has no such file");
    let _file = segment::named_memfd(&file_name(&own.key, own.nonce)).unwrap();
    assert!(own.may_be_open());
}

/// The registry is a hint: a process may have a file of that name that is no segment.
#[test]
fn a_file_that_is_no_segment_is_an_error_and_the_registry_stays_usable() {
    let parent = tempfile::tempdir().unwrap();
    let open = || {
        let directory = parent.path().join("strait-test");
        LockedRegistry::open_in([directory].into_iter(), Duration::from_secs(1)).unwrap()
    };
    let false_one = UniverseEntry { key: key("false"), process: std::process::id(), nonce: 7 };
    let file = segment::named_memfd(&file_name(&false_one.key, false_one.nonce)).unwrap();
    let mut registry = open();
    registry.registry.entries.push(false_one.clone());
    let error = Universe::enter_at(&mut registry, &false_one.key, 3).unwrap_err();
    assert!(matches!(error, BootError::Segment(_)), "{error}");
    registry.close().unwrap();
    drop(file);
    let mut registry = open();
    let universe = Universe::enter_at(&mut registry, &false_one.key, 3).unwrap();
    let entries = &registry.registry.entries;
    assert!(entries.len() == 1 && entries[0].nonce == universe.nonce(), "the false one is gone");
}
