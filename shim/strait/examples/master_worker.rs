//! Rank 0 gives numbers to the other ranks, one at a time, and each returns its number of steps in
//! the Collatz sequence. A receive from any source serves the worker that is free first.

use strait::{ANY_TAG, Endpoint, Error, Source, World};

const TASK: strait::Tag = 1;
const RESULT: strait::Tag = 2;
const STOP: strait::Tag = 3;

/// The data of a message that has none.
const NOTHING: [u64; 0] = [];

/// The numbers to examine.
const TASKS: core::ops::Range<u64> = 1..1000;

fn collatz_steps(mut number: u64) -> u64 {
    let mut steps = 0;
    while number != 1 {
        number = if number.is_multiple_of(2) { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}

fn give_out(endpoint: &Endpoint<'_>, workers: u32) -> Result<(), Error> {
    let mut tasks = TASKS;
    let mut longest = (0, 0);
    let mut busy = 0;
    for worker in 1..=workers {
        if let Some(task) = tasks.next() {
            endpoint.send(&[task], worker, TASK)?;
            busy += 1;
        } else {
            endpoint.send(&NOTHING, worker, STOP)?;
        }
    }
    while busy > 0 {
        let mut result = [0_u64; 2];
        let status = endpoint.recv(&mut result, Source::Any, RESULT)?;
        longest = longest.max((result[1], result[0]));
        match tasks.next() {
            Some(task) => endpoint.send(&[task], status.source, TASK)?,
            None => {
                endpoint.send(&NOTHING, status.source, STOP)?;
                busy -= 1;
            }
        }
    }
    println!("{} takes {} steps, the most of {TASKS:?}", longest.1, longest.0);
    Ok(())
}

fn work(endpoint: &Endpoint<'_>) -> Result<(), Error> {
    loop {
        let mut task = [0_u64];
        if endpoint.recv(&mut task, 0, ANY_TAG)?.tag == STOP {
            return Ok(());
        }
        endpoint.send(&[task[0], collatz_steps(task[0])], 0, RESULT)?;
    }
}

fn main() -> Result<(), Error> {
    let world = World::init()?;
    let endpoint = world.endpoint();
    match world.rank() {
        0 => give_out(&endpoint, world.size() - 1)?,
        _ => work(&endpoint)?,
    }
    world.finalize()
}
