//! The records of a rank for observers, read while they are written.

use strait_core::layout::{Call, Event, EventKind, EventRing, Wait, WaitRecord, Waited};
use strait_loom_tests::{Arc, model, thread};

/// Returns a record in which all fields follow from one number.
fn waited(number: u32) -> Waited {
    let wait = Wait { tag: Some(number), ..Wait::on(Call::Recv, number) };
    let time = u64::from(number);
    Waited { wait: Some(wait), since_ns: time, latest_ns: time, turns: time }
}

#[test]
fn no_torn_record_is_read() {
    model(|| {
        let record = Arc::new(WaitRecord::empty());
        let rank = {
            let record = Arc::clone(&record);
            thread::spawn(move || record.write(&waited(1)))
        };
        // A record that is being written at every poll is unreadable.
        if let Ok(Some(read)) = record.read_once() {
            assert_eq!(read, waited(1));
        }
        rank.join().unwrap();
        assert_eq!(record.read(), Ok(Some(waited(1))));
    });
}

/// Returns an event in which all fields follow from one number.
fn event(number: u32) -> Event {
    let kind = if number.is_multiple_of(2) { EventKind::Announced } else { EventKind::Met };
    let time_ns = u64::from(number);
    Event { time_ns, kind, peer: number, tag: number, context: number, bytes: time_ns }
}

#[test]
fn no_torn_event_is_read() {
    model(|| {
        let ring = Arc::new(EventRing::<2>::empty());
        ring.write(event(0));
        let rank = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                ring.write(event(1));
                ring.write(event(2));
            })
        };
        for number in 0..3 {
            if let Some(read) = ring.read(number) {
                assert_eq!(read, event(number as u32));
            }
        }
        rank.join().unwrap();
        assert_eq!(ring.read(2), Some(event(2)));
    });
}
