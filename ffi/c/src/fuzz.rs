//! Fuzzing of the C interface: calls in any order with any handles, as a C program makes them.
//!
//! Handles are null, already closed, of another kind, or any number. Lengths, ranks, tags and codes
//! are arbitrary. Pointers lead to memory of the stated length, which is the caller's promise.
//!
//! Each world has one rank. So calls that would wait for another rank get invalid handles only.

mod collective;
mod header;

use core::ffi::c_int;
use core::ptr::{null, null_mut};

use crate::failure::{Code, NAMES};
use crate::handle::Handle;
use crate::options::ABI;
use crate::requests::CStatus;
use collective::collective;
use header::*;

/// Number of calls of one input.
const CALLS: usize = 200;
/// Number of worlds of one input.
const WORLDS: usize = 2;
/// Size of a message in bytes: small enough that no send waits for its receive.
const LENGTH: usize = 1000;

/// The bytes of an input, in order. It yields zeros after its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(core::array::from_fn(|_| self.byte()))
    }

    /// Returns a plausible number: mostly 0, sometimes another small number, rarely any number.
    fn number(&mut self) -> u32 {
        match self.byte() {
            0..=159 => 0,
            160..=239 => u32::from(self.byte() % 4),
            240..=247 => u32::MAX,
            248..=251 => u32::MAX - 1,
            _ => self.word() as u32,
        }
    }

    fn length(&mut self) -> usize {
        (self.word() % LENGTH as u64) as usize
    }

    /// Returns a number of bytes to allocate: few, or more than any system has. Between the two the
    /// kernel takes up to seconds to provide the memory, and the library does nothing else than for
    /// few.
    fn allocation(&mut self) -> usize {
        const FEW: usize = 4 << 20;
        const IMPOSSIBLE: usize = 1 << 46;
        let bytes = self.word() as usize >> (self.byte() % 64);
        if bytes < IMPOSSIBLE { bytes % FEW } else { bytes }
    }
}

/// Everything that one input has created.
#[derive(Default)]
struct FuzzState {
    /// Every handle that any call has returned.
    handles: Vec<Handle>,
    /// The open worlds.
    worlds: Vec<Handle>,
    /// Number of worlds made so far.
    made: usize,
    requests: Vec<Handle>,
    messages: Vec<Handle>,
    windows: Vec<Handle>,
    groups: Vec<Handle>,
    /// Memory of all calls. Operations that do not wait may still use it.
    memory: Vec<Box<[u64]>>,
}

impl FuzzState {
    /// Returns memory of `bytes` bytes that no other call uses.
    fn memory(&mut self, bytes: usize) -> Void {
        let mut memory = vec![0_u64; bytes.div_ceil(8).max(1)].into_boxed_slice();
        let base = memory.as_mut_ptr().cast();
        self.memory.push(memory);
        base
    }

    /// Returns a handle, most often one of `good`.
    fn handle(&self, input: &mut Input<'_>, good: &[Handle]) -> Handle {
        let choice = input.byte();
        match (choice % 8, good) {
            (0..=4, [_, ..]) => good[usize::from(input.byte()) % good.len()],
            _ => self.bad(input, &[]),
        }
    }

    /// Returns a handle that is not in `good`.
    fn bad(&self, input: &mut Input<'_>, good: &[Handle]) -> Handle {
        let handle = match input.byte() % 4 {
            0 => Handle::NONE,
            1 => Handle(input.word()),
            _ if self.handles.is_empty() => Handle(1),
            _ => {
                let known = self.handles[usize::from(input.byte()) % self.handles.len()];
                Handle(known.0 ^ u64::from(input.byte() % 4))
            }
        };
        if good.contains(&handle) { Handle::NONE } else { handle }
    }

    fn keep(handles: &mut Vec<Handle>, all: &mut Vec<Handle>, code: c_int, handle: Handle) {
        if code == 0 && handle != Handle::NONE {
            handles.push(handle);
            all.push(handle);
        }
    }

