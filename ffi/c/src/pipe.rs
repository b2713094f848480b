//! Pipes of bytes between ranks, one in each direction. The five functions of the RDMA channel use
//! them (`[RdmaChannel04]` §3.2, fig. 2).
//!
//! A pipe is a stream of messages in a context of its own. A put copies its data, as in the paper's
//! first designs, so that the caller may reuse its buffers at once. A pipe holds a bounded number
//! of bytes. When it is full, a put accepts nothing.

use core::ops::Range;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};

use shim::raw::{Part, RawEndpoint as _, Unscoped};
use shim::{Endpoint, World};

use crate::failure::Called;

/// Maximum size in bytes of one message of a pipe. Such a message is eager.
const CHUNK: usize = 12 * 1024;

/// Maximum number of messages in flight in a pipe.
const IN_FLIGHT: usize = 4;

/// Memory for one message. A [`Chunk`] belongs to this module or to an operation, which then stores
/// it.
#[derive(Debug)]
struct Chunk(NonNull<[u8]>);

impl Chunk {
    fn new() -> Self {
        Self(NonNull::from(Box::leak(vec![0; CHUNK].into_boxed_slice())))
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `new` leaked the bytes, and no operation uses them: it would own the chunk.
        unsafe { self.0.as_mut() }
    }

