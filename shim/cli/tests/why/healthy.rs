//! A job that goes on for ever, with every kind of wait. All ranks draw the same kinds of traffic,
//! and each computes for as long as it draws.

use core::time::Duration;

use strait::{Assert, LockType, Source, Window, World, wait_any};

/// A generator of numbers, the same on all ranks with the same seed.
struct Draw(u64);

impl Draw {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.0 >> 33
    }
}

/// Communicates until the process is killed.
pub(crate) fn go_on(world: &World) {
    let window = Window::builder(world.endpoint()).unit(8).allocate(64).unwrap();
    let (mut agreed, mut own) = (Draw(7), Draw(u64::from(world.rank())));
    loop {
        // Most pauses are short; some last longer than a wait needs to be recorded.
        let millis = own.next() % 100;
        std::thread::sleep(Duration::from_millis(if millis < 90 { millis / 30 } else { millis }));
        match agreed.next() % 6 {
            0 => world.endpoint().barrier().unwrap(),
            1 => pass_on(world, 8),
            2 => pass_on(world, 300_000),
            3 => gather(world),
            4 => pass_on_by_requests(world),
            _ => count(world, &window),
        }
    }
}

/// Each rank sends to the next one. The first rank sends first.
fn pass_on(world: &World, bytes: usize) {
    let (rank, size, endpoint) = (world.rank(), world.size(), world.endpoint());
    let (next, last) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut found = vec![0_u8; bytes];
    if rank == 0 {
        endpoint.send(&found, next, 7).unwrap();
        endpoint.recv(&mut found, last, 7).unwrap();
    } else {
        endpoint.recv(&mut found, last, 7).unwrap();
        endpoint.send(&found, next, 7).unwrap();
    }
}

/// All ranks send to the first one, which takes the messages in the order of their arrival.
fn gather(world: &World) {
    let endpoint = world.endpoint();
    if world.rank() == 0 {
        for _ in 1..world.size() {
            endpoint.recv(&mut [0_u8; 8], Source::Any, 9).unwrap();
        }
    } else {
        endpoint.send(&[0_u8; 8], 0, 9).unwrap();
    }
}

/// Each rank sends to both neighbours, and waits for the receives from them in any order.
fn pass_on_by_requests(world: &World) {
    let (rank, size, endpoint) = (world.rank(), world.size(), world.endpoint());
    let (next, last) = ((rank + 1) % size, (rank + size - 1) % size);
    let (data, mut one, mut two) = ([0_u8; 40_000], [0_u8; 40_000], [0_u8; 40_000]);
    let exchanged = endpoint.scope(|scope| {
        let mut all = [
            scope.irecv(&mut one, next, 11)?,
            scope.irecv(&mut two, last, 12)?,
            scope.isend(&data, last, 11)?,
            scope.isend(&data, next, 12)?,
        ];
        while wait_any(&mut all)?.is_some() {}
        Ok::<(), strait::Error>(())
    });
    exchanged.unwrap();
}

/// Each rank adds to a number of the first one, under its lock.
fn count(world: &World, window: &Window<'_>) {
    window.lock(LockType::Exclusive, 0, Assert::NONE).unwrap();
    let mut found = [0_u64];
    window.get(&mut found, 0, 0).unwrap();
    window.put(&[found[0] + u64::from(world.rank())], 0, 0).unwrap();
    window.unlock(0).unwrap();
}

/// The first rank sends short messages, and the second one receives them.
pub(crate) fn send_one_way(world: &World) {
    let endpoint = world.endpoint();
    loop {
        for _ in 0..10 {
            match world.rank() {
                0 => endpoint.send(&[0_u8; 8], 1, 7).unwrap(),
                _ => drop(endpoint.recv(&mut [0_u8; 8], 0, 7).unwrap()),
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Two ranks send short messages in turn.
pub(crate) fn send_in_turn(world: &World) {
    loop {
        pass_on(world, 8);
        std::thread::sleep(Duration::from_micros(100));
    }
}
