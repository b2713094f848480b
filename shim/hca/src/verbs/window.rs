//! Tables of posted requests of one connection, and of posted receives of a device, that are not
//! completed.
//!
//! A failed completion contains only the number with which the request was posted, so the number
//! must identify the request. These tables give out numbers, and return the user's ids.

/// The requests of one connection, which complete in order.
pub(super) struct RequestWindow {
    /// Request `n` is at index `n` modulo the length of the table.
    requests: Box<[PostedRequest]>,
    /// Number of the next request.
    next: u32,
    /// Number of the first request that is not known to be done.
    first: u32,
}

/// A posted request.
#[derive(Clone, Copy, Default)]
pub(super) struct PostedRequest {
    /// The user's id.
    pub(super) id: u64,
    /// Whether it is a send.
    pub(super) sends: bool,
    /// Whether its completion was requested.
    pub(super) signaled: bool,
}

impl RequestWindow {
    /// Creates a table for `depth` requests.
    pub(super) fn new(depth: u32) -> Self {
        // A power of two, so that indices continue when the numbers wrap. The device's limit on
        // requests still applies.
        let requests = vec![PostedRequest::default(); depth.next_power_of_two() as usize];
        Self { requests: requests.into(), next: 0, first: 0 }
    }

    /// Returns the number of requests in flight.
    pub(super) fn len(&self) -> u32 {
        self.next.wrapping_sub(self.first)
    }

    /// Returns the number that the next request will have.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Records a request that the device has accepted.
    pub(super) fn push(&mut self, request: PostedRequest) {
        let place = self.place(self.next);
        self.requests[place] = request;
        self.next = self.next.wrapping_add(1);
    }

    /// Records that request `number` is done, and with it all requests before it. Returns `None` if
    /// it is not in flight.
    pub(super) fn complete(&mut self, number: u32) -> Option<PostedRequest> {
        if number.wrapping_sub(self.first) >= self.len() {
            return None;
        }
        self.first = number.wrapping_add(1);
        Some(self.requests[self.place(number)])
    }

    /// Completes the first request that is not known to be done, and returns it.
    pub(super) fn pop(&mut self) -> Option<PostedRequest> {
        self.complete(self.first)
    }

    fn place(&self, number: u32) -> usize {
        number as usize & (self.requests.len() - 1)
    }
}

/// The receives of a device, which complete in any order.
pub(super) struct ReceiveIds {
    ids: Box<[u64]>,
    free: Vec<u32>,
}

impl ReceiveIds {
    /// Creates a table for `count` receives.
    pub(super) fn new(count: u32) -> Self {
        Self { ids: vec![0; count as usize].into(), free: (0..count).rev().collect() }
    }

    /// Takes a free slot for `id`.
    pub(super) fn take(&mut self, id: u64) -> Option<u32> {
        let slot = self.free.pop()?;
        self.ids[slot as usize] = id;
        Some(slot)
    }

    /// Frees a slot that [`ReceiveIds::take`] returned, and returns its id. Returns `None` for a
    /// number that is not a slot.
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
        let mut window = RequestWindow::new(3);
        window.first = u32::MAX - 1;
        window.next = window.first;
        for id in 10..13 {
            window.push(PostedRequest { id, sends: id == 12, signaled: true });
        }
        assert_eq!(window.len(), 3);
        // The second request has the last number before the wrap. The first was not reported.
        assert_eq!(window.complete(u32::MAX).map(|request| request.id), Some(11));
        assert_eq!(window.len(), 1);
        assert!(window.complete(u32::MAX).is_none(), "reported twice");
        assert!(window.complete(1).is_none(), "never posted");
        assert!(window.complete(0).is_some_and(|request| request.id == 12 && request.sends));
        assert_eq!(window.len(), 0);
    }

    #[test]
    fn a_slot_is_used_again() {
        let mut slots = ReceiveIds::new(2);
        let (one, two) = (slots.take(10).unwrap(), slots.take(11).unwrap());
        assert_eq!(slots.take(12), None);
        assert_eq!(slots.give(one), Some(10));
        assert_eq!(slots.take(13), Some(one));
        assert_eq!((slots.give(two), slots.give(one), slots.give(9)), (Some(11), Some(13), None));
    }
}
