//! Checks requests that fail: their errors, the connections that they break, and the data that stay
//! unchanged.

use core::ptr::NonNull;

use strait_core::hca::{
    Access, Atomics, Connection, Done, Hca, Operation, PostError, RemoteAddress, Sge, WorkError,
};

use super::side::{Buffer, Far, Side, pattern, request};
use super::{Applicable, Party};

const BYTES: usize = 256;

/// Posts one request that must fail, with its expected error.
fn fails<P: Party>(side: &mut Side<'_, P>, operation: Option<(Operation<'_>, WorkError)>) {
    let (link, other) = (side.connect(), side.connect());
    let (buffer, far) = side.shared(8);
    if let Some((operation, expected)) = operation {
        let id = side.new_id();
        side.post(link, &request(id, operation));
        let completion = side.complete();
        assert_eq!((completion.id, completion.connection), (id, link));
        // Without acknowledgements this device may not learn of an error that the peer's device
        // detects.
        let unheard = expected != WorkError::LocalAccess && !side.capabilities().acknowledged;
        let unexplained = expected == WorkError::LocalAccess && !side.habits().explains;
        let as_good = match completion.result {
            Ok(done) => unheard && done == Done::Write,
            Err(WorkError::Unreachable) => unheard,
            Err(WorkError::Flushed | WorkError::Device { .. }) => unexplained,
            Err(_) => false,
        };
        assert!(as_good || completion.result == Err(expected), "{completion:?} of {operation:?}");
    }
    side.meet();
    is_broken(side, link, &buffer, far);
    // Another connection between the same two parties still works.
    if side.is_first() {
        buffer.put(0, &[7; 8]);
        let from = [buffer.whole()];
        assert_eq!(
            side.perform(other, Operation::Write { from: &from, to: far.at(0) }),
            Done::Write
        );
        side.meet();
    } else {
        side.meet();
        assert_eq!(buffer.get(0, 8), [7; 8]);
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    side.close(other);
}

/// A request on a broken connection is refused or flushed. At the end that did not break it, the
/// request may also find no peer.
fn is_broken<P: Party>(side: &mut Side<'_, P>, link: Connection, buffer: &Buffer, far: Far) {
    let (hears, first) = (side.capabilities().acknowledged, side.is_first());
    // The end that did not break the connection may execute a request before it learns of the
    // failure.
    let from = [buffer.piece(0, if hears || first { 8 } else { 0 })];
    let error = side.fails(link, Operation::Write { from: &from, to: far.at(0) });
    let flushed = matches!(error, None | Some(WorkError::Flushed));
    assert!(flushed || is_gone(side, error) && !(hears && first), "{error:?}");
    side.meet();
    assert_eq!(buffer.get(0, 8), [0; 8], "nothing takes effect any more");
    side.meet();
}

/// Returns whether a request may fail like this after its peer has ended the connection. Without a
/// message from the peer, the error may be one of the device, which cannot proceed. A device that
/// knows refuses the request.
fn is_gone<P: Party>(side: &mut Side<'_, P>, error: Option<WorkError>) -> bool {
    let hears = side.capabilities().acknowledged;
    match error {
        Some(WorkError::Unreachable) => true,
        None | Some(WorkError::Device { .. }) => !hears,
        Some(_) => false,
    }
}

/// Creates a region of the second party with this access, which must stay unchanged. The first
/// party breaks a connection with each request.
fn each_fails<P: Party>(
    side: &mut Side<'_, P>,
    access: Access,
    requests: impl Fn(&Buffer, Far) -> Vec<(Request, WorkError)>,
) {
    let target = side.buffer(BYTES, access);
    if !side.is_first() {
        target.put(0, &pattern(1, BYTES));
    }
    let far = side.swap(&target.region);
    let own = side.buffer(BYTES, Access::ALL);
    // Both count the requests, and the first makes them.
    let requests = requests(&own, far);
    for (request, error) in &requests {
        let operation = side.is_first().then(|| (request.operation(), *error));
        fails(side, operation);
    }
    if !side.is_first() {
        assert_eq!(target.get(0, BYTES), pattern(1, BYTES), "nothing was written");
    }
    side.meet();
    side.free(own);
    side.free(target);
}

/// A request with its piece.
struct Request {
    piece: [Sge; 1],
    kind: Kind,
    at: RemoteAddress,
}

#[derive(Clone, Copy)]
enum Kind {
    Write,
    Read,
    Add,
}

impl Request {
    fn operation(&self) -> Operation<'_> {
        match self.kind {
            Kind::Write => Operation::Write { from: &self.piece, to: self.at },
            Kind::Read => Operation::Read { into: &self.piece, from: self.at },
            Kind::Add => {
                Operation::FetchAndAdd { result: self.piece[0], target: self.at, addend: 1 }
            }
        }
    }
}

