//! Records of windows by messages, parsed from arbitrary bytes of a peer.

use core::ptr::NonNull;

use arbitrary::{Result, Unstructured};
use strait_core::buffer::Part;
use strait_core::rma::{RECORD, Record, RecordName, transfer};

/// Bytes of the part. The memory has as many bytes before and behind it, which no record may
/// change.
const PART: usize = 256;

/// A byte that lies outside the part.
const OUTSIDE: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// Parses records from a message and carries them out.
pub fn records(input: &[u8]) {
    let mut input = Unstructured::new(input);
    carry_out(&mut input).expect("there are bytes without end");
}

fn carry_out(input: &mut Unstructured<'_>) -> Result<()> {
    let mut memory = [OUTSIDE; 3 * PART / 8];
    let length = input.int_in_range(0..=PART)?;
    let base = NonNull::from(&mut memory).cast::<u8>();
    // SAFETY: the part and as many bytes on both sides lie in the memory.
    let part = Part { base: unsafe { base.add(PART) }, length };
    let mut message = input.bytes(input.len())?.to_vec();
    let mut at = 0;
    while let Ok(record) = Record::read(&message[at..], part) {
        let behind = at + RECORD;
        assert_eq!(record.bytes(), message[at..behind], "{record:?} is not what was sent");
        let data = if record.apart().is_none() { record.data() } else { 0 };
        act(record, part, &mut message[behind..behind + data]);
        at = behind + data;
    }
    let outside = memory[..PART / 8].iter().chain(&memory[2 * PART / 8..]);
    assert!(outside.into_iter().all(|word| *word == OUTSIDE), "written outside the part");
    Ok(())
}

/// Carries out a record on the part, with the data behind it. Data that travel separately are
/// replaced by zeros.
fn act(record: Record, part: Part, data: &mut [u8]) {
    let mut zeros = vec![0; record.data()];
    let data = if record.apart().is_some() { &mut zeros[..] } else { data };
    // SAFETY: the offset lies in the part (checked by `Record::read`), and no other thread uses it.
    let at = |offset: usize| unsafe { part.base.add(offset) };
    match record {
        Record::Put { offset, length, .. } => {
            // SAFETY: the range lies in the part (checked by `Record::read`), and the data are as
            // long.
            unsafe { transfer(NonNull::from(data).cast(), at(offset), length) };
        }
        Record::Get { offset, length, answer } => {
            assert!(RecordName::Answer(answer).context() < 1 << 31);
            let mut bytes = vec![0_u8; length];
            // SAFETY: the range lies in the part (checked by `Record::read`), and the vector is as
            // long.
            unsafe { transfer(at(offset), NonNull::from(&mut bytes[..]).cast(), length) };
        }
        // SAFETY: the record was read for this part, which only this thread uses.
        Record::Combine { .. } => unsafe { record.carry_out(part, data) },
        Record::Swap { .. } => {
            // SAFETY: the record was read for this part, which only this thread uses.
            let _found = unsafe { record.swap(part) };
        }
        Record::Flush { .. }
        | Record::Flushed { .. }
        | Record::Posted { .. }
        | Record::Completed { .. } => {}
    }
}
