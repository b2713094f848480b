//! Dynamic windows, to which members attach memory and from which they detach it (MPI-4.1 §12.2.4).
//!
//! An origin looks the address up in the target's table before each access: by loads on the
//! target's node, and by reads of the device from other nodes. So an access to detached memory is
//! an error, and reaches nothing.
//!
//! An access may span attachments without a gap between them, but no number of an accumulate may
//! ([`super::attached_run`]).

use core::any::Any;
use core::marker::PhantomData;
use core::mem::size_of;
use core::ops::Range;
use core::ptr::NonNull;

use strait_core::buffer::Part as Buffer;
use strait_core::engine::{Channel, FailureCause, Fault};
use strait_core::hca::{Access, Region, RemoteAddress};
use strait_core::layout::Corrupt;
use strait_core::rma::{
    ATTACHMENTS, Attachment, AttachmentTable, AttachmentTag, AttachmentWords, Lane, SLOT,
    WindowBlock, entries_used, find,
};
use strait_platform::liveness;

use super::Window;
use super::attached_run::{FoundAttachment, find_or_run};
use super::attachments::{Attached, AttachedMemory, Attachments};
use super::expose::Exposable;
use super::local::Local;
use super::part::{AttachmentAccess, PartAccess, RemoteMember, WindowPart};
use crate::{Error, WindowError};

/// Number of entries of a table that one read of the device returns.
const ENTRIES_OF_A_READ: usize = SLOT / size_of::<AttachmentWords>();

