//! The interface through which another crate brings a method of moving large messages
//! (`[Nemesis07]` §3.2).
//!
//! The engine matches messages and carries *cookies*: bytes that only the method understands. The
//! method moves the data. Each rank has a method of its own, and those of all ranks belong
//! together. The functions are the paper's, in the order in which a message meets them:
//!
//! | sender                            | packet        | receiver                               |
//! |-----------------------------------|---------------|----------------------------------------|
//! | [`TransferMethod::pre_send`]      | RTS, cookie → |                                        |
//! |                                   |               | matching                               |
//! |                                   | ← CTS, cookie | [`TransferMethod::pre_recv`]           |
//! |                                   |               | [`TransferMethod::start_recv`]         |
//! | [`TransferMethod::start_send`]    |               |                                        |
//! | [`TransferMethod::handle_cookie`] | ← COOKIE →    | [`TransferMethod::handle_cookie`]      |
//! | [`TransferMethod::progress`]      |               | [`TransferMethod::progress`]           |
//! |                                   | ← DONE →      |                                        |
//! | [`TransferMethod::post_send`]     |               | [`TransferMethod::post_recv`]          |
//!
//! The CTS and the DONE are left out where the method does not need them. The paper's channel has
//! a progress function of its own; here the engine calls [`TransferMethod::progress`].

use core::marker::PhantomData;

use super::Refused;
use crate::buffer::{Cursor, Part};

/// Longest cookie of a [`TransferMethod`], in bytes. A packet has room for it on every path.
pub const COOKIE_MAX: usize = 512;

/// The contents of a packet between the two sides of a [`TransferMethod`].
///
/// ```
/// use strait_core::lmt::{COOKIE_MAX, MethodCookie};
///
/// let mut cookie = MethodCookie::default();
/// cookie.write(b"key 7")?;
/// assert_eq!(cookie.bytes(), b"key 7");
/// assert!(cookie.write(&[0; COOKIE_MAX + 1]).is_err());
/// # Ok::<(), strait_core::lmt::CookieError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MethodCookie {
    bytes: [u8; COOKIE_MAX],
    length: usize,
}

impl Default for MethodCookie {
    fn default() -> Self {
        Self { bytes: [0; COOKIE_MAX], length: 0 }
    }
}

impl MethodCookie {
    /// Replaces the contents.
    ///
    /// # Errors
    ///
    /// [`CookieError::TooLong`]: nothing was changed.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CookieError> {
        let length = bytes.len();
        let too_long = CookieError::TooLong { bytes: length };
        self.bytes.get_mut(..length).ok_or(too_long)?.copy_from_slice(bytes);
        self.length = length;
        Ok(())
    }

    /// Returns the contents.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// The reason why a cookie was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CookieError {
    /// The cookie is longer than [`COOKIE_MAX`].
    TooLong {
        /// Length of the cookie, in bytes.
        bytes: usize,
    },
    /// An earlier packet of this side waits for room, or the other side is not known yet. Try again
    /// in [`TransferMethod::progress`] or a later call for this message.
    Busy,
}

impl core::fmt::Display for CookieError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::TooLong { bytes } => {
                write!(f, "a cookie of {bytes} bytes exceeds the maximum of {COOKIE_MAX} bytes")
            }
            Self::Busy => f.write_str("an earlier cookie of this message has not left yet"),
        }
    }
}

impl core::error::Error for CookieError {}

/// The packet that leaves next for one side of a message: a place for one cookie.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CookieOut {
    pub(crate) cookie: MethodCookie,
    /// Whether the cookie has yet to leave.
    pub(crate) is_full: bool,
}

/// One message, as one side of it knows it, for the time of one call.
#[derive(Debug)]
struct Side<'a> {
    id: u64,
    peer: u32,
    bytes: usize,
    data: Cursor,
    out: Option<&'a mut CookieOut>,
    /// The buffer is claimed for as long as the call lasts.
    claim: PhantomData<&'a mut [u8]>,
}

