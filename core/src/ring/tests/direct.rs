//! Transfers between users' memory, beside the streams.

use super::device::Wires;
use super::{Block, config, sides};
use crate::buffer::{Direction, Part};
use crate::engine::{Begun, Direct};
use crate::hca::{Access, Hca, RemoteAddress};
use crate::ring::Design;

/// Number of bytes that one rank moves each way: more than fit in one request.
const BYTES: usize = 300;

#[test]
fn a_transfer_goes_beside_the_streams() {
    for (design, way) in Design::ALL
        .into_iter()
        .flat_map(|design| [(design, Direction::Read), (design, Direction::Write)])
    {
        let wires = Wires::new(true);
        let mut sides = sides(&wires, config(design));
        let blocks = [Block::new(BYTES), Block::new(BYTES)];
        let [near, far] = [0, 1].map(|rank| {
            // SAFETY: the block has this length and lives as long as the devices work.
            unsafe { sides[rank].device.register(blocks[rank].base(), BYTES, Access::ALL) }.unwrap()
        });
        let from = &blocks[usize::from(way == Direction::Read)];
        let bytes: std::vec::Vec<u8> = (0..BYTES).map(|at| at as u8 ^ 0x5a).collect();
        let source = core::ptr::NonNull::from(bytes.as_slice()).cast();
        // SAFETY: the block has these bytes, and no device reads them yet.
        unsafe { from.base().copy_from_nonoverlapping(source, BYTES) };
        let (mut begun, mut last) = (0, 0);
        while begun < BYTES || !sides[0].link.is_done(last) {
            if begun < BYTES {
                let Part { base, length } = blocks[0].part(begun, BYTES - begun);
                let address = far.base + begun as u64;
                let direct = Direct {
                    direction: way,
                    near: Part { base, length },
                    key: near.local_key,
                    far: RemoteAddress { address, key: far.remote_key },
                };
                let side = &mut sides[0];
                // SAFETY: the blocks are registered and live as long as the devices work.
                let next = unsafe { side.link.transfer(&mut side.device, &direct) }.unwrap();
                if let Some(Begun { number, bytes }) = next {
                    assert!(bytes <= 130 && number > last, "{bytes} bytes, request {number}");
                    (begun, last) = (begun + bytes, number);
                }
            }
            sides.iter_mut().for_each(|side| side.turn().unwrap());
            wires.carry_one();
        }
        for block in &blocks {
            // SAFETY: the block has these bytes, and no device uses them any more.
            let found = unsafe { core::slice::from_raw_parts(block.base().as_ptr(), BYTES) };
            assert_eq!(found, bytes, "{} {way:?}", design.name());
        }
        assert!(sides[1].into.done + sides[1].into.begin > 0, "the streams stood still");
    }
}

#[test]
fn a_write_does_not_wait_for_the_reads_of_the_device() {
    let wires = Wires::new(true);
    let mut sides = sides(&wires, config(Design::ZeroCopy));
    let blocks = [Block::new(BYTES), Block::new(BYTES)];
    let [near, far] = [0, 1].map(|rank| {
        // SAFETY: the block has this length and lives as long as the devices work.
        unsafe { sides[rank].device.register(blocks[rank].base(), BYTES, Access::ALL) }.unwrap()
    });
    let [side, _] = &mut sides;
    let mut begins = |direction| {
        let (near_part, key) = (blocks[0].part(0, 8), near.local_key);
        let far = RemoteAddress { address: far.base, key: far.remote_key };
        let direct = Direct { direction, near: near_part, key, far };
        // SAFETY: the blocks are registered and live as long as the devices work.
        unsafe { side.link.transfer(&mut side.device, &direct) }.unwrap().is_some()
    };
    assert!(begins(Direction::Read));
    assert!(!begins(Direction::Read), "the device executes one read at a time");
    assert!(begins(Direction::Write));
    assert!(begins(Direction::Write) && begins(Direction::Write));
    assert!(!begins(Direction::Write), "as many are in flight as may be");
}
