//! Sends and receives.

use strait_core::buffer::Cursor;
use strait_core::engine::{Bypass, Owner, Received, SendMode, Sent, SentShort, Status, Want};
use strait_core::layout::{Call, Wait};
use strait_core::matching::{ANY_SOURCE, Pattern};
use strait_core::rndv::Rendezvous;
use strait_core::wire::Key;
use strait_platform::Rank;

use crate::buffer::{Bytes, BytesMut, RecvBuffer, SendBuffer, part_of, part_of_mut};
use crate::reserved::INTERNAL;
use crate::{Error, Source, Tag, World};

/// A context of a world. A message sent in a context is received in the same context (MPI-4.1
/// §3.2.3, communicator).
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'world> {
    world: &'world World,
    /// The context, as a key with tag 0: a short call adds its tag by one instruction.
    context: Key,
}

impl World {
    /// Returns the world's endpoint, in context 0.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// assert_eq!(world.endpoint().context(), 0);
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub const fn endpoint(&self) -> Endpoint<'_> {
        Endpoint::new(self, 0)
    }
}

impl<'world> Endpoint<'world> {
    pub(crate) const fn new(world: &'world World, context: u32) -> Self {
        Self { world, context: Key::new(context, 0) }
    }

    /// Returns the endpoint of another context of the same world. Contexts go from 0 to 2^31 - 1.
    /// The top bit is reserved for messages of the library itself and is ignored here.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// let (mine, library) = (world.endpoint(), world.endpoint().with_context(1));
    /// if world.rank() == 0 {
    ///     library.send(&[1_u8], 1, 0)?;
    ///     mine.send(&[2_u8], 1, 0)?;
    /// } else {
    ///     let mut byte = [0_u8];
    ///     mine.recv(&mut byte, 0, 0)?;
    ///     assert_eq!(byte, [2], "the message of the other context waits");
    ///     library.recv(&mut byte, 0, 0)?;
    ///     assert_eq!(byte, [1]);
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    #[must_use]
    pub const fn with_context(self, context: u32) -> Self {
        Self::new(self.world, context & (u32::MAX >> 1))
    }

    /// Returns the endpoint of Strait's own messages in this context.
    pub(crate) const fn internal(self) -> Self {
        Self::new(self.world, self.context() | INTERNAL)
    }

    /// Returns the context of this endpoint.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// assert_eq!(world.endpoint().with_context(5).context(), 5);
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub const fn context(self) -> u32 {
        self.context.context()
    }

    /// Returns the key of messages of this context with `tag`.
    #[inline(always)]
    pub(crate) const fn key(self, tag: Tag) -> Key {
        let Key(context) = self.context;
        // SAFETY: `new` alone makes endpoints, with a key of tag 0: its lower half is zero. The
        // compiler cannot know that, and would compute the tag again from the key.
        unsafe { core::hint::assert_unchecked(context & u32::MAX as u64 == 0) };
        self.context.with_tag(tag)
    }

    /// Returns how large messages of this context are negotiated.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// assert_eq!(world.endpoint().rendezvous(), world.tuning().rendezvous);
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub fn rendezvous(self) -> Rendezvous {
        self.world.lock_progress().rendezvous(self.context())
    }

