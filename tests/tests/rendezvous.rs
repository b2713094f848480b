//! Receivers that come first ask for large messages (`[SpecRndv09]`), between ranks of one node.

use std::sync::mpsc;
use std::sync::Arc;

use strait::boot::Config;
use strait::{
    ANY_SOURCE, ANY_TAG, Endpoint, Error, Fault, Rendezvous, Request, Rtrs, Transfer, Tuning, World,
    wait_all,
};
use strait_tests::{in_one_thread, payload, threads};

const LENGTH: usize = 700_001;

fn speculate(world: &World, transfer: Transfer) {
    world.retune(Tuning { rendezvous: Rendezvous::Speculative, transfer, ..world.tuning() });
}

/// As [`in_one_thread`], once for each transfer, with speculation.
fn by_each_transfer(config: Config, body: impl Fn(&[World]) + Send + Sync + 'static) {
    let body = Arc::new(body);
    for transfer in Transfer::ALL {
        println!("by {}", transfer.name());
        let body = Arc::clone(&body);
        in_one_thread(config, move |worlds| {
            worlds.iter().for_each(|world| speculate(world, transfer));
            body(worlds);
            for world in worlds {
                let left = world.in_use().unwrap();
                assert_eq!((left.requests, left.transfers, left.descriptors), (0, 0, 0), "{left:?}");
            }
        });
    }
}

fn progress(worlds: &[World]) {
    worlds.iter().for_each(|world| world.endpoint().progress().unwrap());
}

/// Moves all ranks in turn until `request` is over.
fn finish(worlds: &[World], mut request: Request<'_>) -> Result<strait::Status, Error> {
    loop {
        if let Some(status) = request.test()? {
            return Ok(status);
        }
        progress(worlds);
    }
}

/// The first message of an envelope from rank 0 to rank 1, by which both learn that there are such.
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

#[test]
fn a_message_arrives_at_a_receiver_that_computes() {
    let (says, hears) = mpsc::channel();
    let hears = std::sync::Mutex::new(hears);
    threads(Config::new(2), move |world| {
        speculate(&world, Transfer::Auto);
        let endpoint = world.endpoint();
        for id in 0..10 {
            let mut bytes = payload::of(id, LENGTH);
            if world.rank() == 1 {
                bytes.fill(0);
                endpoint.scope(|scope| {
                    let receive = scope.irecv(&mut bytes, 0, 0).unwrap();
                    endpoint.send(&[0_u8], 0, 1).unwrap();
                    if id > 0 {
                        // It computes until the sender, which waits, has all of it sent.
                        hears.lock().unwrap().recv().unwrap();
                    }
                    assert_eq!(receive.wait().unwrap().bytes, LENGTH);
                });
                assert_eq!(payload::first_difference(id, &bytes), None);
            } else {
                endpoint.recv(&mut [0_u8], 1, 1).unwrap();
                endpoint.scope(|scope| scope.isend(&bytes, 1, 0).unwrap().wait()).unwrap();
                if id > 0 {
                    says.send(()).unwrap();
                }
            }
        }
        let Rtrs { sent, heard, used, .. } = world.rtrs();
        assert_eq!([sent, heard, used], if world.rank() == 1 { [9, 0, 0] } else { [0, 9, 9] });
        world.finalize().unwrap();
    });
}

#[test]
fn an_rtr_is_used_by_each_transfer_and_for_each_length() {
    by_each_transfer(Config::new(2), |worlds| {
        open(worlds, 0, 0);
        for (id, length) in (1..).zip([16_385, 40_000, LENGTH, 3 << 20]) {
            let (out, mut room) = (payload::of(id, length), vec![0; length + 100]);
            worlds[1].endpoint().scope(|receives| {
                let receive = receives.irecv(&mut room, 0, 0).unwrap();
                worlds[0].endpoint().scope(|sends| {
                    let send = sends.isend(&out, 1, 0).unwrap();
                    assert_eq!(finish(worlds, receive).unwrap().bytes, length);
                    finish(worlds, send).unwrap();
                });
            });
            assert_eq!(payload::first_difference(id, &room[..length]), None);
            assert_eq!((worlds[1].rtrs().sent, worlds[0].rtrs().used), (id, id));
        }
    });
}
