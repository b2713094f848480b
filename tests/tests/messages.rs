//! Single scenarios, most of them on one thread that makes progress on the ranks in turn, so that
//! the test chooses the interleaving.

use std::collections::VecDeque;

use strait::boot::SegmentConfig;
use strait::raw::ANY_SOURCE;
use strait::{ANY_TAG, Endpoint, Fault, Rendezvous, Request, Status, Tuning, World, wait_all};
use strait_tests::{in_one_thread, payload, shape, threads};

/// Lengths of messages that go by line, by one cell and by many.
const LENGTHS: [usize; 5] = [0, 8, 900, 10_000, 600_000];

/// Makes progress on all ranks in turn until `over` returns true.
fn until(worlds: &[World], mut over: impl FnMut() -> bool) {
    while !over() {
        worlds.iter().for_each(|world| world.endpoint().progress().unwrap());
    }
}

/// Makes progress on all ranks in turn until `request` is complete.
fn finish(worlds: &[World], mut request: Request<'_>) -> Result<Status, strait::Error> {
    loop {
        if let Some(status) = request.test()? {
            return Ok(status);
        }
        worlds.iter().for_each(|world| world.endpoint().progress().unwrap());
    }
}

/// Begins to send message `id` and drops the request, so that the engine keeps the rest.
fn post(endpoint: Endpoint<'_>, id: u64, length: usize, destination: u32, tag: u32) {
    let bytes = payload::of(id, length);
    endpoint.scope(|scope| drop(scope.isend(&bytes, destination, tag).unwrap()));
}

/// Receives and checks message `id`.
fn expect(worlds: &[World], at: usize, id: u64, length: usize, source: u32, tag: u32) {
    let mut bytes = vec![0xee; length + 3];
    let status = worlds[at]
        .endpoint()
        .scope(|scope| finish(worlds, scope.irecv(&mut bytes, source, tag).unwrap()).unwrap());
    assert_eq!(status.bytes, length, "message {id}");
    assert_eq!(payload::first_difference(id, &bytes[..length]), None, "message {id}");
    assert_eq!(bytes[length..], [0xee; 3], "message {id}");
}

#[test]
fn values_of_other_types_arrive_and_are_counted() {
    threads(SegmentConfig::new(2), |world| {
        let endpoint = world.endpoint();
        if world.rank() == 0 {
            endpoint.send(&[1.5_f64, -2.5], 1, 0).unwrap();
        } else {
            let mut values = [0.0_f64; 4];
            let status = endpoint.recv(&mut values, 0, 0).unwrap();
            assert_eq!((status.count::<f64>(), status.count::<[u8; 3]>()), (Some(2), None));
            assert_eq!(values, [1.5, -2.5, 0.0, 0.0]);
        }
        world.finalize().unwrap();
    });
}

#[test]
fn contexts_do_not_mix() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        for (context, id) in [(5, 1), (0, 2), (u32::MAX, 3)] {
            post(worlds[0].endpoint().with_context(context), id, 8, 1, 7);
        }
        for (context, id) in [(u32::MAX, 3), (5, 1), (0, 2)] {
            let mut bytes = [0; 8];
            let endpoint = worlds[1].endpoint().with_context(context);
            let status = endpoint.recv(&mut bytes, ANY_SOURCE, ANY_TAG).unwrap();
            assert_eq!(status, Status { source: 0, tag: 7, bytes: 8 });
            assert_eq!(payload::first_difference(id, &bytes), None, "context {context}");
        }
    });
}

#[test]
fn a_context_may_choose_its_rendezvous() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        let all = worlds[0].tuning().rendezvous;
        let [one, other] = [1, 2].map(|context| worlds[0].endpoint().with_context(context));
        for choice in Rendezvous::ALL {
            one.choose_rendezvous(Some(choice)).unwrap();
            assert_eq!((one.rendezvous(), other.rendezvous()), (choice, all));
        }
        one.choose_rendezvous(None).unwrap();
        for rendezvous in Rendezvous::ALL {
            worlds[0].retune(Tuning { rendezvous, ..worlds[0].tuning() });
            assert_eq!([one.rendezvous(), other.rendezvous()], [rendezvous; 2]);
        }
    });
}