/// Returns the kinds of requests that the device supports.
fn kinds<P: Party>(side: &mut Side<'_, P>) -> Vec<Kind> {
    let mut kinds = vec![Kind::Write, Kind::Read];
    if side.capabilities().atomics != Atomics::None {
        kinds.push(Kind::Add);
    }
    kinds
}

/// Returns requests for 8 bytes to or from `at`, one of each kind, that fail with a remote access
/// error.
fn by_each(kinds: &[Kind], own: &Buffer, at: RemoteAddress) -> Vec<(Request, WorkError)> {
    let request = |kind: &Kind| Request { piece: [own.piece(0, 8)], kind: *kind, at };
    kinds.iter().map(|kind| (request(kind), WorkError::RemoteAccess)).collect()
}

pub(super) fn a_bad_remote_key_breaks<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let kinds = kinds(side);
    each_fails(side, Access::ALL, |own, far| {
        let bad = |key| RemoteAddress { key, ..far.at(0) };
        let mut all = by_each(&kinds, own, bad(far.key ^ 0x5a5a_0000));
        all.extend(by_each(&kinds[..1], own, bad(far.key ^ 1)));
        all.extend(by_each(&kinds[..1], own, bad(0)));
        all
    });
    Ok(())
}

pub(super) fn a_revoked_key_breaks<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let kinds = kinds(side);
    let revoked = side.buffer(BYTES, Access::ALL);
    let far = side.swap(&revoked.region);
    side.device().deregister(revoked.region).expect("deregistering");
    // Registers the same memory again: the old key does not open it. SAFETY: the memory belongs to
    // a buffer, which `free` frees.
    let again = unsafe {
        side.device().register(revoked.whole().base, BYTES, Access::ALL).expect("registering")
    };
    assert_ne!(again.remote_key, revoked.region.remote_key);
    side.meet();
    each_fails(side, Access::ALL, |own, _| by_each(&kinds, own, far.at(0)));
    assert_eq!(revoked.get(0, BYTES), [0; BYTES]);
    side.free(revoked.registered_as(again));
    Ok(())
}

pub(super) fn a_place_out_of_range_breaks<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let kinds = kinds(side);
    each_fails(side, Access::ALL, |own, far| {
        let end = far.length as usize;
        let mut all = by_each(&kinds, own, far.at(end));
        all.extend(by_each(&kinds[..2], own, far.at(end - 7)));
        all.extend(by_each(&kinds[..2], own, far.at(0_usize.wrapping_sub(8))));
        all.extend(by_each(
            &kinds[..1],
            own,
            RemoteAddress { address: u64::MAX - 3, key: far.key },
        ));
        all
    });
    Ok(())
}

pub(super) fn rights_are_needed<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let kinds = kinds(side);
    let strict = side.habits().strict;
    let least = if strict { Access::LOCAL } else { Access::LOCAL_READ };
    for (allowed, access) in [
        // Remote writes and atomics need local write access, which real devices require.
        (Some(Kind::Write), Access { remote_write: true, ..Access::LOCAL }),
        (Some(Kind::Read), Access { remote_read: true, ..least }),
        (None, least),
    ] {
        let is_refused = |kind: &&Kind| match kind {
            Kind::Read if !strict => false,
            kind => allowed.is_none_or(|allowed| allowed as u8 != **kind as u8),
        };
        let refused: Vec<Kind> = kinds.iter().filter(is_refused).copied().collect();
        each_fails(side, access, |own, far| by_each(&refused, own, far.at(0)));
    }
    Ok(())
}

pub(super) fn local_mistakes_break<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let readable = side.buffer(BYTES, Access::LOCAL_READ);
    let read_only = readable.piece(0, 8);
    each_fails(side, Access::ALL, |own, far| {
        let piece = own.piece(0, 8);
        let wrong_key = Sge { key: piece.key ^ 0x5a5a_0000, ..piece };
        let beyond = own.piece(BYTES - 8, 8);
        let base = NonNull::new(beyond.base.as_ptr().wrapping_add(1)).expect("no null");
        let beyond = Sge { base, ..beyond };
        let all = [
            (wrong_key, Kind::Write),
            (wrong_key, Kind::Read),
            (beyond, Kind::Write),
            (beyond, Kind::Read),
            (read_only, Kind::Read),
        ];
        let request = |(piece, kind)| Request { piece: [piece], kind, at: far.at(0) };
        all.map(|one| (request(one), WorkError::LocalAccess)).into()
    });
    side.free(readable);
    Ok(())
}

