//! Sends two numbers from rank 0 to rank 1.

use strait::{Error, World};

fn main() -> Result<(), Error> {
    let world = World::init()?;
    let endpoint = world.endpoint();
    if world.rank() == 0 {
        endpoint.send(&[3.5_f64, 4.5], 1, 7)?;
    } else if world.rank() == 1 {
        let mut numbers = [0.0; 2];
        let status = endpoint.recv(&mut numbers, 0, 7)?;
        println!("{} bytes from rank {}: {numbers:?}", status.bytes, status.source);
    }
    world.finalize()
}
