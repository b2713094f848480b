//! Records of windows by messages, as any bytes that a peer sends.

use core::ptr::NonNull;

use arbitrary::{Result, Unstructured};
use strait_core::progress::Part;
use strait_core::rma::{Name, RECORD, Record, transfer};

/// Bytes of the part. The memory has as many before it and behind it, which no record may change.
const PART: usize = 256;

/// A byte that lies outside the part.
const OUTSIDE: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// Records that a target takes from a message and carries out.
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

/// Does to the part what the record says, with the data behind it; those that are apart are as many zeros.
fn act(record: Record, part: Part, data: &mut [u8]) {
    let mut zeros = vec![0; record.data()];
    let data = if record.apart().is_some() { &mut zeros[..] } else { data };
    // SAFETY: in the part, by the check of `Record::read`; no other thread has it.
    let at = |offset: usize| unsafe { part.base.add(offset) };
    match record {
        Record::Put { offset, length, .. } => {
            // SAFETY: as above; the data are as long.
            unsafe { transfer(NonNull::from(data).cast(), at(offset), length) };
        }
        Record::Get { offset, length, answer } => {
            assert!(Name::Answer(answer).context() < 1 << 31);
            let mut bytes = vec![0_u8; length];
            // SAFETY: as above.
            unsafe { transfer(at(offset), NonNull::from(&mut bytes[..]).cast(), length) };
        }
        // SAFETY: read for this part, which is this thread's alone.
        Record::Combine { .. } => unsafe { record.carry_out(part, data) },
        Record::Swap { .. } => {
            // SAFETY: as above.
            let _found = unsafe { record.swap(part) };
        }
        Record::Flush { .. }
        | Record::Flushed { .. }
        | Record::Posted { .. }
        | Record::Completed { .. } => {}
    }
}
