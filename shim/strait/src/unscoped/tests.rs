//! Tests of operations that meet another world, or end without an outcome.

use core::ptr::NonNull;

use strait_core::buffer::Part;
use strait_core::engine::ProgressError;
use strait_core::layout::Corrupt;
use strait_core::memory::OutOfMemory;

use super::Unscoped;
use super::state::{EndCause, OperationState};
use crate::{Error, Window, World};

fn receive(world: &World, buffer: &mut [u8; 8]) -> Unscoped {
    let part = Part { base: NonNull::from(buffer).cast(), length: 8 };
    // SAFETY: each test keeps the buffer until the operation is over.
    unsafe { world.endpoint().begin_recv(part, 1, 0) }.unwrap()
}

#[test]
fn an_operation_is_not_over_in_another_world() {
    let (one, other) = (World::in_process(2).unwrap(), World::in_process(2).unwrap());
    let (mut buffer, mut others_buffer) = ([0; 8], [0; 8]);
    let mut operation = receive(&one[0], &mut buffer);
    // The engine of the other world has an operation of the same name, and it ends.
    let mut others = receive(&other[0], &mut others_buffer);
    other[1].endpoint().send(&[7_u8; 8], 0, 0).unwrap();
    assert_eq!(others.wait(&other[0]).unwrap().bytes, 8);
    assert!(matches!(operation.test(&other[0]), Err(Error::OtherWorld)));
    assert!(matches!(operation.wait(&other[0]), Err(Error::OtherWorld)));
    assert!(!operation.look(&other[0]) && !operation.cancel(&other[0]));
    assert!(!operation.is_over());
    one[1].endpoint().send(&[9_u8; 8], 0, 0).unwrap();
    assert_eq!(operation.wait(&one[0]).unwrap().bytes, 8);
    assert_eq!((buffer, others_buffer), ([9; 8], [7; 8]));
}

#[test]
#[should_panic(expected = "belongs to another world")]
fn a_claim_cannot_end_in_another_world() {
    let (one, other) = (World::in_process(2).unwrap(), World::in_process(2).unwrap());
    // The operation goes on when this test ends, so it keeps its buffer.
    let buffer = Box::leak(Box::new([0; 8]));
    receive(&one[0], buffer).settle(&other[0]);
}

#[test]
fn a_matched_message_is_received_in_its_world() {
    let (one, other) = (World::in_process(2).unwrap(), World::in_process(2).unwrap());
    one[1].endpoint().send(&[9_u8; 8], 0, 0).unwrap();
    let matched = one[0].endpoint().match_one(1, 0).unwrap();
    let mut buffer = [0; 8];
    assert!(matches!(other[0].mrecv(&matched, &mut buffer), Err(Error::OtherWorld)));
    assert_eq!(one[0].mrecv(&matched, &mut buffer).unwrap().bytes, 8);
    assert_eq!(buffer, [9; 8]);
}

#[test]
fn a_scope_refuses_a_window_of_another_world() {
    let (one, other) = (World::in_process(1).unwrap(), World::in_process(1).unwrap());
    let window = Window::builder(other[0].endpoint()).allocate(64).unwrap();
    let (data, mut buffer) = ([7_u8; 8], [0_u8; 8]);
    one[0].endpoint().scope(|scope| {
        let put = scope.rput(&window, &data, 0, 0).map(drop);
        assert!(matches!(put, Err(Error::OtherWorld)));
        let get = scope.rget(&window, &mut buffer, 0, 0).map(drop);
        assert!(matches!(get, Err(Error::OtherWorld)));
    });
    window.free().unwrap();
}

#[test]
fn the_cause_stays_with_the_operation() {
    let memory = OutOfMemory { bytes: 7 };
    let corrupt = Corrupt::Place { found: 7 };
    for (error, cause) in [
        (Error::OutOfMemory(memory), ProgressError::OutOfMemory(memory)),
        (Error::Corrupt(corrupt), ProgressError::Corrupt(corrupt)),
        (Error::Stopped, ProgressError::Stopped),
    ] {
        let state = OperationState::ended_by(&error);
        assert!(matches!(state, OperationState::Broken(EndCause::Progress(it)) if it == cause));
        let status = Unscoped { state }.status().unwrap_err();
        assert_eq!(status.to_string(), error.to_string());
    }
}
