//! Exchanges messages with both neighbours in a ring, by non-blocking calls.

use strait::{Error, World, wait_all};

fn main() -> Result<(), Error> {
    let world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let (mine, mut from_left, mut from_right) = ([rank; 1000], [0; 1000], [0; 1000]);
    world.endpoint().scope(|scope| {
        let mut requests = [
            scope.irecv(&mut from_left, left, 0)?,
            scope.irecv(&mut from_right, right, 0)?,
            scope.isend(&mine, left, 0)?,
            scope.isend(&mine, right, 0)?,
        ];
        // Here the program computes what needs no neighbour.
        wait_all(&mut requests)
    })?;
    println!("rank {rank} is between {} and {}", from_left[0], from_right[0]);
    world.finalize()
}
