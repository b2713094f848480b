//! Members that share the lock of two modes, beside one that wants it alone and beside a migration.

use strait_core::lock::{
    FixedMode, Follow, LockMode,
    LockType::{Exclusive, Shared},
    MigrationStep,
};
use strait_loom_tests::{Arc, TwoModes, had, model, thread};

/// A rank of the node shares the lock while the manager moves it to the network for a member that
/// wants it alone. The manager waits until no member shares the lock, and sees what they did.
#[test]
fn a_sharer_of_the_node_holds_up_a_migration() {
    model(|| {
        let lock = Arc::new(TwoModes::new(LockMode::Cpu));
        let neighbour = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || lock.want_by(&mut Follow, Shared, 1, true))
        };
        let times = u32::from(lock.migrate(1));
        neighbour.join().unwrap();
        lock.judge(times);
    });
}

/// The manager moves the lock for a member that shares it, while a rank of the node takes it alone.
#[test]
fn a_migration_for_a_sharer_comes_before_or_after_a_holder() {
    model(|| {
        let lock = Arc::new(TwoModes::new(LockMode::Cpu));
        let neighbour = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || had(lock.want(1, true)))
        };
        let step = lock.try_to_migrate(Shared, 1);
        assert!(matches!(step, MigrationStep::Granted(_) | MigrationStep::Blocked(_)), "{step:?}");
        lock.judge(neighbour.join().unwrap());
    });
}

/// A rank of another node shares the lock in network mode while a rank of the node moves it to CPU
/// mode.
#[test]
fn a_sharer_of_another_node_holds_up_a_move_to_the_processors() {
    model(|| {
        let lock = Arc::new(TwoModes::new(LockMode::Network));
        let remote = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || lock.want_by(&mut Follow, Shared, 2, false))
        };
        let times = had(lock.want(1, true));
        remote.join().unwrap();
        lock.judge(times);
    });
}

/// A rank of the node shares the lock in network mode, by its device, while a rank of another node
/// takes it alone.
#[test]
fn a_sharer_and_a_holder_of_two_nodes_exclude_each_other_in_network_mode() {
    model(|| {
        let lock = Arc::new(TwoModes::new(LockMode::Network));
        let neighbour = {
            let lock = Arc::clone(&lock);
            let mut pinned = FixedMode(LockMode::Network);
            thread::spawn(move || lock.want_by(&mut pinned, Shared, 1, true))
        };
        let mut pinned = FixedMode(LockMode::Network);
        let times = had(lock.want_by(&mut pinned, Exclusive, 2, false));
        neighbour.join().unwrap();
        lock.judge(times);
    });
}
