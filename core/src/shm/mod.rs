//! The lock-free structures in the shared segment ([Nemesis07] §2).

mod cell;
mod copy;
mod fastbox;
mod free_queue;
mod recv_queue;

pub use cell::{Cell, CellArena, CellHead};
pub use copy::copy_short;
pub use fastbox::{
    FastboxMessage, FastboxPtr, FastboxReceiver, FastboxSender, Line, MORE_PER_LINE, SHORT_MAX,
};
pub use free_queue::FreeQueue;
pub use recv_queue::RecvQueue;
