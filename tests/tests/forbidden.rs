//! A kernel that forbids one process to access another: from the start, or from some moment on.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::io::{IoSlice, IoSliceMut};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use strait::{Assert, Error, Op, Vectored, Window, WindowError, World};
use strait_tests::{Ranks, payload};

const LENGTH: usize = 700_001;

/// Numbers of the system calls `process_vm_readv` and `process_vm_writev`.
const CALLS: [i64; 2] = if cfg!(target_arch = "x86_64") { [310, 311] } else { [270, 271] };
const NOT_PERMITTED: u32 = 1;

/// Makes the kernel forbid this process to access others from now on.
fn forbid() {
    let rules: BTreeMap<_, _> = CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    let (allow, refuse) = (SeccompAction::Allow, SeccompAction::Errno(NOT_PERMITTED));
    let filter = SeccompFilter::new(rules, allow, refuse, ARCH.try_into().unwrap()).unwrap();
    seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

/// Both ranks send and receive at once, `count` times; in several segments if `parts` is true.
fn exchange(world: &World, count: u64, parts: bool) {
    let (endpoint, peer) = (world.endpoint(), 1 - world.rank());
    for id in 0..count {
        let (out, mut arrived) = (payload::of(id, LENGTH), vec![0xee; LENGTH]);
        let (head, tail) = out.split_at(10_007);
        let (first, second) = arrived.split_at_mut(300_001);
        let sources = [IoSlice::new(head), IoSlice::new(tail)];
        let mut targets = [IoSliceMut::new(first), IoSliceMut::new(second)];
        if parts {
            endpoint.scope(|scope| {
                let receive = scope.irecv(Vectored::new_mut(&mut targets), peer, 0).unwrap();
                scope.isend(Vectored::new(&sources), peer, 0).unwrap().wait().unwrap();
                receive.wait().unwrap();
            });
        } else {
            endpoint.sendrecv(&out, peer, 0, &mut arrived, peer, 0).unwrap();
        }
        assert_eq!(payload::first_difference(id, &arrived), None, "message {id}");
    }
}

#[test]
fn what_is_forbidden_from_the_start_is_not_spoken_of() {
    for transfer in ["auto", "cma_shared", "cma"] {
        let name = "what_is_forbidden_from_the_start_is_not_spoken_of";
        let ended = Ranks::new(2, name).with("STRAIT_LMT", transfer).run(|world| {
            forbid();
            exchange(&world, 12, false);
            exchange(&world, 3, true);
            assert_eq!(world.take_warnings(), []);
            world.finalize().unwrap();
        });
        assert_eq!(ended.stderr, ["", ""], "{transfer}");
    }
}

#[test]
fn what_is_forbidden_in_the_middle_is_said_once_and_nothing_is_lost() {
    for (transfer, said) in [("cma_shared", [1, 1]), ("cma", [1, 1]), ("copy_ring", [0, 0])] {
        let name = "what_is_forbidden_in_the_middle_is_said_once_and_nothing_is_lost";
        let ended = Ranks::new(2, name).with("STRAIT_LMT", transfer).run(|world| {
            exchange(&world, 3, false);
            forbid();
            exchange(&world, 12, false);
            exchange(&world, 3, true);
            world.take_warnings().iter().for_each(|warning| eprintln!("{warning}"));
            world.finalize().unwrap();
        });
        for (rank, said) in said.into_iter().enumerate() {
            let text = &ended.stderr[rank];
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines.len(), said, "{transfer}: {text}");
            for line in lines {
                let peer = format!("to rank {}", 1 - rank);
                for word in ["process_vm_", &peer, "refused", "seccomp", "copy_ring"] {
                    assert!(line.contains(word), "{word:?} is not in {line}");
                }
            }
        }
    }
}

#[test]
fn without_permission_no_rank_gets_a_window_over_private_memory() {
    let name = "without_permission_no_rank_gets_a_window_over_private_memory";
    Ranks::new(3, name).run(|world| {
        if world.rank() == 2 {
            forbid();
        }
        let private = Window::builder(world.endpoint()).over(vec![0_u8; 64]);
        let error = private.map(drop).unwrap_err();
        assert!(
            matches!(error, Error::Window(WindowError::Barred { rank: 2, target: 0 })),
            "{error}"
        );
        assert!(error.to_string().contains("World::alloc"), "{error}");
        let window =
            Window::builder(world.endpoint()).over(world.alloc::<u8>(64).unwrap()).unwrap();
        window.accumulate(&[1_u32], 0, 0, Op::Sum).unwrap();
        window.fence(Assert::NONE).unwrap();
        assert_eq!(window.fetch_and_op(0_u32, 0, 0, Op::NoOp).unwrap(), 3);
        window.free().unwrap();
        world.finalize().unwrap();
    });
}

#[test]
fn what_is_forbidden_later_is_an_error_of_the_operation() {
    Ranks::new(2, "what_is_forbidden_later_is_an_error_of_the_operation").run(|world| {
        let window = Window::builder(world.endpoint()).unit(8).over(vec![0_u64; 8]).unwrap();
        window.put(&[5_u64], 1 - world.rank(), 1).unwrap();
        forbid();
        let refused = [
            window.put(&[6_u64], 1 - world.rank(), 1),
            window.fetch_and_op(6_u64, 1 - world.rank(), 1, Op::Sum).map(drop),
        ];
        for error in refused.map(Result::unwrap_err) {
            let errno = NOT_PERMITTED as i32;
            let rank = 1 - world.rank();
            assert!(
                matches!(error, Error::Window(WindowError::Refused { rank: found, errno: said })
                    if (found, said) == (rank, errno)),
                "{error}"
            );
        }
        // No lock was left behind, and a rank accesses its own part without the kernel.
        assert_eq!(window.fetch_and_op(1_u64, world.rank(), 2, Op::Sum).unwrap(), 0);
        window.fence(Assert::NONE).unwrap();
        assert_eq!(window.local().load(8), Ok(5_u64));
        window.free().unwrap();
        world.finalize().unwrap();
    });
}
