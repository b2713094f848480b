//! The vectors of collective operations: the program's memory where its bytes lie in a row, and a
//! packed copy otherwise.

use core::ops::Range;

use strait::bytemuck::{cast_slice, cast_slice_mut};
use strait::raw::{Part, RawBlocks};

use super::CollectiveRefusal;
use crate::abi::Handle;
use crate::front::flat::FlatType;
use crate::front::host::{MpiCount, Pointer};
use crate::front::pack::{part, whole};
use crate::front::shared::Shared;
use crate::front::state::Front;

/// An array of numbers of the program, of either kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Numbers {
    Small(*const core::ffi::c_int),
    Large(*const MpiCount),
}

impl Numbers {
    /// Reads a number.
    ///
    /// # Safety
    ///
    /// The array has that many numbers.
    pub(super) unsafe fn at(self, place: usize) -> i64 {
        // SAFETY: the caller guarantees it (contract of `at`).
        unsafe {
            match self {
                Self::Small(numbers) => (*numbers.add(place)).into(),
                Self::Large(numbers) => *numbers.add(place),
            }
        }
    }
}

/// Elements of one type, one behind the other.
struct TypedElements {
    base: usize,
    count: usize,
    flat: Shared<FlatType>,
}

impl TypedElements {
    fn new(
        front: &Front,
        base: usize,
        count: i64,
        datatype: Handle,
    ) -> Result<Self, CollectiveRefusal> {
        let flat = front.types.find_for(count, datatype)?;
        let count = usize::try_from(count).map_err(|_| CollectiveRefusal::Argument)?;
        count.checked_mul(flat.size).ok_or(CollectiveRefusal::Argument)?;
        if flat.is_at_null(base, count) {
            return Err(CollectiveRefusal::Argument);
        }
        Ok(Self { base, count, flat })
    }

    fn bytes(&self) -> usize {
        self.count * self.flat.size
    }

    fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Returns the address of the bytes, if they lie in a row.
    fn row(&self) -> Option<usize> {
        let flat = &*self.flat;
        let run = match *flat.runs {
            [run] if self.count == 1 || run.bytes as i64 == flat.extent => run,
            _ => return None,
        };
        Some(self.base.wrapping_add_signed(run.offset as isize))
    }
}

/// A vector of bytes.
pub(super) struct Vector {
    /// The bytes, in the program's memory or in `copy`.
    pub(super) part: Part,
    packed: Option<PackedVector>,
}

/// A packed copy, and where its bytes belong.
struct PackedVector {
    copy: Vec<u128>,
    elements: Vec<TypedElements>,
}

impl Vector {
    /// A vector without bytes, where the program passes none.
    pub(super) fn nothing() -> Self {
        Self { part: part(0, 0), packed: None }
    }

    /// Returns the bytes of `count` elements.
    pub(super) fn new(
        front: &Front,
        base: Pointer,
        count: i64,
        datatype: Handle,
    ) -> Result<Self, CollectiveRefusal> {
        if let Some(part) = whole(&front.types, base, count, datatype) {
            return Ok(Self { part, packed: None });
        }
        let elements = TypedElements::new(front, base.expose_provenance(), count, datatype)?;
        let length = elements.bytes();
        if elements.is_empty() {
            return Ok(Self::nothing());
        }
        if let Some(at) = elements.row() {
            return Ok(Self { part: part(at, length), packed: None });
        }
        Ok(Self::packed(length, vec![elements]))
    }

    /// Returns a copy of the bytes, which belong nowhere.
    ///
    /// # Safety
    ///
    /// The elements can be read.
    pub(super) unsafe fn copied(&self) -> Self {
        let copy = Self::packed(self.part.length, Vec::new());
        // SAFETY: both have that many bytes. The caller guarantees that ours can be read.
        unsafe {
            let (from, to) = (self.part.base.as_ptr(), copy.part.base.as_ptr());
            core::ptr::copy_nonoverlapping(from, to, copy.part.length);
        }
        copy
    }

    fn packed(bytes: usize, elements: Vec<TypedElements>) -> Self {
        let mut copy = vec![0_u128; bytes.div_ceil(size_of::<u128>())];
        let part = part(copy.as_mut_ptr().expose_provenance(), bytes);
        Self { part, packed: Some(PackedVector { copy, elements }) }
    }

    /// Returns the vector at an address that `align` divides: in a copy if it has to be.
    pub(super) fn aligned(
        self,
        front: &Front,
        align: usize,
        (base, count, datatype): (Pointer, i64, Handle),
    ) -> Result<Self, CollectiveRefusal> {
        if self.packed.is_some() || self.part.base.as_ptr().addr().is_multiple_of(align) {
            return Ok(self);
        }
        let elements = TypedElements::new(front, base.expose_provenance(), count, datatype)?;
        Ok(Self::packed(self.part.length, vec![elements]))
    }

    /// Reads what the program sends.
    ///
    /// # Safety
    ///
    /// The elements can be read.
    pub(super) unsafe fn load(mut self) -> Self {
        if let Some(PackedVector { copy, elements }) = &mut self.packed {
            let mut rest: &mut [u8] = cast_slice_mut(copy);
            for (at, length) in elements.iter().flat_map(runs) {
                let (to, behind) = rest.split_at_mut(length);
                let from = core::ptr::with_exposed_provenance::<u8>(at);
                // SAFETY: the caller guarantees that the elements can be read.
                unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), length) };
                rest = behind;
            }
        }
        self
    }

    /// Writes what the program receives.
    ///
    /// # Safety
    ///
    /// The elements can be written, and nothing else accesses them.
    pub(super) unsafe fn store(&self) {
        let Some(PackedVector { copy, elements }) = &self.packed else { return };
        let mut rest: &[u8] = cast_slice(copy);
        for (at, length) in elements.iter().flat_map(runs) {
            let (from, behind) = rest.split_at(length);
            let to = core::ptr::with_exposed_provenance_mut::<u8>(at);
            // SAFETY: the caller guarantees that the elements can be written.
            unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, length) };
            rest = behind;
        }
    }
}

