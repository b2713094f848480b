//! The message of which a peer has sent only a part so far.

/// The reassembly of one peer's messages. A peer is in the middle of at most one message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reassembly {
    arriving: Option<PartialMessage>,
}

/// A message of which only a part has arrived.
#[derive(Clone, Copy, Debug)]
struct PartialMessage {
    target: ArrivalTarget,
    /// Bytes still to come.
    left: usize,
}

/// The target of the rest of an arriving message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ArrivalTarget {
    /// A receive that matched.
    Request(u32),
    /// The unexpected message with this number.
    Message(u32),
    /// An unexpected message that met its receive while a device was at work on it. `request` is
    /// `None` after the receive was dropped.
    Due { message: u32, request: Option<u32> },
    /// No target: the receive was dropped.
    Nobody,
}

impl Reassembly {
    /// Returns the target of the rest of the message under way, and the bytes still to come.
    #[inline]
    pub(super) fn rest(&self) -> Option<(ArrivalTarget, usize)> {
        self.arriving.map(|PartialMessage { target, left }| (target, left))
    }

    /// Returns whether no message is under way.
    pub(super) const fn is_idle(&self) -> bool {
        self.arriving.is_none()
    }

    /// Notes that `left` bytes of a message are to come.
    pub(super) const fn begin(&mut self, target: ArrivalTarget, left: usize) {
        self.arriving = Some(PartialMessage { target, left });
    }

    /// Counts `bytes` more of the message under way, at most as many as are to come. Returns how
    /// many are still to come.
    pub(super) fn count(&mut self, bytes: usize) -> usize {
        let left = self.arriving.map_or(0, |arriving| arriving.left - bytes);
        self.arriving =
            self.arriving.filter(|_| left > 0).map(|message| PartialMessage { left, ..message });
        left
    }

    /// Sets the target of the rest of the message under way.
    pub(super) const fn redirect(&mut self, target: ArrivalTarget) {
        if let Some(arriving) = &mut self.arriving {
            arriving.target = target;
        }
    }

    /// Drops the receive of a message that is due to it. The message is dropped when it is
    /// complete.
    pub(super) const fn drop_due(&mut self) {
        if let Some(PartialMessage { target: ArrivalTarget::Due { request, .. }, .. }) =
            &mut self.arriving
        {
            *request = None;
        }
    }

    /// Ends the message under way, of which no more will come. Returns its target.
    pub(super) fn give_up(&mut self) -> Option<ArrivalTarget> {
        self.arriving.take().map(|arriving| arriving.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_over_when_all_of_it_has_come() {
        let mut reassembly = Reassembly::default();
        assert!(reassembly.is_idle());
        reassembly.begin(ArrivalTarget::Request(3), 10);
        assert_eq!(reassembly.count(4), 6);
        assert_eq!(reassembly.rest(), Some((ArrivalTarget::Request(3), 6)));
        assert_eq!(reassembly.count(6), 0);
        assert!(reassembly.is_idle() && reassembly.rest().is_none());
    }

    #[test]
    fn the_rest_goes_to_the_last_target() {
        let mut reassembly = Reassembly::default();
        reassembly.redirect(ArrivalTarget::Nobody);
        assert!(reassembly.is_idle());
        reassembly.begin(ArrivalTarget::Message(1), 2);
        reassembly.drop_due();
        reassembly.redirect(ArrivalTarget::Due { message: 1, request: Some(5) });
        reassembly.drop_due();
        let due = ArrivalTarget::Due { message: 1, request: None };
        assert_eq!(reassembly.rest(), Some((due, 2)));
        assert_eq!(reassembly.give_up(), Some(due));
        assert!(reassembly.is_idle() && reassembly.give_up().is_none());
    }
}
