//! The receive queue and the free queue: cells that leave with messages and return.

use strait_core::layout::CellIndex;
use strait_core::shm::{Cell, CellArena as _, CellHead, FreeQueue};
use strait_core::sync::AtomicU64;
use strait_core::sync::Ordering::{Acquire, Release};

use crate::place::{Flaw, Party, RANKS, check};

const MESSAGES: u64 = 20_000;

/// A rank's own cells. Unused cells are taken first.
struct CellOwner<'a> {
    party: &'a Party,
    /// Raw indices that have not been used yet.
    unused: core::ops::RangeInclusive<u32>,
    /// The rest of a returned chain.
    returned: Option<CellIndex>,
}

impl<'a> CellOwner<'a> {
    fn new(party: &'a Party) -> Self {
        let count = party.segment.plan().config().cells_per_rank;
        let first = party.rank * count + 1;
        Self { party, unused: first..=first + count - 1, returned: None }
    }

    /// Takes a free cell.
    fn take(&mut self) -> Result<Option<CellIndex>, Flaw> {
        let segment = &self.party.segment;
        if let Some(raw) = self.unused.next() {
            return Ok(segment.parse(raw)?);
        }
        if self.returned.is_none() {
            self.returned = segment.rank_block(self.party.rank).free_queue.take(segment)?;
        }
        let Some(cell) = self.returned else { return Ok(None) };
        self.returned = FreeQueue::next(segment, cell)?;
        Ok(Some(cell))
    }
}

impl Party {
    fn write(&self, cell: CellIndex, sequence: u64) {
        let head = CellHead { source: self.rank, sequence, ..CellHead::default() };
        // SAFETY: this rank owns the cell.
        unsafe { Cell::write_head(self.segment.cell(cell), head) };
    }

    fn read(&self, cell: CellIndex) -> CellHead {
        // SAFETY: this rank owns the cell.
        unsafe { Cell::read_head(self.segment.cell(cell)) }
    }

    fn give_back(&self, cell: CellIndex) {
        let owner = self.segment.rank_block(self.segment.owner(cell));
        owner.free_queue.push(&self.segment, cell);
    }
}

/// Sends from both processors to the first, which returns each cell to its owner.
pub(super) fn receive_queue(party: &Party) -> Result<(), Flaw> {
    let queue = &party.segment.rank_block(0).recv_queue;
    let mut cells = CellOwner::new(party);
    let mut sent = 0;
    let mut received = [0; RANKS as usize];
    party.wait(|| {
        if sent < MESSAGES
            && let Some(cell) = cells.take()?
        {
            party.write(cell, party.say(sent));
            queue.enqueue(&party.segment, cell)?;
            sent += 1;
        }
        if party.rank == 0
            && let Some(cell) = queue.dequeue(&party.segment)?
        {
            let head = party.read(cell);
            let Some(expected) = received.get_mut(head.source as usize) else {
                return check("source of a message", head.source, 0).map(|()| None);
            };
            check("number of a message", head.sequence, *expected)?;
            *expected += 1;
            party.give_back(cell);
        }
        let is_done = sent == MESSAGES && (party.rank != 0 || received == [MESSAGES; 2]);
        Ok(is_done.then_some(()))
    })?;
    match party.rank {
        0 => check("news in a queue that was emptied", queue.has_news(), 0),
        _ => Ok(()),
    }
}

/// Returns cells of the first processor from both processors. The first collects them in each
/// round.
pub(super) fn free_queue(party: &Party) -> Result<(), Flaw> {
    // SAFETY: the value is an atomic, for which zeroed memory is valid.
    let rounds_done = unsafe { party.shared::<AtomicU64>() };
    let cells = party.segment.plan().config().cells_per_rank;
    for round in 0..MESSAGES / u64::from(cells) {
        let share = (1..=cells).filter(|raw| raw % RANKS == party.rank);
        for cell in share.filter_map(|raw| party.segment.parse(raw).ok().flatten()) {
            party.write(cell, party.say(round));
            party.give_back(cell);
        }
        if party.rank == 0 {
            collect_all(party, cells, round)?;
            rounds_done.store(round + 1, Release);
        }
        party.wait(|| Ok((rounds_done.load(Acquire) > round).then_some(())))?;
    }
    Ok(())
}

/// Collects every cell once, as it was returned in this round.
fn collect_all(party: &Party, cells: u32, round: u64) -> Result<(), Flaw> {
    let segment = &party.segment;
    let all = (1_u64 << cells) - 1;
    let mut home = 0;
    party.wait(|| {
        let mut next = segment.rank_block(0).free_queue.take(segment)?;
        while let Some(cell) = next {
            let (head, bit) = (party.read(cell), 1 << (cell.raw() - 1));
            check("round of a returned cell", head.sequence, round)?;
            check("rank that gave a cell back", head.source, u64::from(cell.raw() % RANKS))?;
            check("earlier returns of a cell in this round", u64::from(home & bit != 0), 0)?;
            home |= bit;
            next = FreeQueue::next(segment, cell)?;
        }
        Ok((home == all).then_some(()))
    })
}
