//! What the first large messages on a node would wait for, done before them.

use super::World;

impl World {
    /// Does for every other rank of this node what the first message above
    /// [`eager_max`](strait_core::engine::Tuning::eager_max) to it would wait for: memory of the
    /// tables, 20 KiB of shared memory, and the proof that the kernel copies from its process.
    /// That takes about 20 µs for each rank. Nothing has to call this, and later messages take as
    /// long without it.
    ///
    /// Call it when all ranks have joined. It leaves a rank that has not joined yet to the first
    /// message.
    ///
    /// ```
    /// let worlds = strait::World::in_process(2)?;
    /// worlds.iter().for_each(strait::World::prepare_large_messages);
    /// # Ok::<(), strait::Error>(())
    /// ```
    pub fn prepare_large_messages(&self) {
        let mut guard = self.lock_progress();
        let mut context = guard.context();
        let others = self.nodes().ranks_on(self.node).filter(|rank| *rank != self.rank);
        others.for_each(|rank| context.prepare_large(rank));
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::NonNull;

    use strait_core::buffer::{Cursor, Part};
    use strait_core::layout::RingPart;

    use super::*;

    #[test]
    fn the_first_large_message_to_a_prepared_rank_asks_for_no_memory() {
        let worlds = World::in_process(3).unwrap();
        let mut bytes = vec![0_u8; 1 << 17];
        let base = NonNull::from(&mut bytes[..]).cast();
        // SAFETY: the bytes outlive the cursor, which nothing reads.
        let data = unsafe { Cursor::contiguous(Part { base, length: bytes.len() }) };
        // SAFETY: the world keeps the map.
        let segment = unsafe { worlds[1].map.segment() };
        if !worlds[1].lock_progress().cma().already_reaches(&segment, 0) {
            eprintln!("NOT RUN: the kernel refuses process_vm_readv");
            return;
        }
        let wanted = |to| worlds[1].lock_progress().wants_ring(to, &data);
        assert_eq!([0, 2].map(wanted), [Some(RingPart::Heads); 2]);
        worlds[1].prepare_large_messages();
        assert_eq!([0, 2].map(wanted), [None; 2]);
        worlds[1].prepare_large_messages();
        assert_eq!([0, 2].map(wanted), [None; 2]);
    }
}
