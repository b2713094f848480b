//! What the kernel alone does with a message: one `process_vm_readv` for each, and nothing of Strait but the buffers' sizes.

use core::error::Error;
use std::io;

use strait_core::sync::Ordering;

use super::cacheline::spin_until;
use super::lane::Lane;
use super::sampling::Batch;
use super::stage::{Stage, TAG};

/// The follower reads a window of messages out of the leader's memory. A round is a window.
pub(crate) struct OneCopy {
    lane: &'static Lane,
    /// The line's value when it is the leader's turn.
    turn: u64,
    bytes: usize,
    /// What the leader sends, again and again.
    from: Vec<u8>,
    /// Room for a window at the follower.
    to: Vec<u8>,
    /// Process and address of the partner's `from`.
    partner: [u64; 2],
}

impl OneCopy {
    /// Windows of `window` messages of `bytes` bytes. `None` where the partners share a processor, or the kernel forbids it.
    /// Both sides make theirs while the line is at rest.
    pub(crate) fn new(
        stage: &Stage<'_>,
        bytes: usize,
        window: usize,
    ) -> Result<Option<Self>, Box<dyn Error>> {
        let Some(lane) = stage.lane else { return Ok(None) };
        let [from, to] = if stage.leads() { [bytes, 0] } else { [0, window * bytes] };
        let (from, to) = (vec![1; from], vec![0; to]);
        let swap = |own: [u64; 2]| -> Result<[u64; 2], strait::Error> {
            let mut theirs = [0; 2];
            stage.endpoint.sendrecv(&own, stage.partner, TAG, &mut theirs, stage.partner, TAG)?;
            Ok(theirs)
        };
        let partner = swap([u64::from(std::process::id()), from.as_ptr().addr() as u64])?;
        let mut own =
            Self { lane, turn: lane.line.0.load(Ordering::Acquire), bytes, from, to, partner };
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
            let from = core::ptr::without_provenance_mut(address);
            let from = libc::iovec { iov_base: from, iov_len: message.len() };
            let to = libc::iovec { iov_base: message.as_mut_ptr().cast(), iov_len: message.len() };
            // SAFETY: `to` is a buffer of ours; the kernel checks the other address.
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
            // It worked before; a figure of a kernel that changes its mind is worth nothing, and the run goes on.
            let _ = self.read_window();
            self.turn += 2;
            line.store(self.turn, Ordering::Release);
        }
        Ok(())
    }
}
