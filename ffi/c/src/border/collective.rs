//! Memory that C lends to a collective operation, and the operations that use it.

use core::ffi::c_void;
use core::marker::PhantomData;

use shim::raw::{Operator, Part, RawBlocks, RawGroup as _, in_pieces};
use shim::{Error, Group};

use super::memory::{BufferArg, DataArg, part};
use super::place::CountArg;
use crate::failure::{Called, Failure};

/// `STRAIT_IN_PLACE` in C.
const IN_PLACE: usize = usize::MAX;

/// Memory that the call reads. `None` stands for `STRAIT_IN_PLACE`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LentData<'call>(Option<Part>, PhantomData<&'call [u8]>);

/// Memory that the call reads and writes.
#[derive(Debug)]
pub(crate) struct LentBuffer<'call>(Part, PhantomData<&'call mut [u8]>);

/// Refuses memory that does not lie on a multiple of `align`.
fn check_aligned(base: *const c_void, bytes: usize, align: usize) -> Called {
    if bytes == 0 || base.addr().is_multiple_of(align) {
        return Ok(());
    }
    Err(Failure::argument(format!("numbers lie at {base:?}, which is no multiple of their size")))
}

impl<'call> DataArg<'call> {
    pub(crate) fn is_in_place(self) -> bool {
        self.base.addr() == IN_PLACE
    }

    /// Lends the memory to a collective operation. Null is allowed when the length is zero.
    pub(crate) fn lend(self, bytes: CountArg, align: usize) -> Called<LentData<'call>> {
        if self.is_in_place() {
            return Ok(LentData(None, PhantomData));
        }
        check_aligned(self.base, bytes.get(), align)?;
        Ok(LentData(Some(part(self.base, bytes.get())?), PhantomData))
    }
}

impl<'call> BufferArg<'call> {
    pub(crate) fn is_in_place(&self) -> bool {
        self.base.addr() == IN_PLACE
    }

    /// Lends the memory to a collective operation. Null is allowed when the length is zero.
    pub(crate) fn lend(self, bytes: CountArg, align: usize) -> Called<LentBuffer<'call>> {
        check_aligned(self.base, bytes.get(), align)?;
        Ok(LentBuffer(part(self.base, bytes.get())?, PhantomData))
    }
}

impl LentData<'_> {
    pub(crate) fn gather(
        self,
        group: &Group<'_>,
        all: LentBuffer<'_>,
        blocks: RawBlocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        // SAFETY: only the call uses the memory (invariants of both types).
        unsafe { group.gather_raw(self.0, all.0, blocks, root) }
    }

    /// Scatters this memory. `own` is `None` at a root that leaves its block in place.
    pub(crate) fn scatter(
        self,
        group: &Group<'_>,
        own: Option<LentBuffer<'_>>,
        blocks: RawBlocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        let all = self.0.unwrap_or(NOTHING);
        // SAFETY: only the call uses the memory (invariants of both types).
        unsafe { group.scatter_raw(all, own.map(|own| own.0), blocks, root) }
    }

    pub(crate) fn allgather(
        self,
        group: &Group<'_>,
        all: LentBuffer<'_>,
        blocks: RawBlocks<'_>,
    ) -> Result<(), Error> {
        // SAFETY: only the call uses the memory (invariants of both types).
        unsafe { group.allgather_raw(self.0, all.0, blocks) }
    }

    pub(crate) fn alltoall(
        self,
        group: &Group<'_>,
        from: RawBlocks<'_>,
        into: LentBuffer<'_>,
        to: RawBlocks<'_>,
    ) -> Result<(), Error> {
        // SAFETY: only the call uses the memory (invariants of both types).
        unsafe { group.alltoall_raw(self.0.map(|out| (out, from)), into.0, to) }
    }

    pub(crate) fn reduce(
        self,
        group: &Group<'_>,
        result: Option<LentBuffer<'_>>,
        op: &dyn Operator,
        root: u32,
    ) -> Result<(), Error> {
        // SAFETY: only the call uses the memory (invariants of both types).
        unsafe { group.reduce_raw(self.0, result.map(|result| result.0), op, root) }
    }

    pub(crate) fn allreduce(
        self,
        group: &Group<'_>,
        result: LentBuffer<'_>,
        op: &dyn Operator,
    ) -> Result<(), Error> {
        // SAFETY: only the call uses the memory (invariants of both types).
        unsafe { group.allreduce_raw(self.0, result.0, op) }
    }

    pub(crate) fn reduce_scatter(
        self,
        group: &Group<'_>,
        result: LentBuffer<'_>,
        blocks: RawBlocks<'_>,
        op: &dyn Operator,
    ) -> Result<(), Error> {
        // SAFETY: only the call uses the memory (invariants of both types).
        unsafe { group.reduce_scatter_raw(self.0, result.0, blocks, op) }
    }

    pub(crate) fn scan(
        self,
        group: &Group<'_>,
        result: LentBuffer<'_>,
        op: &dyn Operator,
    ) -> Result<(), Error> {
        // SAFETY: only the call uses the memory (invariants of both types).
        unsafe { group.scan_raw(self.0, result.0, op) }
    }

    pub(crate) fn exscan(
        self,
        group: &Group<'_>,
        result: LentBuffer<'_>,
        op: &dyn Operator,
    ) -> Result<(), Error> {
        // SAFETY: only the call uses the memory (invariants of both types).
        unsafe { group.exscan_raw(self.0, result.0, op) }
    }
}

