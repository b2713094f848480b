//! The scoreboard: a file that the driver and the ranks of one job map, separate from all memory
//! that Strait shares.
//!
//! A rank records there which operations it begins and which have ended. With these records the
//! others judge their results, and the driver reports the state of each rank. The kernel keeps the
//! file when a rank is killed, so no record is lost.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::stream::Stream;

/// The most ranks of a job.
pub(super) const RANKS: usize = 16;
/// The most windows of a job.
pub(super) const WINDOWS: usize = 4;
/// Number of distinct tickets of one word.
pub(super) const TICKETS: u64 = 4096;

/// Words that describe the job.
const JOB: usize = 8;
/// Words of one rank: numbers, then the name of the operation, then the text of a failure.
const RANK: usize = 16 + NAME + TEXT;
const NAME: usize = 4;
const TEXT: usize = 192;
/// Words of one stream: messages begun, messages with a completed send, messages received.
const STREAM: usize = 3;
/// Words of one (window, origin, target): for each [`Count`] the operations begun and the
/// operations ended.
const COUNTS: usize = 2 * Count::ALL;
/// Words of one (window, member): whether it is done, the result of the window's creation, the
/// displacement of its part.
const MEMBER: usize = 3;
/// Words of the bits of all tickets of one (window, target, kind).
const BITS: usize = TICKETS as usize / 64;
/// Kinds of tickets: of fetch-and-op, of compare-and-swap.
const KINDS: usize = 2;

const RANK_AT: usize = JOB;
const STREAM_AT: usize = RANK_AT + RANKS * RANK;
const COUNT_AT: usize = STREAM_AT + RANKS * RANKS * Stream::COUNT * STREAM;
const MEMBER_AT: usize = COUNT_AT + WINDOWS * RANKS * RANKS * COUNTS;
const TICKET_AT: usize = MEMBER_AT + WINDOWS * RANKS * MEMBER;
const WORDS: usize = TICKET_AT + WINDOWS * RANKS * KINDS * BITS;

/// Whether a process lives.
#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd)]
pub(super) enum Fate {
    Alive,
    /// A fatal signal is under way, or the rank stops at a step and dies there.
    Condemned,
    Dead,
}

/// The phase that a rank has reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd)]
pub(super) enum Phase {
    Starting,
    Traffic,
    Accounting,
    /// Its accounts are closed; it waits for the others.
    Settled,
    Finalizing,
    Done,
    /// It could not join a job in which a rank died.
    GaveUp,
}

impl Phase {
    const ALL: [Self; 7] = [
        Self::Starting,
        Self::Traffic,
        Self::Accounting,
        Self::Settled,
        Self::Finalizing,
        Self::Done,
        Self::GaveUp,
    ];
}

/// The counters for each origin and target of a window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Count {
    /// Additions of 1 to one of four words by accumulates.
    Added(usize),
    /// Tickets drawn by fetch-and-op.
    Fetched,
    /// Tickets drawn by compare-and-swap.
    Swapped,
    /// Changes of the pair of words, under an exclusive lock.
    Paired,
    /// Versions put into the region of the origin.
    Put,
}

impl Count {
    const ALL: usize = 8;
    /// Number of words that accumulates add to.
    pub(super) const ADDED: usize = 4;

    const fn index(self) -> usize {
        match self {
            Self::Added(word) => word,
            Self::Fetched => Self::ADDED,
            Self::Swapped => Self::ADDED + 1,
            Self::Paired => Self::ADDED + 2,
            Self::Put => Self::ADDED + 3,
        }
    }
}

/// A mapped scoreboard.
#[derive(Debug)]
pub(super) struct Board {
    base: NonNull<AtomicU64>,
}

// SAFETY: the board consists of atomic words, which any thread may use.
unsafe impl Send for Board {}
// SAFETY: the board consists of atomic words, which any threads may share.
unsafe impl Sync for Board {}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: `map` has mapped this memory, and no reference outlives the board.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), WORDS * 8) };
        assert!(unmapped.is_ok(), "the scoreboard is unmapped");
    }
}

