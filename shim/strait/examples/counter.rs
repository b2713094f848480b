//! A counter and a list in the window of rank 0. All ranks change them without rank 0's help: the
//! counter by an atomic operation, the list under an exclusive lock.

use strait::{Assert, Error, LockType, Op, Window, World};

/// Displacements in the window, in numbers of 8 bytes.
const COUNTER: usize = 0;
const LENGTH: usize = 1;
const LIST: usize = 2;

/// Number of entries that each rank adds to the list.
const ENTRIES: u64 = 100;

/// Adds `entry` to the end of the list at rank 0.
fn append(list: &Window<'_>, entry: u64) -> Result<(), Error> {
    list.lock(LockType::Exclusive, 0, Assert::NONE)?;
    let mut length = [0_u64];
    list.get(&mut length, 0, LENGTH)?;
    list.put(&[entry], 0, LIST + length[0] as usize)?;
    list.put(&[length[0] + 1], 0, LENGTH)?;
    list.unlock(0)
}

fn main() -> Result<(), Error> {
    let world = World::init()?;
    let endpoint = world.endpoint();
    let room =
        if world.rank() == 0 { LIST + (ENTRIES * u64::from(world.size())) as usize } else { 0 };
    let window = Window::builder(endpoint).unit(8).allocate(8 * room)?;

    for _ in 0..ENTRIES {
        window.lock(LockType::Shared, 0, Assert::NONE)?;
        let ticket = window.fetch_and_op(1_u64, 0, COUNTER, Op::Sum)?;
        window.unlock(0)?;
        append(&window, ticket)?;
    }
    window.fence(Assert::NONE)?;

    if world.rank() == 0 {
        let mut found = vec![0_u64; room];
        window.local().read(0, &mut found)?;
        let mut list = found.split_off(LIST);
        list.sort_unstable();
        let is_whole = list.into_iter().eq(0..found[COUNTER]);
        println!("{} tickets; each is in the list once: {is_whole}", found[COUNTER]);
    }
    window.free()?;
    world.finalize()
}
