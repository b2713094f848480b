//! The words of a lock, as one member reaches them.

use strait_core::hca::Remote;
use strait_core::lock::{LockWord, Op, RemoteWord};
use strait_core::rma::{Change, Lane};

use super::super::Window;
use super::super::far::Far;
use crate::Error;
use crate::network::JobDevice;

/// A word, by whoever changes it.
pub(super) enum Reached<'a, 'world> {
    /// The processor.
    Near(&'a LockWord),
    /// The device.
    Far(FarWord<'a, 'world>),
}

/// A word that the device reaches.
#[derive(Clone, Copy)]
pub(super) struct FarWord<'a, 'world> {
    pub(super) window: &'a Window<'world>,
    pub(super) far: &'a Far,
    pub(super) there: Remote,
}

impl FarWord<'_, '_> {
    /// Asks for an access. The number of the request; none for one that is not waited for.
    pub(super) fn post(&self, op: Op) -> Result<Option<u64>, Error> {
        let (window, far, there) = (self.window, self.far, self.there);
        if let Some(change) = change_of(op) {
            return window.ask(far, |lane, device| lane.change(device, change, there)).map(Some);
        }
        match op {
            Op::Write(word) => window.write_word(far, there, word).map(|()| None),
            _ => {
                let fetch = |lane: &mut Lane, device: &mut JobDevice| {
                    lane.fetch(device, size_of::<u64>(), there)
                };
                window.ask(far, fetch).map(Some)
            }
        }
    }

    /// What the request found, once it is done.
    pub(super) fn found(&self, number: u64) -> Result<u64, Error> {
        self.window.await_done(self.far, number)?;
        self.window.ask(self.far, |lane, _| Ok(Some(lane.found(number))))
    }

    /// The same, if it is done.
    pub(super) fn look(&self, number: u64) -> Result<Option<u64>, Error> {
        self.window.ask(self.far, |lane, _| {
            Ok(Some(if lane.is_done(number)? { Some(lane.found(number)) } else { None }))
        })
    }
}

impl RemoteWord for FarWord<'_, '_> {
    type Error = Error;

    fn perform(&self, op: Op) -> Result<u64, Error> {
        match self.post(op)? {
            Some(number) => self.found(number),
            None => Ok(0),
        }
    }
}

impl RemoteWord for Reached<'_, '_> {
    type Error = Error;

    fn perform(&self, op: Op) -> Result<u64, Error> {
        match self {
            Self::Near(word) => Ok(word.access(op)),
            Self::Far(word) => word.perform(op),
        }
    }
}

/// An atomic of the device that is this access. A queue that a device reaches asks for no swap.
pub(super) const fn change_of(op: Op) -> Option<Change> {
    match op {
        Op::CompareAndSwap { expected, desired } => Some(Change::Swap { expected, desired }),
        Op::FetchAdd(number) => Some(Change::Add(number)),
        Op::Swap(_) | Op::Read | Op::Write(_) => None,
    }
}
