//! The liveness word: what a peer knows of a rank once it knows the rank's stage.

use strait_core::layout::{Life, Liveness};
use strait_core::shm::RecvQueue;
use strait_loom_tests::{Arc, Owner, Pool, model_in_full, thread};

/// A rank, and the queue of the peer that it sends to.
struct Shared {
    liveness: Liveness,
    queue: RecvQueue,
    pool: Pool,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            liveness: Liveness::unborn(),
            queue: RecvQueue::empty(),
            pool: Pool::new(1, 2),
        })
    }
}

#[test]
fn each_rank_knows_which_ranks_live() {
    model_in_full(|| {
        let liveness = Arc::new(Liveness::unborn());
        let rank = {
            let liveness = Arc::clone(&liveness);
            thread::spawn(move || liveness.attach(17, 42))
        };
        for _ in 0..2 {
            match liveness.state() {
                Life::Unborn => {}
                Life::Alive => assert_eq!(liveness.process(), (17, 42)),
                ended => panic!("the rank never ended, and is {ended:?}"),
            }
        }
        rank.join().unwrap();
        assert_eq!((liveness.state(), liveness.process()), (Life::Alive, (17, 42)));
    });
}

#[test]
fn who_sees_the_end_finds_all_that_was_sent() {
    model_in_full(|| {
        let shared = Shared::new();
        let rank = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let Shared { liveness, queue, pool } = &*shared;
                liveness.attach(17, 42);
                let mut owner = Owner::new(pool, 0);
                for sequence in 0..2 {
                    let cell = owner.take(pool).unwrap();
                    pool.write(cell, 0, sequence);
                    queue.enqueue(pool, cell).unwrap();
                }
                liveness.end(Life::Finished);
            })
        };
        let Shared { liveness, queue, pool } = &*shared;
        for _ in 0..2 {
            if liveness.state() == Life::Finished {
                for sequence in 0..2 {
                    let cell = queue
                        .dequeue(pool)
                        .unwrap()
                        .expect("a message sent before the end is lost");
                    assert_eq!(pool.read(cell), (0, sequence));
                }
                break;
            }
        }
        rank.join().unwrap();
        assert_eq!(liveness.state(), Life::Finished);
    });
}

#[test]
fn a_rank_that_left_is_not_dead() {
    model_in_full(|| {
        let liveness = Arc::new(Liveness::unborn());
        liveness.attach(17, 42);
        let ends = [Life::Finished, Life::Dead].map(|how| {
            let liveness = Arc::clone(&liveness);
            thread::spawn(move || liveness.end(how))
        });
        for end in ends {
            end.join().unwrap();
        }
        assert_eq!(liveness.state(), Life::Finished);
    });
}
