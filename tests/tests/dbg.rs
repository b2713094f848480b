use strait::boot::Config;
use strait::{Nodes};
use strait_tests::{threads_on, traffic};
#[test]
fn dbg() {
    threads_on(Config::new(2), &Nodes::blocks(2, 2).unwrap(), |world| {
        (2..12).for_each(|seed| traffic::run(&world, seed, 4, 1 << 20));
        world.finalize().unwrap();
    });
}
