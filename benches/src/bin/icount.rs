//! The program whose instructions are counted: `docs/instruction-count.md` has the method.
//!
//! Two ranks in one process and one thread, so that a message has always arrived before its receive begins. After a
//! warm-up each operation is called [`CALLS`] times through a function of its own, which callgrind counts.

use std::hint::black_box;

use strait::{Endpoint, World};

/// Counted calls of each operation; the gate divides by it.
const CALLS: u64 = 1000;

/// One blocking send of 8 bytes.
#[inline(never)]
#[unsafe(no_mangle)]
fn strait_icount_send(endpoint: &Endpoint<'_>, data: &[u64; 1]) {
    if endpoint.send(data, 1, 7).is_err() {
        std::process::abort();
    }
}

/// One blocking receive of 8 bytes that have arrived.
#[inline(never)]
#[unsafe(no_mangle)]
fn strait_icount_recv(endpoint: &Endpoint<'_>, data: &mut [u64; 1]) {
    if endpoint.recv(data, 0, 7).is_err() {
        std::process::abort();
    }
}

fn main() -> Result<(), strait::Error> {
    let worlds = World::in_process(2)?;
    let [sender, receiver] = [worlds[0].endpoint(), worlds[1].endpoint()];
    let mut received = [0];
    for number in 0..1000 {
        sender.send(&[number], 1, 7)?;
        receiver.recv(&mut received, 0, 7)?;
    }
    for number in 0..CALLS {
        strait_icount_send(black_box(&sender), black_box(&[number]));
        strait_icount_recv(black_box(&receiver), black_box(&mut received));
        assert_eq!(received, [number]);
    }
    Ok(())
}
