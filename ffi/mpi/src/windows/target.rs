//! The memory of a target that an operation accesses.

use core::ffi::c_int;

use strait::ByteRun;

use super::refusal::WindowRefusal;
use super::table::Win;
use crate::abi::{ERR_COUNT, Handle, windows as abi};
use crate::front::state::Front;

/// The arguments of an operation that describe the target's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetArgs {
    pub(crate) rank: c_int,
    /// In units of the target; an address in a dynamic window.
    pub(crate) displacement: i64,
    pub(crate) count: i64,
    pub(crate) datatype: Handle,
}

/// Memory of a target, in bytes from the start of its part.
#[derive(Debug)]
pub(crate) struct TargetPlace {
    pub(crate) target: u32,
    pub(crate) at: usize,
    pub(crate) bytes: usize,
    /// The runs from `at` on, if there are several.
    pub(crate) runs: Option<Vec<ByteRun>>,
}

/// One run of a target's memory, in bytes from the start of its part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetRun {
    pub(crate) target: u32,
    pub(crate) at: usize,
    pub(crate) bytes: usize,
}

impl TargetArgs {
    /// Returns the memory, if it is one run of a known datatype and an operation at it is allowed
    /// now.
    #[inline(always)]
    pub(crate) fn locate_run(&self, front: &Front, win: &Win) -> Option<TargetRun> {
        let target = win.target(self.rank).ok()?;
        let at = self.start(win, target).ok()?;
        let size = front.types.known_size(self.datatype)?;
        let bytes = usize::try_from(self.count).ok()?.checked_mul(size)?;
        Some(TargetRun { target, at, bytes })
    }

    /// Returns the memory, if an operation at it is allowed now.
    #[inline(always)]
    pub(crate) fn locate(&self, front: &Front, win: &Win) -> Result<TargetPlace, WindowRefusal> {
        let target = win.target(self.rank)?;
        let at = self.start(win, target)?;
        let Ok(count) = usize::try_from(self.count) else {
            return Err(WindowRefusal::Class(ERR_COUNT));
        };
        if let Some(size) = front.types.known_size(self.datatype)
            && let Some(bytes) = count.checked_mul(size)
        {
            return Ok(TargetPlace { target, at, bytes, runs: None });
        }
        self.locate_runs(front, target, at, count)
    }

    /// Returns the displacement in bytes.
    #[inline(always)]
    fn start(&self, win: &Win, target: u32) -> Result<usize, WindowRefusal> {
        let unit = win.units.get(target as usize).copied().unwrap_or(1);
        let at = usize::try_from(self.displacement).ok().and_then(|at| at.checked_mul(unit));
        at.ok_or(WindowRefusal::Class(abi::ERR_RMA_RANGE))
    }

    #[inline(never)]
    fn locate_runs(
        &self,
        front: &Front,
        target: u32,
        start: usize,
        count: usize,
    ) -> Result<TargetPlace, WindowRefusal> {
        let flat = front.types.find(self.datatype)?;
        let outside = || WindowRefusal::Class(abi::ERR_RMA_RANGE);
        let bytes = flat.size.checked_mul(count).ok_or_else(outside)?;
        if bytes == 0 {
            return Ok(TargetPlace { target, at: start, bytes, runs: None });
        }
        let move_by = |from: usize, by: i64| from.checked_add_signed(by as isize);
        if let Some(run) = flat.single_run() {
            let at = move_by(start, run.offset).ok_or_else(outside)?;
            return Ok(TargetPlace { target, at, bytes, runs: None });
        }
        let (runs, extent) = (&flat.runs, flat.extent);
        let places: Vec<_> = (0..count as i64)
            .flat_map(|number| {
                runs.iter().map(move |run| (number * extent + run.offset, run.bytes))
            })
            .collect();
        let first = places.iter().map(|(offset, _)| *offset).min().unwrap_or(0);
        let at = move_by(start, first).ok_or_else(outside)?;
        let run = |(offset, length)| ByteRun { offset: (offset - first) as usize, length };
        Ok(TargetPlace { target, at, bytes, runs: Some(places.into_iter().map(run).collect()) })
    }
}