/// Posts valid requests, then an invalid one, then valid ones. The first take effect, the last do
/// not.
pub(super) fn what_came_after_is_flushed<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    const AROUND: usize = 3;
    let link = side.connect();
    let (buffer, far) = side.shared(64);
    if side.is_first() {
        buffer.put(0, &[9; 8]);
        let from = [buffer.piece(0, 8)];
        let mut posted = Vec::new();
        for at in 0..=2 * AROUND {
            let bad = at == AROUND;
            let to =
                if bad { RemoteAddress { key: !far.key, ..far.at(0) } } else { far.at(at * 8) };
            let id = side.new_id();
            match side.try_post(link, &request(id, Operation::Write { from: &from, to })) {
                Ok(()) => posted.push((at, id)),
                // A fast device has broken the connection already.
                Err(PostError::Broken) if at > AROUND => {}
                Err(error) => panic!("request {at}: {error}"),
            }
        }
        for (at, id) in posted {
            if !side.capabilities().acknowledged {
                // They may be done, as far as this device can tell.
                assert_eq!(side.complete().id, id);
                continue;
            }
            match at {
                0..AROUND => assert_eq!(side.done(link, id), Done::Write),
                AROUND => assert_eq!(side.failed(link, id), WorkError::RemoteAccess),
                _ => assert_eq!(side.failed(link, id), WorkError::Flushed),
            }
        }
        let to = far.at(7 * 8);
        let error = side.fails(link, Operation::Write { from: &from, to });
        assert!(!matches!(error, Some(WorkError::RemoteAccess)), "another request was invalid");
        side.meet();
    } else {
        side.meet();
        assert_eq!(buffer.get(0, AROUND * 8), [9; AROUND * 8]);
        assert_eq!(buffer.get(AROUND * 8, (AROUND + 1) * 8), [0; (AROUND + 1) * 8]);
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn a_message_too_long_breaks<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let link = side.connect();
    let (buffer, _) = side.shared(64);
    if side.is_first() {
        side.meet();
        buffer.put(0, &[5; 64]);
        let id = side.new_id();
        let from = [buffer.piece(0, 33)];
        side.post(link, &request(id, Operation::Send { from: &from }));
        // The sender's completion differs between devices.
        let completion = side.complete();
        assert_eq!((completion.id, completion.connection), (id, link));
        let hears = side.capabilities().acknowledged;
        assert!(!hears || completion.result.is_err(), "{completion:?}");
        assert_ne!(completion.result, Err(WorkError::Flushed));
    } else {
        let id = side.receive(buffer.piece(0, 32));
        side.meet();
        let error = side.failed(link, id);
        let as_good = !side.habits().explains && matches!(error, WorkError::Device { .. });
        assert!(error == WorkError::Length || as_good, "{error:?}");
        assert_eq!(buffer.get(32, 32), [0; 32], "nothing beyond the piece");
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn a_message_without_a_receive_breaks<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    if !side.habits().gives_up {
        return Err("the device never gives up on a receive");
    }
    let link = side.connect();
    let buffer = side.buffer(64, Access::LOCAL);
    if side.is_first() {
        let ids = [side.new_id(), side.new_id()];
        let from = [buffer.whole()];
        for id in ids {
            side.post(link, &request(id, Operation::Send { from: &from }));
        }
        assert_eq!(side.failed(link, ids[0]), WorkError::NotReady);
        assert_eq!(side.failed(link, ids[1]), WorkError::Flushed);
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn a_closed_connection_is_gone<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let link = side.connect();
    let (buffer, far) = side.shared(8);
    if side.is_first() {
        side.meet();
        let from = [buffer.whole()];
        let error = side.fails(link, Operation::Write { from: &from, to: far.at(0) });
        let flushed = matches!(error, None | Some(WorkError::Flushed));
        assert!(flushed || is_gone(side, error), "{error:?}");
        side.close(link);
    } else {
        side.close(link);
        let refused = side.try_post(link, &request(1, Operation::Send { from: &[] }));
        assert_eq!(refused, Err(PostError::NotConnected));
        side.meet();
    }
    side.meet();
    side.free(buffer);
    Ok(())
}

/// The second party dies and does not return from this function.
pub(super) fn the_dead_are_unreachable<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    if !side.habits().mortal {
        return Err("these parties cannot be killed");
    }
    let (link, other) = (side.connect(), side.connect());
    let (buffer, far) = side.shared(64);
    if !side.is_first() {
        side.party().die();
        unreachable!("a dead party does nothing");
    }
    // Its death takes effect at some time. Until then the first party writes to it.
    let from = [buffer.whole()];
    let error = loop {
        let id = side.new_id();
        side.post(link, &request(id, Operation::Write { from: &from, to: far.at(0) }));
        let completion = side.complete();
        assert_eq!(completion.id, id);
        if let Err(error) = completion.result {
            break error;
        }
    };
    // Its memory may disappear before its connections do.
    assert!(error == WorkError::RemoteAccess || is_gone(side, Some(error)), "{error:?}");
    let error = side.fails(other, Operation::Send { from: &from });
    assert!(is_gone(side, error), "{error:?}");
    side.close(link);
    side.close(other);
    side.free(buffer);
    side.be_alone();
    Ok(())
}