    const fn part(&self, length: usize) -> Part {
        debug_assert!(length <= CHUNK);
        Part { base: self.0.cast(), length }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: `new` leaked the box, and no operation uses it: `InFlightChunk` is settled before
        // it is dropped.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A pending operation, and the chunk that it uses.
#[derive(Debug)]
struct InFlightChunk {
    chunk: Chunk,
    operation: Unscoped,
}

impl InFlightChunk {
    /// Settles the operation, so that its chunk can be released.
    fn settle(mut self, world: &World) {
        self.operation.settle(world);
    }
}

/// Both pipes between this rank and another.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    under_way: VecDeque<InFlightChunk>,
    spare: Vec<Chunk>,
    inbox: PipeInbox,
}

/// The end of a pipe at its receiver.
#[derive(Debug, Default)]
struct PipeInbox {
    /// The receive operation of the next message.
    receive: Option<InFlightChunk>,
    /// The message that has arrived, and the range of its unread bytes.
    arrived: Option<(Chunk, Range<usize>)>,
}

impl Pipe {
    /// Copies the beginning of `parts` into the pipe, and returns the number of bytes that fitted.
    pub(crate) fn put(
        &mut self,
        endpoint: &Endpoint<'_>,
        peer: u32,
        mut parts: &mut [IoSlice<'_>],
    ) -> Called<usize> {
        let mut put = 0;
        while parts.iter().any(|part| !part.is_empty()) && self.has_room(endpoint)? {
            let mut chunk = self.spare.pop().unwrap_or_else(Chunk::new);
            let length = gather(&mut parts, chunk.bytes());
            // SAFETY: the chunk goes with the operation.
            let begun = unsafe { endpoint.begin_send(chunk.part(length), peer, 0) };
            match begun {
                Ok(operation) => self.under_way.push_back(InFlightChunk { chunk, operation }),
                Err(error) => {
                    self.spare.push(chunk);
                    return Err(error.into());
                }
            }
            put += length;
        }
        Ok(put)
    }

    /// Returns whether another message may be in flight. Completed messages return their chunks.
    fn has_room(&mut self, endpoint: &Endpoint<'_>) -> Called<bool> {
        self.reap(endpoint.world())?;
        if self.under_way.len() < IN_FLIGHT {
            return Ok(true);
        }
        endpoint.progress()?;
        self.reap(endpoint.world())?;
        Ok(self.under_way.len() < IN_FLIGHT)
    }

    fn reap(&mut self, world: &World) -> Called {
        while let Some(InFlightChunk { operation, .. }) = self.under_way.front_mut() {
            if !operation.look(world) {
                break;
            }
            let ended = operation.status();
            self.spare.extend(self.under_way.pop_front().map(|in_flight| in_flight.chunk));
            ended?;
        }
        Ok(())
    }

    /// Moves arrived bytes to `parts`, and returns their number.
    pub(crate) fn read(
        &mut self,
        endpoint: &Endpoint<'_>,
        peer: u32,
        mut parts: &mut [IoSliceMut<'_>],
    ) -> Called<usize> {
        let mut read = 0;
        while parts.iter().any(|part| !part.is_empty()) && self.inbox.has_bytes(endpoint, peer)? {
            let Some((chunk, unread)) = &mut self.inbox.arrived else { break };
            let length = scatter(&chunk.bytes()[unread.clone()], &mut parts);
            unread.start += length;
            read += length;
        }
        Ok(read)
    }

    /// Ends all operations on its memory. Messages that were put are still delivered.
    pub(crate) fn close(self, world: &World) {
        let in_flight = self.under_way.into_iter().chain(self.inbox.receive);
        in_flight.for_each(|in_flight| in_flight.settle(world));
    }
}

impl PipeInbox {
    /// Returns whether there are bytes to read. If there are none, receives the next message.
    fn has_bytes(&mut self, endpoint: &Endpoint<'_>, peer: u32) -> Called<bool> {
        if self.arrived.as_ref().is_some_and(|(_, unread)| !unread.is_empty()) {
            return Ok(true);
        }
        let mut in_flight = match self.receive.take() {
            Some(in_flight) => in_flight,
            None => {
                let chunk = self.arrived.take().map_or_else(Chunk::new, |(chunk, _)| chunk);
                // SAFETY: the chunk goes with the operation.
                let operation = unsafe { endpoint.begin_recv(chunk.part(CHUNK), peer, 0) }?;
                InFlightChunk { chunk, operation }
            }
        };
        match in_flight.operation.test(endpoint.world()) {
            Ok(Some(status)) => {
                self.arrived = Some((in_flight.chunk, 0..status.bytes));
                Ok(status.bytes > 0)
            }
            Ok(None) => {
                self.receive = Some(in_flight);
                Ok(false)
            }
            Err(error) => {
                in_flight.settle(endpoint.world());
                Err(error.into())
            }
        }
    }
}

/// Copies from the beginning of `parts` as many bytes as fit into `to`, and leaves the rest.
fn gather(parts: &mut &mut [IoSlice<'_>], to: &mut [u8]) -> usize {
    let mut done = 0;
    while done < to.len()
        && let Some(part) = parts.first()
    {
        let length = part.len().min(to.len() - done);
        to[done..done + length].copy_from_slice(&part[..length]);
        IoSlice::advance_slices(parts, length);
        done += length;
    }
    done
}

/// Copies as many bytes of `from` as fit to the beginning of `parts`, and leaves the rest.
fn scatter(from: &[u8], parts: &mut &mut [IoSliceMut<'_>]) -> usize {
    let mut done = 0;
    while done < from.len()
        && let Some(part) = parts.first_mut()
    {
        let length = part.len().min(from.len() - done);
        part[..length].copy_from_slice(&from[done..done + length]);
        IoSliceMut::advance_slices(parts, length);
        done += length;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_through_lists_with_empty_parts() {
        let (a, b) = ([1, 2, 3], [4, 5]);
        let mut parts = [&a[..], &[], &b[..]].map(IoSlice::new);
        let (mut rest, mut chunk) = (&mut parts[..], [0; 4]);
        assert_eq!(gather(&mut rest, &mut chunk), 4);
        assert_eq!(chunk, [1, 2, 3, 4]);
        assert_eq!(gather(&mut rest, &mut chunk), 1);
        assert_eq!(chunk[0], 5);

        let (mut a, mut b) = ([0; 2], [0; 3]);
        let mut parts = [&mut a[..], &mut [], &mut b[..]].map(IoSliceMut::new);
        let mut rest = &mut parts[..];
        assert_eq!(scatter(&[1, 2, 3], &mut rest), 3);
        assert_eq!(scatter(&[4, 5, 6], &mut rest), 2);
        assert_eq!((a, b), ([1, 2], [3, 4, 5]));
    }
}
