//! Large messages under the embedder's own rendezvous: the LMT interface (`[Nemesis07]` §3.2).
//!
//! The embedder sends its own RTS, which carries the cookie that `strait_lmt_pre_send` makes. The
//! transfer is that of any large message: both sides move it, or the device. It begins when the
//! receiver passes the cookie in.
//!
//! The sender has no part in that, so no CTS is sent. Each side's request reports when the transfer
//! is done, so no DONE is sent. Of the paper's functions these two are left.

use core::ffi::c_int;

use shim::TAG_MAX;

use crate::border::{CountArg, HandleArg, LastingPartsArg, OutArg, SendKind, no_place};
use crate::contexts::LARGE;
use crate::entry::enter;
use crate::failure::Failure;
use crate::handle::Handle;

/// The description of a large message that its receiver needs: `strait_cookie` in C. The embedder
/// carries its bytes to the receiver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub(crate) struct Cookie {
    pub(crate) mark: u32,
    pub(crate) sender: u32,
    pub(crate) number: u32,
    pub(crate) receiver: u32,
    pub(crate) bytes: u64,
}

/// The bytes of a cookie. They need no alignment.
type CookieBytes = [u8; size_of::<Cookie>()];

impl Cookie {
    fn of_bytes(bytes: &CookieBytes) -> Self {
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let mut length = [0; 8];
        length.copy_from_slice(&bytes[16..]);
        Self {
            mark: word(0),
            sender: word(4),
            number: word(8),
            receiver: word(12),
            bytes: u64::from_ne_bytes(length),
        }
    }
}

/// The mark of every cookie: `SLMT`.
const MARK: u32 = u32::from_le_bytes(*b"SLMT");

#[unsafe(no_mangle)]
extern "C" fn strait_lmt_pre_send(
    world: HandleArg<'_>,
    receiver: u32,
    parts: LastingPartsArg<'_>,
    count: CountArg<c_int>,
    cookie: OutArg<'_, Cookie>,
    request: OutArg<'_, Handle>,
) -> c_int {
    enter("strait_lmt_pre_send", world, || {
        let instance = world.world()?;
        cookie.need()?;
        request.need()?;
        let memory = parts.memory(count)?;
        let bytes = memory.bytes();
        let number = instance.next_large() & TAG_MAX;
        let endpoint = instance.any_endpoint(LARGE);
        let started = memory.send(SendKind::Standard, endpoint, receiver, number)?;
        let handle = instance.keep(started)?;
        let sender = instance.world().rank();
        cookie.write(Cookie { mark: MARK, sender, number, receiver, bytes })?;
        request.write(handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_lmt_start_recv(
    world: HandleArg<'_>,
    cookie: Option<&CookieBytes>,
    parts: LastingPartsArg<'_>,
    count: CountArg<c_int>,
    request: OutArg<'_, Handle>,
) -> c_int {
    enter("strait_lmt_start_recv", world, || {
        let instance = world.world()?;
        let cookie = cookie.ok_or_else(no_place)?;
        request.need()?;
        let Cookie { mark, sender, number, receiver, .. } = Cookie::of_bytes(cookie);
        if mark != MARK || receiver != instance.world().rank() || number > TAG_MAX {
            let text = format!(
                "the cookie is damaged, or was made for rank {receiver} and not this one: \
                 pass what strait_lmt_pre_send gave"
            );
            return Err(Failure::argument(text));
        }
        let memory = parts.memory(count)?;
        instance.give(memory.recv(instance.any_endpoint(LARGE), sender, number)?, request)
    })
}
