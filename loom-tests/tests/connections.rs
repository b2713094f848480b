//! The words of a connection between software devices: the owner of an end connects it while peers
//! look at it and break it.

use strait_core::hca::fabric::{ConnectionEnd, EndId, EndState};
use strait_loom_tests::{Arc, model, model_in_full, thread};

const PEER: EndId = EndId { rank: 3, index: 5, generation: 8 };
const GENERATION: u32 = 2;

/// Connects the end as its owner does.
fn connect(end: &ConnectionEnd, generation: u32) {
    end.set(generation, EndState::Open);
    end.set_peer(PEER);
    end.set(generation, EndState::Connected);
}

/// Looks at the end as a peer does that connects to it.
fn look(end: &ConnectionEnd) {
    match end.stage(GENERATION) {
        EndState::Open | EndState::Closed => {}
        EndState::Connected | EndState::Broken => assert!(end.is_peer(PEER), "not its peer"),
    }
}

#[test]
fn an_end_that_is_connected_has_its_peer() {
    model_in_full(|| {
        let end = Arc::new(ConnectionEnd::closed());
        let owner = {
            let end = Arc::clone(&end);
            thread::spawn(move || connect(&end, GENERATION))
        };
        look(&end);
        owner.join().unwrap();
        assert_eq!(end.stage(GENERATION), EndState::Connected);
    });
}

/// A device breaks the end as soon as it is connected. A look that finds it broken finds its
/// peer, too.
#[test]
fn an_end_that_is_broken_has_its_peer() {
    model(|| {
        let end = Arc::new(ConnectionEnd::closed());
        let owner = {
            let end = Arc::clone(&end);
            thread::spawn(move || connect(&end, GENERATION))
        };
        let breaker = {
            let end = Arc::clone(&end);
            thread::spawn(move || end.shatter(GENERATION))
        };
        look(&end);
        owner.join().unwrap();
        breaker.join().unwrap();
        let left = end.stage(GENERATION);
        assert!(matches!(left, EndState::Connected | EndState::Broken), "{left:?}");
    });
}