#[test]
fn a_rank_that_does_not_exist_is_named() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        let endpoint = worlds[0].endpoint();
        for rank in [2, 7, u32::MAX - 1] {
            let mut bytes = [0; 4];
            let errors = [
                endpoint.send(&[0_u8], rank, 0).unwrap_err(),
                endpoint.send(&[0_u8; 100_000], rank, 0).unwrap_err(),
                endpoint.recv(&mut bytes, rank, 0).unwrap_err(),
                endpoint.probe(rank, 0).unwrap_err(),
                endpoint.iprobe(rank, 0).unwrap_err(),
                endpoint.scope(|scope| scope.isend(&[0_u8], rank, 0).map(drop)).unwrap_err(),
                endpoint.scope(|scope| scope.irecv(&mut bytes, rank, 0).map(drop)).unwrap_err(),
            ];
            for error in errors {
                let text = format!("rank {rank} does not exist in a job of 2 ranks (0 to 1)");
                assert_eq!(error.to_string(), text);
            }
        }
        // `ANY_SOURCE` is not a valid destination.
        assert!(endpoint.send(&[0_u8], ANY_SOURCE, 0).is_err());
        post(endpoint, 1, 8, 1, 0);
        expect(worlds, 1, 1, 8, 0, 0);
    });
}

#[test]
fn a_tag_that_does_not_exist_is_named() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        let endpoint = worlds[0].endpoint();
        let mut bytes = [0; 4];
        for tag in [strait::TAG_MAX + 1, ANY_TAG - 1, ANY_TAG] {
            let mut errors = vec![
                endpoint.send(&[0_u8], 1, tag).unwrap_err(),
                endpoint.send(&[0_u8; 100_000], 1, tag).unwrap_err(),
            ];
            if tag != ANY_TAG {
                errors.push(endpoint.recv(&mut bytes, 1, tag).unwrap_err());
                errors.push(endpoint.probe(1, tag).unwrap_err());
            }
            for error in errors {
                let text = error.to_string();
                assert!(text.starts_with(&format!("tag {tag} is not usable here")), "{text}");
            }
        }
        post(endpoint, 1, 8, 1, strait::TAG_MAX);
        expect(worlds, 1, 1, 8, 0, strait::TAG_MAX);
    });
}

#[test]
fn a_message_longer_than_its_buffer_is_cut_and_the_next_one_is_not_harmed() {
    for config in [SegmentConfig::new(2), shape::tiny(2, 1)] {
        in_one_thread(config, |worlds| {
            let [sender, receiver] = [worlds[0].endpoint(), worlds[1].endpoint()];
            for early in [true, false] {
                for length in LENGTHS.into_iter().filter(|length| *length > 0) {
                    for buffer in [0, 1, length / 2, length - 1] {
                        let mut bytes = vec![0xee; buffer];
                        receiver.scope(|scope| {
                            let send = || {
                                post(sender, 1, length, 1, 3);
                                post(sender, 2, length, 1, 4);
                            };
                            if !early {
                                send();
                                until(worlds, || receiver.iprobe(0, 4).unwrap().is_some());
                            }
                            let request = scope.irecv(&mut bytes, 0, 3).unwrap();
                            if early {
                                send();
                            }
                            let error = finish(worlds, request).unwrap_err();
                            let fault =
                                Fault::Truncated { source: 0, tag: 3, message: length, buffer };
                            assert!(
                                matches!(error, strait::Error::Fault(found) if found == fault),
                                "{error:?} instead of {fault:?}"
                            );
                        });
                        assert_eq!(payload::first_difference(1, &bytes), None);
                        expect(worlds, 1, 2, length, 0, 4);
                    }
                }
            }
        });
    }
}

