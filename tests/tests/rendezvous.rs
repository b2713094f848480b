//! Receivers that post first request large messages (`[SpecRndv09]`), between ranks of one node.

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;

use strait::boot::SegmentConfig;
use strait::raw::ANY_SOURCE;
use strait::{ANY_TAG, Error, Fault, Rendezvous, Request, Rtrs, Transfer, Tuning, Vectored, World};
use strait_tests::{Ranks, in_one_thread, payload};

const LENGTH: usize = 700_001;

fn speculate(world: &World, transfer: Transfer) {
    world.retune(Tuning { rendezvous: Rendezvous::Speculative, transfer, ..world.tuning() });
}

/// Runs [`in_one_thread`] once for each transfer, with speculation.
fn by_each_transfer(config: SegmentConfig, body: impl Fn(&[World]) + Send + Sync + 'static) {
    let body = Arc::new(body);
    for transfer in Transfer::ALL {
        println!("by {}", transfer.name());
        let body = Arc::clone(&body);
        in_one_thread(config, move |worlds| {
            worlds.iter().for_each(|world| speculate(world, transfer));
            body(worlds);
            for world in worlds {
                let left = world.in_use().unwrap();
                assert_eq!(
                    (left.requests, left.transfers, left.descriptors),
                    (0, 0, 0),
                    "{left:?}"
                );
            }
        });
    }
}

fn finish_all<'a>(worlds: &[World], requests: impl IntoIterator<Item = Request<'a>>) {
    for request in requests {
        finish(worlds, request).unwrap();
    }
}

fn progress(worlds: &[World]) {
    worlds.iter().for_each(|world| world.endpoint().progress().unwrap());
}

/// Makes progress on all ranks in turn until `request` is complete.
fn finish(worlds: &[World], mut request: Request<'_>) -> Result<strait::Status, Error> {
    loop {
        if let Some(status) = request.test()? {
            return Ok(status);
        }
        progress(worlds);
    }
}

/// Sends the first message of an envelope from rank 0 to rank 1, which both ranks remember.
fn open(worlds: &[World], context: u32, tag: u32) {
    let (out, mut room) = (payload::of(0, LENGTH), vec![0; LENGTH]);
    let [sender, receiver] = [0, 1].map(|rank| worlds[rank].endpoint().with_context(context));
    receiver.scope(|receives| {
        let receive = receives.irecv(&mut room, 0, tag).unwrap();
        sender.scope(|sends| {
            let send = sends.isend(&out, 1, tag).unwrap();
            finish(worlds, receive).unwrap();
            finish(worlds, send).unwrap();
        });
    });
}

/// Returns the counts of RTRs: sent and missed by rank 1, used by rank 0.
fn counts(worlds: &[World]) -> [u64; 3] {
    [worlds[1].rtrs().sent, worlds[1].rtrs().missed, worlds[0].rtrs().used]
}

/// Returns the file that signals an event instead of a message: one rank creates it, another waits.
fn news(name: &str) -> std::path::PathBuf {
    Path::new(&std::env::var_os("STRAIT_TEST_DIRECTORY").unwrap()).join(name)
}

/// The receiver of `count` messages is outside the library from its receive to the send's end.
fn compute(world: &World, count: u64) {
    let endpoint = world.endpoint();
    for id in 0..count {
        let mut bytes = payload::of(id, LENGTH);
        let sent = news(&format!("sent.{id}"));
        if world.rank() == 0 {
            endpoint.recv(&mut [0_u8], 1, 1).unwrap();
            endpoint.scope(|scope| scope.isend(&bytes, 1, 0).unwrap().wait()).unwrap();
            fs::write(sent, "").unwrap();
            continue;
        }
        bytes.fill(0);
        endpoint.scope(|scope| {
            let receive = scope.irecv(&mut bytes, 0, 0).unwrap();
            endpoint.send(&[0_u8], 0, 1).unwrap();
            // The first message is announced, which tells the receiver that such messages come.
            while id > 0 && !sent.exists() {
                std::thread::yield_now();
            }
            assert_eq!(receive.wait().unwrap().bytes, LENGTH);
        });
        assert_eq!(payload::first_difference(id, &bytes), None);
    }
    let Rtrs { sent, heard, used, .. } = world.rtrs();
    let expected = if world.rank() == 1 { [count - 1, 0, 0] } else { [0, count - 1, count - 1] };
    assert_eq!([sent, heard, used], expected);
}

#[test]
fn a_message_arrives_at_a_receiver_that_computes() {
    for transfer in ["auto", "cma_shared"] {
        let name = "a_message_arrives_at_a_receiver_that_computes";
        Ranks::new(2, name).with("STRAIT_LMT", transfer).run(|world| {
            compute(&world, 30);
            world.finalize().unwrap();
        });
    }
}

