//! Dynamic windows: memory is attached to them and detached from them while they are there (MPI-4.1 §12.2.4).
//!
//! An origin looks the address up in the target's table each time that it reaches for it: by loads on the target's node, by a read of
//! the device elsewhere. So an address that is attached no more is an error, and nothing is reached.

use core::any::Any;
use core::marker::PhantomData;
use core::mem::size_of;
use core::ptr::NonNull;

use strait_core::hca::{Access, Region, Remote};
use strait_core::layout::Corrupt;
use strait_core::progress::{Channel, Fault, Part as Buffer, Sign};
use strait_core::rma::{ATTACHMENTS, Attachment, Block, Lane, SLOT, Table, Tag, Words, find};

use super::card::DYNAMIC;
use super::create::Offer;
use super::expose::Exposable;
use super::far::Far;
use super::part::{Part, Reach};
use super::{Accumulates, Local, Window, WindowError, WindowOptions};
use crate::{Error, Group, World, liveness};

/// Memory of this member's that is attached to a dynamic window: [`Window::attach`].
///
/// It is named by a displacement, which is for the others: the address of its first byte, and a tag by which this attachment is told
/// from earlier and later ones at the same address. The displacement of another byte is as many more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Attached {
    tag: Tag,
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: it is a name; nothing is reached through it without the window.
unsafe impl Send for Attached {}

impl Attached {
    /// The displacement of its first byte, for all operations of all members.
    #[must_use]
    pub fn displacement(&self) -> usize {
        self.tag.displace(self.address() as u64) as usize
    }

    /// The address of its first byte, as `MPI_Get_address` gives it. It is a displacement, too: that of whatever is attached there when
    /// it is used.
    #[must_use]
    pub fn address(&self) -> usize {
        self.base.addr().get()
    }
}

/// What this member has attached.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    /// In no order.
    now: Vec<Kept>,
    /// Memory that was detached. Others may still have been reaching it, so it is kept as long as the window.
    before: Vec<Box<dyn Any>>,
}

#[derive(Debug)]
struct Kept {
    attached: Attached,
    region: Option<Region>,
    memory: Option<Box<dyn Any>>,
}

impl Attachments {
    /// Gives the registrations back. Nobody reaches the memory any more.
    pub(super) fn give_back(self, world: &World) {
        for region in self.now.into_iter().filter_map(|kept| kept.region) {
            world.with_network(|network| network.release(region));
        }
    }
}

impl<'world> Group<'world> {
    /// A window to which nothing is attached yet: [`Window::attach`]. Displacements count bytes. Every member calls it.
    ///
    /// Accumulates are atomic by locks, and their origins carry them out by themselves, unless a member's device has no atomics.
    ///
    /// # Errors
    ///
    /// As [`Group::allocate_window`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.4, `MPI_WIN_CREATE_DYNAMIC`.
    pub fn dynamic_window(&self) -> Result<Window<'world>, Error> {
        self.dynamic_window_for(WindowOptions::default())
    }

    /// As [`Group::dynamic_window`], with options for its locks. What they say of accumulates makes no difference.
    ///
    /// # Errors
    ///
    /// As [`Group::allocate_window_for`].
    pub fn dynamic_window_for(
        &self,
        options: impl Into<WindowOptions>,
    ) -> Result<Window<'world>, Error> {
        let nothing = Offer { base: NonNull::dangling(), length: 0, keeper: None };
        let options = WindowOptions { accumulates: Accumulates::Any, ..options.into().by_rdma() };
        self.make_of(DYNAMIC, 1, options, |_| Ok(nothing))
    }
}

