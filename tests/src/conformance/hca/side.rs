//! One party's view of a check: memory, connections, completions, and meetings with the other
//! party.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::alloc;

use strait_core::hca::{
    Access, Address, Capabilities, Completion, Connection, Done, Hca, Operation, PostError,
    Readiness, Region, RemoteAddress, Sge, WorkError, WorkRequest,
};

use super::{Habits, Party};

/// Registered memory of this party.
#[derive(Debug)]
pub(super) struct Buffer {
    base: NonNull<u8>,
    length: usize,
    pub(super) region: Region,
}

/// A region of the other party.
#[derive(Clone, Copy, Debug)]
pub(super) struct Far {
    pub(super) base: u64,
    pub(super) length: u64,
    pub(super) key: u32,
}

impl Far {
    pub(super) const fn at(&self, offset: usize) -> RemoteAddress {
        RemoteAddress { address: self.base.wrapping_add(offset as u64), key: self.key }
    }
}

/// One party in a check.
pub(super) struct Side<'a, P: Party> {
    party: &'a mut P,
    check: &'static str,
    next_id: u64,
    /// Completions that were polled and not yet returned.
    taken: Vec<Completion>,
    alone: bool,
}

/// Returns a request that is signaled, neither inline nor fenced.
pub(super) const fn request(id: u64, operation: Operation<'_>) -> WorkRequest<'_> {
    WorkRequest { id, operation, signaled: true, inline: false, fenced: false }
}

/// Returns bytes that depend on their place.
pub(super) fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251 + seed * 97 + 1) as u8).collect()
}

impl Buffer {
    const fn layout(length: usize) -> Layout {
        // At least a line, so that the size is not zero.
        match Layout::from_size_align(length + 64, 64) {
            Ok(layout) => layout,
            Err(_) => panic!("a buffer of a possible length"),
        }
    }

    /// Returns a part of it, for this party's own requests.
    pub(super) fn piece(&self, offset: usize, length: usize) -> Sge {
        assert!(offset + length <= self.length);
        // SAFETY: the offset is in bounds.
        let base = unsafe { self.base.add(offset) };
        Sge { base, length: length as u32, key: self.region.local_key }
    }

    /// Returns all of it.
    pub(super) fn whole(&self) -> Sge {
        self.piece(0, self.length)
    }

    /// Returns the same memory under another registration.
    pub(super) fn registered_as(self, region: Region) -> Self {
        Self { region, ..self }
    }

    /// Fills it from `offset` on.
    pub(super) fn put(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length);
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: the byte is in bounds. The access is volatile, since a device may read it.
            unsafe { self.base.add(offset + at).write_volatile(*byte) };
        }
    }

    /// Returns the present contents.
    pub(super) fn get(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= self.length);
        // SAFETY: the byte is in bounds. The access is volatile, since a device may write it.
        (0..length).map(|at| unsafe { self.base.add(offset + at).read_volatile() }).collect()
    }

    /// Returns the word at a multiple of 8.
    pub(super) fn word(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.get(offset, 8).try_into().expect("8 bytes"))
    }

    /// Returns the word at a multiple of 8, with a single access.
    pub(super) fn word_at_once(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.length);
        // SAFETY: the word is in bounds, and aligned, since the base is. The access is volatile,
        // since a device may write it.
        unsafe { self.base.add(offset).cast::<u64>().read_volatile() }
    }

    /// Returns the present value of one byte.
    pub(super) fn byte(&self, offset: usize) -> u8 {
        self.get(offset, 1)[0]
    }
}

impl<'a, P: Party> Side<'a, P> {
    pub(super) fn new(party: &'a mut P) -> Self {
        Self { party, check: "", next_id: 1, taken: Vec::new(), alone: false }
    }

    /// Begins a check, together with the other party.
    pub(super) fn begin(&mut self, check: &'static str) {
        self.check = check;
        let theirs = self.party.exchange(check.as_bytes());
        assert_eq!(theirs, check.as_bytes(), "the parties run the same checks in the same order");
    }

    /// Ends the check, together with the other party. No completion may be left over.
    pub(super) fn end(&mut self) {
        if !self.alone {
            self.meet();
        }
        let mut left = [nothing(); 4];
        let count = self.device().poll(&mut left).expect("polling");
        assert_eq!(&left[..count], &[], "{}: completions that no check requested", self.check);
        assert_eq!(self.taken, [], "{}: completions that no check requested", self.check);
    }

