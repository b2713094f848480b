//! Messages of the world that need no operation of their own, because they take short paths.

use strait::Endpoint;
use strait::raw::{LINES_FIRST, Part, RawEndpoint as _, ReceivedShort, SHORT_MAX, SentShort};

/// Sends bytes to a rank of the world with a tag, if that needs no wait, or a short message for
/// lines if the caller `may_wait`. Returns false if it sent nothing.
#[inline(always)]
pub(crate) fn send_bytes(
    endpoint: Endpoint<'_>,
    data: &[u8],
    (peer, tag): (u32, u32),
    may_wait: bool,
) -> bool {
    let mut sent = match data.len() {
        length if length <= SHORT_MAX => endpoint.send_short(data, peer, tag),
        length if length <= LINES_FIRST => endpoint.send_straight(data, peer, tag),
        _ => SentShort::No,
    };
    if sent == SentShort::No {
        if may_wait {
            return endpoint.send_soon(data, peer, tag);
        }
        sent = endpoint.send_medium(data, peer, tag);
    }
    if sent == SentShort::ToSleeper {
        endpoint.wake(peer);
    }
    sent != SentShort::No
}

/// Starts a receive into one piece of memory, if it takes a short path.
///
/// # Safety
///
/// The memory stays valid, and nothing else accesses it, until the receive is over.
#[inline(always)]
pub(crate) unsafe fn begin_short(
    endpoint: Endpoint<'_>,
    part: Part,
    peer: u32,
    tag: u32,
) -> ReceivedShort {
    // SAFETY: the caller guarantees the same (contract of `begin_short`).
    match unsafe { endpoint.post_first(part, peer, tag) } {
        Some((id, ticket)) => ReceivedShort::Pending(id, ticket),
        // SAFETY: as above. Nothing was posted.
        None => unsafe { endpoint.begin_recv_short(part, peer, tag) },
    }
}