    /// Removes a handle that a call has closed, or that ended with its world.
    fn forget(&mut self, gone: Handle) {
        for handles in [
            &mut self.requests,
            &mut self.messages,
            &mut self.windows,
            &mut self.groups,
            &mut self.worlds,
        ] {
            handles.retain(|handle| *handle != gone);
        }
    }
}

/// Checks the code of a call: the call did not panic, and the code has a name.
fn judge(code: c_int) -> c_int {
    assert_ne!(code, Code::Internal as c_int, "a panic within the library");
    assert!((0..=NAMES.len() as c_int).contains(&code), "{code} is no code");
    code
}

/// Makes the calls that `input` describes.
///
/// # Panics
///
/// Panics when a call reports a panic or returns an unknown code.
pub fn c_interface(input: &[u8]) {
    let (mut input, mut state) = (Input(input), FuzzState::default());
    open(&mut state, ABI, 1);
    for _ in 0..CALLS {
        if input.0.is_empty() {
            break;
        }
        match input.byte() % 9 {
            0 => worlds(&mut state, &mut input),
            1 | 2 => messages(&mut state, &mut input),
            3 => requests(&mut state, &mut input),
            4 => matched(&mut state, &mut input),
            5 => windows(&mut state, &mut input),
            6 => epochs(&mut state, &mut input),
            7 => collective(&mut state, &mut input),
            _ => operations(&mut state, &mut input),
        }
    }
    end(state);
}

fn open(state: &mut FuzzState, abi: u32, ranks: u32) {
    if state.made < WORLDS && ranks <= 1 {
        let mut world = Handle::NONE;
        // SAFETY: there is room for one handle, and the call returns at most one.
        let code = judge(unsafe { strait_init_in_process(abi, ranks, &mut world) });
        state.made += 1;
        FuzzState::keep(&mut state.worlds, &mut state.handles, code, world);
    }
}

/// Closes every open object.
fn end(mut state: FuzzState) {
    // SAFETY: the arguments are handles, and valid addresses of handles.
    unsafe {
        for handle in &mut state.messages {
            judge(strait_message_free(handle));
        }
        for handle in &mut state.windows {
            judge(strait_window_free(handle));
        }
        for handle in &mut state.groups {
            judge(strait_group_free(handle));
        }
        for handle in &mut state.requests {
            judge(strait_request_free(handle));
        }
        for handle in &state.worlds {
            assert_eq!(judge(strait_finalize(*handle)), 0, "a world with nothing open ends");
        }
    }
}

fn worlds(state: &mut FuzzState, input: &mut Input<'_>) {
    let world = state.handle(input, &state.worlds);
    let (mut number, mut base) = (0, null_mut());
    // SAFETY: each pointer leads to memory that the call may write.
    unsafe {
        match input.byte() % 10 {
            0 => open(
                state,
                if input.byte() == 9 { input.number() } else { ABI },
                input.number() % 2,
            ),
            1 => drop(judge(strait_rank(world, &mut number))),
            2 => drop(judge(strait_node_of(world, input.number(), &mut number))),
            3 => drop(judge(strait_progress(world))),
            4 => drop(judge(strait_barrier(world, input.number()))),
            5 => {
                let code = judge(strait_memory_allocate(world, input.allocation(), &mut base));
                if code == 0 && input.byte() < 200 {
                    assert_eq!(judge(strait_memory_free(world, base)), 0, "memory is freed");
                }
            }
            6 => {
                let base = state.memory(8);
                judge(strait_memory_free(world, base));
            }
            7 => drop(judge(strait_recv(
                state.bad(input, &state.worlds),
                0,
                null_mut(),
                0,
                0,
                0,
                null_mut(),
            ))),
            8 => drop(judge(strait_probe(state.bad(input, &state.worlds), 0, 0, 0, null_mut()))),
            _ => {
                let code = judge(strait_finalize(world));
                if code == 0 {
                    // Everything that the world had ended with it. The handles of other worlds stay
                    // valid.
                    let serial = |handle: &Handle| handle.0 >> 4 & 0xff == world.0 >> 4 & 0xff;
                    let of: Vec<_> = state.handles.iter().copied().filter(serial).collect();
                    of.into_iter().for_each(|handle| state.forget(handle));
                }
            }
        }
    }
}

