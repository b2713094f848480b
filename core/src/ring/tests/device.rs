//! Devices of two ranks in one thread. A request is executed some time after it was posted, in the
//! order of posting.

use core::cell::RefCell;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec::Vec;

use crate::hca::{
    Access, Address, Atomics, Capabilities, Completion, Connection, Done, Hca, HcaError, Operation,
    PostError, Readiness, Region, RemoteAddress, Sge, WorkError, WorkRequest,
};

/// The connection between the two devices.
#[derive(Clone, Debug)]
pub(super) struct Wires(Rc<RefCell<State>>);

#[derive(Debug)]
struct State {
    ordered_bytes: bool,
    regions: Vec<(NonNull<u8>, Region)>,
    made: u32,
    ends: [End; 2],
}

#[derive(Debug, Default)]
struct End {
    queue: VecDeque<Request>,
    completions: VecDeque<Completion>,
}

#[derive(Debug)]
struct Request {
    id: u64,
    signaled: bool,
    reads: bool,
    piece: Sge,
    remote: RemoteAddress,
}

/// The device of one rank.
#[derive(Debug)]
pub(super) struct Device {
    rank: usize,
    wires: Wires,
}

const CONNECTION: Connection = Connection(0);

impl Wires {
    pub(super) fn new(ordered_bytes: bool) -> Self {
        let ends = Default::default();
        Self(Rc::new(RefCell::new(State { ordered_bytes, regions: Vec::new(), made: 0, ends })))
    }

    pub(super) fn device(&self, rank: u32) -> Device {
        Device { rank: rank as usize, wires: self.clone() }
    }

    /// Returns the number of registered regions.
    pub(super) fn regions(&self) -> usize {
        self.0.borrow().regions.len()
    }

    /// Executes the oldest request of each rank.
    pub(super) fn carry_one(&self) {
        let mut state = self.0.borrow_mut();
        for rank in [0, 1] {
            let Some(request) = state.ends[rank].queue.pop_front() else { continue };
            let result = state.carry(&request);
            if request.signaled || result.is_err() {
                let completion = Completion { id: request.id, connection: CONNECTION, result };
                state.ends[rank].completions.push_back(completion);
            }
        }
    }
}

impl State {
    fn carry(&self, request: &Request) -> Result<Done, WorkError> {
        let length = u64::from(request.piece.length);
        let local = request.piece.base.addr().get() as u64;
        let near = self.place(request.piece.key, local, length).ok_or(WorkError::LocalAccess)?;
        let RemoteAddress { address, key } = request.remote;
        let far = self.place(key, address, length).ok_or(WorkError::RemoteAccess)?;
        let (from, to, done) =
            if request.reads { (far, near, Done::Read) } else { (near, far, Done::Write) };
        // SAFETY: both places are in registered regions. One test sends garbage as announcements,
        // so they may overlap.
        unsafe { from.copy_to(to, length as usize) };
        Ok(done)
    }

    fn place(&self, key: u32, address: u64, length: u64) -> Option<NonNull<u8>> {
        let (base, region) = self.regions.iter().find(|(_, region)| region.local_key == key)?;
        let offset = address.checked_sub(region.base)?;
        let fits = offset.checked_add(length).is_some_and(|end| end <= region.length);
        // SAFETY: the offset is within the region, which is valid while it is registered.
        fits.then(|| unsafe { base.add(offset as usize) })
    }
}

impl Device {
    pub(super) fn completions(&self) -> VecDeque<Completion> {
        core::mem::take(&mut self.wires.0.borrow_mut().ends[self.rank].completions)
    }
}

impl Hca for Device {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            inline: 0,
            pieces: 1,
            read_pieces: 1,
            reads: 1,
            depth: 8,
            receives: 0,
            message: 130,
            atomics: Atomics::None,
            immediate: false,
            acknowledged: true,
            ordered_bytes: self.wires.0.borrow().ordered_bytes,
        }
    }

    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        _access: Access,
    ) -> Result<Region, HcaError> {
        let mut state = self.wires.0.borrow_mut();
        state.made += 1;
        let key = state.made;
        let (address, length) = (base.addr().get() as u64, length as u64);
        let region = Region { base: address, length, local_key: key, remote_key: key };
        state.regions.push((base, region));
        Ok(region)
    }

    fn deregister(&mut self, region: Region) -> Result<(), HcaError> {
        self.wires.0.borrow_mut().regions.retain(|(_, live)| *live != region);
        Ok(())
    }

    fn open(&mut self, _peer: u32) -> Result<(Connection, Address), HcaError> {
        Ok((CONNECTION, Address([0; Address::LENGTH])))
    }

    fn connect(&mut self, _: Connection, _: &Address) -> Result<Readiness, HcaError> {
        Ok(Readiness::Ready)
    }

    fn close(&mut self, _: Connection) -> Result<(), HcaError> {
        self.wires.0.borrow_mut().ends[self.rank].queue.clear();
        Ok(())
    }

    unsafe fn post(&mut self, _: Connection, request: &WorkRequest<'_>) -> Result<(), PostError> {
        let (reads, piece, remote) = match request.operation {
            Operation::Write { from: &[piece], to } => (false, piece, to),
            Operation::Read { into: &[piece], from } => (true, piece, from),
            _ => return Err(PostError::Unsupported),
        };
        let WorkRequest { id, signaled, .. } = *request;
        let queue = &mut self.wires.0.borrow_mut().ends[self.rank].queue;
        queue.push_back(Request { id, signaled, reads, piece, remote });
        Ok(())
    }

    unsafe fn post_receive(&mut self, _: u64, _: Sge) -> Result<(), PostError> {
        Err(PostError::Unsupported)
    }

    fn poll(&mut self, _: &mut [Completion]) -> Result<usize, HcaError> {
        Ok(0)
    }

    fn arm(&mut self) -> Result<(), HcaError> {
        Ok(())
    }
}
