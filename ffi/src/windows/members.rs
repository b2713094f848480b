//! Who has a window, and what they choose for it.

use shim::{Accumulates, Error, Group, LockDesign, LockMode, LockPolicy, WindowOptions, World};

use crate::entry::Called;
use crate::failure::Failure;
use crate::instance::{CONTEXT_MAX, Instance};
use crate::options::{self, Sized};

/// `strait_members` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Members {
    pub(crate) size: usize,
    pub(crate) ranks: *const u32,
    pub(crate) count: u32,
    pub(crate) context: u32,
    pub(crate) single_accumulates: u32,
    pub(crate) lock_design: u32,
    pub(crate) lock_policy: u32,
    pub(crate) lock_hysteresis: u32,
    pub(crate) lock_backoff: u32,
    pub(crate) reserved: u32,
}

// SAFETY: as declared above.
unsafe impl Sized for Members {}

impl Members {
    fn options(&self) -> Called<WindowOptions> {
        let default = WindowOptions::default();
        let accumulates = match self.single_accumulates {
            0 => Accumulates::Any,
            _ => Accumulates::Single,
        };
        let backoff = if self.lock_backoff == 0 { default.backoff } else { self.lock_backoff };
        let (lock, policy) = (self.design()?, self.policy()?);
        Ok(WindowOptions { accumulates, lock, policy, backoff, ..default })
    }

    /// `strait_lock_design` in C.
    fn design(&self) -> Called<Option<LockDesign>> {
        let Some(place) = self.lock_design.checked_sub(1) else { return Ok(None) };
        match LockDesign::ALL.get(place as usize) {
            Some(design) => Ok(Some(*design)),
            None => Err(Failure::argument(format!(
                "lock design {}: use a strait_lock_design",
                self.lock_design
            ))),
        }
    }

    /// `strait_lock_policy` in C.
    fn policy(&self) -> Called<LockPolicy> {
        match self.lock_policy {
            0 => Ok(LockPolicy::Follow),
            1 => Ok(LockPolicy::Hysteresis(self.lock_hysteresis)),
            2 => Ok(LockPolicy::Pinned(LockMode::Cpu)),
            3 => Ok(LockPolicy::Pinned(LockMode::Network)),
            number => {
                Err(Failure::argument(format!("lock policy {number}: use a strait_lock_policy")))
            }
        }
    }
}

/// The group of a window that is to be made, and what its members choose.
///
/// # Safety
///
/// As `strait.h` says of `members`; the world outlives the group.
pub(super) unsafe fn read(
    instance: &Instance,
    members: *const Members,
) -> Called<(Group<'static>, WindowOptions)> {
    // SAFETY: by the contract.
    let world: &'static World = unsafe { &*core::ptr::from_ref(instance.world()) };
    // SAFETY: by the contract.
    let members = unsafe { options::read(members) }?;
    let context = members.map_or(0, |members| members.context);
    if context > CONTEXT_MAX {
        return Err(Failure::no_context(context));
    }
    let options = members.map_or_else(|| Ok(WindowOptions::default()), |members| members.options());
    let ranks: Vec<u32> = match members {
        Some(members) if !members.ranks.is_null() => {
            // SAFETY: by the contract.
            unsafe { core::slice::from_raw_parts(members.ranks, members.count as usize) }.to_vec()
        }
        _ => (0..world.size()).collect(),
    };
    let group = world.endpoint().with_context(context).group(&ranks).map_err(Error::from)?;
    Ok((group, options?))
}
