//! Calls of groups, all of which have one member.

use core::ffi::c_int;
use core::ptr::null;

use super::header::*;
use super::{FuzzState, Input, judge};
use crate::border::CReduction;
use crate::handle::Handle;
use crate::windows::transfer::CRun;

/// Bytes of each buffer: no block of an input ends behind them unless the call must refuse it.
const BYTES: usize = 1 << 13;

/// Returns a block within the buffers, or one that has no room in any memory.
fn block(input: &mut Input<'_>) -> CRun {
    if input.byte() == 7 {
        return CRun { offset: usize::MAX - input.length(), length: input.length() };
    }
    CRun { offset: input.length(), length: input.length() }
}

/// Makes a call that makes, frees or uses a group.
pub(super) fn collective(state: &mut FuzzState, input: &mut Input<'_>) {
    let group = state.handle(input, &state.groups);
    let (bytes, root, mut number) = (input.length(), input.number(), 0);
    let [own, other] = [(); 2].map(|()| state.memory(BYTES));
    let place = if input.byte() < 40 { usize::MAX as Void } else { own };
    let (from, to) = (block(input), block(input));
    // Numbers of at most 8 bytes.
    let counts = [input.length() / 8];
    let reduction = CReduction::of_numbers(input.byte() as i8 as c_int % 16, input.byte().into());
    let mut made = Handle::NONE;
    // SAFETY: buffers have room for every block and number, and the handle has an address.
    unsafe {
        let code = match input.byte() % 12 {
            0 => {
                let world = state.handle(input, &state.worlds);
                strait_group_create(world, input.number(), null(), 0, &mut made)
            }
            1 => strait_group_split(group, input.byte() as i8 as i64, 0, &mut made),
            2 => {
                let mut given = group;
                judge(strait_group_free(&mut given));
                if given != group {
                    state.forget(group);
                }
                return;
            }
            3 => strait_group_rank(group, root, &mut number),
            4 => strait_group_barrier(group),
            5 => strait_broadcast(group, own, bytes, root),
            6 => strait_gather(group, place, bytes, other, root),
            7 => strait_scatterv(group, own, &from, other, bytes, root),
            8 => strait_allgatherv(group, place, bytes, other, &to),
            9 => strait_alltoallv(group, place, &from, other, &to),
            10 => strait_allreduce(group, place, other, counts[0], &reduction),
            _ if input.byte() < 128 => {
                strait_reduce_scatter(group, place, other, counts.as_ptr(), &reduction)
            }
            _ => strait_exscan(group, place, other, counts[0], &reduction),
        };
        FuzzState::keep(&mut state.groups, &mut state.handles, judge(code), made);
    }
}