impl Board {
    /// Creates the file at `path`, zeroed, and maps it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        file.set_len(WORDS as u64 * 8)?;
        Self::map(&file)
    }

    /// Maps the file at `path`.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::map(&File::options().read(true).write(true).open(path)?)
    }

    fn map(file: &File) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping is new, at an address that the kernel chooses, and the file is as
        // long.
        let base =
            unsafe { mmap(core::ptr::null_mut(), WORDS * 8, access, MapFlags::SHARED, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { base })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < WORDS, "a word of the scoreboard");
        // SAFETY: the word is inside the mapping, aligned, and atomic in every process.
        unsafe { self.base.add(at).as_ref() }
    }

    fn of_rank(&self, rank: u32, field: usize) -> &AtomicU64 {
        self.word(RANK_AT + rank as usize * RANK + field)
    }

    /// Returns the flag that is set once no rank is killed any more.
    pub(super) fn blows_are_over(&self) -> &AtomicU64 {
        self.word(0)
    }

    /// Returns the number of a process that a rank left behind on purpose.
    pub(super) fn left_behind(&self) -> &AtomicU64 {
        self.word(1)
    }

    pub(super) fn fate(&self, rank: u32) -> Fate {
        match self.of_rank(rank, 0).load(SeqCst) {
            0 => Fate::Alive,
            1 => Fate::Condemned,
            _ => Fate::Dead,
        }
    }

    /// Records a fate. A dead rank never comes back to life.
    pub(super) fn set_fate(&self, rank: u32, fate: Fate) {
        self.of_rank(rank, 0).fetch_max(fate as u64, SeqCst);
    }

    pub(super) fn phase(&self, rank: u32) -> Phase {
        Phase::ALL[self.of_rank(rank, 1).load(SeqCst) as usize % Phase::ALL.len()]
    }

    pub(super) fn set_phase(&self, rank: u32, phase: Phase) {
        self.of_rank(rank, 1).store(phase as u64, SeqCst);
    }

    /// Returns whether the rank counts as a survivor: it lives and has joined.
    pub(super) fn is_here(&self, rank: u32) -> bool {
        self.fate(rank) == Fate::Alive && self.phase(rank) != Phase::GaveUp
    }

    /// Returns whether the rank does nothing more.
    pub(super) fn is_gone(&self, rank: u32) -> bool {
        self.fate(rank) == Fate::Dead || self.phase(rank) == Phase::GaveUp
    }

    /// Returns whether the rank is dead, or about to die, or never joined.
    pub(super) fn is_doomed(&self, rank: u32) -> bool {
        !self.is_here(rank)
    }

    /// Returns the number of operations that the rank has begun.
    pub(super) fn steps(&self, rank: u32) -> u64 {
        self.of_rank(rank, 2).load(SeqCst)
    }

    /// Records the operation that the rank begins.
    pub(super) fn begin(&self, rank: u32, name: &str, numbers: [u64; 3]) {
        for (place, number) in numbers.into_iter().enumerate() {
            self.of_rank(rank, 4 + place).store(number, SeqCst);
        }
        self.write_text(rank, 16, NAME, name);
        self.of_rank(rank, 2).fetch_add(1, SeqCst);
    }

    /// Returns the last operation that the rank began.
    pub(super) fn last_begun(&self, rank: u32) -> String {
        let numbers = [4, 5, 6].map(|field| self.of_rank(rank, field).load(SeqCst));
        let name = self.read_text(rank, 16, NAME);
        format!("{name} {numbers:?}, operation {}", self.steps(rank))
    }

    /// Records why the rank fails. Only the first reason is kept.
    pub(super) fn fail(&self, rank: u32, why: &str) {
        if self.of_rank(rank, 8).swap(1, SeqCst) == 0 {
            self.write_text(rank, 16 + NAME, TEXT, why);
            self.of_rank(rank, 8).store(2, SeqCst);
        }
    }

    /// Returns why the rank failed, if it did.
    pub(super) fn failure(&self, rank: u32) -> Option<String> {
        let failed = self.of_rank(rank, 8).load(SeqCst) == 2;
        failed.then(|| self.read_text(rank, 16 + NAME, TEXT))
    }

    fn write_text(&self, rank: u32, field: usize, words: usize, text: &str) {
        let mut bytes = text.bytes();
        for word in 0..words {
            let packed = core::array::from_fn(|_| bytes.next().unwrap_or(0));
            self.of_rank(rank, field + word).store(u64::from_ne_bytes(packed), SeqCst);
        }
    }

    fn read_text(&self, rank: u32, field: usize, words: usize) -> String {
        let words = (0..words).map(|word| self.of_rank(rank, field + word).load(SeqCst));
        let bytes: Vec<u8> =
            words.flat_map(u64::to_ne_bytes).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn stream(&self, stream: Stream, field: usize) -> &AtomicU64 {
        let pair = stream.source as usize * RANKS + stream.destination as usize;
        self.word(STREAM_AT + (pair * Stream::COUNT + stream.index()) * STREAM + field)
    }

    /// Returns the number of messages of the stream that have begun to be sent.
    pub(super) fn begun(&self, stream: Stream) -> &AtomicU64 {
        self.stream(stream, 0)
    }

    /// Returns the number of messages of the stream that were sent successfully.
    pub(super) fn sent(&self, stream: Stream) -> &AtomicU64 {
        self.stream(stream, 1)
    }

    /// Returns the number of messages of the stream that have been received.
    pub(super) fn received(&self, stream: Stream) -> &AtomicU64 {
        self.stream(stream, 2)
    }

    fn count(&self, (window, origin, target): (usize, u32, u32), count: Count) -> usize {
        let pair = (window * RANKS + origin as usize) * RANKS + target as usize;
        COUNT_AT + pair * COUNTS + 2 * count.index()
    }

    /// Returns the number of operations of this kind that the origin has begun on the target's
    /// part. Each of them may have happened.
    pub(super) fn most(&self, at: (usize, u32, u32), count: Count) -> &AtomicU64 {
        self.word(self.count(at, count))
    }

    /// Returns the number of operations of this kind that have certainly happened.
    pub(super) fn least(&self, at: (usize, u32, u32), count: Count) -> &AtomicU64 {
        self.word(self.count(at, count) + 1)
    }

    fn member(&self, window: usize, rank: u32, field: usize) -> &AtomicU64 {
        self.word(MEMBER_AT + (window * RANKS + rank as usize) * MEMBER + field)
    }

    /// Returns the flag that is set once the member has ended all its operations on the window and
    /// begins no more.
    pub(super) fn is_done(&self, window: usize, rank: u32) -> &AtomicU64 {
        self.member(window, rank, 0)
    }

    /// Returns the result of the member's call that creates the window: 0 until it returns, 1 for a
    /// window, 2 for an error.
    pub(super) fn creation(&self, window: usize, rank: u32) -> &AtomicU64 {
        self.member(window, rank, 1)
    }

    /// Returns the displacement of the member's part plus 1, or 0 until the others may access it.
    pub(super) fn displacement(&self, window: usize, rank: u32) -> &AtomicU64 {
        self.member(window, rank, 2)
    }

    /// Records a drawn ticket. Returns false if another process drew it as well.
    pub(super) fn draw(&self, window: usize, target: u32, swapped: bool, ticket: u64) -> bool {
        if ticket >= TICKETS {
            return true;
        }
        let row = (window * RANKS + target as usize) * KINDS + usize::from(swapped);
        let word = self.word(TICKET_AT + row * BITS + ticket as usize / 64);
        word.fetch_or(1 << (ticket % 64), SeqCst) >> (ticket % 64) & 1 == 0
    }
}