#[test]
fn an_rtr_is_used_by_each_transfer_and_for_each_length() {
    by_each_transfer(SegmentConfig::new(2), |worlds| {
        open(worlds, 0, 0);
        for (id, length) in (1..).zip([12_289, 40_000, LENGTH, 3 << 20]) {
            let (out, mut room) = (payload::of(id, length), vec![0; length + 100]);
            meet(worlds, &out, &mut room, true).unwrap();
            assert_eq!(payload::first_difference(id, &room[..length]), None);
            assert_eq!(counts(worlds), [id, 0, id]);
        }
    });
}

/// Sends a message from rank 0 to rank 1 with the receive posted before it, or after it.
fn meet(
    worlds: &[World],
    out: &[u8],
    room: &mut [u8],
    receiver_first: bool,
) -> Result<strait::Status, Error> {
    worlds[1].endpoint().scope(|receives| {
        let mut room = Some(room);
        let mut receive = || receives.irecv(room.take().unwrap(), 0, 0).unwrap();
        let first = receiver_first.then(&mut receive);
        worlds[0].endpoint().scope(|sends| {
            let send = sends.isend(out, 1, 0).unwrap();
            let received = finish(worlds, first.unwrap_or_else(receive));
            finish(worlds, send).unwrap();
            received
        })
    })
}

#[test]
fn the_side_that_comes_first_begins() {
    by_each_transfer(SegmentConfig::new(2), |worlds| {
        open(worlds, 0, 0);
        let mut used = 0;
        for (id, receiver_first) in [true, false, false, true, true].into_iter().enumerate() {
            let (out, mut room) = (payload::of(id as u64, LENGTH), vec![0; LENGTH]);
            meet(worlds, &out, &mut room, receiver_first).unwrap();
            assert_eq!(payload::first_difference(id as u64, &room), None);
            used += u64::from(receiver_first);
            assert_eq!(counts(worlds), [used, 0, used]);
        }
    });
}

/// A call that begins a message reads arrived packets, and moves no data of other messages.
#[test]
fn a_call_that_begins_a_message_moves_no_other() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        worlds.iter().for_each(|world| speculate(world, Transfer::CmaShared));
        open(worlds, 0, 0);
        let (out, mut room, mut other) = (payload::of(1, 40_000), vec![0; 40_000], vec![0; 40_000]);
        worlds[1].endpoint().scope(|receives| {
            let receive = receives.irecv(&mut room[..], 0, 0).unwrap();
            worlds[0].endpoint().scope(|sends| {
                let send = sends.isend(&out, 1, 0).unwrap();
                assert_eq!(counts(worlds), [1, 0, 1]);
                // No message was sent to it, so it sends no RTR.
                let mut nothing = receives.irecv(&mut other[..], 0, 1).unwrap();
                assert_eq!(worlds[1].in_use().unwrap().transfers, 1);
                finish_all(worlds, [receive, send]);
                assert!(nothing.cancel());
            });
        });
        assert_eq!(payload::first_difference(1, &room), None);
    });
}

/// A sender that announced many messages ignores RTRs, misses the first one, and then looks again.
#[test]
fn a_sender_looks_where_its_receiver_asks() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        worlds.iter().for_each(|world| speculate(world, Transfer::CmaShared));
        let (out, mut room) = (payload::of(1, LENGTH), vec![0; LENGTH]);
        (0..16).for_each(|_| assert!(meet(worlds, &out, &mut room, false).is_ok()));
        for expected in [[1, 1, 0], [2, 1, 1], [3, 1, 2]] {
            meet(worlds, &out, &mut room, true).unwrap();
            assert_eq!(counts(worlds), expected);
        }
    });
}

#[test]
fn a_message_is_longer_than_the_buffer_that_was_offered() {
    by_each_transfer(SegmentConfig::new(2), |worlds| {
        open(worlds, 0, 0);
        let out = payload::of(1, LENGTH);
        for (place, buffer) in [(1, LENGTH - 1), (2, 100_000), (3, 12_289)] {
            let mut room = vec![0xee; LENGTH];
            let error = meet(worlds, &out, &mut room[..buffer], true).unwrap_err();
            let expected = Fault::Truncated { source: 0, tag: 0, message: LENGTH, buffer };
            assert!(matches!(error, Error::Fault(fault) if fault == expected), "{error}");
            assert_eq!(payload::first_difference(1, &room[..buffer]), None);
            assert!(room[buffer..].iter().all(|byte| *byte == 0xee));
            assert_eq!(counts(worlds), [place, 0, place]);
        }
    });
}

