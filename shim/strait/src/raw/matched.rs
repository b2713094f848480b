//! Messages that a probe has matched, without borrows.

use strait_core::buffer::Part;
use strait_core::engine::Status;

use crate::matched::Matched;
use crate::unscoped::Unscoped;
use crate::{Error, World, sealed};

impl sealed::Sealed for World {}

/// Matched messages of a [`World`] without borrows.
pub trait RawWorld: sealed::Sealed {
    /// Receives a matched message into `buffer`, like [`crate::Message::recv`]. The message is
    /// consumed, unless this fails with [`Error::Start`] or [`Error::OtherWorld`].
    ///
    /// # Errors
    ///
    /// The errors of [`crate::Message::recv`]; [`Error::OtherWorld`] for a message of another
    /// world.
    fn mrecv(&self, message: &Matched, buffer: &mut [u8]) -> Result<Status, Error>;

    /// Puts a matched message back into matching, as a drop of [`crate::Message`] does.
    ///
    /// # Panics
    ///
    /// When the message is of another world.
    fn put_back(&self, message: &Matched);

    /// Starts the receive of a matched message into `buffer`, for a caller that keeps the buffer.
    /// The message is consumed, unless this fails.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] for lack of memory; [`Error::OtherWorld`] for a message of another world.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`super::RawEndpoint::begin_recv`].
    unsafe fn begin_mrecv(&self, message: &Matched, buffer: Part) -> Result<Unscoped, Error>;

    /// Starts the receive of a matched message into `parts`, one after the other. The message is
    /// consumed, unless this fails.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] for lack of memory; [`Error::OtherWorld`] for a message of another world.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`super::RawEndpoint::begin_recv_vectored`].
    unsafe fn begin_mrecv_vectored(
        &self,
        message: &Matched,
        parts: &[Part],
    ) -> Result<Unscoped, Error>;
}

impl RawWorld for World {
    #[inline(always)]
    fn mrecv(&self, message: &Matched, buffer: &mut [u8]) -> Result<Status, Error> {
        World::mrecv(self, message, buffer)
    }

    #[inline(always)]
    fn put_back(&self, message: &Matched) {
        World::put_back(self, message);
    }

    #[inline(always)]
    unsafe fn begin_mrecv(&self, message: &Matched, buffer: Part) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_mrecv`).
        unsafe { World::begin_mrecv(self, message, buffer) }
    }

    #[inline(always)]
    unsafe fn begin_mrecv_vectored(
        &self,
        message: &Matched,
        parts: &[Part],
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_mrecv_vectored`).
        unsafe { World::begin_mrecv_vectored(self, message, parts) }
    }
}