impl Side<'_> {
    fn piece(&self, offset: usize) -> Option<Part> {
        let left = self.bytes.checked_sub(offset).filter(|left| *left > 0)?;
        let part = self.data.after(offset).first()?;
        Some(Part { length: part.length.min(left), ..part })
    }

    fn send_cookie(&mut self, bytes: &[u8]) -> Result<(), CookieError> {
        let Some(out) = self.out.as_deref_mut().filter(|out| !out.is_full) else {
            return Err(CookieError::Busy);
        };
        out.cookie.write(bytes)?;
        out.is_full = true;
        Ok(())
    }
}

/// Defines what both sides of a message offer.
macro_rules! common {
    () => {
        /// Returns the number of the message. No other message of this rank that is under way has
        /// it, in either direction.
        #[must_use]
        pub const fn id(&self) -> u64 {
            self.0.id
        }

        /// Returns the rank of the other side.
        #[must_use]
        pub const fn peer(&self) -> u32 {
            self.0.peer
        }

        /// Returns the number of bytes to move.
        #[must_use]
        pub const fn bytes(&self) -> usize {
            self.0.bytes
        }

        /// Returns the contiguous memory at `offset` bytes from the start of the message, or `None`
        /// at its end. For a device or system call that takes addresses.
        ///
        /// The memory is the user's. It may be used until [`TransferMethod::post_send`] or
        /// [`TransferMethod::post_recv`] returns.
        #[must_use]
        pub fn part(&self, offset: usize) -> Option<Part> {
            self.0.piece(offset)
        }

        /// Sends a COOKIE packet to the other side, which gets it by
        /// [`TransferMethod::handle_cookie`]. Cookies of one side arrive in their order.
        ///
        /// # Errors
        ///
        /// [`CookieError`]: nothing was sent.
        pub fn send_cookie(&mut self, cookie: &[u8]) -> Result<(), CookieError> {
            self.0.send_cookie(cookie)
        }
    };
}

/// The sender's side of a message under way.
#[derive(Debug)]
pub struct SendSide<'a>(Side<'a>);

impl<'a> SendSide<'a> {
    common!();

    /// Returns a side for one call.
    ///
    /// # Safety
    ///
    /// `data` has at least `bytes` bytes, which are valid for reads and not written during `'a`.
    pub(crate) unsafe fn new(
        (id, peer): (u64, u32),
        bytes: usize,
        data: Cursor,
        out: Option<&'a mut CookieOut>,
    ) -> Self {
        Self(Side { id, peer, bytes, data, out, claim: PhantomData })
    }

    /// Returns the contiguous bytes at `offset` bytes from the start of the message; none at its
    /// end.
    #[must_use]
    pub fn piece(&self, offset: usize) -> &[u8] {
        self.0.piece(offset).map_or(&[], |Part { base, length }| {
            // SAFETY: the bytes are part of `data`, which is valid and not written (contract of
            // `new`).
            unsafe { core::slice::from_raw_parts(base.as_ptr(), length) }
        })
    }
}

/// The receiver's side of a message under way.
#[derive(Debug)]
pub struct RecvSide<'a>(Side<'a>);

impl<'a> RecvSide<'a> {
    common!();

    /// Returns a side for one call.
    ///
    /// # Safety
    ///
    /// `data` has at least `bytes` bytes. They are valid for writes, and no other code touches them
    /// during `'a`.
    pub(crate) unsafe fn new(
        (id, peer): (u64, u32),
        bytes: usize,
        data: Cursor,
        out: Option<&'a mut CookieOut>,
    ) -> Self {
        Self(Side { id, peer, bytes, data, out, claim: PhantomData })
    }

    /// Returns the contiguous room at `offset` bytes from the start of the message; none at its
    /// end.
    #[must_use]
    pub fn piece(&mut self, offset: usize) -> &mut [u8] {
        self.0.piece(offset).map_or(&mut [], |Part { base, length }| {
            // SAFETY: the bytes are part of `data`, which is valid and touched by no other code
            // (contract of `new`). The borrow of this value makes the slice the only one.
            unsafe { core::slice::from_raw_parts_mut(base.as_ptr(), length) }
        })
    }
}

/// A message under way, on either side.
#[derive(Debug)]
pub enum TransferSide<'a> {
    /// This rank sends it.
    Send(SendSide<'a>),
    /// This rank receives it.
    Recv(RecvSide<'a>),
}

/// Whether the sender needs a CTS before the data can move.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cts {
    /// The sender gets a CTS with the receive cookie, and [`TransferMethod::start_send`] is called
    /// there.
    Sent,
    /// The receiver moves the data alone. [`TransferMethod::start_send`] is not called.
    Omitted,
}

