//! Exchanges with the neighbours in a topology (MPI-5.0 §8.6): a message along each edge.

use core::ffi::c_int;

use strait::raw::{RawGroup as _, RawRecords as _};
use strait::{Call, Error, Group, Wait};

use super::CollectiveRefusal;
use super::arguments::{AllData, Data};
use crate::abi::{self, Handle};
use crate::front::comms::Comm;
use crate::front::complete::inside_host;
use crate::front::names::name_of;
use crate::front::operation::{MessageArgs, NotStarted, SendForm, StartedOperation};
use crate::front::pack::{Elements, ElementsRefused};
use crate::front::shared::Shared;
use crate::front::state::{self, Entered, Front};
use crate::front::topology::{Neighbour, Topology};

/// What a process sends to its neighbours.
#[derive(Clone, Copy)]
pub(super) enum SentData {
    /// The same elements to each.
    SameToAll(Data),
    /// A block to each.
    Blocks(AllData),
}

/// The neighbours, in a call.
pub(super) struct Neighbours<'a> {
    front: &'a Front,
    topology: &'a Topology,
}

/// The messages of a call.
pub(super) struct Messages {
    received: Vec<MessageArgs>,
    sent: Vec<MessageArgs>,
}

/// Makes a call. `by_host` is the host's function with the same arguments.
pub(super) fn call(
    comm: Handle,
    messages: impl FnOnce(&Neighbours<'_>) -> Result<Messages, CollectiveRefusal>,
    by_host: impl FnOnce() -> c_int,
) -> c_int {
    let Some(mut front) = state::enter() else { return by_host() };
    front.world.set_caller(name_of(&by_host));
    let Some(found) = front.comms.find(comm) else {
        drop(front);
        return inside_host(by_host);
    };
    let done = exchange(&mut front, &found, messages);
    drop((found, front));
    super::end(comm, done, by_host)
}

/// Returns the messages to all neighbours and from all.
///
/// # Safety
///
/// The program guarantees the contract of `MPI_Neighbor_allgatherv` or `MPI_Neighbor_alltoallw`.
pub(super) unsafe fn messages(
    neighbours: &Neighbours<'_>,
    sent: SentData,
    received: AllData,
) -> Result<Messages, CollectiveRefusal> {
    let (front, topology) = (neighbours.front, neighbours.topology);
    let block = |data: AllData, number| {
        // SAFETY: the program passes arrays with a place for each neighbour.
        unsafe { data.elements(front, number) }
    };
    let message = |neighbour: &Neighbour, elements| MessageArgs {
        elements,
        peer: neighbour.rank,
        tag: neighbour.tag,
    };
    let incoming = topology.sources.iter().enumerate();
    let outgoing = topology.destinations.iter().enumerate();
    Ok(Messages {
        received: incoming
            .map(|(number, source)| Ok(message(source, block(received, number)?)))
            .collect::<Result<_, CollectiveRefusal>>()?,
        sent: outgoing
            .map(|(number, destination)| {
                let elements = match sent {
                    SentData::SameToAll(data) => block(AllData::Equal(data), 0)?,
                    SentData::Blocks(all) => block(all, number)?,
                };
                Ok(message(destination, elements))
            })
            .collect::<Result<_, CollectiveRefusal>>()?,
    })
}

fn exchange(
    front: &mut Entered,
    comm: &Comm,
    messages: impl FnOnce(&Neighbours<'_>) -> Result<Messages, CollectiveRefusal>,
) -> Result<(), CollectiveRefusal> {
    let world = &front.front().world;
    let topology = comm.topology(world.rank(), world.size());
    // The host refuses a communicator without a topology.
    let Some(topology) = topology.map_err(CollectiveRefusal::Reported)? else {
        return Err(CollectiveRefusal::Argument);
    };
    let messages = messages(&Neighbours { front, topology })?;
    comm.with_group(world, |group| {
        // Neighbours that waited for a member that died have given up, and may send no more.
        group.check_whole()?;
        let mut started = Vec::with_capacity(messages.received.len() + messages.sent.len());
        // SAFETY: the program keeps its buffers until the call ends, and `end` ends each operation.
        let begun = unsafe { start(front, &topology.comm, &messages, &mut started) };
        let waited = begun.and_then(|()| Ok(wait(front, group, &mut started)?));
        end(front, started, waited)
    })
}

/// Starts all messages.
///
/// # Safety
///
/// The elements stay valid, and those that are received are not accessed, until the operations in
/// `started` are over.
unsafe fn start(
    front: &Front,
    comm: &Shared<Comm>,
    messages: &Messages,
    started: &mut Vec<StartedOperation>,
) -> Result<(), CollectiveRefusal> {
    let exists = |message: &&MessageArgs| message.peer != abi::PROC_NULL;
    for message in messages.received.iter().filter(exists) {
        // SAFETY: the caller guarantees it (contract of `start`).
        started.push(unsafe { StartedOperation::recv(front, comm, message) }?);
    }
    for message in messages.sent.iter().filter(exists) {
        // SAFETY: as above.
        let sending = unsafe { StartedOperation::send(front, comm, SendForm::Standard, message) };
        started.push(sending?);
    }
    Ok(())
}

/// Waits until all messages have gone, or a member has died.
fn wait(
    front: &mut Entered,
    group: &Group<'_>,
    started: &mut [StartedOperation],
) -> Result<(), Error> {
    let mut over = 0;
    let what = || Wait::new(Call::Collective);
    front.wait(what, |front| {
        while let Some(operation) = started.get_mut(over) {
            if !operation.look(front) {
                return group.check_whole().err().map(Err);
            }
            over += 1;
        }
        Some(Ok(()))
    })?
}

/// Ends all messages, and returns the first error.
fn end(
    front: &Front,
    started: Vec<StartedOperation>,
    waited: Result<(), CollectiveRefusal>,
) -> Result<(), CollectiveRefusal> {
    if waited.is_err() {
        started.into_iter().for_each(|mut operation| operation.unscoped.settle(&front.world));
        return waited;
    }
    let mut result = Ok(());
    for error in started.iter().filter_map(|operation| operation.finish().error) {
        result = result.and(Err(error.into()));
    }
    result
}

impl From<NotStarted> for CollectiveRefusal {
    fn from(error: NotStarted) -> Self {
        match error {
            NotStarted::Refused(ElementsRefused::Argument(_)) => Self::Argument,
            NotStarted::Refused(ElementsRefused::Reported(code)) => Self::Reported(code),
            NotStarted::Failed(error) => Self::Failed(error),
        }
    }
}

impl AllData {
    /// Returns the elements of a block. No argument is found wrong later.
    ///
    /// # Safety
    ///
    /// The arrays have a place with this number.
    unsafe fn elements(self, front: &Front, number: usize) -> Result<Elements, CollectiveRefusal> {
        // SAFETY: the caller guarantees it (contract of `elements`).
        let (base, count, datatype, distance) = unsafe {
            match self {
                Self::Equal((base, count, datatype)) => {
                    (base, count, datatype, count.checked_mul(number as i64))
                }
                Self::Blocks(base, (counts, offsets), datatype) => {
                    (base, counts.at(number), datatype, Some(offsets.at(number)))
                }
                Self::Typed(base, (counts, offsets), datatypes) => {
                    let at = base.wrapping_byte_offset(offsets.at(number) as isize);
                    (at, counts.at(number), *datatypes.add(number), Some(0))
                }
            }
        };
        let flat = front.types.find_for(count, datatype)?;
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(flat.size));
        let offset = distance.and_then(|distance| distance.checked_mul(flat.extent));
        match (bytes, offset) {
            (Some(_), Some(offset)) => {
                Ok(Elements::new(base.wrapping_byte_offset(offset as isize), count, datatype))
            }
            _ => Err(CollectiveRefusal::Argument),
        }
    }
}
