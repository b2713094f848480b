//! Counts in the memory of rank 0, without its help.

use strait::{Assert, Error, Op, Window, World};

fn main() -> Result<(), Error> {
    let world = World::init()?;
    let window = Window::builder(world.endpoint()).unit(8).allocate(8)?;
    window.lock_all(Assert::NONE)?;
    for _ in 0..1000 {
        window.fetch_and_op(1_u64, 0, 0, Op::Sum)?;
    }
    window.unlock_all()?;
    window.fence(Assert::NONE)?;
    if world.rank() == 0 {
        println!("the counter is {}", window.local().load::<u64>(0)?);
    }
    window.free()?;
    world.finalize()
}
