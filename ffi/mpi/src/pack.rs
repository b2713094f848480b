//! The memory of a message: the program's buffer as it is, its parts, or a packed copy.

use core::ptr::NonNull;

use strait::raw::Part;

use super::flat::FlatType;
use super::host::Pointer;
use super::types::{TypeCache, TypeRefused};
use crate::abi::{self, Handle};
use crate::front::shared::Shared;

/// Mean length in bytes from which on runs are sent where they are. Shorter ones are packed.
const LONG_RUN: usize = 1024;

/// Memory of a message.
#[derive(Debug)]
pub(crate) enum MessageMemory {
    /// One piece of the program's buffer.
    Whole(Part),
    /// Pieces of the program's buffer.
    Parts(Box<[Part]>),
    /// A copy, which is the message of a send or becomes that of a receive.
    Packed(Box<PackedCopy>),
}

/// A packed copy, and where its bytes belong.
#[derive(Debug)]
pub(crate) struct PackedCopy {
    bytes: Vec<u8>,
    base: usize,
    count: usize,
    flat: Shared<FlatType>,
}

/// The elements of a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Elements {
    pub(crate) base: Pointer,
    pub(crate) count: i64,
    pub(crate) datatype: Handle,
    /// The flat datatype, where the program may have freed the handle.
    held: Option<Shared<FlatType>>,
}

/// The reason why memory cannot be used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ElementsRefused {
    /// An argument is wrong: the class of the error.
    Argument(core::ffi::c_int),
    /// A function of the host failed, and has reported it.
    Reported(core::ffi::c_int),
}

impl From<TypeRefused> for ElementsRefused {
    fn from(refused: TypeRefused) -> Self {
        match refused {
            TypeRefused::Argument => Self::Argument(abi::ERR_TYPE),
            TypeRefused::Reported(code) => Self::Reported(code),
        }
    }
}

/// Returns a piece of memory. A piece without bytes may lie anywhere, aligned for all numbers.
pub(crate) fn part(address: usize, length: usize) -> Part {
    let base = core::ptr::with_exposed_provenance_mut(address);
    match NonNull::new(base) {
        Some(base) if length > 0 => Part { base, length },
        _ => Part { base: NonNull::<u128>::dangling().cast(), length: 0 },
    }
}

/// Returns the bytes of elements without gaps, if they are known to have none.
#[inline(always)]
pub(crate) fn whole(
    types: &TypeCache,
    base: Pointer,
    count: i64,
    datatype: Handle,
) -> Option<Part> {
    let size = types.known_size(datatype)?;
    let length = usize::try_from(count).ok()?.checked_mul(size)?;
    match NonNull::new(base.cast()) {
        Some(base) => Some(Part { base, length }),
        None if length == 0 => Some(Part { base: NonNull::dangling(), length }),
        None => None,
    }
}

impl Elements {
    #[inline(always)]
    pub(crate) const fn new(base: Pointer, count: i64, datatype: Handle) -> Self {
        Self { base, count, datatype, held: None }
    }

    /// Keeps the flat datatype, so that the program may free the handle.
    pub(crate) fn hold(&mut self, types: &TypeCache) -> Result<(), ElementsRefused> {
        self.held = Some(self.checked(types)?.1);
        Ok(())
    }

    fn flat(&self, types: &TypeCache) -> Result<Shared<FlatType>, ElementsRefused> {
        match &self.held {
            Some(flat) => Ok(Shared::clone(flat)),
            None => Ok(types.find_for(self.count, self.datatype)?),
        }
    }

    /// Returns the bytes of elements without gaps, if they are known to have none.
    pub(crate) fn whole(&self, types: &TypeCache) -> Option<Part> {
        whole(types, self.base, self.count, self.datatype)
    }

    /// Returns the bytes of elements without gaps, of a datatype that is held.
    pub(crate) fn held_whole(&self) -> Option<Part> {
        let flat = self.held.as_ref().filter(|flat| flat.is_contiguous())?;
        let length = usize::try_from(self.count).ok()?.checked_mul(flat.size)?;
        let base = NonNull::new(self.base.cast())?;
        Some(Part { base, length })
    }

