//! Sends a greeting from every rank but 0. Rank 0 prints the greetings in the order of the ranks.

use strait::{Error, World};

const GREETING: strait::Tag = 1;

fn main() -> Result<(), Error> {
    let world = World::init()?;
    let endpoint = world.endpoint();
    if world.rank() == 0 {
        let mut greeting = [0_u8; 64];
        for source in 1..world.size() {
            let status = endpoint.recv(&mut greeting, source, GREETING)?;
            println!("{}", String::from_utf8_lossy(&greeting[..status.bytes]));
        }
    } else {
        let greeting = format!("hello from rank {} of {}", world.rank(), world.size());
        endpoint.send(greeting.as_bytes(), 0, GREETING)?;
    }
    world.finalize()
}
