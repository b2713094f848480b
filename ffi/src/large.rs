//! Large messages under the embedder's own rendezvous: the LMT interface (`[Nemesis07]` §3.2).
//!
//! The embedder sends its own RTS, and with it the cookie that this gives. The transfer is that of any large message: chosen by
//! measured cost, moved by both sides, or by the device. It begins when the receiver passes the cookie in; the sender has no part in
//! that, so there is no CTS to send, and each side's request says when it is done, so there is no DONE. Of the paper's functions
//! these two are left.

use core::ffi::c_int;

use shim::TAG_MAX;

use crate::buffer::{answer, need};
use crate::entry::enter;
use crate::failure::Failure;
use crate::handle::{self, Handle};
use crate::instance::LARGE;
use crate::messages::list;
use crate::requests::Pending;

/// `strait_cookie` in C: what a receiver must know of a large message. Bytes of it go through the embedder's hands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub(crate) struct Cookie {
    pub(crate) mark: u32,
    pub(crate) sender: u32,
    pub(crate) number: u32,
    pub(crate) receiver: u32,
    pub(crate) bytes: u64,
}

/// In every cookie: `SLMT`.
const MARK: u32 = u32::from_le_bytes(*b"SLMT");

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_lmt_pre_send(
    world: Handle,
    receiver: u32,
    parts: *const libc::iovec,
    count: c_int,
    cookie: *mut Cookie,
    request: *mut Handle,
) -> c_int {
    enter("strait_lmt_pre_send", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        need(cookie)?;
        need(request)?;
        // SAFETY: by the contract.
        let parts = unsafe { list(parts, count) }?;
        let bytes = parts.iter().map(|part| part.length as u64).sum();
        let number = instance.next_large() & TAG_MAX;
        let endpoint = instance.any_endpoint(LARGE);
        // SAFETY: by the contract; the list stays with the request.
        let begun = unsafe { endpoint.begin_send_vectored(&parts, receiver, number) }?;
        let handle = instance.keep(Pending::new(begun, Some(parts)))?;
        let sender = instance.world().rank();
        // SAFETY: by the contract.
        unsafe {
            answer(cookie, Cookie { mark: MARK, sender, number, receiver, bytes })?;
            answer(request, handle)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_lmt_start_recv(
    world: Handle,
    cookie: *const Cookie,
    parts: *const libc::iovec,
    count: c_int,
    request: *mut Handle,
) -> c_int {
    enter("strait_lmt_start_recv", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        need(cookie)?;
        need(request)?;
        // SAFETY: by the contract; the bytes need no alignment.
        let Cookie { mark, sender, number, receiver, .. } = unsafe { cookie.read_unaligned() };
        if mark != MARK || receiver != instance.world().rank() || number > TAG_MAX {
            let text = format!(
                "the cookie is damaged, or was made for rank {receiver} and not this one: pass what strait_lmt_pre_send gave"
            );
            return Err(Failure::argument(text));
        }
        // SAFETY: by the contract.
        let parts = unsafe { list(parts, count) }?;
        let endpoint = instance.any_endpoint(LARGE);
        // SAFETY: by the contract; the list stays with the request.
        let begun = unsafe { endpoint.begin_recv_vectored(&parts, sender, number) }?;
        let handle = instance.keep(Pending::new(begun, Some(parts)))?;
        // SAFETY: by the contract.
        unsafe { answer(request, handle) }
    })
}
