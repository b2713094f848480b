//! Blocking sends by the short paths, which wait a short time for lines.
//!
//! A send that does not block takes cells at once: its receives are mostly posted, and then cells
//! bring more messages under way than lines do (windows of 64 messages of 1 KiB between near cores:
//! 190 ns a message without a wait, 230 to 370 with one).

use strait_core::engine::LineRoom;
use strait_core::wire::Key;
use strait_platform::Rank;
use strait_platform::backoff::LineBackoff;

use super::World;

impl World {
    /// Sends a message by baton, through the fastbox or in one parcel, and wakes the destination if
    /// it sleeps. Waits a short time for lines while the receiver takes packets. Returns whether
    /// the message was sent.
    #[inline]
    pub(crate) fn send_medium(&self, destination: Rank, key: Key, bytes: &[u8]) -> bool {
        let sent = self.engine().send_medium(destination, key, bytes);
        self.wake_after(sent, destination) || self.send_when_lines_come(destination, key, bytes)
    }

    #[inline(never)]
    fn send_when_lines_come(&self, destination: Rank, key: Key, bytes: &[u8]) -> bool {
        let mut backoff = LineBackoff::new(self.spin());
        loop {
            match self.engine().look_for_room(destination, bytes.len()) {
                LineRoom::Free => {
                    let sent = self.engine().send_medium(destination, key, bytes);
                    return self.wake_after(sent, destination);
                }
                LineRoom::Moving => backoff.moved(),
                LineRoom::Full => {}
                LineRoom::Useless => return false,
            }
            if !backoff.pause() {
                self.engine().give_up_waiting(destination);
                return false;
            }
        }
    }
}