    /// Returns whether this party begins. The other is its target.
    pub(super) fn is_first(&self) -> bool {
        self.party.rank() == 0
    }

    pub(super) fn rank(&self) -> u32 {
        self.party.rank()
    }

    pub(super) fn party(&mut self) -> &mut P {
        self.party
    }

    pub(super) fn device(&mut self) -> &mut P::Device {
        self.party.device()
    }

    pub(super) fn capabilities(&mut self) -> Capabilities {
        self.device().capabilities()
    }

    pub(super) fn habits(&self) -> Habits {
        self.party.habits()
    }

    /// Waits for the other party, which waits for this one.
    pub(super) fn meet(&mut self) {
        self.party.exchange(&[]);
    }

    /// Returns registered memory, all zero.
    pub(super) fn buffer(&mut self, length: usize, access: Access) -> Buffer {
        // SAFETY: the size is not zero.
        let base = NonNull::new(unsafe { alloc::alloc_zeroed(Buffer::layout(length)) });
        let base = base.expect("memory");
        // SAFETY: `free` frees the memory after deregistration, or it is never freed.
        let region = unsafe { self.device().register(base, length, access) };
        Buffer { base, length, region: region.expect("registering") }
    }

    pub(super) fn free(&mut self, buffer: Buffer) {
        self.device().deregister(buffer.region).expect("deregistering");
        // SAFETY: the memory is from `buffer`, with this layout, and no device accesses it any
        // more.
        unsafe { alloc::dealloc(buffer.base.as_ptr(), Buffer::layout(buffer.length)) };
    }

    /// Sends the other party this region, and returns the region of the other.
    pub(super) fn swap(&mut self, region: &Region) -> Far {
        let mut mine = [0; 20];
        mine[..8].copy_from_slice(&region.base.to_le_bytes());
        mine[8..16].copy_from_slice(&region.length.to_le_bytes());
        mine[16..].copy_from_slice(&region.remote_key.to_le_bytes());
        let theirs = self.party.exchange(&mine);
        Far {
            base: u64::from_le_bytes(theirs[..8].try_into().expect("8 bytes")),
            length: u64::from_le_bytes(theirs[8..16].try_into().expect("8 bytes")),
            key: u32::from_le_bytes(theirs[16..].try_into().expect("4 bytes")),
        }
    }

    /// Returns memory with all access rights for the other party, and the other's memory.
    pub(super) fn shared(&mut self, length: usize) -> (Buffer, Far) {
        let buffer = self.buffer(length, Access::ALL);
        let far = self.swap(&buffer.region);
        (buffer, far)
    }

    /// Returns a connection between the two, ready on both sides.
    pub(super) fn connect(&mut self) -> Connection {
        let peer = 1 - self.party.rank();
        let (connection, address) = self.device().open(peer).expect("opening");
        let theirs = self.party.exchange(&address.0);
        let theirs = Address(theirs.try_into().expect("an address"));
        self.make_ready(&[(connection, theirs)]);
        self.meet();
        connection
    }

    /// Returns both ends of a connection of this party with itself.
    pub(super) fn connect_to_itself(&mut self) -> (Connection, Connection) {
        let me = self.party.rank();
        let (one, to_one) = self.device().open(me).expect("opening");
        let (other, to_other) = self.device().open(me).expect("opening");
        self.make_ready(&[(one, to_other), (other, to_one)]);
        (one, other)
    }

    fn make_ready(&mut self, ends: &[(Connection, Address)]) {
        let mut ready = vec![false; ends.len()];
        while ready.contains(&false) {
            for ((connection, address), ready) in ends.iter().zip(&mut ready) {
                let state = self.device().connect(*connection, address).expect("connecting");
                *ready = state == Readiness::Ready;
            }
            self.party.pause();
        }
    }

