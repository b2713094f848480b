//! What the conformance suite cannot reach: files that are no fabric, ranks that are none, addresses of other fabrics.

use super::*;

fn refused(file: &OwnedFd, rank: u32) -> FabricError {
    SoftHca::attach(file, rank, Mode::Inline).map(|_| ()).unwrap_err()
}

#[test]
fn a_rank_attaches_once_and_only_if_there_is_one() {
    let file = Fabric::create(2).unwrap();
    let device = SoftHca::attach(&file, 1, Mode::Inline).unwrap();
    assert_eq!(refused(&file, 1), FabricError::Taken { rank: 1 });
    assert_eq!(refused(&file, 2), FabricError::Rank { rank: 2, ranks: 2 });
    drop(device);
    assert_eq!(refused(&file, 1), FabricError::Taken { rank: 1 });
}

#[test]
fn a_foreign_file_is_refused() {
    let segment = crate::segment::SegmentMap::create(strait_core::layout::Config::new(1), 1);
    let file = segment.unwrap().fd().try_clone_to_owned().unwrap();
    assert_eq!(refused(&file, 0), FabricError::NotAFabric);
    let file = crate::segment::new_memfd().unwrap();
    assert_eq!(refused(&file, 0), FabricError::NotAFabric);
    assert_eq!(Fabric::create(0).unwrap_err(), FabricError::Ranks { ranks: 0 });
}

#[test]
fn an_address_of_another_fabric_is_refused() {
    let attach = || {
        let file = Fabric::create(2).unwrap();
        [0, 1].map(|rank| SoftHca::attach(&file, rank, Mode::Inline).unwrap())
    };
    let ([mut ours, _], [_, mut theirs]) = (attach(), attach());
    let (connection, _) = ours.open(1).unwrap();
    let (_, address) = theirs.open(0).unwrap();
    let refused = ours.connect(connection, &address).unwrap_err();
    assert!(matches!(refused, HcaError::Unreachable { .. }), "{refused:?}");
    let refused = ours.connect(connection, &Address([0; Address::LENGTH])).unwrap_err();
    assert!(matches!(refused, HcaError::Unreachable { .. }), "{refused:?}");
}

#[test]
fn a_lock_is_taken_from_the_dead_and_from_nobody_else() {
    use std::process::{Command, Stdio};

    use strait_core::layout::Liveness;

    let mut child =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let liveness = Liveness::unborn();
    liveness.attach(child.id(), start_time(&child.id().to_string()).unwrap());
    let lock = lock::Lock::default();
    core::mem::forget(lock.acquire(7, |_| None));
    let taken = core::sync::atomic::AtomicBool::new(false);
    let order = core::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = lock.acquire(3, |rank| (rank == 7).then_some(&liveness));
            taken.store(true, order);
        });
        for _ in 0..10_000 {
            std::thread::yield_now();
        }
        assert!(!taken.load(order), "its holder lives");
        child.kill().unwrap();
        child.wait().unwrap();
    });
    assert!(taken.load(order));
    drop(lock.acquire(1, |_| None));
}
