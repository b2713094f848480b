//! Runs work in parallel.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

/// Number of items in parallel: the machines of continuous integration have two processors.
const AT_A_TIME: usize = 2;

/// Returns `f` of each item, in order. Runs two at a time.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(items.iter().enumerate());
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || Vec::from_iter(core::iter::from_fn(take).map(|(at, item)| (at, f(item))));
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let workers = [(); AT_A_TIME].map(|()| scope.spawn(work));
        let join = |worker: ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().flat_map(join).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_items_is_kept() {
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(each(&items, |item| item * 2), Vec::from_iter(items.iter().map(|i| i * 2)));
    }
}
