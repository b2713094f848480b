//! One-sided operations that do not wait: their requests, and the fate of requests without a wait.

use strait::{Assert, Error, Fault, Op, Window, WindowDesign, World, wait_all, wait_any};
use strait_tests::{Ranks, die, payload};

const ROOM: usize = 300_000;

/// Jobs: whether there are several nodes, their device, and the design of their windows.
const JOBS: [(bool, &str, &str); 5] = [
    (false, "soft-inline", "rdma"),
    (true, "soft-inline", "rdma"),
    (true, "soft-engine", "rdma"),
    (false, "soft-inline", "send_recv"),
    (true, "soft-inline", "send_recv"),
];

/// Starts several requests at once, of every length. Some are waited for, one is dropped, and one
/// is forgotten.
fn put_and_get(world: &World) {
    const LENGTHS: [usize; 6] = [0, 8, 4096, 4097, 50_000, 100_000];
    let endpoint = world.endpoint();
    let window = Window::builder(endpoint).allocate(LENGTHS.len() * ROOM).unwrap();
    let (me, other) = (world.rank(), 1 - world.rank());
    let id = |rank: u32, number: usize| u64::from(rank) << 32 | number as u64;
    let all = || LENGTHS.into_iter().enumerate();
    let data: Vec<_> = all().map(|(at, length)| payload::of(id(me, at), length)).collect();
    endpoint.scope(|scope| {
        let mut requests = Vec::new();
        for (at, data) in data.iter().enumerate() {
            requests.push(scope.rput(&window, data, other, at * ROOM).unwrap());
        }
        core::mem::forget(requests.pop());
        drop(requests.pop());
        let first = wait_any(&mut requests).unwrap().unwrap();
        assert!(requests[first].status().unwrap().is_some());
        wait_all(&mut requests).unwrap();
        for (request, length) in requests.into_iter().zip(LENGTHS) {
            let status = request.wait().unwrap();
            assert_eq!((status.source, status.bytes), (other, length));
        }
    });
    window.fence(Assert::NONE).unwrap();
    let mut found: Vec<_> = all().map(|(_, length)| vec![0_u8; length]).collect();
    for (at, found) in found.iter_mut().enumerate() {
        window.local().read(at * ROOM, found).unwrap();
        assert_eq!(payload::first_difference(id(other, at), found), None);
        found.fill(0);
    }
    endpoint.scope(|scope| {
        let mut requests = Vec::new();
        for (at, found) in found.iter_mut().enumerate() {
            requests.push(scope.rget(&window, found, other, at * ROOM).unwrap());
        }
        core::mem::forget(requests.pop());
        while !requests.iter_mut().all(|request| request.test().unwrap().is_some()) {}
    });
    for (at, found) in found.iter().enumerate() {
        assert_eq!(payload::first_difference(id(me, at), found), None);
    }
    window.fence(Assert::NONE).unwrap();
    endpoint.scope(|scope| {
        let request = scope.raccumulate(&window, &[1_u32, 2], other, ROOM, Op::Replace).unwrap();
        assert_eq!(request.wait().unwrap().bytes, 8);
        let (window, mut before) = (&window, [0_u32; 2]);
        let request = scope.rget_accumulate(window, &[5_u32, 5], &mut before, other, ROOM, Op::Sum);
        assert_eq!(request.unwrap().wait().unwrap().bytes, 8);
        assert_eq!(before, [1, 2]);
        let error = scope.rput(window, &[0_u8; 5000], other, 6 * ROOM - 4999).unwrap_err();
        assert!(error.to_string().contains("beyond the part"), "{error}");
    });
    window.free().unwrap();
}

#[test]
fn requests_are_over_when_their_bytes_have_moved() {
    for (spans, device, design) in JOBS {
        let job = Ranks::new(2, "requests_are_over_when_their_bytes_have_moved");
        let job = job.on_nodes(if spans { 2 } else { 1 });
        job.with("STRAIT_HCA", device).with("STRAIT_WINDOW", design).run(|world| {
            (0..3).for_each(|_| put_and_get(&world));
            world.finalize().unwrap();
        });
    }
}

/// A target dies while others put to it and get from it. Their requests fail, and the buffers are
/// released.
#[test]
fn requests_to_the_dead_fail() {
    for (spans, device, design) in JOBS {
        let job = Ranks::new(3, "requests_to_the_dead_fail").on_nodes(if spans { 3 } else { 1 });
        let job = job.with("STRAIT_HCA", device).with("STRAIT_WINDOW", design);
        job.with_deaths(&[1]).run(|world| {
            let endpoint = world.endpoint();
            let window = Window::builder(endpoint).over(vec![0_u8; ROOM]).unwrap();
            window.fence(Assert::NONE).unwrap();
            if world.rank() == 1 {
                // The death falls in the middle of the others' operations.
                while window.local().load::<u8>(7).unwrap() == 0 {
                    if window.design() == WindowDesign::SendRecv {
                        endpoint.progress().unwrap();
                    }
                }
                die();
            }
            // The first put kills the target. No survivor may still wait for it in the fence.
            let survivors = endpoint.group(&[0, 2]).unwrap();
            survivors.barrier().unwrap();
            let (data, mut found) = (vec![5_u8; ROOM], vec![0_u8; ROOM]);
            let error = loop {
                let moved = endpoint.scope(|scope| {
                    let put = scope.rput(&window, &data, 1, 0)?;
                    let get = scope.rget(&window, &mut found, 1, 0)?;
                    get.wait()?;
                    put.wait()
                });
                if let Err(error) = moved {
                    break error;
                }
            };
            let is_told = matches!(error, Error::Fault(Fault::PeerFailed { rank: 1, .. }));
            assert!(is_told, "{error}");
            // The other survivor is reachable as before.
            let other = 2 - world.rank();
            endpoint.scope(|scope| {
                scope.rput(&window, &data, other, 0).unwrap().wait().unwrap();
                scope.rget(&window, &mut found, other, 0).unwrap().wait().unwrap();
            });
            assert_eq!(found, data);
            survivors.barrier().unwrap();
            drop(survivors);
            assert!(window.free().is_err());
            world.finalize().unwrap();
        });
    }
}
