//! The speed of the bare machine for a message, without Strait except the buffers. It is one
//! `process_vm_readv` for each message, or one `memcpy` where both sides map the memory.

use core::error::Error;
use std::io;

use strait_core::sync::Ordering;

use crate::measure::lane::PairMemory;
use crate::measure::line::spin_until;
use crate::measure::memory::{self, BenchBuffer, MemoryKind};
use crate::measure::sampling::Batch;
use crate::measure::stage::{BenchStage, TAG};

/// Windows of messages that the follower reads out of the leader's memory. A round is a window.
pub(crate) struct OneCopy {
    lane: &'static PairMemory,
    /// The line's value when the leader may write.
    turn: u64,
    bytes: usize,
    /// The bytes that the leader sends repeatedly.
    from: BenchBuffer,
    /// Room for a window at the follower.
    to: BenchBuffer,
    memory: MemoryKind,
    /// Process and address of the partner's `from`. In the segment, the address is this process's
    /// own.
    partner: [u64; 2],
}

impl OneCopy {
    /// Makes windows of `window` messages of `bytes` bytes. Both sides make theirs while the line
    /// is at rest.
    ///
    /// Returns `None` if the partners share a processor, or if the kernel forbids it.
    pub(crate) fn new(
        stage: &BenchStage<'_>,
        bytes: usize,
        window: usize,
        memory: MemoryKind,
    ) -> Result<Option<Self>, Box<dyn Error>> {
        let Some(lane) = stage.lane else { return Ok(None) };
        let [from, to] = if stage.leads() { [bytes, 0] } else { [0, window * bytes] };
        let world = stage.endpoint.world();
        let (mut from, to) = (memory.allocate(world, from)?, memory.allocate(world, to)?);
        from.fill(1);
        let start = match memory {
            MemoryKind::Private => 0,
            MemoryKind::Segment => memory::segment_start()?,
        };
        let swap = |own: [u64; 2]| -> Result<[u64; 2], strait::Error> {
            let mut theirs = [0; 2];
            stage.endpoint.sendrecv(&own, stage.partner, TAG, &mut theirs, stage.partner, TAG)?;
            Ok(theirs)
        };
        let offset = from.as_ptr().addr().wrapping_sub(start);
        let [process, offset] = swap([u64::from(std::process::id()), offset as u64])?;
        let partner = [process, offset.wrapping_add(start as u64)];
        let turn = lane.line.0.load(Ordering::Acquire);
        let mut own = Self { lane, turn, bytes, from, to, memory, partner };
        let works = stage.leads() || own.read_window().is_ok();
        let [theirs, _] = swap([u64::from(works), 0])?;
        Ok((works && theirs == 1 && bytes > 0).then_some(own))
    }

    fn read_window(&mut self) -> io::Result<()> {
        let [process, address] = self.partner;
        let (Ok(pid), Ok(address)) = (libc::pid_t::try_from(process), usize::try_from(address))
        else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        for message in self.to.chunks_mut(self.bytes.max(1)) {
            if self.memory == MemoryKind::Segment {
                let from = core::ptr::with_exposed_provenance::<u8>(address);
                // SAFETY: the source is the partner's buffer, in the segment that this process
                // maps. Its length is that of a message, and it is not written while the line says
                // that it is this side's turn.
                unsafe { message.as_mut_ptr().copy_from_nonoverlapping(from, message.len()) };
                continue;
            }
            let from = core::ptr::without_provenance_mut(address);
            let from = libc::iovec { iov_base: from, iov_len: message.len() };
            let to = libc::iovec { iov_base: message.as_mut_ptr().cast(), iov_len: message.len() };
            // SAFETY: `to` is a buffer of this process. The kernel checks the other address.
            let read =
                unsafe { libc::process_vm_readv(pid, &raw const to, 1, &raw const from, 1, 0) };
            if usize::try_from(read) != Ok(message.len()) {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

impl Batch for OneCopy {
    fn lead(&mut self, rounds: u64) -> Result<(), strait::Error> {
        let line = &self.lane.line.0;
        for _ in 0..rounds {
            core::hint::black_box(&mut self.from);
            line.store(self.turn + 1, Ordering::Release);
            self.turn += 2;
            spin_until::<false>(|| line.load(Ordering::Acquire) == self.turn);
        }
        Ok(())
    }

    fn follow(&mut self, rounds: u64) -> Result<(), strait::Error> {
        let line = &self.lane.line.0;
        for _ in 0..rounds {
            let mine = self.turn + 1;
            spin_until::<false>(|| line.load(Ordering::Acquire) == mine);
            // It succeeded before. A figure after a later refusal is meaningless, and the run
            // continues.
            let _ = self.read_window();
            self.turn += 2;
            line.store(self.turn, Ordering::Release);
        }
        Ok(())
    }
}