#[test]
fn blocking_receives_tell_of_truncation_too() {
    threads(SegmentConfig::new(2), |world| {
        let endpoint = world.endpoint();
        for length in LENGTHS.into_iter().filter(|length| *length > 0) {
            if world.rank() == 0 {
                endpoint.send(&payload::of(1, length), 1, 0).unwrap();
                endpoint.send(&payload::of(2, length), 1, 0).unwrap();
                endpoint.recv(&mut [0_u8], 1, 0).unwrap();
                continue;
            }
            let mut bytes = vec![0; length];
            let error = endpoint.recv(&mut bytes[1..], 0, 0).unwrap_err();
            let fault = Fault::Truncated { source: 0, tag: 0, message: length, buffer: length - 1 };
            assert!(matches!(error, strait::Error::Fault(found) if found == fault), "{error:?}");
            endpoint.recv(&mut bytes, 0, 0).unwrap();
            assert_eq!(payload::first_difference(2, &bytes), None);
            endpoint.send(&[0_u8], 0, 0).unwrap();
        }
        world.finalize().unwrap();
    });
}

#[test]
fn nothing_is_lost_when_the_receiver_does_not_look() {
    for config in [SegmentConfig::new(2), shape::tiny(2, 1), shape::tiny(2, 2)] {
        in_one_thread(config, |worlds| {
            // The messages go first by line, then by cells, then wait. Their order is kept
            // throughout.
            let lengths = [8, 900, 2000, 0, 40_000, 48];
            let number = |id: u64| lengths[id as usize % lengths.len()];
            post(worlds[0].endpoint(), 999, 8, 1, 0);
            expect(worlds, 1, 999, 8, 0, 0);
            let bytes: Vec<_> = (0..600).map(|id| payload::of(id, number(id))).collect();
            worlds[0].endpoint().scope(|scope| {
                let mut requests: Vec<_> =
                    bytes.iter().map(|bytes| scope.isend(bytes, 1, 0).unwrap()).collect();
                let last = requests.last_mut().unwrap();
                assert_eq!(last.test().unwrap(), None, "the segment is full");
                (0..600).for_each(|id| expect(worlds, 1, id, number(id), 0, 0));
                wait_all(&mut requests).unwrap();
            });
        });
    }
}

#[test]
fn a_short_message_does_not_overtake_one_that_waits() {
    for lines in [1, 2] {
        in_one_thread(shape::tiny(3, lines), |worlds| {
            let endpoint = worlds[0].endpoint();
            for id in 0..3 {
                // Opens fastbox and baton.
                post(endpoint, id, 8, 1, 0);
                expect(worlds, 1, id, 8, 0, 0);
            }
            // A rank that does not poll holds all cells, so a message that fits no line waits.
            post(endpoint, 10, 2000, 2, 0);
            post(endpoint, 11, 300, 1, 0);
            endpoint.progress().unwrap();
            post(endpoint, 12, 8, 1, 0);
            expect(worlds, 1, 11, 300, 0, 0);
            expect(worlds, 1, 12, 8, 0, 0);
            expect(worlds, 2, 10, 2000, 0, 0);
        });
    }
}

#[test]
fn a_blocking_send_waits_for_a_busy_receiver() {
    threads(shape::tiny(2, 1), |world| {
        let endpoint = world.endpoint();
        if world.rank() == 0 {
            (0..50).for_each(|id| endpoint.send(&payload::of(id, 5000), 1, 0).unwrap());
        } else {
            // This rank is busy: it yields the processor without a call to the library.
            (0..100).for_each(|_| std::thread::yield_now());
            for id in 0..50 {
                let mut bytes = [0_u8; 5000];
                endpoint.recv(&mut bytes, 0, 0).unwrap();
                assert_eq!(payload::first_difference(id, &bytes), None);
            }
        }
        world.finalize().unwrap();
    });
}

#[test]
fn both_directions_full_at_once_is_no_deadlock() {
    for (lines, ranks) in [(1, 2), (2, 3), (1, 4)] {
        threads(shape::tiny(ranks, lines), |world| {
            let (endpoint, me, ranks) = (world.endpoint(), world.rank(), world.size());
            let id = |from: u32, number: usize| u64::from(from) << 32 | number as u64;
            let data: Vec<_> = (0..40).map(|number| payload::of(id(me, number), 3000)).collect();
            endpoint.scope(|scope| {
                let mut sends = Vec::new();
                for bytes in &data {
                    sends.extend((0..ranks).map(|to| scope.isend(bytes, to, 0).unwrap()));
                }
                for number in 0..data.len() {
                    for from in 0..ranks {
                        let mut bytes = [0_u8; 3000];
                        endpoint.recv(&mut bytes, from, 0).unwrap();
                        assert_eq!(payload::first_difference(id(from, number), &bytes), None);
                    }
                }
                wait_all(&mut sends).unwrap();
            });
            world.finalize().unwrap();
        });
    }
}

