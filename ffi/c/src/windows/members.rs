//! The members of a window, and their choices for it.

use shim::{
    Accumulates, Error, Group, LockCosts, LockDesign, LockMode, LockPolicy, WindowOptions, World,
};

use crate::border::{ArrayArg, CountArg, StructInArg, Structure};
use crate::contexts::CONTEXT_MAX;
use crate::failure::{Called, Failure};
use crate::instance::Instance;

/// `strait_members` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CMembers<'call> {
    pub(crate) size: usize,
    pub(crate) ranks: ArrayArg<'call, u32>,
    pub(crate) count: CountArg<u32>,
    pub(crate) context: u32,
    pub(crate) single_accumulates: u32,
    pub(crate) lock_design: u32,
    pub(crate) lock_policy: u32,
    pub(crate) lock_hysteresis: u32,
    pub(crate) lock_backoff: u32,
    pub(crate) lock_remembered: u32,
    pub(crate) lock_cost_suiting: u64,
    pub(crate) lock_cost_other: u64,
    pub(crate) lock_cost_migration: u64,
}

// SAFETY: `repr(C)`, the first field is a size, and all-zero bytes are a value.
unsafe impl Structure for CMembers<'_> {}

impl CMembers<'_> {
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
    fn policy(&self) -> Called<Option<LockPolicy>> {
        let policy = match self.lock_policy {
            0 => return Ok(None),
            1 => LockPolicy::Hysteresis(self.lock_hysteresis),
            2 => LockPolicy::Pinned(LockMode::Cpu),
            3 => LockPolicy::Pinned(LockMode::Network),
            4 => LockPolicy::Follow,
            5 => LockPolicy::History { least: self.lock_hysteresis, of: self.lock_remembered },
            6 => LockPolicy::Cost(LockCosts {
                suiting: self.lock_cost_suiting,
                other: self.lock_cost_other,
                migration: self.lock_cost_migration,
            }),
            number => {
                let text = format!("lock policy {number}: use a strait_lock_policy");
                return Err(Failure::argument(text));
            }
        };
        match policy.is_valid() {
            true => Ok(Some(policy)),
            false => {
                Err(Failure::argument(format!("lock policy {policy}: no lock migrates by it")))
            }
        }
    }
}

/// Returns the group of a window to be made, and the choices of its members.
///
/// # Safety
///
/// The world outlives the group.
pub(super) unsafe fn read(
    instance: &Instance,
    members: StructInArg<'_, CMembers<'_>>,
) -> Called<(Group<'static>, WindowOptions)> {
    // SAFETY: the world outlives everything that refers to it (contract of `read`).
    let world: &'static World = unsafe { &*core::ptr::from_ref(instance.world()) };
    let members = members.read()?;
    let context = members.map_or(0, |members| members.context);
    if context > CONTEXT_MAX {
        return Err(Failure::no_context(context));
    }
    let options = members.map_or_else(|| Ok(WindowOptions::default()), |members| members.options());
    let ranks: Vec<u32> = match members {
        Some(members) if !members.ranks.is_null() => {
            members.ranks.slice(members.count.widened())?.to_vec()
        }
        _ => (0..world.size()).collect(),
    };
    let group = world.endpoint().with_context(context).group(&ranks).map_err(Error::from)?;
    Ok((group, options?))
}
