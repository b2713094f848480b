//! Functions on several requests. They ignore inactive requests.

use core::cell::RefCell;
use core::task::Poll;

use strait_core::layout::{Call, RankSet, RequestWait, Wait};
use strait_core::matching::ANY_SOURCE;

use super::Request;
use crate::{Error, World};

/// Waits for all of `requests`. Each request keeps its status. The requests may belong to different
/// scopes.
///
/// ```
/// # strait::World::run_in_process(3, |world| {
/// # let endpoint = world.endpoint();
/// # if world.rank() > 0 {
/// #     return endpoint.send(&[world.rank()], 0, 0);
/// # }
/// let (mut one, mut two) = ([0], [0]);
/// endpoint.scope(|scope| {
///     let mut requests = [scope.irecv(&mut one, 1, 0)?, scope.irecv(&mut two, 2, 0)?];
///     strait::wait_all(&mut requests)?;
///     Ok::<(), strait::Error>(())
/// })?;
/// # Ok(()) }).unwrap();
/// ```
///
/// # Errors
///
/// The first failure in the list, after all operations have ended.
///
/// # Source
///
/// MPI-4.1 §3.7.5, `MPI_WAITALL`.
pub fn wait_all(requests: &mut [Request<'_>]) -> Result<(), Error> {
    let mut result = Ok(());
    for (_, request) in active(requests) {
        result = result.and(request.finish().map(drop));
    }
    result
}

/// Waits until one of `requests` is complete and returns its index. Returns `None` when no request
/// is active. That request holds the status.
///
/// ```
/// # strait::World::run_in_process(3, |world| {
/// # let endpoint = world.endpoint();
/// # if world.rank() > 0 {
/// #     return endpoint.send(&[world.rank()], 0, 0);
/// # }
/// let (mut one, mut two) = ([0], [0]);
/// endpoint.scope(|scope| {
///     let mut requests = [scope.irecv(&mut one, 1, 0)?, scope.irecv(&mut two, 2, 0)?];
///     while let Some(index) = strait::wait_any(&mut requests)? {
///         println!("{:?}", requests[index].status()?);
///     }
///     Ok::<(), strait::Error>(())
/// })?;
/// # Ok(()) }).unwrap();
/// ```
///
/// # Errors
///
/// [`Error::Corrupt`] or [`Error::OutOfMemory`] when no progress can be made.
///
/// # Source
///
/// MPI-4.1 §3.7.5, `MPI_WAITANY`.
pub fn wait_any(requests: &mut [Request<'_>]) -> Result<Option<usize>, Error> {
    let Some(world) = world_of(requests) else { return Ok(None) };
    let requests = RefCell::new(requests);
    let what = || wait_of(Call::WaitAny, &requests.borrow());
    world.wait_until(what, || tell_first(*requests.borrow_mut())).map(Some)
}

/// Waits until at least one of `requests` is complete, and returns the indices of all complete
/// ones. Returns an empty list when no request is active. These requests hold their statuses.
///
/// ```
/// # strait::World::run_in_process(3, |world| {
/// # let endpoint = world.endpoint();
/// # if world.rank() > 0 {
/// #     return endpoint.send(&[world.rank()], 0, 0);
/// # }
/// let (mut one, mut two) = ([0], [0]);
/// endpoint.scope(|scope| {
///     let mut requests = [scope.irecv(&mut one, 1, 0)?, scope.irecv(&mut two, 2, 0)?];
///     while let done = strait::wait_some(&mut requests)?
///         && !done.is_empty()
///     {
///         println!("{} receives are complete", done.len());
///     }
///     Ok::<(), strait::Error>(())
/// })?;
/// # Ok(()) }).unwrap();
/// ```
///
/// # Errors
///
/// The errors of [`wait_any`].
///
/// # Source
///
/// MPI-4.1 §3.7.5, `MPI_WAITSOME`.
pub fn wait_some(requests: &mut [Request<'_>]) -> Result<Vec<usize>, Error> {
    let Some(world) = world_of(requests) else { return Ok(Vec::new()) };
    let requests = RefCell::new(requests);
    let what = || wait_of(Call::WaitSome, &requests.borrow());
    world.wait_until(what, || tell_all(*requests.borrow_mut()))
}

/// Returns whether all of `requests` are complete, and then leaves them like [`wait_all`].
/// Otherwise makes progress, and no request becomes inactive.
///
/// ```
/// # strait::World::run_in_process(3, |world| {
/// # let endpoint = world.endpoint();
/// # if world.rank() > 0 {
/// #     return endpoint.send(&[world.rank()], 0, 0);
/// # }
/// let (mut one, mut two) = ([0], [0]);
/// endpoint.scope(|scope| {
///     let mut requests = [scope.irecv(&mut one, 1, 0)?, scope.irecv(&mut two, 2, 0)?];
///     while !strait::test_all(&mut requests)? {
///         // Compute something else.
///     }
///     Ok::<(), strait::Error>(())
/// })?;
/// # Ok(()) }).unwrap();
/// ```
///
/// # Errors
///
/// The first failure in the list, when all operations have ended; or the errors of [`wait_any`].
///
/// # Source
///
/// MPI-4.1 §3.7.5, `MPI_TESTALL`.
pub fn test_all(requests: &mut [Request<'_>]) -> Result<bool, Error> {
    let all = |requests: &mut [Request<'_>]| {
        active(requests).all(|(_, request)| request.look()).then_some(())
    };
    Ok(match test(requests, all)? {
        Some(()) => {
            wait_all(requests)?;
            true
        }
        None => false,
    })
}

/// Returns at once what [`wait_any`] would return, if a request is complete or none is active.
/// Otherwise makes progress.
///
/// ```
/// # strait::World::run_in_process(3, |world| {
/// # let endpoint = world.endpoint();
/// # if world.rank() > 0 {
/// #     return endpoint.send(&[world.rank()], 0, 0);
/// # }
/// let (mut one, mut two) = ([0], [0]);
/// endpoint.scope(|scope| {
///     let mut requests = [scope.irecv(&mut one, 1, 0)?, scope.irecv(&mut two, 2, 0)?];
///     while strait::test_any(&mut requests)?.is_pending() {
///         // Compute something else.
///     }
///     strait::wait_all(&mut requests)?;
///     Ok::<(), strait::Error>(())
/// })?;
/// # Ok(()) }).unwrap();
/// ```
///
/// # Errors
///
/// The errors of [`wait_any`].
///
/// # Source
///
/// MPI-4.1 §3.7.5, `MPI_TESTANY`.
pub fn test_any(requests: &mut [Request<'_>]) -> Result<Poll<Option<usize>>, Error> {
    if world_of(requests).is_none() {
        return Ok(Poll::Ready(None));
    }
    let found = test(requests, tell_first)?;
    Ok(found.map_or(Poll::Pending, |place| Poll::Ready(Some(place))))
}

/// Returns at once what [`wait_some`] would return, if a request is complete or none is active.
/// Otherwise makes progress.
///
/// ```
/// # strait::World::run_in_process(3, |world| {
/// # let endpoint = world.endpoint();
/// # if world.rank() > 0 {
/// #     return endpoint.send(&[world.rank()], 0, 0);
/// # }
/// let (mut one, mut two) = ([0], [0]);
/// endpoint.scope(|scope| {
///     let mut requests = [scope.irecv(&mut one, 1, 0)?, scope.irecv(&mut two, 2, 0)?];
///     while strait::test_some(&mut requests)?.is_pending() {
///         // Compute something else.
///     }
///     strait::wait_all(&mut requests)?;
///     Ok::<(), strait::Error>(())
/// })?;
/// # Ok(()) }).unwrap();
/// ```
///
/// # Errors
///
/// The errors of [`wait_any`].
///
/// # Source
///
/// MPI-4.1 §3.7.5, `MPI_TESTSOME`.
pub fn test_some(requests: &mut [Request<'_>]) -> Result<Poll<Vec<usize>>, Error> {
    if world_of(requests).is_none() {
        return Ok(Poll::Ready(Vec::new()));
    }
    Ok(test(requests, tell_all)?.map_or(Poll::Pending, Poll::Ready))
}

/// Returns what `look` finds, now or after progress.
fn test<'r, T>(
    requests: &mut [Request<'r>],
    look: impl Fn(&mut [Request<'r>]) -> Option<T>,
) -> Result<Option<T>, Error> {
    let found = look(requests);
    if found.is_none()
        && let Some(world) = world_of(requests)
    {
        world.poll()?;
        return Ok(look(requests));
    }
    Ok(found)
}

/// Returns the active requests, with their indices.
fn active<'a, 'r>(
    requests: &'a mut [Request<'r>],
) -> impl Iterator<Item = (usize, &'a mut Request<'r>)> {
    requests.iter_mut().enumerate().filter(|(_, request)| !request.told)
}

/// Returns the world that makes progress for the active requests, or `None` without active
/// requests.
fn world_of<'r>(requests: &[Request<'r>]) -> Option<&'r World> {
    requests.iter().find(|request| !request.told).map(|request| request.world)
}

/// Describes a wait for several requests: how many active ones are complete, and the first that is
/// not.
fn wait_of(call: Call, requests: &[Request<'_>]) -> Wait {
    let of = requests.iter().filter(|request| !request.told).count() as u32;
    let open = requests.iter().filter(|request| !request.operation.is_over());
    let left = open.clone().count() as u32;
    let over = Some((of.saturating_sub(left), of));
    Wait { over, ..wait_for_one_of(call, open.map(|one| one.operation.wait_of(one.world))) }
}

/// Describes a wait for one of several operations by the waits for each.
#[must_use]
pub fn wait_for_one_of(call: Call, waits: impl Iterator<Item = Wait>) -> Wait {
    let (mut requests, mut others) = ([None; RequestWait::MOST], Some(RankSet::default()));
    let mut first = None;
    for (number, wait) in waits.enumerate() {
        first.get_or_insert(wait);
        if let Some(place) = requests.get_mut(number) {
            *place = Some(RequestWait::from(wait));
        }
        let peer = wait.peer.filter(|peer| *peer != ANY_SOURCE);
        others = others.zip(peer).and_then(|(set, peer)| set.with(peer));
    }
    let first = first.unwrap_or(Wait::new(call));
    Wait { call, requests, others, ..first }
}

/// Makes the first complete request inactive, and returns its index.
fn tell_first(requests: &mut [Request<'_>]) -> Option<usize> {
    let (place, request) = active(requests).find_map(|(place, request)| {
        let over = request.look();
        over.then_some((place, request))
    })?;
    request.told = true;
    Some(place)
}

/// Makes all complete requests inactive, and returns their indices; `None` when there are none.
fn tell_all(requests: &mut [Request<'_>]) -> Option<Vec<usize>> {
    let mut over = Vec::new();
    for (place, request) in active(requests) {
        if request.look() {
            request.told = true;
            over.push(place);
        }
    }
    (!over.is_empty()).then_some(over)
}