#[test]
fn a_short_message_into_a_long_buffer_takes_no_rtr_of_another() {
    by_each_transfer(SegmentConfig::new(2), |worlds| {
        open(worlds, 0, 0);
        for (id, short) in (1..).zip([0, 8, 5000]) {
            let lengths = [short, LENGTH, short, LENGTH, LENGTH];
            let out = lengths.map(|length| payload::of(id, length));
            let mut rooms = lengths.map(|_| vec![0; LENGTH]);
            worlds[1].endpoint().scope(|receives| {
                let rooms = rooms.iter_mut().map(|room| receives.irecv(room, 0, 0).unwrap());
                let receives: Vec<_> = rooms.collect();
                worlds[0].endpoint().scope(|sends| {
                    let mut sent = Vec::new();
                    for out in &out {
                        sent.push(sends.isend(out, 1, 0).unwrap());
                    }
                    for (receive, length) in receives.into_iter().zip(lengths) {
                        assert_eq!(finish(worlds, receive).unwrap().bytes, length);
                    }
                    finish_all(worlds, sent);
                });
            });
            for (room, length) in rooms.iter().zip(lengths) {
                assert_eq!(payload::first_difference(id, &room[..length]), None);
            }
        }
        let [sent, missed, used] = counts(worlds);
        assert!(missed > 0 && sent == missed + used, "{:?}", counts(worlds));
    });
}

#[test]
fn other_tags_do_not_disturb() {
    by_each_transfer(SegmentConfig::new(2), |worlds| {
        open(worlds, 0, 0);
        for id in 1..10 {
            let (out, mut room) = (payload::of(id, LENGTH), vec![0; LENGTH]);
            worlds[1].endpoint().scope(|receives| {
                let receive = receives.irecv(&mut room, 0, 0).unwrap();
                worlds[0].endpoint().scope(|sends| {
                    worlds[0].endpoint().send(&[id], 1, 5).unwrap();
                    let send = sends.isend(&out, 1, 0).unwrap();
                    let mut short = [0];
                    worlds[1].endpoint().recv(&mut short, 0, 5).unwrap();
                    assert_eq!(short, [id]);
                    finish(worlds, receive).unwrap();
                    finish(worlds, send).unwrap();
                });
            });
            assert_eq!(payload::first_difference(id, &room), None);
            assert_eq!(counts(worlds), [id, 0, id]);
        }
    });
}

#[test]
fn nothing_is_asked_for_past_a_wildcard() {
    for (source, tag) in [(ANY_SOURCE, 0), (0, ANY_TAG), (ANY_SOURCE, ANY_TAG)] {
        by_each_transfer(SegmentConfig::new(2), move |worlds| {
            open(worlds, 0, 0);
            let out = [1, 2].map(|id| payload::of(id, LENGTH));
            let mut rooms = [(); 2].map(|()| vec![0; LENGTH]);
            let [wild, exact] = &mut rooms;
            worlds[1].endpoint().scope(|receives| {
                let wild = receives.irecv(wild, source, tag).unwrap();
                let exact = receives.irecv(exact, 0, 0).unwrap();
                assert_eq!(worlds[1].rtrs().sent, 0);
                worlds[0].endpoint().scope(|sends| {
                    let sent = [0, 1].map(|place: usize| sends.isend(&out[place], 1, 0).unwrap());
                    finish(worlds, wild).unwrap();
                    finish(worlds, exact).unwrap();
                    finish_all(worlds, sent);
                });
            });
            for (id, room) in (1..).zip(&rooms) {
                assert_eq!(payload::first_difference(id, room), None);
            }
        });
    }
}

#[test]
fn a_receive_with_a_pending_rtr_is_cancelled() {
    for heard in [false, true] {
        by_each_transfer(SegmentConfig::new(2), move |worlds| {
            open(worlds, 0, 0);
            let out = [1, 2].map(|id| payload::of(id, LENGTH));
            let mut rooms = [(); 3].map(|()| vec![0; LENGTH]);
            let [first, second, third] = &mut rooms;
            worlds[1].endpoint().scope(|receives| {
                let first = receives.irecv(first, 0, 0).unwrap();
                let mut second = receives.irecv(second, 0, 0).unwrap();
                let third = receives.irecv(third, 0, 0).unwrap();
                assert_eq!(worlds[1].rtrs().sent, 3);
                if heard {
                    worlds[0].endpoint().progress().unwrap();
                }
                assert!(second.cancel());
                assert_eq!(worlds[1].rtrs().retracted, 2, "the third asked for another message");
                worlds[0].endpoint().scope(|sends| {
                    let sent = [0, 1].map(|place: usize| sends.isend(&out[place], 1, 0).unwrap());
                    finish(worlds, first).unwrap();
                    finish(worlds, third).unwrap();
                    finish_all(worlds, sent);
                });
            });
            assert_eq!(counts(worlds), [3, 0, 1]);
            for (id, room) in [(1, &rooms[0]), (2, &rooms[2])] {
                assert_eq!(payload::first_difference(id, room), None);
            }
            assert!(rooms[1].iter().all(|byte| *byte == 0));
        });
    }
}

