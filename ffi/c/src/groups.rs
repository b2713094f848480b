//! Functions that make, free and describe groups.

use core::ffi::c_int;
use std::rc::Rc;

use shim::{Error, Group, World};

use crate::border::{ArrayArg, CountArg, HandleArg, HandlePlaceArg, OutArg};
use crate::entry::enter;
use crate::failure::{Called, Code, Failure};
use crate::handle::{Handle, HandleKind};
use crate::instance::Instance;

/// Calls `act` with the open group that `group` leads to, and with its world.
#[inline(always)]
fn with_world(
    call: &'static str,
    group: HandleArg<'_>,
    act: impl FnOnce(&Instance, &Group<'static>) -> Called,
) -> c_int {
    enter(call, group, || {
        let instance = group.world_of(HandleKind::Group)?;
        let open = Rc::clone(instance.groups().get(group.handle())?);
        act(instance, &open)
    })
}

/// Calls `act` with the open group that `group` leads to.
#[inline(always)]
pub(crate) fn with(
    call: &'static str,
    group: HandleArg<'_>,
    act: impl FnOnce(&Group<'static>) -> Called,
) -> c_int {
    with_world(call, group, |_, group| act(group))
}

/// Keeps a group until it is freed, and gives C its handle.
fn keep(instance: &Instance, made: Group<'static>, group: OutArg<'_, Handle>) -> Called {
    let kept = instance.groups().insert(Rc::new(made));
    group.write(kept.map_err(|(failure, _)| failure)?)
}

#[unsafe(no_mangle)]
extern "C" fn strait_group_create(
    world: HandleArg<'_>,
    context: u32,
    ranks: ArrayArg<'_, u32>,
    count: CountArg<u32>,
    group: OutArg<'_, Handle>,
) -> c_int {
    enter("strait_group_create", world, || {
        group.need()?;
        let instance = world.world()?;
        instance.endpoint(context)?;
        // SAFETY: the world outlives its groups, since `strait_finalize` fails while there are any.
        let world: &'static World = unsafe { &*core::ptr::from_ref(instance.world()) };
        let endpoint = world.endpoint().with_context(context);
        let made = if ranks.is_null() {
            endpoint.everyone()
        } else {
            endpoint.group(ranks.slice(count.widened())?).map_err(Error::from)?
        };
        keep(instance, made, group)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_group_split(
    group: HandleArg<'_>,
    colour: i64,
    key: i64,
    part: OutArg<'_, Handle>,
) -> c_int {
    with_world("strait_group_split", group, |instance, group| {
        part.need()?;
        let colour = match colour {
            ..0 => None,
            colour => Some(u32::try_from(colour).map_err(|_| {
                Failure::argument(format!("colour {colour}: colours go up to {}", u32::MAX))
            })?),
        };
        match group.split(colour, key)? {
            Some(made) => keep(instance, made, part),
            None => part.write(Handle::NONE),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_group_duplicate(group: HandleArg<'_>, copy: OutArg<'_, Handle>) -> c_int {
    with_world("strait_group_duplicate", group, |instance, group| {
        copy.need()?;
        keep(instance, group.duplicate()?, copy)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_group_free(group: HandlePlaceArg<'_>) -> c_int {
    enter("strait_group_free", group.peek(), || {
        let (handle, instance) = group.open(HandleKind::Group)?;
        if Rc::strong_count(instance.groups().get(handle)?) > 1 {
            return Err(Failure::new(Code::Busy, "the group is in use further up the stack"));
        }
        drop(instance.groups().remove(handle));
        group.clear();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_group_size(group: HandleArg<'_>, members: OutArg<'_, u32>) -> c_int {
    with("strait_group_size", group, |group| members.write(group.ranks().len() as u32))
}

#[unsafe(no_mangle)]
extern "C" fn strait_group_place(group: HandleArg<'_>, place: OutArg<'_, u32>) -> c_int {
    with("strait_group_place", group, |group| place.write(group.place()))
}

#[unsafe(no_mangle)]
extern "C" fn strait_group_rank(group: HandleArg<'_>, place: u32, rank: OutArg<'_, u32>) -> c_int {
    with("strait_group_rank", group, |group| {
        let found = group.ranks().get(place as usize).copied();
        let members = group.ranks().len();
        rank.write(
            found.ok_or_else(|| {
                Failure::argument(format!("place {place} of a group of {members}"))
            })?,
        )
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_group_barrier(group: HandleArg<'_>) -> c_int {
    with("strait_group_barrier", group, |group| Ok(group.barrier()?))
}
