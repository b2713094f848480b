//! Additions to one number of a mapped part.

use strait_core::reduce::Op;
use strait_core::rma::StripeBias;

use super::Window;
use super::accumulate::check_alignment;
use super::stripes::{is_biased, takes_lock};
use crate::Number;

impl Window<'_> {
    /// Adds `operand` to one number of the target's part, if an atomic instruction of the processor
    /// is all that this takes, or that under the stripe's lock, which is free. Returns the previous
    /// number, or `None` without having done anything: [`Window::fetch_and_op`] serves every call.
    ///
    /// Most accumulates of programs are such additions, often few at a time. The code of the other
    /// ways takes many cache lines, of which few are left when a rank has waited for long.
    #[inline(always)]
    pub(crate) fn add_at_once<T: Number>(
        &self,
        operand: T,
        target: u32,
        displacement: usize,
    ) -> Option<T> {
        let part = self.parts.get(target as usize).filter(|part| !part.awaited.get())?;
        let offset = part.offset_of(displacement, size_of::<T>())?;
        check_alignment::<T>(part, offset).ok()?;
        let place = self.place::<T>(part, offset)?;
        if is_biased(part, offset) {
            return place.fetch_and_op(Op::Sum, operand);
        }
        let block = part.block.as_ref().filter(|block| takes_lock(part, block, offset))?;
        let _guard = self.try_lock_stripe(block, offset)?;
        if block.bias().is_known_settled(StripeBias::stripe(offset)) {
            return place.add_alone(operand);
        }
        place.fetch_and_op(Op::Sum, operand)
    }
}