/// Memory of no bytes.
const NOTHING: Part = Part { base: core::ptr::NonNull::dangling(), length: 0 };

/// `strait_function` in C: `right[i] = left[i] op right[i]`.
pub(crate) type CFunction =
    unsafe extern "C" fn(*const c_void, *mut c_void, count: usize, context: *mut c_void);

/// An operation that a function of C carries out.
///
/// Invariant: the function obeys `strait.h`. It reads `count` elements at the first address, and
/// replaces those at the second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionOperator {
    function: CFunction,
    context: *mut c_void,
    element: usize,
}

impl FunctionOperator {
    /// Returns the operation. `element` is the size of an element in bytes.
    pub(super) const fn new(function: CFunction, context: *mut c_void, element: usize) -> Self {
        Self { function, context, element }
    }

    fn call(&self, left: &[u8], right: &mut [u8]) {
        let count = right.len() / self.element;
        // SAFETY: the function reads and writes as many elements (invariant) as the slices have.
        unsafe {
            (self.function)(left.as_ptr().cast(), right.as_mut_ptr().cast(), count, self.context);
        }
    }
}

impl Operator for FunctionOperator {
    fn element(&self) -> usize {
        self.element
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn with_higher(&self, mine: &mut [u8], theirs: &[u8]) {
        in_pieces(self.element, mine, theirs, |mine, copy| {
            self.call(mine, copy);
            mine.copy_from_slice(copy);
        });
    }

    fn with_lower(&self, mine: &mut [u8], theirs: &[u8]) {
        self.call(theirs, mine);
    }
}

/// `strait_reduction` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CReduction {
    pub(crate) size: usize,
    pub(crate) r#type: super::numbers::TypeArg,
    pub(crate) op: core::ffi::c_int,
    pub(crate) function: Option<CFunction>,
    pub(crate) context: *mut c_void,
    pub(crate) element: usize,
}

// SAFETY: `repr(C)`, the first field is a size, and all-zero bytes are a value.
unsafe impl super::structure::Structure for CReduction {}

impl CReduction {
    /// Returns a reduction of numbers, as a fuzzer passes it.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn of_numbers(r#type: core::ffi::c_int, op: core::ffi::c_int) -> Self {
        Self {
            size: size_of::<Self>(),
            r#type: super::numbers::TypeArg::of(r#type),
            op,
            function: None,
            context: core::ptr::null_mut(),
            element: 0,
        }
    }

    /// Returns the function of C, if there is one.
    pub(crate) fn function(&self) -> Called<Option<FunctionOperator>> {
        match self.function {
            Some(_) if self.element == 0 => {
                Err(Failure::argument("a function on elements of 0 bytes: set element"))
            }
            // The promise of C about the function is the invariant of the operator.
            Some(function) => Ok(Some(FunctionOperator::new(function, self.context, self.element))),
            None => Ok(None),
        }
    }
}
