//! The way between two parties in one process that is not the device.

use std::sync::mpsc::{Receiver, Sender, channel};

/// One end of it.
#[derive(Debug)]
pub struct Pipe {
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
}

/// Both ends.
#[must_use]
pub fn pipes() -> [Pipe; 2] {
    let (to_second, from_first) = channel();
    let (to_first, from_second) = channel();
    [Pipe { to: to_second, from: from_second }, Pipe { to: to_first, from: from_first }]
}

impl Pipe {
    /// Gives `mine` to the other end, and takes what it gives.
    ///
    /// # Panics
    ///
    /// When the other party is gone.
    pub fn exchange(&self, mine: &[u8]) -> Vec<u8> {
        self.to.send(mine.to_vec()).expect("the other party is there");
        self.from.recv().expect("the other party is there")
    }
}
