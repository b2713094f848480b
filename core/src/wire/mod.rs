//! Packet kinds and the header words that precede a payload.
//!
//! Fastboxes and queue cells carry the same packets. Both paths share one sequence number per
//! (source, destination) pair, which gives each packet its place in the order. A receiver takes the
//! packet with the next number, whichever path it arrives on (`[Nemesis07]` §3.1).

mod corrupt;
mod line;
mod method;
mod offer;
mod packet;
pub(crate) mod parcel;
mod payload;
mod stream;
mod strided_run;
mod turn;

pub use corrupt::{CellIndex, Corrupt};
pub use line::{MORE_PER_LINE, SHORT_MAX};
pub use method::{MethodHead, MethodRts};
pub use offer::Offer;
pub use packet::{FASTBOX_LENGTH_MAX, HeaderWord, Key, KindLength, PacketKind, Sequence};
pub use parcel::{PARCEL, PARCELS_MAX, PIECES_MAX, ParcelHead, ParcelRun, RUN_MAX};
pub(crate) use payload::WirePayload;
pub use stream::{DeferredMessageId, MessageAddress, RtrId, StreamHead};
pub use strided_run::StridedRun;
pub use turn::Turn;
