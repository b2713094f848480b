//! Jobs inside this process: a thread for each rank, or one thread for all of them.

use core::mem::ManuallyDrop;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use strait::boot::SegmentConfig;
use strait::{Nodes, Rendezvous, Transfer, Tuning, World};

const LIMIT: Duration = Duration::from_secs(60);

/// Runs `body` on a thread for each rank of a job of this shape. A rank that fails or hangs fails
/// the test. The threads of its peers are then abandoned, since they cannot be ended.
///
/// # Panics
///
/// When a rank fails, or the job takes more than a minute.
pub fn threads(config: SegmentConfig, body: impl Fn(World) + Send + Sync + 'static) {
    threads_on(config, &Nodes::one(config.ranks), body);
}

/// Runs `body` on a thread for each rank, as if the ranks were on these nodes.
///
/// # Panics
///
/// When a rank fails, or the job takes more than a minute.
pub fn threads_on(
    config: SegmentConfig,
    nodes: &Nodes,
    body: impl Fn(World) + Send + Sync + 'static,
) {
    let body = Arc::new(body);
    let (says, heard) = mpsc::channel();
    let job = World::builder().segment(config).nodes(nodes.clone());
    for world in job.in_process(config.ranks).expect("memory for the job") {
        let (says, body) = (says.clone(), Arc::clone(&body));
        thread::spawn(move || {
            let rank = world.rank();
            let ended = catch_unwind(AssertUnwindSafe(|| body(world)));
            // The receiver is gone if another rank failed first.
            let _ = says.send((rank, ended.is_ok()));
        });
    }
    let deadline = Instant::now() + LIMIT;
    let mut running: Vec<u32> = (0..config.ranks).collect();
    while !running.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok((rank, well)) = heard.recv_timeout(left) else {
            panic!("ranks {running:?} hang");
        };
        assert!(well, "rank {rank} failed");
        running.retain(|other| *other != rank);
    }
}

/// Runs `body` with all worlds of a job of this shape on one thread, which decides the order of
/// their progress.
///
/// # Panics
///
/// When `body` fails, or takes more than a minute.
pub fn in_one_thread(config: SegmentConfig, body: impl FnOnce(&[World]) + Send + 'static) {
    let (says, heard) = mpsc::channel();
    thread::spawn(move || {
        // A world that fails must not wait for peers that will never poll again.
        let worlds =
            World::builder().segment(config).in_process(config.ranks).expect("memory for the job");
        let worlds = ManuallyDrop::new(worlds);
        let ended = catch_unwind(AssertUnwindSafe(|| body(&worlds)));
        if ended.is_ok() {
            drop(ManuallyDrop::into_inner(worlds));
        }
        let _ = says.send(ended.is_ok());
    });
    match heard.recv_timeout(LIMIT) {
        Ok(well) => assert!(well, "the body failed"),
        Err(_) => panic!("the body hangs"),
    }
}

/// Runs `body` in both ranks of a node, once for each transfer of large messages. Every other run
/// requests them by RTRs.
///
/// # Panics
///
/// When a rank fails, or the job takes more than a minute.
pub fn by_each_transfer(body: fn(&World)) {
    let rendezvous = [Rendezvous::Plain, Rendezvous::Speculative];
    for (transfer, rendezvous) in Transfer::ALL.into_iter().zip(rendezvous.into_iter().cycle()) {
        threads_on(SegmentConfig::new(2), &Nodes::one(2), move |world| {
            world.retune(Tuning { transfer, rendezvous, ..world.tuning() });
            body(&world);
            world.finalize().expect("the world ends");
        });
    }
}
