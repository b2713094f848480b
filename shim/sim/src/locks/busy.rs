//! Threads that never sleep, and the processors of their node on which they take turns.

/// The threads of a node that never sleep. Each gets the processors for a time slice in turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BusyThreads {
    /// Number of these threads.
    pub threads: u32,
    /// Number of processors of the node, at least 1.
    pub processors: u32,
    /// The time slice, in nanoseconds, at least 1.
    pub slice: u64,
}

impl BusyThreads {
    /// No such threads, on a node of the papers: two processors. A time slice of 1 ms is assumed.
    pub const NONE: Self = Self { threads: 0, processors: 2, slice: 1_000_000 };

    /// Returns the earliest time, from `now` on, at which the thread at `place` among these threads
    /// has a processor.
    pub(super) fn next_turn(self, place: u32, now: u64) -> u64 {
        let Self { threads, processors, slice } = self;
        if threads <= processors {
            return now;
        }
        let (threads, processors) = (u64::from(threads), u64::from(processors));
        let place = u64::from(place) % threads;
        // In slice `n` the threads from place `n * processors` on have the processors.
        let runs = |number: &u64| {
            let first = number % threads * processors % threads;
            (place + threads - first) % threads < processors
        };
        let current = now / slice;
        // Every thread runs once in as many slices as there are threads.
        let found = (current..=current + threads).find(runs).unwrap_or(current);
        now.max(found * slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_processors_evenly_and_none_idles() {
        for (threads, processors) in (1..9).flat_map(|all| (1..5).map(move |some| (all, some))) {
            let busy = BusyThreads { threads, processors, slice: 10 };
            let runs = |place, number: u64| busy.next_turn(place, 10 * number + 3);
            let mut turns = vec![0; threads as usize];
            for number in 0..u64::from(threads) {
                let now = 10 * number + 3;
                let running: Vec<_> =
                    (0..threads).filter(|place| runs(*place, number) == now).collect();
                assert_eq!(running.len() as u32, threads.min(processors));
                running.iter().for_each(|place| turns[*place as usize] += 1);
            }
            let expected = threads.min(processors);
            assert!(turns.iter().all(|turns| *turns == expected), "{busy:?}: {turns:?}");
        }
    }

    #[test]
    fn a_thread_waits_until_its_slice_begins() {
        let busy = BusyThreads { threads: 3, processors: 1, slice: 10 };
        let times = [0, 9, 10, 25, 30].map(|now| busy.next_turn(0, now));
        assert_eq!(times, [0, 9, 30, 30, 30]);
        assert_eq!(busy.next_turn(1, 0), 10);
        assert_eq!(BusyThreads::NONE.next_turn(7, 5), 5);
    }
}