impl Window<'_> {
    /// Attaches memory to a dynamic window. Other members may access it once they know its
    /// displacement, which the program sends to them. The window keeps the memory;
    /// [`Window::attached`] reads it.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).dynamic()?;
    /// let mut place = [0];
    /// if world.rank() == 0 {
    ///     let attached = window.attach(vec![1.5_f64; 4])?;
    ///     place = [attached.displacement()];
    /// }
    /// world.endpoint().broadcast(&mut place, 0)?;
    /// let mut number = [0.0_f64];
    /// window.get(&mut number, 0, place[0] + 8)?;
    /// assert_eq!(number, [1.5]);
    /// window.fence(Assert::NONE)?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`WindowError::Attachments`] when 4,095 attachments exist already, or the window is not
    /// dynamic. [`WindowError::Registration`] when the device cannot reach the memory.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.4, `MPI_WIN_ATTACH`.
    pub fn attach(&self, memory: impl Exposable) -> Result<Attached, Error> {
        let (base, length, keeper) = memory.expose();
        self.attach_memory(base, length, Some(keeper))
    }

    /// Does the work of [`crate::raw::RawWindow::attach_over`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    pub(crate) unsafe fn attach_over(
        &self,
        base: NonNull<u8>,
        length: usize,
    ) -> Result<Attached, Error> {
        self.attach_memory(base, length, None)
    }

    fn attach_memory(
        &self,
        base: NonNull<u8>,
        length: usize,
        memory: Option<Box<dyn Any>>,
    ) -> Result<Attached, Error> {
        let Some(attachments) = &self.own.attachments else {
            return Err(WindowError::Attachments.into());
        };
        let region = self.register(Buffer { base, length })?;
        let place = self.world.segment().heap_offset(self.world.rank(), base, length);
        let attachment = Attachment {
            address: base.addr().get() as u64,
            length: length as u64,
            place: place.unwrap_or(u64::MAX),
            key: region.map_or(0, |region| region.remote_key.into()),
        };
        let filled = self.block.attachments().and_then(|table| table.fill(attachment));
        let Some(tag) = filled else {
            region.and_then(|region| self.world.with_network(|network| network.release(region)));
            return Err(WindowError::Attachments.into());
        };
        let attached = Attached { tag, base, length };
        if let Some(beyond) = &self.own.beyond {
            let ground = Buffer { base, length };
            // SAFETY: `detach` removes it again. Only raw pointers reach attached memory.
            unsafe { beyond.add_ground(self.world, attached.displacement() as u64, ground) };
        }
        attachments.borrow_mut().now.push(AttachedMemory { attached, region, memory });
        Ok(attached)
    }

    fn register(&self, memory: Buffer) -> Result<Option<Region>, Error> {
        if self.own.beyond.is_none() || memory.length == 0 {
            return Ok(None);
        }
        let bytes = memory.length;
        // SAFETY: the region is released before the memory goes, when the window is freed or the
        // memory detached.
        let region =
            self.world.with_network(|network| unsafe { network.register(memory, Access::ALL) });
        region.flatten().map(Some).ok_or(WindowError::Registration { bytes }.into())
    }

    /// Returns the attachment of this member at this displacement, or at this address, of its first
    /// byte. It serves callers that keep only numbers, such as a C interface. `None`: nothing is
    /// attached there.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).dynamic()?;
    /// let attached = window.attach(vec![0_u8; 100])?;
    /// assert_eq!(window.attachment(attached.displacement()), Some(attached));
    /// window.free()
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn attachment(&self, displacement: usize) -> Option<Attached> {
        let own = self.own.attachments.as_ref()?.borrow();
        let mut now = own.now.iter().map(|kept| kept.attached);
        now.find(|attached| [attached.displacement(), attached.address()].contains(&displacement))
    }

    /// Detaches memory, so that later accesses to its displacements are errors. The window keeps
    /// memory that it owns until it is freed, since other members may still be accessing it. Does
    /// not wait.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).dynamic()?;
    /// let attached = window.attach(vec![0_u8; 100])?;
    /// window.detach(attached)?;
    /// assert_eq!(window.attachment(attached.displacement()), None);
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`WindowError::Detached`] when the memory is not attached to this window.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.4, `MPI_WIN_DETACH`.
    pub fn detach(&self, attached: Attached) -> Result<(), Error> {
        let stale = || self.stale(self.group.place(), attached.displacement(), attached.length);
        let mut own = self.own.attachments.as_ref().ok_or_else(stale)?.borrow_mut();
        let at = own.now.iter().position(|kept| kept.attached == attached).ok_or_else(stale)?;
        let AttachedMemory { region, memory, .. } = own.now.swap_remove(at);
        if let Some(table) = self.block.attachments() {
            table.empty(attached.tag);
        }
        if let Some(beyond) = &self.own.beyond {
            beyond.remove_ground(self.world, attached.displacement() as u64);
        }
        own.before.extend(memory);
        region.and_then(|region| self.world.with_network(|network| network.release(region)));
        Ok(())
    }

    /// Returns memory that this member has attached, for its own reads and writes.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).dynamic()?;
    /// let attached = window.attach(vec![1.5_f64; 4])?;
    /// assert_eq!(window.attached(&attached)?.load::<f64>(8)?, 1.5);
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::detach`] does.
    pub fn attached(&self, attached: &Attached) -> Result<Local<'_>, Error> {
        let is_there = |own: &Attachments| own.now.iter().any(|kept| kept.attached == *attached);
        let place = self.group.place();
        if !self.own.attachments.as_ref().is_some_and(|own| is_there(&own.borrow())) {
            return Err(self.stale(place, attached.displacement(), attached.length));
        }
        let Attached { base, length, .. } = *attached;
        Ok(Local { base, length, place, window: PhantomData })
    }

    /// Looks up a displacement that lies in no part of its own: an attachment of the target, or
    /// several without a gap. The part stands for them until the next lookup.
    #[cold]
    pub(super) fn locate_attached<'a>(
        &self,
        part: &'a WindowPart,
        target: u32,
        displacement: usize,
        extent: usize,
    ) -> Result<(&'a WindowPart, usize), Error> {
        let (named, bytes) = (displacement as u64, extent as u64);
        let mut run = Vec::new();
        let found = match &part.block {
            Some(block) => {
                let table = block.attachments();
                table.and_then(|table| find_or_run(table.words(), named, bytes, &mut run))
            }
            None => self.find_elsewhere(part, named, bytes, &mut run)?,
        };
        let (_, wanted) = AttachmentTag::split(named);
        let Some((attachment, tag)) = found else {
            if run.is_empty() {
                return Err(self.stale(target, displacement, extent));
            }
            part.run.replace(self.pieces(part, &run, wanted, bytes)?);
            part.reach.set(PartAccess::Attachments(wanted));
            return Ok((part, 0));
        };
        self.access(part, attachment, tag)?.enter(part);
        Ok((part, (wanted - attachment.address) as usize))
    }

    /// Returns how this rank accesses an attachment of a member.
    pub(super) fn access(
        &self,
        part: &WindowPart,
        Attachment { address, length, place, key }: Attachment,
        tag: AttachmentTag,
    ) -> Result<AttachmentAccess, Error> {
        let corrupt = || Corrupt::Heap { found: key, length, heap: 0 };
        let remote = RemoteAddress { address, key: u32::try_from(key).map_err(|_| corrupt())? };
        let reach = match &part.block {
            None => PartAccess::Device(address),
            Some(_) if part.rank == self.world.rank() => PartAccess::Mapped(self.own_base(tag)?),
            Some(_) if place == u64::MAX => self.reach_into(part, address)?,
            Some(_) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                PartAccess::Mapped(self.world.segment().heap_place(part.rank, place, length)?)
            }
        };
        Ok(AttachmentAccess { reach, remote, within: tag.displace(address) })
    }

    fn reach_into(&self, part: &WindowPart, address: u64) -> Result<PartAccess, Error> {
        let (rank, target) = (self.world.rank(), part.rank);
        let segment = self.world.segment();
        if self.world.lock_progress().cma().reaches(&segment, target) {
            return Ok(PartAccess::Process(address));
        }
        if liveness::has_ended(&segment.rank_block(target).liveness) {
            return Err(Fault::PeerFailed { rank: target, sign: FailureCause::Ended }.into());
        }
        Err(WindowError::Barred { rank, target }.into())
    }

    /// Returns the start of an attachment of this member.
    fn own_base(&self, tag: AttachmentTag) -> Result<NonNull<u8>, Error> {
        let own = self.own.attachments.as_ref().map(|own| own.borrow());
        let base = own.and_then(|own| {
            let mut now = own.now.iter().map(|kept| kept.attached);
            now.find(|attached| attached.tag == tag).map(|attached| attached.base)
        });
        base.ok_or_else(|| Corrupt::Place { found: 0 }.into())
    }

    /// Does the work of [`find_or_run`] for a member on another node, in what the device reads of
    /// its table: the entry that the displacement names, or that of the last access, or all.
    fn find_elsewhere(
        &self,
        part: &WindowPart,
        displacement: u64,
        extent: u64,
        run: &mut Vec<FoundAttachment>,
    ) -> Result<Option<FoundAttachment>, Error> {
        let remote = part.remote.as_ref().ok_or(WindowError::OtherNode { rank: part.rank })?;
        let (named, _) = AttachmentTag::split(displacement);
        let (last, _) = AttachmentTag::split(remote.within.get());
        if let Some(at) = named.or(last).map(AttachmentTag::entry).filter(|at| *at < ATTACHMENTS) {
            let entry = self.fetch_entries(remote, at..at + 1)?;
            let found = find(entry.clone(), displacement, extent);
            if found.is_some() || (named.is_some() && find(entry, displacement, 1).is_none()) {
                return Ok(found);
            }
        }
        let used = entries_used(self.fetch_words(remote, 0, 1)?[0]);
        let mut table = Vec::new();
        for at in (0..used).step_by(ENTRIES_OF_A_READ) {
            let entries = self.fetch_entries(remote, at..used.min(at + ENTRIES_OF_A_READ))?;
            if let Some(found) = find(entries.clone(), displacement, extent) {
                return Ok(Some(found));
            }
            table.extend(entries);
        }
        Ok(find_or_run(table.into_iter(), displacement, extent, run))
    }

    fn fetch_entries(
        &self,
        remote: &RemoteMember,
        entries: Range<usize>,
    ) -> Result<impl Iterator<Item = (usize, AttachmentWords)> + Clone, Error> {
        const WORDS: usize = size_of::<AttachmentWords>() / size_of::<u64>();
        let offset = AttachmentTable::HEAD + entries.start * size_of::<AttachmentWords>();
        let words = self.fetch_words(remote, offset, entries.len() * WORDS)?;
        Ok(entries.zip(words.as_chunks::<WORDS>().0.to_vec()))
    }

    /// Returns that many words, which fit in a slot, from an offset in a member's table.
    fn fetch_words(
        &self,
        remote: &RemoteMember,
        offset: usize,
        words: usize,
    ) -> Result<Vec<u64>, Error> {
        let table = WindowBlock::attachments_offset(self.parts.len() as u32);
        let there = remote.block.after(table + offset);
        let bytes = words * size_of::<u64>();
        let number =
            self.ask(remote, |lane: &mut Lane, device: &mut _| lane.fetch(device, bytes, there))?;
        self.await_done(remote, number)?;
        self.ask(remote, |lane, _| {
            let words = NonNull::slice_from_raw_parts(lane.slot(number).cast(), words);
            // SAFETY: the slot is aligned and the device is done with it. Any bytes are valid for
            // numbers.
            Ok(Some(unsafe { words.as_ref() }.to_vec()))
        })
    }

    #[cold]
    fn stale(&self, target: u32, displacement: usize, extent: usize) -> Error {
        WindowError::Detached { target, displacement, extent }.into()
    }
}