    /// Returns the number of elements, their datatype, their address and the length in bytes.
    fn checked(
        &self,
        types: &TypeCache,
    ) -> Result<(usize, Shared<FlatType>, usize, usize), ElementsRefused> {
        let wrong_count = ElementsRefused::Argument(abi::ERR_COUNT);
        let count = usize::try_from(self.count).map_err(|_| wrong_count)?;
        let (flat, base) = (self.flat(types)?, self.base.expose_provenance());
        let bytes = count.checked_mul(flat.size).ok_or(wrong_count)?;
        if flat.is_at_null(base, count) {
            return Err(ElementsRefused::Argument(abi::ERR_BUFFER));
        }
        Ok((count, flat, base, bytes))
    }

    /// Returns the memory to send from: `is_sent`; or to receive into.
    ///
    /// # Safety
    ///
    /// The elements of a send can be read.
    pub(crate) unsafe fn memory(
        &self,
        types: &TypeCache,
        is_sent: bool,
    ) -> Result<MessageMemory, ElementsRefused> {
        if self.held.is_none()
            && let Some(part) = self.whole(types)
        {
            return Ok(MessageMemory::Whole(part));
        }
        let (count, flat, base, bytes) = self.checked(types)?;
        if let Some(run) = flat.single_run() {
            return Ok(MessageMemory::Whole(part(
                base.wrapping_add_signed(run.offset as isize),
                bytes,
            )));
        }
        if bytes == 0 {
            return Ok(MessageMemory::Whole(part(0, 0)));
        }
        if count == 1 && flat.runs.len() == 1 {
            let at = base.wrapping_add_signed(flat.runs[0].offset as isize);
            return Ok(MessageMemory::Whole(part(at, bytes)));
        }
        if flat.mean_run() >= LONG_RUN {
            let parts = flat.addresses(base, count).map(|(at, length)| part(at, length));
            return Ok(MessageMemory::Parts(parts.collect()));
        }
        let mut copy = PackedCopy { bytes: Vec::with_capacity(bytes), base, count, flat };
        if is_sent {
            // SAFETY: the caller guarantees that the elements can be read.
            unsafe { copy.pack() };
        } else {
            copy.bytes.resize(bytes, 0);
        }
        Ok(MessageMemory::Packed(Box::new(copy)))
    }

    /// Returns a copy of the elements' bytes.
    ///
    /// # Safety
    ///
    /// The elements can be read.
    pub(crate) unsafe fn copied(
        &self,
        types: &TypeCache,
    ) -> Result<Box<PackedCopy>, ElementsRefused> {
        let (count, flat, base, bytes) = self.checked(types)?;
        let mut copy = PackedCopy { bytes: Vec::with_capacity(bytes), base, count, flat };
        // SAFETY: the caller guarantees that the elements can be read.
        unsafe { copy.pack() };
        Ok(Box::new(copy))
    }
}

impl PackedCopy {
    /// Returns the copy's bytes.
    pub(crate) fn part(&mut self) -> Part {
        let length = self.bytes.len();
        part(self.bytes.as_mut_ptr().expose_provenance(), length)
    }

    /// # Safety
    ///
    /// The elements can be read.
    unsafe fn pack(&mut self) {
        if let Some(run) = self.flat.single_run() {
            let at = self.base.wrapping_add_signed(run.offset as isize);
            let all = part(at, self.count * self.flat.size);
            // SAFETY: the caller guarantees that the elements can be read. They have no gaps.
            self.bytes.extend_from_slice(unsafe {
                core::slice::from_raw_parts(all.base.as_ptr(), all.length)
            });
            return;
        }
        for (at, length) in self.flat.addresses(self.base, self.count) {
            let run = core::ptr::with_exposed_provenance::<u8>(at);
            // SAFETY: the caller guarantees that the elements can be read.
            self.bytes.extend_from_slice(unsafe { core::slice::from_raw_parts(run, length) });
        }
    }

    /// Writes the first `received` bytes to where they belong.
    ///
    /// # Safety
    ///
    /// The elements can be written, and nothing else accesses them.
    pub(crate) unsafe fn unpack(&self, received: usize) {
        let mut rest = self.bytes.get(..received).unwrap_or(&self.bytes);
        for (at, length) in self.flat.addresses(self.base, self.count) {
            let (run, behind) = rest.split_at(length.min(rest.len()));
            let place = core::ptr::with_exposed_provenance_mut::<u8>(at);
            // SAFETY: the caller guarantees that the elements can be written. `run` is our copy.
            unsafe { core::ptr::copy_nonoverlapping(run.as_ptr(), place, run.len()) };
            rest = behind;
            if rest.is_empty() {
                return;
            }
        }
    }
}