impl Window<'_> {
    /// Attaches memory to a dynamic window. The others may reach it once they know its displacement: that they are told is the
    /// program's business. The window keeps the memory; [`Window::attached`] reads it.
    ///
    /// # Errors
    ///
    /// [`WindowError::Attachments`] when 63 are there already, or the window is not dynamic; [`WindowError::Registration`] when the device
    /// cannot reach the memory.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.4, `MPI_WIN_ATTACH`.
    pub fn attach(&self, memory: impl Exposable) -> Result<Attached, Error> {
        let (base, length, keeper) = memory.expose();
        self.attach_memory(base, length, Some(keeper))
    }

    /// As [`Window::attach`], of memory that stays the caller's: what a C interface needs.
    ///
    /// # Errors
    ///
    /// As [`Window::attach`].
    ///
    /// # Safety
    ///
    /// As for [`Group::create_window_over`], until no member reaches it any more and it is detached, or the window freed.
    pub unsafe fn attach_over(&self, base: NonNull<u8>, length: usize) -> Result<Attached, Error> {
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
        let filled = self.block.attachments().fill(Attachment {
            address: base.addr().get() as u64,
            length: length as u64,
            place: place.unwrap_or(u64::MAX),
            key: region.map_or(0, |region| region.remote_key.into()),
        });
        let Some(tag) = filled else {
            region.and_then(|region| self.world.with_network(|network| network.release(region)));
            return Err(WindowError::Attachments.into());
        };
        let attached = Attached { tag, base, length };
        if let Some(beyond) = &self.own.beyond {
            let ground = Buffer { base, length };
            // SAFETY: it is taken away when it is detached. Attached memory is reached through raw pointers alone.
            unsafe { beyond.add_ground(self.world, attached.displacement() as u64, ground) };
        }
        attachments.borrow_mut().now.push(Kept { attached, region, memory });
        Ok(attached)
    }

    fn register(&self, memory: Buffer) -> Result<Option<Region>, Error> {
        if self.own.beyond.is_none() || memory.length == 0 {
            return Ok(None);
        }
        let bytes = memory.length;
        // SAFETY: it is released before the memory goes, when the window is freed or the memory detached.
        let region =
            self.world.with_network(|network| unsafe { network.register(memory, Access::ALL) });
        region.flatten().map(Some).ok_or(WindowError::Registration { bytes }.into())
    }

    /// What this member has attached where the displacement, or the address, of the first byte is this: for a caller that keeps numbers
    /// alone, as a C interface does. `None`: nothing.
    #[must_use]
    pub fn attachment(&self, displacement: usize) -> Option<Attached> {
        let own = self.own.attachments.as_ref()?.borrow();
        let mut now = own.now.iter().map(|kept| kept.attached);
        now.find(|attached| [attached.displacement(), attached.address()].contains(&displacement))
    }

    /// Detaches memory: its displacements are errors from now on. What the window keeps of it, it keeps until it is freed, since others may
    /// be reaching it. Does not wait.
    ///
    /// # Errors
    ///
    /// [`WindowError::Detached`] when it is not attached to this window.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.4, `MPI_WIN_DETACH`.
    pub fn detach(&self, attached: Attached) -> Result<(), Error> {
        let stale = || self.stale(self.group.place(), attached.displacement(), attached.length);
        let mut own = self.own.attachments.as_ref().ok_or_else(stale)?.borrow_mut();
        let at = own.now.iter().position(|kept| kept.attached == attached).ok_or_else(stale)?;
        let Kept { region, memory, .. } = own.now.swap_remove(at);
        self.block.attachments().empty(attached.tag);
        if let Some(beyond) = &self.own.beyond {
            beyond.remove_ground(self.world, attached.displacement() as u64);
        }
        own.before.extend(memory);
        region.and_then(|region| self.world.with_network(|network| network.release(region)));
        Ok(())
    }

    /// Memory that this member has attached, to be read and written by itself.
    ///
    /// # Errors
    ///
    /// As [`Window::detach`].
    pub fn attached(&self, attached: &Attached) -> Result<Local<'_>, Error> {
        let is_there = |own: &Attachments| own.now.iter().any(|kept| kept.attached == *attached);
        let place = self.group.place();
        if !self.own.attachments.as_ref().is_some_and(|own| is_there(&own.borrow())) {
            return Err(self.stale(place, attached.displacement(), attached.length));
        }
        let Attached { base, length, .. } = *attached;
        Ok(Local { base, length, place, window: PhantomData })
    }

    /// What a displacement means that lies in no part of its own: an attachment of the target's, which the part stands for until
    /// the next is looked up.
    #[cold]
    pub(super) fn locate_attached<'a>(
        &self,
        part: &'a Part,
        target: u32,
        displacement: usize,
        extent: usize,
    ) -> Result<(&'a Part, usize), Error> {
        let found = match &part.block {
            Some(block) => find(block.attachments().words(), displacement as u64, extent as u64),
            None => find(self.fetch_attachments(part)?, displacement as u64, extent as u64),
        };
        let Some((attachment, tag)) = found else {
            return Err(self.stale(target, displacement, extent));
        };
        let Attachment { address, length, place, key } = attachment;
        if let Some(far) = &part.far {
            let corrupt = || Corrupt::Heap { found: key, length, heap: 0 };
            far.part.set(Remote { address, key: u32::try_from(key).map_err(|_| corrupt())? });
            far.within.set(tag.displace(address));
        }
        part.reach.set(match &part.block {
            None => Reach::Device(address),
            Some(_) if part.rank == self.world.rank() => Reach::Mapped(self.own_base(tag)?),
            Some(_) if place == u64::MAX => self.reach_into(part, address)?,
            Some(_) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                Reach::Mapped(self.world.segment().heap_place(part.rank, place, length)?)
            }
        });
        let (_, wanted) = Tag::split(displacement as u64);
        Ok((part, (wanted - address) as usize))
    }

    fn reach_into(&self, part: &Part, address: u64) -> Result<Reach, Error> {
        let (rank, target) = (self.world.rank(), part.rank);
        let segment = self.world.segment();
        if self.world.turn().cma().reaches(&segment, target) {
            return Ok(Reach::Process(address));
        }
        if liveness::has_ended(&segment.rank_block(target).liveness) {
            return Err(Fault::PeerFailed { rank: target, sign: Sign::Ended }.into());
        }
        Err(WindowError::Barred { rank, target }.into())
    }

    /// Where an attachment of this member's begins.
    fn own_base(&self, tag: Tag) -> Result<NonNull<u8>, Error> {
        let own = self.own.attachments.as_ref().map(|own| own.borrow());
        let base = own.and_then(|own| {
            let mut now = own.now.iter().map(|kept| kept.attached);
            now.find(|attached| attached.tag == tag).map(|attached| attached.base)
        });
        base.ok_or_else(|| Corrupt::Place { found: 0 }.into())
    }

    /// The table of a member on another node.
    fn fetch_attachments(&self, part: &Part) -> Result<Vec<Words>, Error> {
        const { assert!(size_of::<Table>() <= SLOT, "one read is enough") };
        let far: &Far = part.far.as_ref().ok_or(WindowError::OtherNode { rank: part.rank })?;
        let there = far.block.after(Block::attachments_offset(self.parts.len() as u32));
        let fetch = |lane: &mut Lane, device: &mut _| lane.fetch(device, size_of::<Table>(), there);
        let number = self.ask(far, fetch)?;
        self.await_done(far, number)?;
        self.ask(far, |lane, _| {
            let words = NonNull::slice_from_raw_parts(lane.slot(number).cast(), ATTACHMENTS);
            // SAFETY: the slot is aligned, the device is done with it, and any bytes are good for numbers.
            Ok(Some(unsafe { words.as_ref() }.to_vec()))
        })
    }

    #[cold]
    fn stale(&self, target: u32, displacement: usize, extent: usize) -> Error {
        WindowError::Detached { target, displacement, extent }.into()
    }
}
