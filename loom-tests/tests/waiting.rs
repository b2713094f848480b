//! The record of what a rank waits for, read while it is written.

use strait_core::layout::{Call, Wait, WaitRecord, Waited};
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
