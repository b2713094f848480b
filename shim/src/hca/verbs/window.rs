//! The requests of one connection, or the receives of a device, that are posted and not completed.
//!
//! A completion that is no success says nothing but the number it was posted with, so that number has to tell what it was.
//! These tables give out numbers, and give the user's back.

/// The requests of one connection. They complete in order.
pub(super) struct Window {
    /// The request of number `n` is at `n` modulo the depth.
    requests: Box<[Request]>,
    /// Number of the next request.
    next: u32,
    /// Number of the first that is not known to be done.
    first: u32,
}

/// One request.
#[derive(Clone, Copy, Default)]
pub(super) struct Request {
    /// The user's number.
    pub(super) id: u64,
    /// Whether it is a send.
    pub(super) sends: bool,
    /// Whether its completion was asked for.
    pub(super) signaled: bool,
}

impl Window {
    /// Room for `depth` requests.
    pub(super) fn new(depth: u32) -> Self {
        // A power of two, so that the places go on when the numbers wrap; what the device takes still limits.
        let requests = vec![Request::default(); depth.next_power_of_two() as usize];
        Self { requests: requests.into(), next: 0, first: 0 }
    }

    /// How many are under way.
    pub(super) fn len(&self) -> u32 {
        self.next.wrapping_sub(self.first)
    }

    /// The number that the next request will have.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// The device has taken `request`.
    pub(super) fn push(&mut self, request: Request) {
        let place = self.place(self.next);
        self.requests[place] = request;
        self.next = self.next.wrapping_add(1);
    }

    /// Request `number` is done, and with it all before it. `None` if it is not under way.
    pub(super) fn complete(&mut self, number: u32) -> Option<Request> {
        if number.wrapping_sub(self.first) >= self.len() {
            return None;
        }
        self.first = number.wrapping_add(1);
        Some(self.requests[self.place(number)])
    }

    /// The first request that is not known to be done; now it is.
    pub(super) fn pop(&mut self) -> Option<Request> {
        self.complete(self.first)
    }

    fn place(&self, number: u32) -> usize {
        number as usize & (self.requests.len() - 1)
    }
}

/// The receives of a device. They complete in any order.
pub(super) struct Slots {
    ids: Box<[u64]>,
    free: Vec<u32>,
}

impl Slots {
    /// Room for `count` receives.
    pub(super) fn new(count: u32) -> Self {
        Self { ids: vec![0; count as usize].into(), free: (0..count).rev().collect() }
    }

    /// A free slot, now of `id`.
    pub(super) fn take(&mut self, id: u64) -> Option<u32> {
        let slot = self.free.pop()?;
        self.ids[slot as usize] = id;
        Some(slot)
    }

    /// Gives a slot back that [`Slots::take`] gave, and tells whose it was. `None` for a number that is no slot.
    pub(super) fn give(&mut self, slot: u32) -> Option<u64> {
        let id = *self.ids.get(slot as usize)?;
        self.free.push(slot);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_covers_what_was_posted_before() {
        let mut window = Window::new(3);
        window.first = u32::MAX - 1;
        window.next = window.first;
        for id in 10..13 {
            window.push(Request { id, sends: id == 12, signaled: true });
        }
        assert_eq!(window.len(), 3);
        // The second, whose number is the last before the wrap: the first was not reported.
        assert_eq!(window.complete(u32::MAX).map(|request| request.id), Some(11));
        assert_eq!(window.len(), 1);
        assert!(window.complete(u32::MAX).is_none(), "reported twice");
        assert!(window.complete(1).is_none(), "never posted");
        assert!(window.complete(0).is_some_and(|request| request.id == 12 && request.sends));
        assert_eq!(window.len(), 0);
    }

    #[test]
    fn a_slot_is_used_again() {
        let mut slots = Slots::new(2);
        let (one, two) = (slots.take(10).unwrap(), slots.take(11).unwrap());
        assert_eq!(slots.take(12), None);
        assert_eq!(slots.give(one), Some(10));
        assert_eq!(slots.take(13), Some(one));
        assert_eq!((slots.give(two), slots.give(one), slots.give(9)), (Some(11), Some(13), None));
    }
}
