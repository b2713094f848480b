//! Large messages: the LMT interface of `[Nemesis07]` §3.2 and the transfers behind it.
//!
//! An RTS packet announces a large message and takes part in matching like an eager message. The
//! data stay in place until the receive is posted. Then both sides know each other's memory and
//! move the data with one copy. Either side copies while it is inside the library, and both may
//! copy at once ([`crate::shm::Chunks`]).
//!
//! | `[Nemesis07]` §3.2          | here                                                           |
//! |-----------------------------|----------------------------------------------------------------|
//! | `lmt_pre_send`              | `LmtSender::pre_send`: the send cookie, in the RTS             |
//! | `lmt_pre_recv`              | `LmtReceiver::pre_recv`: the receive cookie                    |
//! | CTS, `lmt_start_recv`       | `LmtReceiver::start_recv`: leaves the cookie in the descriptor |
//! | `lmt_start_send`            | `LmtSender::start_send`: finds the cookie there                |
//! | COOKIE, `lmt_handle_cookie` | `LmtSender::handle_cookie`: grains that the receiver left over |
//! | DONE, `lmt_post_send`       | `LmtSender::post_send`: the counter is complete                |
//! | DONE, `lmt_post_recv`       | `LmtReceiver::post_recv`: the counter is complete              |
//!
//! Of the paper's four packets, only the RTS takes a cell. The answers are in a descriptor that
//! both sides poll, and no control packet waits behind data.
//!
//! A receive that is posted first may start the transfer (`[SpecRndv09]` §3.1.2). The receiver then
//! owns the descriptor, and its RTR carries the contents of a grant. The sender that uses the RTR
//! may claim chunks at once, whatever the receiver does meanwhile. The contents of an RTS arrive in
//! an RTR-ACK, which takes part in matching like an RTS:
//!
//! | `[SpecRndv09]` | here                                                        |
//! |----------------|-------------------------------------------------------------|
//! | RTR            | `LmtReceiver::ask`: the buffer, in a packet to the sender   |
//! | RTR-ACK        | `LmtSender::by_rtr`: the data, in a packet to the receiver; |
//! |                | `LmtReceiver::start_used`                                   |
//! | RDMA Write     | chunks, moved by either side                                |
//!
//! The two halves are values that never allocate, wait or copy between processes. They return
//! [`CopyJob`]s, which the embedder executes with the means of the system (`process_vm_readv` and
//! `process_vm_writev`). A side that cannot do so leaves its grains to the other side.
//!
//! The sender streams the data that neither side moves that way through the pair's [copy
//! ring](crate::shm::CopyRingSender). The sender of a message chooses its transfer. Both sides map
//! a buffer in a *heap* ([`WireAddress::Heap`]). They copy from it or to it in place, unless the
//! sender asks for the copy ring.
//!
//! [`TransferMethod`] is the interface of the paper for a method that another crate brings. Its
//! messages use none of the above.

mod choice;
mod cookie;
mod job;
mod method;
mod rate;
mod receiver;
mod remote_choice;
mod rtr;
mod run;
mod sender;
mod transfer;
mod wire_address;

pub use choice::{CANDIDATES, CLASSES};
pub(crate) use choice::{TransferChoice, UNMEASURED, WITHOUT_RING};
pub use cookie::SendCookie;
pub use job::{CopyJob, GRAIN, Refused};
pub(crate) use job::{CopyTicket, Home, Span};
use job::{GRACE, JOB_LEAST, JOB_MOST, JOB_MOST_ALONE, RING_BEGINNING, RING_CLAIM};
pub(crate) use method::CookieOut;
pub use method::{
    COOKIE_MAX, CookieError, Cts, Ending, MethodCookie, MethodStep, RecvSide, SendSide,
    TransferMethod, TransferSide,
};
pub use receiver::LmtReceiver;
pub(crate) use remote_choice::RemoteChoice;
pub use remote_choice::RemoteTransfer;
pub use rtr::{Rtr, RtrAck};
pub(crate) use run::Chosen;
pub use sender::LmtSender;
pub(crate) use sender::{RingPiece, Ways};
pub use transfer::Transfer;
pub(crate) use wire_address::ReadTime;
pub use wire_address::{RemoteBuffer, WireAddress};
