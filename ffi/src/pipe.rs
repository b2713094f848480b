//! Pipes of bytes between ranks, one each way: what the five functions of the RDMA channel work on (`[RdmaChannel04]` §3.2, fig. 2).
//!
//! A pipe is a stream of messages in a context of its own. What is put is copied, as in the paper's first designs, so the caller's
//! buffers are its own again at once, and a pipe holds a bounded number of bytes: when those are under way a put accepts nothing.

use core::ptr::NonNull;
use std::collections::VecDeque;

use shim::{Endpoint, Part, Unscoped, World};

use crate::entry::Called;
use crate::instance::{Instance, PIPES};

/// Bytes of a message of a pipe at most: an eager one.
const CHUNK: usize = 12 * 1024;

/// Messages of a pipe under way.
const IN_FLIGHT: usize = 4;

/// Memory that the engine may be reading or writing.
#[derive(Debug)]
struct Chunk(NonNull<[u8]>);

impl Chunk {
    fn new() -> Self {
        Self(NonNull::from(Box::leak(vec![0; CHUNK].into_boxed_slice())))
    }

    const fn part(&self, from: usize, length: usize) -> Part {
        // SAFETY: callers stay within the chunk.
        Part { base: unsafe { self.0.cast::<u8>().add(from) }, length }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: `new` leaked it, and whoever drops a chunk has settled its operation.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Both pipes between this rank and another.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    under_way: VecDeque<(Chunk, Unscoped)>,
    spare: Vec<Chunk>,
    inbox: Option<Inbox>,
}

#[derive(Debug)]
struct Inbox {
    chunk: Chunk,
    /// Under way, while nothing is in the chunk.
    operation: Option<Unscoped>,
    /// What is in the chunk and has not been read.
    from: usize,
    to: usize,
}

impl Pipe {
    /// Takes what there is room for from `parts`, and says how many bytes.
    pub(crate) fn put(&mut self, instance: &Instance, peer: u32, parts: &[Part]) -> Called<usize> {
        let endpoint = instance.any_endpoint(PIPES);
        let mut bytes = Bytes::new(parts);
        let mut put = 0;
        while bytes.remain() > 0 && self.has_room(&endpoint)? {
            let chunk = self.spare.pop().unwrap_or_else(Chunk::new);
            let length = bytes.move_with(chunk.part(0, CHUNK), |theirs, ours, length| {
                // SAFETY: `bytes` gives as many of both.
                unsafe { ours.copy_from_nonoverlapping(theirs, length) };
            });
            // SAFETY: the chunk stays until the operation is over, or settled.
            let begun = unsafe { endpoint.begin_send(chunk.part(0, length), peer, 0) };
            match begun {
                Ok(begun) => self.under_way.push_back((chunk, begun)),
                Err(error) => {
                    self.spare.push(chunk);
                    return Err(error.into());
                }
            }
            put += length;
        }
        Ok(put)
    }

    /// Whether one message more may be under way. What is over gives its chunk back.
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
        while let Some((_, operation)) = self.under_way.front_mut() {
            if !operation.look(world) {
                break;
            }
            let ended = operation.status();
            self.spare.extend(self.under_way.pop_front().map(|(chunk, _)| chunk));
            ended?;
        }
        Ok(())
    }

    /// Moves what has come to `parts`, as far as they reach, and says how many bytes.
    pub(crate) fn read(&mut self, instance: &Instance, peer: u32, parts: &[Part]) -> Called<usize> {
        let endpoint = instance.any_endpoint(PIPES);
        let inbox = self.inbox.get_or_insert_with(Inbox::new);
        let mut bytes = Bytes::new(parts);
        let mut read = 0;
        while bytes.remain() > 0 && inbox.has_bytes(&endpoint, peer)? {
            let there = inbox.chunk.part(inbox.from, inbox.to - inbox.from);
            let length = bytes.move_with(there, |theirs, ours, length| {
                // SAFETY: `bytes` gives as many of both.
                unsafe { theirs.copy_from_nonoverlapping(ours, length) };
            });
            inbox.from += length;
            read += length;
        }
        Ok(read)
    }

    /// Ends all claims on its memory. What was put goes on.
    pub(crate) fn close(mut self, world: &World) {
        for (_, operation) in &mut self.under_way {
            operation.settle(world);
        }
        if let Some(Inbox { operation: Some(operation), .. }) = &mut self.inbox {
            operation.settle(world);
        }
    }
}

impl Inbox {
    fn new() -> Self {
        Self { chunk: Chunk::new(), operation: None, from: 0, to: 0 }
    }

    /// Whether there are bytes to read; has the next message come if there are none.
    fn has_bytes(&mut self, endpoint: &Endpoint<'_>, peer: u32) -> Called<bool> {
        if self.from < self.to {
            return Ok(true);
        }
        let mut operation = match self.operation.take() {
            Some(operation) => operation,
            // SAFETY: the chunk stays until the operation is over, or settled.
            None => unsafe { endpoint.begin_recv(self.chunk.part(0, CHUNK), peer, 0) }?,
        };
        match operation.test(endpoint.world()) {
            Ok(Some(status)) => (self.from, self.to) = (0, status.bytes),
            Ok(None) => self.operation = Some(operation),
            Err(error) => {
                operation.settle(endpoint.world());
                return Err(error.into());
            }
        }
        Ok(self.from < self.to)
    }
}

/// A place in a list of the caller's buffers.
struct Bytes<'a> {
    parts: &'a [Part],
    /// In the first of them.
    offset: usize,
}

impl<'a> Bytes<'a> {
    const fn new(parts: &'a [Part]) -> Self {
        Self { parts, offset: 0 }
    }

    fn remain(&self) -> usize {
        self.parts.iter().map(|part| part.length).sum::<usize>() - self.offset
    }

    /// Calls `act` for consecutive pieces: a place here, one in `other`, and a length. As many bytes as both have.
    fn move_with(&mut self, other: Part, act: impl Fn(NonNull<u8>, NonNull<u8>, usize)) -> usize {
        let mut moved = 0;
        while let [part, further @ ..] = self.parts {
            let length = (part.length - self.offset).min(other.length - moved);
            // SAFETY: both are within their buffers.
            unsafe { act(part.base.add(self.offset), other.base.add(moved), length) };
            moved += length;
            self.offset += length;
            if self.offset < part.length {
                break;
            }
            (self.parts, self.offset) = (further, 0);
        }
        moved
    }
}
