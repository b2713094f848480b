//! Additions to one number, by a short way, beside long accumulates that need its stripe alone.

use strait::{Assert, Op, Window};
use strait_tests::Ranks;

const ROUNDS: i64 = 2_000;

/// Numbers of one long accumulate.
const LONG: usize = 64;

#[test]
fn additions_beside_long_accumulates_lose_nothing() {
    Ranks::new(4, "additions_beside_long_accumulates_lose_nothing").run(|world| {
        let window = Window::builder(world.endpoint()).allocate(1 << 15).unwrap();
        let mut long = 0;
        for round in 0..ROUNDS {
            window.accumulate(&[1_i64], 0, 8, Op::Sum).unwrap();
            window.accumulate(&[-3_i32], 0, 1028, Op::Sum).unwrap();
            window.accumulate(&[0.5_f64], 0, 2048, Op::Sum).unwrap();
            // First, members change the numbers without the stripe's lock.
            if round >= ROUNDS / 4 && round % 8 == i64::from(world.rank()) {
                window.accumulate(&[2_i64; LONG], 0, 8, Op::Sum).unwrap();
                long += 1;
            }
            // No member revokes this stripe.
            window.accumulate(&[1_u32], 0, 1 << 14, Op::Sum).unwrap();
        }
        window.accumulate(&[long], 0, 1 << 13, Op::Sum).unwrap();
        window.fence(Assert::NONE).unwrap();
        let long = window.fetch_and_op(0_i64, 0, 1 << 13, Op::NoOp).unwrap();
        let all = 4 * ROUNDS;
        assert_eq!(window.fetch_and_op(0_i64, 0, 8, Op::NoOp).unwrap(), all + 2 * long);
        assert_eq!(window.fetch_and_op(0_i32, 0, 1028, Op::NoOp).unwrap(), -3 * all as i32);
        assert_eq!(window.fetch_and_op(0.0, 0, 2048, Op::NoOp).unwrap(), all as f64 / 2.0);
        assert_eq!(window.fetch_and_op(0_u32, 0, 1 << 14, Op::NoOp).unwrap(), all as u32);
        window.fence(Assert::NONE).unwrap();
        window.free().unwrap();
        world.finalize().unwrap();
    });
}