    /// Chooses how large messages of this context are negotiated from now on. `None` selects
    /// [`crate::Tuning::rendezvous`]. Ranks need not agree on it.
    ///
    /// ```
    /// use strait::Rendezvous;
    ///
    /// let world = &strait::World::in_process(1)?[0];
    /// let endpoint = world.endpoint();
    /// endpoint.choose_rendezvous(Some(Rendezvous::Plain))?;
    /// assert_eq!(endpoint.rendezvous(), Rendezvous::Plain);
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], and then the choice is unchanged.
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.6, static adaptation.
    pub fn choose_rendezvous(self, choice: Option<Rendezvous>) -> Result<(), Error> {
        Ok(self.world.lock_progress().choose_rendezvous(self.context(), choice)?)
    }

    /// Returns the world of this endpoint.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// assert_eq!(world.endpoint().world().size(), 1);
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub const fn world(self) -> &'world World {
        self.world
    }

    /// Sends `data` to `destination`. Returns when `data` may be changed again. For a message that
    /// fits the free cells this is at once. A longer message waits for the receiver's library to
    /// take it.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     endpoint.send(&[3.5_f64, 4.5], 1, 7)?;
    /// } else {
    ///     let mut numbers = [0.0; 2];
    ///     endpoint.recv(&mut numbers, 0, 7)?;
    ///     assert_eq!(numbers, [3.5, 4.5]);
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Start`] for a rank or tag that does not exist; [`Error::Fault`] when the
    /// destination died or left.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.2.1, `MPI_SEND`.
    #[inline]
    pub fn send<B: SendBuffer + ?Sized>(
        &self,
        data: &B,
        destination: Rank,
        tag: Tag,
    ) -> Result<(), Error> {
        let bytes = match data.bytes() {
            Bytes::One(bytes) => bytes,
            parts @ Bytes::Several(_) => {
                return self.send_bytes(SendMode::Standard, parts, destination, tag);
            }
        };
        let sent = self.send_short(bytes, destination, tag);
        if self.world.wake_after(sent, destination) {
            return Ok(());
        }
        self.send_longer(bytes, destination, tag)
    }

    /// Does the work of [`crate::raw::RawEndpoint::send_short`].
    #[inline(always)]
    #[must_use]
    pub(crate) fn send_short(&self, data: &[u8], destination: Rank, tag: Tag) -> SentShort {
        self.world.engine().send_short(destination, self.key(tag), data)
    }

    /// Does the work of [`crate::raw::RawEndpoint::wake`].
    pub(crate) fn wake(&self, rank: Rank) {
        self.world.wake(rank);
    }

    /// Sends `data` to `destination` as [`Endpoint::send`] does, and returns after the matching
    /// receive has started. To a rank of another node the message waits here until the receiver
    /// asks for it, so it crosses only while both ranks are inside the library.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     endpoint.ssend(&[1_u8], 1, 0)?;
    ///     // Here rank 1 has started to receive.
    /// } else {
    ///     endpoint.recv(&mut [0_u8], 0, 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::send`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.4, `MPI_SSEND`.
    pub fn ssend<B: SendBuffer + ?Sized>(
        &self,
        data: &B,
        destination: Rank,
        tag: Tag,
    ) -> Result<(), Error> {
        self.send_bytes(SendMode::Synchronous, data.bytes(), destination, tag)
    }

    /// Receives a message from `source` with `tag` into `buffer`, and waits until it has arrived.
    /// [`Source::Any`] and [`crate::ANY_TAG`] match every source and tag.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// # use strait::{ANY_TAG, Source};
    /// if world.rank() == 0 {
    ///     let mut bytes = [0_u8; 16];
    ///     let status = endpoint.recv(&mut bytes, Source::Any, ANY_TAG)?;
    ///     assert_eq!((status.source, status.tag, status.bytes), (1, 7, 5));
    ///     assert_eq!(&bytes[..status.bytes], b"hello");
    /// } else {
    ///     endpoint.send(b"hello", 0, 7)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Start`] for a rank or tag that does not exist; [`Error::Fault`] when the message is
    /// longer than `buffer`, which then holds its beginning, or when the source died or left.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.2.4, `MPI_RECV`.
    #[inline]
    pub fn recv<B: RecvBuffer + ?Sized>(
        &self,
        buffer: &mut B,
        source: impl Into<Source>,
        tag: Tag,
    ) -> Result<Status, Error> {
        let source = source.into().number();
        let bytes = match buffer.bytes_mut() {
            BytesMut::One(bytes) => bytes,
            // SAFETY: `recv_posted` ends its use of the cursor before it returns, and the buffers
            // are borrowed as long.
            parts => return unsafe { self.recv_posted(parts.cursor(), source, tag) },
        };
        let want = Want::of(self.key(tag));
        match self.world.engine().recv_short(source, want, bytes) {
            Bypass::Received(status) => Ok(status),
            Bypass::Nothing | Bypass::Closed => self.recv_longer(bytes, source, tag),
        }
    }

    /// Does the work of [`crate::raw::RawEndpoint::recv_exactly`].
    #[inline(always)]
    pub(crate) fn recv_exactly<const BYTES: usize>(
        &self,
        buffer: &mut [u8; BYTES],
        source: Rank,
        tag: Tag,
    ) -> Option<Status> {
        let want = Want::exactly_of(self.key(tag));
        match self.world.engine().recv_exactly(source, want, buffer) {
            Bypass::Received(status) => Some(status),
            Bypass::Nothing | Bypass::Closed => None,
        }
    }

    /// Does the work of [`crate::raw::RawEndpoint::recv_short`].
    #[inline(always)]
    pub(crate) fn recv_short(&self, buffer: &mut [u8], source: Rank, tag: Tag) -> Option<Status> {
        let want = Want::exactly_of(self.key(tag));
        match self.world.engine().recv_short(source, want, buffer) {
            Bypass::Received(status) => Some(status),
            Bypass::Nothing | Bypass::Closed => None,
        }
    }

    /// Waits until a matching message has arrived, and describes it without receiving it.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// # use strait::Source;
    /// if world.rank() == 0 {
    ///     let found = endpoint.probe(Source::Any, 7)?;
    ///     let mut text = vec![0_u8; found.bytes];
    ///     endpoint.recv(&mut text[..], found.source, found.tag)?;
    ///     assert_eq!(text, b"of any length");
    /// } else {
    ///     endpoint.send(b"of any length", 0, 7)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::recv`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.1, `MPI_PROBE`.
    pub fn probe(&self, source: impl Into<Source>, tag: Tag) -> Result<Status, Error> {
        let source = source.into().number();
        let pattern = self.pattern(source, tag);
        self.world.await_from(source);
        if let Some(status) = self.poll_probe(source, tag) {
            return Ok(status);
        }
        let look = || self.world.lock_progress().iprobe(pattern).transpose();
        let found = self.world.wait_until(|| probe_of(pattern), look)?;
        Ok(found?)
    }

    /// Describes a matching message, if one has arrived.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     while endpoint.iprobe(1, 7)?.is_none() {
    ///         // Compute something else.
    ///     }
    ///     endpoint.recv(&mut [0_u8], 1, 7)?;
    /// } else {
    ///     endpoint.send(&[1_u8], 0, 7)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::recv`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.1, `MPI_IPROBE`.
    pub fn iprobe(&self, source: impl Into<Source>, tag: Tag) -> Result<Option<Status>, Error> {
        let source = source.into().number();
        self.world.await_from(source);
        if let Some(status) = self.probe_lines(source, tag) {
            return Ok(Some(status));
        }
        self.world.poll()?;
        self.find_arrived(source, tag)
    }

    /// Does the work of [`crate::raw::RawEndpoint::find_arrived`].
    pub(crate) fn find_arrived(&self, source: Rank, tag: Tag) -> Result<Option<Status>, Error> {
        Ok(self.world.lock_progress().iprobe(self.pattern(source, tag))?)
    }

    /// Moves all data that can move. It serves programs that compute for long between their calls.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// for _step in 0..3 {
    ///     // Compute for long.
    ///     world.endpoint().progress()?;
    /// }
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] or [`Error::OutOfMemory`] when no progress can be made.
    pub fn progress(&self) -> Result<(), Error> {
        self.world.poll()?;
        Ok(())
    }

    pub(crate) const fn pattern(self, source: Rank, tag: Tag) -> Pattern {
        Pattern { context: self.context(), source, tag }
    }

    #[inline(never)]
    fn send_longer(&self, bytes: &[u8], destination: Rank, tag: Tag) -> Result<(), Error> {
        let key = self.key(tag);
        let sent = self.send_straight(bytes, destination, tag);
        if self.world.wake_after(sent, destination) {
            return Ok(());
        }
        if self.world.send_medium(destination, key, bytes) {
            return Ok(());
        }
        // SAFETY: `send_slow` ends its use of the cursor before it returns, and `bytes` is borrowed
        // as long.
        unsafe {
            let data = Cursor::contiguous(part_of(bytes));
            self.send_slow(SendMode::Standard, data, destination, tag)
        }
    }

    #[cold]
    fn send_bytes(
        &self,
        mode: SendMode,
        data: Bytes<'_>,
        destination: Rank,
        tag: Tag,
    ) -> Result<(), Error> {
        // SAFETY: `send_slow` ends its use of the cursor before it returns, and `data` is borrowed
        // as long.
        unsafe { self.send_slow(mode, data.cursor(), destination, tag) }
    }

    /// # Safety
    ///
    /// The bytes of `data` stay valid and unchanged until this returns.
    #[cold]
    #[inline(never)]
    unsafe fn send_slow(
        &self,
        mode: SendMode,
        data: Cursor,
        destination: Rank,
        tag: Tag,
    ) -> Result<(), Error> {
        let key = self.key(tag);
        // SAFETY: `wait` ends the operation's claim before this returns.
        let sent = unsafe { self.world.isend(mode, destination, key, data, Owner::BLOCKING) }?;
        match sent {
            Sent::Done => Ok(()),
            Sent::Pending(id) if self.world.wait_for_lines(id).is_some() => Ok(()),
            Sent::Pending(id) => self.world.wait(id)?.map(drop).map_err(Error::from),
        }
    }

    #[inline(never)]
    fn recv_longer(&self, bytes: &mut [u8], source: Rank, tag: Tag) -> Result<Status, Error> {
        if source == ANY_SOURCE
            && let Some(status) = self.poll_short_from_any(bytes, tag)
        {
            return Ok(status);
        }
        if let Some(status) = self.poll_lines(bytes, source, tag) {
            return Ok(status);
        }
        // SAFETY: `recv_posted` ends its use of the cursor before it returns, and `bytes` is
        // borrowed as long.
        unsafe { self.recv_posted(Cursor::contiguous(part_of_mut(bytes)), source, tag) }
    }

    /// # Safety
    ///
    /// The bytes of `buffer` stay valid, and nothing else accesses them, until this returns.
    unsafe fn recv_posted(&self, buffer: Cursor, source: Rank, tag: Tag) -> Result<Status, Error> {
        let pattern = self.pattern(source, tag);
        // SAFETY: `wait` ends the operation's claim before this returns.
        let received =
            match unsafe { self.world.recv_from_network(pattern, buffer, Owner::BLOCKING) } {
                Some(received) => received,
                // SAFETY: as above.
                None => unsafe { self.world.irecv(pattern, buffer, Owner::BLOCKING) }?,
            };
        match received {
            Received::Done(outcome) => Ok(outcome?),
            Received::Pending(id) => Ok(self.world.wait(id)??),
        }
    }
}

/// Returns the description of a probe's wait.
pub(crate) const fn probe_of(pattern: Pattern) -> Wait {
    let Pattern { context, source, tag } = pattern;
    Wait { tag: Some(tag), context: Some(context), ..Wait::on(Call::Probe, source) }
}
