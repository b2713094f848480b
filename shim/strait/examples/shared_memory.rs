//! Shares memory between the ranks of a node. Messages from [`World::alloc`] move without system
//! calls, and all ranks load and store the parts of a shared window.

use strait::{Assert, Error, Window, World};

const DATA: strait::Tag = 1;

/// Number of values: 8 MiB.
const VALUES: usize = 1 << 20;

/// Sends a large message from shared memory to shared memory.
fn send_shared(world: &World) -> Result<(), Error> {
    let endpoint = world.endpoint();
    let mut values = world.alloc::<u64>(VALUES)?;
    match world.rank() {
        0 => {
            values.fill(7);
            endpoint.send(&values, 1, DATA)?;
        }
        1 => {
            endpoint.recv(&mut values, 0, DATA)?;
            println!(
                "rank 1 received {} sevens",
                values.iter().filter(|value| **value == 7).count()
            );
        }
        _ => {}
    }
    Ok(())
}

/// Lets each rank write a number that its left neighbour reads.
fn share_a_table(world: &World) -> Result<(), Error> {
    let table = Window::builder(world.endpoint()).allocate_shared(8)?;
    table.local().store(0, u64::from(world.rank()) * 100)?;
    table.fence(Assert::NONE)?;
    let right = (world.rank() + 1) % world.size();
    if let Some(part) = table.mapped(right) {
        assert_eq!(part.load::<u64>(0)?, u64::from(right) * 100);
    }
    table.fence(Assert::NONE)?;
    if world.rank() == 0 {
        println!("{} ranks read the numbers of their neighbours", world.size());
    }
    table.free()
}

fn main() -> Result<(), Error> {
    let world = World::init()?;
    send_shared(&world)?;
    world.endpoint().barrier()?;
    share_a_table(&world)?;
    world.finalize()
}
