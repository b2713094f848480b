//! The lock-free structures in the shared segment (`[Nemesis07]` §2).

mod barrier;
mod baton;
mod cell;
mod chunks;
mod copy_ring;
mod descriptor;
mod doorbell;
mod exchange;
mod fastbox;
mod fastbox_snapshot;
mod flow;
mod free_queue;
mod line;
mod parcels;
pub mod recovery;
mod recv_queue;
mod steps;

pub use crate::wire::{
    MORE_PER_LINE, PARCEL, PARCELS_MAX, PIECES_MAX, ParcelRun, RUN_MAX, SHORT_MAX,
};
pub use barrier::{Barrier, BarrierAlgorithm, BarrierSlot, FLAGS, Ranks, Seats};
pub use baton::Baton;
pub use cell::{Cell, CellArena, CellHead};
pub use chunks::{ChunkRequest, Chunks, GRAINS_MAX, Grains};
pub use copy_ring::{
    CopyRingPtr, CopyRingReceiver, CopyRingSender, GRANULE, GranuleHead, Granules, RingChunk,
};
pub use descriptor::{Descriptor, Grant, ReceiveCookie};
pub use doorbell::{Doorbell, DoorbellPtr, Slumber};
pub use exchange::{EXCHANGE_MAX, Exchange, ExchangeLine};
pub use fastbox::{FastboxPtr, FastboxReceiver, FastboxSender};
pub use fastbox_snapshot::fastbox_lines_sent;
pub use flow::FlowWords;
pub use free_queue::FreeQueue;
pub use line::{Line, LineMessage};
pub use parcels::{FIRST_PARCELS, FURTHER_PARCELS, ParcelSet, ParcelWord, Parcels, parcel_words};
pub use recovery::InFlightMarker;
pub use recv_queue::RecvQueue;
pub use steps::Steps;