fn messages(state: &mut FuzzState, input: &mut Input<'_>) {
    let world = state.handle(input, &state.worlds);
    let (context, rank, tag, length) =
        (input.number(), input.number(), input.number(), input.length());
    let (buffer, mut request) = (state.memory(length), Handle::NONE);
    // SAFETY: the buffer has this many bytes and lives to the end, and the request has an address.
    unsafe {
        let code = match input.byte() % 3 {
            0 => strait_send(world, context, buffer, length, rank, tag),
            1 => strait_isend(world, context, buffer, length, rank, tag, &mut request),
            _ => strait_irecv(world, context, buffer, length, rank, tag, &mut request),
        };
        FuzzState::keep(&mut state.requests, &mut state.handles, judge(code), request);
    }
}

fn requests(state: &mut FuzzState, input: &mut Input<'_>) {
    let mut list: [Handle; 4] = core::array::from_fn(|_| state.handle(input, &state.requests));
    let before = list;
    let count = usize::from(input.byte() % 5);
    let (mut done, mut over) = (0, 0);
    let (mut indices, mut codes) = ([0_usize; 4], [0; 4]);
    let mut statuses: [CStatus; 4] =
        core::array::from_fn(|_| CStatus { source: 0, tag: 0, bytes: 0 });
    let status = if input.byte() < 128 { null_mut() } else { statuses.as_mut_ptr() };
    // SAFETY: every list has room for four elements.
    unsafe {
        judge(match input.byte() % 7 {
            0 => strait_test(list.as_mut_ptr(), &mut done, status),
            1 => strait_cancel(list[0], &mut done),
            2 => strait_request_free(list.as_mut_ptr()),
            3 => strait_test_all(count, list.as_mut_ptr(), &mut done, status, codes.as_mut_ptr()),
            4 => strait_test_any(count, list.as_mut_ptr(), &mut done, indices.as_mut_ptr(), status),
            5 => strait_test_some(
                count,
                list.as_mut_ptr(),
                &mut over,
                indices.as_mut_ptr(),
                status,
                codes.as_mut_ptr(),
            ),
            _ => {
                let mut bad = state.bad(input, &state.requests);
                strait_wait(&mut bad, status)
            }
        });
    }
    for (before, after) in before.into_iter().zip(list) {
        if before != after {
            assert_eq!(after, Handle::NONE, "a request that is over leaves null");
            state.forget(before);
        }
    }
}

fn matched(state: &mut FuzzState, input: &mut Input<'_>) {
    let world = state.handle(input, &state.worlds);
    let (context, rank, tag, length) =
        (input.number(), input.number(), input.number(), input.length());
    let mut message = state.handle(input, &state.messages);
    let (before, mut new, mut request, mut found) = (message, Handle::NONE, Handle::NONE, 0);
    let buffer = state.memory(length);
    // SAFETY: the buffer has this many bytes and lives to the end, and the request has an address.
    unsafe {
        match input.byte() % 5 {
            0 => drop(judge(strait_iprobe(world, context, rank, tag, &mut found, null_mut()))),
            1 => {
                let code =
                    strait_improbe(world, context, rank, tag, &mut found, &mut new, null_mut());
                FuzzState::keep(&mut state.messages, &mut state.handles, judge(code), new);
            }
            2 => drop(judge(strait_mrecv(&mut message, buffer, length, null_mut()))),
            3 => {
                let code = strait_imrecv(&mut message, buffer, length, &mut request);
                FuzzState::keep(&mut state.requests, &mut state.handles, judge(code), request);
            }
            _ => drop(judge(strait_message_free(&mut message))),
        }
    }
    if message != before {
        state.forget(before);
    }
}