#[test]
fn a_receive_with_a_used_rtr_is_not_cancelled_and_may_be_dropped() {
    for dropped in [false, true] {
        by_each_transfer(SegmentConfig::new(2), move |worlds| {
            open(worlds, 0, 0);
            let (out, mut room) = (payload::of(1, LENGTH), vec![0; LENGTH]);
            worlds[1].endpoint().scope(|receives| {
                let mut receive = receives.irecv(&mut room, 0, 0).unwrap();
                worlds[0].endpoint().scope(|sends| {
                    let send = sends.isend(&out, 1, 0).unwrap();
                    assert!(!receive.cancel(), "a message uses its RTR");
                    if dropped {
                        drop(receive);
                    } else {
                        finish(worlds, receive).unwrap();
                    }
                    finish(worlds, send).unwrap();
                });
            });
            assert!(dropped || payload::first_difference(1, &room).is_none());
            room.fill(0xee);
            (0..10).for_each(|_| progress(worlds));
            assert!(room.iter().all(|byte| *byte == 0xee), "the buffer is ours again");
            assert_eq!(counts(worlds), [1, 0, 1]);
        });
    }
}

#[test]
fn a_send_that_uses_an_rtr_is_dropped_and_goes_on_from_a_copy() {
    by_each_transfer(SegmentConfig::new(2), |worlds| {
        open(worlds, 0, 0);
        for moves in 0..3 {
            let (mut out, mut room) = (payload::of(1, 8 << 20), vec![0; 8 << 20]);
            worlds[1].endpoint().scope(|receives| {
                let receive = receives.irecv(&mut room, 0, 0).unwrap();
                worlds[0].endpoint().scope(|sends| {
                    let send = sends.isend(&out, 1, 0).unwrap();
                    (0..moves).for_each(|_| worlds[0].endpoint().progress().unwrap());
                    drop(send);
                });
                out.fill(0);
                finish(worlds, receive).unwrap();
            });
            assert_eq!(payload::first_difference(1, &room), None);
        }
        let finished = || worlds[0].in_use().unwrap().transfers == 0;
        while !finished() {
            progress(worlds);
        }
        assert_eq!(counts(worlds), [3, 0, 3]);
    });
}

#[test]
fn a_choice_of_one_context_is_its_own() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        worlds.iter().for_each(|world| speculate(world, Transfer::CmaShared));
        let plain = worlds[0].endpoint().with_context(7);
        plain.choose_rendezvous(Some(Rendezvous::Plain)).unwrap();
        for context in [0, 7] {
            (0..3).for_each(|_| open(worlds, context, 0));
        }
        assert_eq!(counts(worlds), [2, 0, 2]);
    });
}

#[test]
fn buffers_in_parts_and_in_heaps_are_asked_for() {
    by_each_transfer(SegmentConfig::new(2), |worlds| {
        open(worlds, 0, 0);
        let bytes = payload::of(1, LENGTH);
        let (head, tail) = bytes.split_at(10_007);
        let sources = [IoSlice::new(head), IoSlice::new(tail)];
        let mut heaps = [0, 1].map(|rank: usize| worlds[rank].alloc::<u8>(LENGTH).unwrap());
        heaps[0].copy_from_slice(&bytes);
        let [from, to] = &mut heaps;
        let mut private = vec![0; LENGTH];
        for (parts, in_heap) in [(true, false), (true, true), (false, true), (false, false)] {
            let room = if in_heap { &mut **to } else { &mut private[..] };
            room.fill(0);
            let (first, second) = room.split_at_mut(300_001);
            let mut targets = [IoSliceMut::new(first), IoSliceMut::new(second)];
            worlds[1].endpoint().scope(|receives| {
                let receive = receives.irecv(Vectored::new_mut(&mut targets), 0, 0).unwrap();
                worlds[0].endpoint().scope(|sends| {
                    let send = match parts {
                        true => sends.isend(Vectored::new(&sources), 1, 0).unwrap(),
                        false => sends.isend(from, 1, 0).unwrap(),
                    };
                    finish(worlds, receive).unwrap();
                    finish(worlds, send).unwrap();
                });
            });
            assert_eq!(payload::first_difference(1, room), None, "{parts} {in_heap}");
            room.fill(0);
            meet(worlds, from, room, true).unwrap();
            assert_eq!(payload::first_difference(1, room), None, "{parts} {in_heap}");
        }
        assert_eq!(counts(worlds), [8, 0, 8]);
    });
}
