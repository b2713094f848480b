//! Passes a token around a ring of ranks. Each rank adds its number.

use strait::{Error, World};

const TOKEN: strait::Tag = 1;

fn main() -> Result<(), Error> {
    let world = World::init()?;
    let endpoint = world.endpoint();
    let (rank, size) = (world.rank(), world.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);

    let mut token = [0_u64];
    if rank == 0 {
        endpoint.sendrecv(&[0_u64], right, TOKEN, &mut token, left, TOKEN)?;
        println!("the token went through {size} ranks; the sum of their numbers is {}", token[0]);
    } else {
        endpoint.recv(&mut token, left, TOKEN)?;
        endpoint.send(&[token[0] + u64::from(rank)], right, TOKEN)?;
    }
    world.finalize()
}