fn windows(state: &mut FuzzState, input: &mut Input<'_>) {
    let world = state.handle(input, &state.worlds);
    let (bytes, unit) = (input.length(), input.number() as usize + usize::from(input.byte() < 250));
    let (base, mut window) = (state.memory(bytes), Handle::NONE);
    // SAFETY: the memory lives to the end.
    unsafe {
        let code = match input.byte() % 4 {
            0 => strait_window_allocate(world, null(), bytes, unit, &mut window),
            1 => strait_window_create(world, null(), base, bytes, unit, &mut window),
            2 => strait_window_create_dynamic(world, null(), &mut window),
            _ => {
                let mut given = state.handle(input, &state.windows);
                let before = given;
                judge(strait_window_free(&mut given));
                if given != before {
                    state.forget(before);
                }
                return;
            }
        };
        FuzzState::keep(&mut state.windows, &mut state.handles, judge(code), window);
    }
}

fn epochs(state: &mut FuzzState, input: &mut Input<'_>) {
    let window = state.handle(input, &state.windows);
    let (target, promises) = (input.number(), input.number() as c_int);
    let (bytes, mut done, mut displacement) = (input.length(), 0, 0);
    let base = state.memory(bytes);
    // SAFETY: each pointer leads to memory that the call may read or write.
    judge(unsafe {
        match input.byte() % 10 {
            0 => strait_window_fence(window, promises),
            1 => strait_window_complete(window),
            2 => strait_window_test(window, &mut done),
            3 => strait_window_lock(window, input.number() as c_int, target, promises),
            4 => strait_window_unlock(window, target),
            5 => strait_window_lock_all(window, promises),
            6 => strait_window_unlock_all(window),
            7 => strait_window_flush(window, target),
            8 => strait_window_attach(window, base, bytes, &mut displacement),
            _ => strait_window_detach(window, input.word() as usize),
        }
    });
}

fn operations(state: &mut FuzzState, input: &mut Input<'_>) {
    let window = state.handle(input, &state.windows);
    let (target, length) = (input.number(), input.length());
    let at = if input.byte() < 200 { input.length() } else { input.word() as usize };
    let (of, op) = (input.byte() as i8 as c_int % 16, input.byte() as i8 as c_int % 16);
    let [data, other, result] = [length, 16, 16].map(|bytes| state.memory(bytes.max(16)));
    let mut request = Handle::NONE;
    // SAFETY: the buffers live to the end, and the request has an address. Numbers have at most 16
    // bytes.
    unsafe {
        let code = match input.byte() % 6 {
            0 => strait_put(window, data, length, target, at),
            1 => strait_get(window, data, length, target, at),
            2 => strait_rput(window, data, length, target, at, &mut request),
            3 => strait_rget(window, data, length, target, at, &mut request),
            4 => strait_fetch_and_op(window, data, result, of, target, at, op),
            _ => strait_compare_and_swap(window, data, other, result, of, target, at),
        };
        FuzzState::keep(&mut state.requests, &mut state.handles, judge(code), request);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tests::alone;

    /// A finaliser of SplitMix64.
    fn bytes(seed: u64) -> Vec<u8> {
        let mix = |word: u64| {
            let z = (seed << 20 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (z ^ (z >> 27)).to_le_bytes()
        };
        (0..400).flat_map(mix).collect()
    }

    #[test]
    fn any_calls_are_answered() {
        let _alone = alone();
        (0..20).for_each(|seed| c_interface(&bytes(seed)));
    }

    /// The seed inputs of the fuzzer, and every input that once failed.
    #[test]
    fn the_corpus_of_the_fuzzer_passes() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/c_interface");
        let inputs: Vec<_> = fs::read_dir(corpus).unwrap().flatten().collect();
        assert!(!inputs.is_empty(), "no corpus");
        let _alone = alone();
        inputs.iter().for_each(|input| c_interface(&fs::read(input.path()).unwrap()));
    }
}
