//! Checks the limits at which a device refuses requests.

use strait_core::hca::{
    Access, Connection, Done, Hca, HcaError, Operation, PostError, Sge, WorkRequest,
};

use super::side::{Side, pattern, request};
use super::{Applicable, Party};

/// A device with more receives than this is not filled, because that would take too long.
const RECEIVES: u32 = 4096;

pub(super) fn a_full_queue_pushes_back<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let depth = side.capabilities().depth as usize;
    let link = side.connect();
    let (buffer, far) = side.shared(8 * (depth + 1));
    if side.is_first() {
        buffer.put(0, &pattern(4, 8 * depth));
        let mut ids = Vec::new();
        let post = |side: &mut Side<'_, P>, at: usize| {
            let id = side.new_id();
            let from = [buffer.piece(at * 8, 8)];
            let operation = Operation::Write { from: &from, to: far.at(at * 8) };
            side.try_post(link, &request(id, operation)).map(|()| id)
        };
        for at in 0..depth {
            ids.push(post(side, at).expect("as many as the device says"));
        }
        // No completion was polled, so no request is known to be done.
        assert_eq!(post(side, depth), Err(PostError::Full));
        for id in ids {
            assert_eq!(side.done(link, id), Done::Write);
        }
        let id = post(side, 0).expect("there is room again");
        assert_eq!(side.done(link, id), Done::Write);
        side.settle(link, buffer.whole(), far.at(0));
        side.meet();
    } else {
        side.meet();
        assert!(buffer.get(0, 8 * depth) == pattern(4, 8 * depth));
        assert_eq!(buffer.word(8 * depth), 0, "what was refused was not done");
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn receives_are_limited<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let limit = side.capabilities().receives;
    if limit > RECEIVES {
        return Err("the device takes more receives than are worth the time");
    }
    let link = side.connect();
    let (buffer, _) = side.shared(8 * limit as usize + 8);
    if side.is_first() {
        side.meet();
        for at in 0..limit as usize {
            buffer.put(at * 8, &(at as u64).to_ne_bytes());
            let from = [buffer.piece(at * 8, 8)];
            assert_eq!(side.perform(link, Operation::Send { from: &from }), Done::Send);
        }
    } else {
        let piece = |at: u32| buffer.piece(8 * at as usize, 8);
        let ids: Vec<u64> = (0..limit).map(|at| side.receive(piece(at))).collect();
        // SAFETY: the piece lies in a buffer that nothing else uses.
        let refused = unsafe { side.device().post_receive(0, piece(limit)) };
        assert_eq!(refused, Err(PostError::Full));
        side.meet();
        for (at, id) in ids.into_iter().enumerate() {
            assert_eq!(side.done(link, id), Done::Receive { length: 8 });
            assert_eq!(buffer.word(at * 8), at as u64);
        }
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn what_is_too_much_is_not_posted<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let capabilities = side.capabilities();
    let link = side.connect();
    let (pieces, inline) = (capabilities.pieces as usize + 1, capabilities.inline as usize + 1);
    let (buffer, far) = side.shared(pieces.max(inline) + 64);
    if side.is_first() {
        let many = vec![buffer.piece(0, 1); pieces];
        let to = far.at(0);
        let refused = side.try_post(link, &request(1, Operation::Write { from: &many, to }));
        assert_eq!(refused, Err(PostError::Pieces { found: pieces, limit: capabilities.pieces }));

        let long = [buffer.piece(0, inline)];
        let operation = Operation::Write { from: &long, to };
        let too_long = WorkRequest { inline: true, ..request(2, operation) };
        let refused = side.try_post(link, &too_long);
        let limit = u64::from(capabilities.inline);
        assert_eq!(refused, Err(PostError::Length { found: inline as u64, limit }));
        // Neither refusal broke the connection.
        let from = [buffer.piece(0, 1)];
        assert_eq!(side.perform(link, Operation::Write { from: &from, to }), Done::Write);
    }
    side.meet();
    side.free(buffer);
    side.close(link);
    Ok(())
}

pub(super) fn what_is_not_there_is_refused<P: Party>(side: &mut Side<'_, P>) -> Applicable {
    let buffer = side.buffer(64, Access::ALL);
    let region = buffer.region;
    side.free(buffer);
    let again = side.device().deregister(region);
    assert_eq!(again, Err(HcaError::UnknownRegion { key: region.local_key }));

    let nowhere = Connection(u32::MAX - 1);
    let unknown = HcaError::UnknownConnection { connection: nowhere.0 };
    assert_eq!(side.device().close(nowhere), Err(unknown));
    let from: [Sge; 0] = [];
    let refused = side.try_post(nowhere, &request(1, Operation::Send { from: &from }));
    assert_eq!(refused, Err(PostError::NotConnected));
    // An end that waits for the other.
    let peer = 1 - side.rank();
    let (connection, _) = side.device().open(peer).expect("opening");
    let refused = side.try_post(connection, &request(1, Operation::Send { from: &from }));
    assert_eq!(refused, Err(PostError::NotConnected));
    side.close(connection);
    Ok(())
}
