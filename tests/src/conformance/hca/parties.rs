//! A path between two parties in one process besides the device.

use std::sync::mpsc::{Receiver, Sender, channel};

/// One end of the path.
#[derive(Debug)]
pub struct Pipe {
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
}

/// Creates both ends.
#[must_use]
pub fn pipes() -> [Pipe; 2] {
    let (to_second, from_first) = channel();
    let (to_first, from_second) = channel();
    [Pipe { to: to_second, from: from_second }, Pipe { to: to_first, from: from_first }]
}

impl Pipe {
    /// Passes `mine` to the other end, and returns the bytes from there.
    ///
    /// # Panics
    ///
    /// When the other party is gone.
    pub fn exchange(&self, mine: &[u8]) -> Vec<u8> {
        self.to.send(mine.to_vec()).expect("the other party is there");
        self.from.recv().expect("the other party is there")
    }
}