/// Returns addresses and lengths of the runs of elements.
fn runs(elements: &TypedElements) -> impl Iterator<Item = (usize, usize)> {
    elements.flat.addresses(elements.base, elements.count)
}

/// A vector in blocks, one for each member.
pub(super) struct MemberBlocks {
    pub(super) vector: Vector,
    division: Division,
}

/// Where the blocks of a vector are.
enum Division {
    /// Blocks of this many bytes, one behind the other.
    Equal(usize),
    /// The range of bytes of each block.
    Ranges(Vec<Range<usize>>),
}

impl MemberBlocks {
    /// Returns blocks of `count` elements each, one behind the other.
    pub(super) fn equal(
        front: &Front,
        (base, count, datatype): (Pointer, i64, Handle),
        members: usize,
    ) -> Result<Self, CollectiveRefusal> {
        let total = count.checked_mul(members as i64).ok_or(CollectiveRefusal::Argument)?;
        let vector = Vector::new(front, base, total, datatype)?;
        let division = Division::Equal(vector.part.length / members);
        Ok(Self { vector, division })
    }

    /// Returns where the blocks are.
    pub(super) fn raw(&self) -> RawBlocks<'_> {
        match &self.division {
            Division::Equal(bytes) => RawBlocks::Equal(*bytes),
            Division::Ranges(ranges) => RawBlocks::Ranges(ranges),
        }
    }

    /// Returns whether a part is the block of a place.
    pub(super) fn is_at(&self, place: usize, part: Part) -> bool {
        let block = match &self.division {
            Division::Equal(bytes) => place * bytes..(place + 1) * bytes,
            Division::Ranges(ranges) => ranges[place].clone(),
        };
        let address = self.vector.part.base.addr().get() + block.start;
        part.base.addr().get() == address && part.length == block.len()
    }

    /// Returns blocks of elements of one type. `offsets` are counted in its extents.
    ///
    /// # Safety
    ///
    /// Both arrays have a number for each member.
    pub(super) unsafe fn of_one_type(
        front: &Front,
        base: Pointer,
        (counts, offsets): (Numbers, Numbers),
        datatype: Handle,
        members: usize,
    ) -> Result<Self, CollectiveRefusal> {
        // SAFETY: the array has a number for each member (contract of `of_one_type`).
        let all_counts = (0..members).fold(0, |all, place| all | unsafe { counts.at(place) });
        let extent = front.types.find_for(all_counts, datatype)?.extent;
        let all = (0..members).map(|place| {
            // SAFETY: the caller guarantees it (contract of `of_one_type`).
            let (count, offset) = unsafe { (counts.at(place), offsets.at(place)) };
            let distance = offset.checked_mul(extent).ok_or(CollectiveRefusal::Argument)?;
            let at = base.expose_provenance().wrapping_add_signed(distance as isize);
            TypedElements::new(front, at, count, datatype)
        });
        Ok(Self::new(all.collect::<Result<_, _>>()?))
    }

    /// Returns blocks of elements of a type for each. `offsets` are in bytes.
    ///
    /// # Safety
    ///
    /// All arrays have a place for each member.
    pub(super) unsafe fn of_types(
        front: &Front,
        base: Pointer,
        (counts, offsets): (Numbers, Numbers),
        datatypes: *const Handle,
        members: usize,
    ) -> Result<Self, CollectiveRefusal> {
        let all = (0..members).map(|place| {
            // SAFETY: the caller guarantees it (contract of `of_types`).
            let (count, offset, datatype) =
                unsafe { (counts.at(place), offsets.at(place), *datatypes.add(place)) };
            let at = base.expose_provenance().wrapping_add_signed(offset as isize);
            TypedElements::new(front, at, count, datatype)
        });
        Ok(Self::new(all.collect::<Result<_, _>>()?))
    }

    fn new(all: Vec<TypedElements>) -> Self {
        Self::in_place(&all).unwrap_or_else(|| Self::packed(all))
    }

    /// Returns the blocks where they are, if the bytes of each lie in a row.
    fn in_place(all: &[TypedElements]) -> Option<Self> {
        let filled = || all.iter().filter(|elements| !elements.is_empty());
        let rows: Option<Vec<usize>> = filled().map(TypedElements::row).collect();
        let first = rows?.into_iter().min();
        let Some(first) = first else {
            let division = Division::Ranges(vec![0..0; all.len()]);
            return Some(Self { vector: Vector::nothing(), division });
        };
        let range = |elements: &TypedElements| match elements.row() {
            Some(at) if !elements.is_empty() => at - first..at - first + elements.bytes(),
            _ => 0..0,
        };
        let ranges: Vec<_> = all.iter().map(range).collect();
        let length = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        let vector = Vector { part: part(first, length), packed: None };
        Some(Self { vector, division: Division::Ranges(ranges) })
    }

    fn packed(all: Vec<TypedElements>) -> Self {
        let mut end = 0;
        let range = |elements: &TypedElements| {
            let start = end;
            end += elements.bytes();
            start..end
        };
        let division = Division::Ranges(all.iter().map(range).collect());
        Self { vector: Vector::packed(end, all), division }
    }

    /// As [`Vector::load`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    pub(super) unsafe fn load(mut self) -> Self {
        // SAFETY: the caller guarantees the same.
        self.vector = unsafe { self.vector.load() };
        self
    }
}