#[test]
fn a_rank_that_is_full_of_messages_to_itself_gets_them_all() {
    for config in [SegmentConfig::new(1), shape::tiny(1, 1)] {
        in_one_thread(config, |worlds| {
            let endpoint = worlds[0].endpoint();
            for id in 0..300 {
                post(endpoint, id, LENGTHS[id as usize % 4], 0, 0);
            }
            (0..300).for_each(|id| expect(worlds, 0, id, LENGTHS[id as usize % 4], 0, 0));
        });
    }
}

#[test]
fn a_message_that_is_arriving_meets_its_receive() {
    in_one_thread(shape::tiny(2, 1), |worlds| {
        let [sender, receiver] = [worlds[0].endpoint(), worlds[1].endpoint()];
        let data = payload::of(1, 20_000);
        for late in 0..8 {
            sender.scope(|scope| {
                let send = scope.isend(&data, 1, 0).unwrap();
                for _ in 0..late {
                    worlds.iter().for_each(|world| world.endpoint().progress().unwrap());
                }
                let found = receiver.iprobe(0, 0).unwrap().map(|status| status.bytes);
                assert_eq!(found, Some(20_000), "its first part says what is to come");
                expect(worlds, 1, 1, 20_000, 0, 0);
                finish(worlds, send).unwrap();
            });
        }
    });
}

#[test]
fn pieces_of_many_senders_interleave() {
    in_one_thread(shape::tiny(8, 1), |worlds| {
        for id in 0..24 {
            post(worlds[id as usize % 7 + 1].endpoint(), id, 10_000 + id as usize, 0, 5);
        }
        let mut left: VecDeque<u64> = (0..24).collect();
        for turn in 0..24 {
            // The youngest message of a rank may not overtake its older ones, so the ranks can be
            // taken in any order.
            let rank = turn * 3 % 7;
            let place = left.iter().position(|id| id % 7 == rank).unwrap_or(0);
            let id = left.remove(place).unwrap();
            expect(worlds, 0, id, 10_000 + id as usize, id as u32 % 7 + 1, 5);
        }
    });
}

#[test]
fn ten_thousand_receives_wait_at_once() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        let mut values = vec![0_u32; 10_000];
        worlds[1].endpoint().scope(|scope| {
            let mut requests: Vec<_> = (values.chunks_mut(1).zip(0..))
                .map(|(value, tag)| {
                    scope.irecv(value, [0, ANY_SOURCE][tag % 2], tag as u32).unwrap()
                })
                .collect();
            for tag in (0..10_000_u32).rev() {
                let value = [tag + 1];
                worlds[0].endpoint().scope(|scope| {
                    finish(worlds, scope.isend(&value, 1, tag).unwrap()).unwrap();
                });
            }
            wait_all(&mut requests).unwrap();
        });
        assert!(values.into_iter().eq(1..=10_000));
    });
}

#[test]
fn a_dropped_send_goes_on_from_a_copy() {
    in_one_thread(SegmentConfig { parcels: 0, ..shape::tiny(2, 1) }, |worlds| {
        let endpoint = worlds[0].endpoint();
        for forget in [false, true] {
            let mut bytes = payload::of(1, 12_000);
            endpoint.scope(|scope| {
                let mut request = scope.isend(&bytes, 1, 0).unwrap();
                worlds[1].endpoint().progress().unwrap();
                assert_eq!(request.test().unwrap(), None, "in the middle of it");
                if forget {
                    core::mem::forget(request);
                }
            });
            bytes.fill(0);
            drop(bytes);
            expect(worlds, 1, 1, 12_000, 0, 0);
        }
    });
}

