//! Control messages that wait for room in a stream, in their order. Each is about one message.

use crate::engine::wait_list::WaitList;
use crate::memory::{Memory, OutOfMemory, Slab};
use crate::wire::StreamHead;

/// A control message, or a place that is reserved for one.
#[derive(Clone, Copy, Debug)]
struct Control {
    head: StreamHead,
    next: Option<u32>,
}

/// The control messages of all streams. The queue of a stream is linked through them.
#[derive(Debug)]
pub(super) struct Controls<M: Memory> {
    entries: Slab<Control, M>,
}

impl<M: Memory> Controls<M> {
    pub(super) const fn new(memory: M) -> Self {
        Self { entries: Slab::new(memory) }
    }

    /// Reserves memory, so that the next [`Controls::place`] does not fail.
    pub(super) fn reserve(&mut self) -> Result<(), OutOfMemory> {
        self.entries.reserve()
    }

    /// Reserves a place for a control message that is queued later, when nothing may fail.
    pub(super) fn place(&mut self) -> Result<u32, OutOfMemory> {
        self.entries.insert(Control { head: StreamHead::Send, next: None })
    }

    /// Returns a place that is in no queue.
    pub(super) fn give_back(&mut self, place: u32) {
        self.entries.remove(place);
    }

    /// Puts `head` at the end of `queue`, in `place`.
    pub(super) fn push(&mut self, queue: &mut WaitList, place: u32, head: StreamHead) {
        if let Some(last) = queue.push(place).and_then(|last| self.entries.get_mut(last)) {
            last.next = Some(place);
        }
        if let Some(entry) = self.entries.get_mut(place) {
            *entry = Control { head, next: None };
        }
    }

    /// Takes the first control message of `queue`.
    pub(super) fn pop(&mut self, queue: &mut WaitList) -> Option<StreamHead> {
        let control = self.entries.remove(queue.first()?)?;
        queue.pop(control.next);
        Some(control.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counted::Counted;

    #[test]
    fn each_queue_keeps_its_order() {
        let mut controls = Controls::new(Counted::default());
        let mut queues = [WaitList::default(); 2];
        for rank in 0..6 {
            let place = controls.place().unwrap();
            controls.push(&mut queues[rank as usize % 2], place, StreamHead::Dead { rank });
        }
        for rank in 0..6 {
            let head = controls.pop(&mut queues[rank as usize % 2]);
            assert_eq!(head, Some(StreamHead::Dead { rank }));
        }
        assert!(queues.iter_mut().all(|queue| controls.pop(queue).is_none()));
        assert_eq!(controls.entries.len(), 0);
    }

    #[test]
    fn a_place_that_is_not_used_is_given_back() {
        let mut controls = Controls::new(Counted::default());
        let place = controls.place().unwrap();
        controls.give_back(place);
        assert_eq!(controls.entries.len(), 0);
    }
}