/// How far one call has brought a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MethodStep {
    /// Nothing has moved. [`TransferMethod::progress`] is called again.
    Waiting,
    /// Something has moved, which the other side can see: it is woken if it sleeps.
    Moved,
    /// This side is done, and the other side learns of the end by itself. The other side does not
    /// refuse the message any more.
    Done,
    /// The message has arrived. The other side learns of it by a DONE packet. A sender answers this
    /// only if its receiver does not refuse the message any more.
    DoneForBoth,
}

/// The end of a method's part in a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// The message has arrived.
    Complete,
    /// The message moves by another transfer, or not at all: a side has refused it, its peer is
    /// gone, or the job ends.
    Abandoned,
}

/// A method to move large messages, which another crate implements (`[Nemesis07]` §3.2).
///
/// [`crate::engine::Engine::set_transfer_method`] gives a rank its method. All ranks that exchange
/// large messages have the same one. It serves the messages between two ranks of one node that
/// would otherwise be announced by an RTS. A message that the method refuses, on either side and at
/// any time, moves by a transfer of Strait's own, so no message is lost.
///
/// No function may block, since messages of other ranks wait meanwhile. Cookies come from another
/// process: check them before use.
///
/// [`TransferMethod::post_send`] and [`TransferMethod::post_recv`] end each message for which the
/// function of the same side has returned `Ok`. When they return, neither this process nor the
/// device accesses the buffer any more on behalf of the message. The other side may not know of the
/// end yet: what its cookies name must not lead it to another message.
///
/// # Source
///
/// `[Nemesis07]` §3.2.
pub trait TransferMethod {
    /// Returns whether the method is to move messages of `bytes` bytes to `peer`. It is asked at
    /// the sender, once for each message, before [`TransferMethod::pre_send`].
    fn serves(&self, peer: u32, bytes: usize) -> bool {
        let _ = (peer, bytes);
        true
    }

    /// Prepares to send a message, and writes the send cookie, which the RTS carries.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the message takes another transfer.
    fn pre_send(
        &mut self,
        side: &mut SendSide<'_>,
        cookie: &mut MethodCookie,
    ) -> Result<(), Refused>;

    /// Prepares to receive a message that has met its receive. Writes the receive cookie, which the
    /// CTS carries, if there is one.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the message takes another transfer.
    fn pre_recv(
        &mut self,
        side: &mut RecvSide<'_>,
        send_cookie: &[u8],
        cookie: &mut MethodCookie,
    ) -> Result<Cts, Refused>;

    /// Begins to receive. It is called once, after [`TransferMethod::pre_recv`].
    ///
    /// # Errors
    ///
    /// [`Refused`]: the message takes another transfer.
    fn start_recv(&mut self, side: &mut RecvSide<'_>) -> Result<MethodStep, Refused>;

    /// Begins to send. It is called once, when the CTS has come. [`SendSide::bytes`] may be less
    /// than before: the receive buffer has room for that many bytes.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the message takes another transfer.
    fn start_send(
        &mut self,
        side: &mut SendSide<'_>,
        receive_cookie: &[u8],
    ) -> Result<MethodStep, Refused>;

    /// Takes a cookie that the other side sent during the transfer.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the message takes another transfer.
    fn handle_cookie(
        &mut self,
        side: &mut TransferSide<'_>,
        cookie: &[u8],
    ) -> Result<MethodStep, Refused> {
        let _ = (side, cookie);
        Err(Refused)
    }

    /// Moves what can move without waiting. It is called in each progress call for each message
    /// that has started on this side and is not done.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the message takes another transfer.
    fn progress(&mut self, side: &mut TransferSide<'_>) -> Result<MethodStep, Refused>;

    /// Ends the sender's side of a message, and releases what it used.
    fn post_send(&mut self, side: &mut SendSide<'_>, ending: Ending);

    /// Ends the receiver's side of a message, and releases what it used.
    fn post_recv(&mut self, side: &mut RecvSide<'_>, ending: Ending);
}
