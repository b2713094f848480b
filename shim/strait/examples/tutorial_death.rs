//! Goes on without a rank that dies.

use strait::{Error, ErrorKind, Op, World};

fn main() -> Result<(), Error> {
    let world = World::init()?;
    let endpoint = world.endpoint();
    if world.rank() == 1 {
        std::process::exit(7); // It ends without `finalize`, as in a crash.
    }
    let mut living = vec![0; world.size() as usize];
    if world.rank() == 0 {
        living.truncate(1);
        for rank in 1..world.size() {
            match endpoint.recv(&mut [0_u8], rank, 1) {
                Ok(_) => living.push(rank),
                Err(error) if error.kind() == ErrorKind::PeerFailed => println!("{error}"),
                Err(error) => return Err(error),
            }
        }
        living[1..].iter().try_for_each(|rank| endpoint.send(&living, *rank, 2))?;
    } else {
        endpoint.send(&[1_u8], 0, 1)?;
        let status = endpoint.recv(&mut living, 0, 2)?;
        living.truncate(status.count::<u32>().unwrap_or(0));
    }
    let group = endpoint.group(&living)?;
    let mut sum = [world.rank()];
    group.allreduce(&mut sum, Op::Sum)?;
    if world.rank() == 0 {
        println!("ranks {living:?} go on; the sum of their numbers is {}", sum[0]);
    }
    drop(group);
    world.finalize()
}
