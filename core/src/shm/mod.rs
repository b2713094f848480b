//! The lock-free structures in the shared segment (`[Nemesis07]` §2).

mod barrier;
mod baton;
mod cell;
mod chunks;
mod copy;
mod copy_ring;
mod descriptor;
mod doorbell;
mod fastbox;
mod flow;
mod free_queue;
mod line;
mod parcels;
pub mod recovery;
mod recv_queue;

pub use barrier::{Barrier, BarrierSlot, FLAGS, Ranks, Seats, Way};
pub use baton::Baton;
pub use cell::{Cell, CellArena, CellHead};
pub use chunks::{Chunks, Claim, GRAINS_MAX, Grains};
pub use copy::{Stores, copy_bulk, copy_cached, copy_piece, copy_short};
pub use copy_ring::{
    CopyRingPtr, CopyRingReceiver, CopyRingSender, GRANULE, GranuleHead, Granules, RingChunk,
};
pub use descriptor::{Descriptor, Grant, ReceiveCookie};
pub use doorbell::{Doorbell, DoorbellPtr, Slumber};
pub use fastbox::{FastboxPtr, FastboxReceiver, FastboxSender};
pub use flow::Flow;
pub use free_queue::FreeQueue;
pub use line::{Line, LineMessage, MORE_PER_LINE, SHORT_MAX};
pub use parcels::{Mark, PARCEL, PARCELS_MAX, PIECES_MAX, Parcels, RUN_MAX, Run};
pub use recovery::Hand;
pub use recv_queue::RecvQueue;
