//! Receives that are posted before their large messages are sent. A later run that follows the
//! profile of an earlier one asks for the first message, too:
//! `strait tune --profile DIR strait run -n 2 posted_first`.

use strait::{Error, Tag, World};

/// Number of values of a message: 512 KiB.
const VALUES: usize = 64 << 10;
const READY: Tag = 1;
const DATA: Tag = 2;
const MESSAGES: u32 = 10;

fn main() -> Result<(), Error> {
    let world = World::init()?;
    let endpoint = world.endpoint();
    let mut values = vec![0.0; VALUES];
    for number in 0..MESSAGES {
        match world.rank() {
            0 => {
                endpoint.recv(&mut [0_u8], 1, READY)?;
                values.fill(f64::from(number));
                endpoint.send(&values, 1, DATA)?;
            }
            1 => endpoint.scope(|scope| {
                let request = scope.irecv(&mut values, 0, DATA)?;
                endpoint.send(&[0_u8], 0, READY)?;
                request.wait().map(drop)
            })?,
            _ => {}
        }
    }
    if world.rank() == 1 {
        let asked = world.rtrs().sent;
        println!("{asked} of {MESSAGES} messages were asked for");
    }
    world.finalize()
}