    pub(super) fn close(&mut self, connection: Connection) {
        self.device().close(connection).expect("closing");
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Posts a request, and polls completions while the queue is full.
    pub(super) fn post(&mut self, connection: Connection, request: &WorkRequest<'_>) {
        loop {
            match self.try_post(connection, request) {
                Err(PostError::Full) => self.look(),
                other => return other.unwrap_or_else(|error| panic!("{}: {error}", self.check)),
            }
        }
    }

    pub(super) fn try_post(
        &mut self,
        connection: Connection,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        // SAFETY: the checks lend memory of buffers, and do not use it until they have the
        // completion.
        unsafe { self.device().post(connection, request) }
    }

    /// Posts a receive and returns its id.
    pub(super) fn receive(&mut self, piece: Sge) -> u64 {
        let id = self.new_id();
        // SAFETY: the checks lend memory of buffers, and do not use it until they have the
        // completion.
        unsafe { self.device().post_receive(id, piece) }.expect("posting a receive");
        id
    }

    /// Polls completions.
    pub(super) fn look(&mut self) {
        let mut some = [nothing(); 8];
        let count = self.device().poll(&mut some).expect("polling");
        self.taken.extend(&some[..count]);
        if count == 0 {
            self.party.pause();
        }
    }

    /// Returns whether a completion was polled and not yet returned.
    pub(super) const fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Records that the other party is dead, so that there is no meeting any more.
    pub(super) const fn be_alone(&mut self) {
        self.alone = true;
    }

    /// Returns the next completion.
    pub(super) fn complete(&mut self) -> Completion {
        while self.taken.is_empty() {
            self.look();
        }
        self.taken.remove(0)
    }

    /// Checks that the next completion is that of `id`, a success on this connection.
    pub(super) fn done(&mut self, connection: Connection, id: u64) -> Done {
        let completion = self.complete();
        let context = (self.check, completion);
        assert_eq!((completion.id, completion.connection), (id, connection), "{context:?}");
        completion.result.unwrap_or_else(|error| panic!("{}: request {id}: {error}", self.check))
    }

    /// Checks that the next completion is that of `id`, and a failure.
    pub(super) fn failed(&mut self, connection: Connection, id: u64) -> WorkError {
        let completion = self.complete();
        let context = (self.check, completion);
        assert_eq!((completion.id, completion.connection), (id, connection), "{context:?}");
        completion.result.expect_err("the request cannot have succeeded")
    }

    /// Posts one operation and waits until it is done; for a write, also until the data have
    /// arrived.
    pub(super) fn perform(&mut self, connection: Connection, operation: Operation<'_>) -> Done {
        let id = self.new_id();
        self.post(connection, &request(id, operation));
        let done = self.done(connection, id);
        if let Operation::Write { from: [piece, ..], to } = operation {
            self.settle(connection, *piece, to);
        }
        done
    }

    /// Waits until the writes so far have arrived, which their completions may not tell. Reads
    /// nothing from there into this piece.
    pub(super) fn settle(&mut self, connection: Connection, piece: Sge, from: RemoteAddress) {
        if !self.capabilities().acknowledged {
            let (id, into) = (self.new_id(), [Sge { length: 0, ..piece }]);
            self.post(connection, &request(id, Operation::Read { into: &into, from }));
            assert_eq!(self.done(connection, id), Done::Read);
        }
    }

    /// Posts requests on a connection that has ended at the other side. Returns how they fail, or
    /// `None` if they are refused. A device that gets no message from there may take some requests
    /// before it knows.
    pub(super) fn fails(
        &mut self,
        connection: Connection,
        operation: Operation<'_>,
    ) -> Option<WorkError> {
        loop {
            let id = self.new_id();
            match self.try_post(connection, &request(id, operation)) {
                Ok(()) => {}
                Err(PostError::Broken) => return None,
                Err(other) => panic!("a broken connection refuses with {other:?}"),
            }
            let completion = self.complete();
            assert_eq!((completion.id, completion.connection), (id, connection), "{}", self.check);
            match completion.result {
                Err(error) => return Some(error),
                Ok(done) => assert!(!self.capabilities().acknowledged, "{done:?} without a peer"),
            }
        }
    }
}

/// Returns room for a completion.
pub(super) const fn nothing() -> Completion {
    Completion { id: 0, connection: Connection(u32::MAX), result: Err(WorkError::Flushed) }
}

/// Returns a place in this party's own buffer, as its own device accesses it over a connection to
/// itself.
pub(super) fn place(buffer: &Buffer, offset: usize) -> RemoteAddress {
    RemoteAddress { address: buffer.region.base + offset as u64, key: buffer.region.remote_key }
}