#[test]
fn a_dropped_receive_lets_its_message_go_and_not_the_next() {
    in_one_thread(SegmentConfig { parcels: 0, ..shape::tiny(2, 1) }, |worlds| {
        let [sender, receiver] = [worlds[0].endpoint(), worlds[1].endpoint()];
        for forget in [false, true] {
            let mut bytes = vec![0; 12_000];
            receiver.scope(|scope| {
                let mut request = scope.irecv(&mut bytes, 0, 0).unwrap();
                post(sender, 1, 12_000, 1, 0);
                assert_eq!(request.test().unwrap(), None);
                assert!(!request.cancel(), "a message has matched it");
                if forget {
                    core::mem::forget(request);
                }
            });
            assert_eq!(payload::first_difference(1, &bytes[..1000]), None, "it had begun");
            bytes.fill(0xee);
            post(sender, 2, 12_000, 1, 0);
            expect(worlds, 1, 2, 12_000, 0, 0);
            assert!(bytes.iter().all(|byte| *byte == 0xee), "the buffer is ours again");
        }
    });
}

#[test]
fn a_receive_that_nothing_matched_can_be_taken_back() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        let [sender, receiver] = [worlds[0].endpoint(), worlds[1].endpoint()];
        let (mut first, mut second, mut third) = ([0_u8; 8], [0_u8; 8], [0_u8; 8]);
        receiver.scope(|scope| {
            let mut cancelled = scope.irecv(&mut first, 0, ANY_TAG).unwrap();
            drop(scope.irecv(&mut second, ANY_SOURCE, 0).unwrap());
            core::mem::forget(scope.irecv(&mut third, 0, 0).unwrap());
            assert!(cancelled.cancel());
            assert!(!cancelled.cancel(), "once");
            let error = cancelled.wait().unwrap_err();
            assert!(matches!(error, strait::Error::Fault(Fault::Cancelled)), "{error:?}");
        });
        post(sender, 1, 8, 1, 0);
        expect(worlds, 1, 1, 8, 0, 0);
        assert_eq!([first, second, third], [[0; 8]; 3]);
    });
}

#[test]
fn a_rank_that_leaves_has_handed_everything_over() {
    threads(shape::tiny(2, 1), |world| {
        if world.rank() == 0 {
            (0..5).for_each(|id| post(world.endpoint(), id, 20_000, 1, 0));
            world.finalize().unwrap();
            return;
        }
        for id in 0..5 {
            let mut bytes = vec![0; 20_000];
            world.endpoint().recv(&mut bytes, 0, 0).unwrap();
            assert_eq!(payload::first_difference(id, &bytes), None);
        }
        let error = world.endpoint().recv(&mut [0_u8], 0, 0).unwrap_err();
        assert!(
            matches!(error, strait::Error::Fault(Fault::PeerFinished { rank: 0 })),
            "{error:?}"
        );
    });
}

/// Without the bypass, each receive is posted and then matched, whatever path its message takes.
#[test]
fn receives_without_the_bypass_find_every_message() {
    let lengths = [0, 8, 48, 200, 4000, 20_000, 600_000];
    World::run_in_process(2, |world| {
        let endpoint = world.endpoint();
        world.retune(Tuning { bypass: false, ..world.tuning() });
        for (round, length) in (0..40).flat_map(|round| lengths.map(|length| (round, length))) {
            if world.rank() == 0 {
                endpoint.send(&payload::of(round, length), 1, 7)?;
                endpoint.recv(&mut [0_u8], 1, 9)?;
                continue;
            }
            let mut bytes = vec![0; length];
            let source = if round % 2 == 0 { 0 } else { ANY_SOURCE };
            let status = match round % 3 {
                0 => endpoint.scope(|scope| scope.irecv(&mut bytes, source, 7)?.wait())?,
                _ => endpoint.recv(&mut bytes, source, 7)?,
            };
            assert_eq!(status, Status { source: 0, tag: 7, bytes: length });
            assert_eq!(payload::first_difference(round, &bytes), None, "{length} bytes");
            endpoint.send(&[1_u8], 0, 9)?;
        }
        Ok(())
    })
    .unwrap();
}
