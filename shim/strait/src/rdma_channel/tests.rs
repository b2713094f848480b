//! Tests of the channel between two worlds of one process.

use core::ptr::NonNull;

use super::*;

const CONTEXT: u32 = 77;

fn parts(bytes: &mut [u8]) -> [Part; 1] {
    [Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() }]
}

/// Puts a byte at one end until it is read at the other.
fn pass(worlds: &[World], from: &mut RdmaChannel, to: &mut RdmaChannel) -> Result<u8, Error> {
    let (mut sent, mut received) = ([7], [0]);
    let mut is_put = false;
    loop {
        if !is_put {
            // SAFETY: the byte outlives the call, and no design holds so short a part.
            is_put = unsafe { from.put(&worlds[0], 1, &parts(&mut sent)) }? > 0;
        }
        // SAFETY: the byte outlives the call, and no design holds so short a part.
        if unsafe { to.read(&worlds[1], 0, &parts(&mut received)) }? > 0 {
            return Ok(received[0]);
        }
    }
}

#[test]
fn an_address_of_an_earlier_round_is_not_taken() {
    let worlds = World::in_process(2).unwrap();
    let mut early = RdmaChannel::open(&worlds[0], CONTEXT, 1).unwrap();
    // SAFETY: there are no parts.
    assert_eq!(unsafe { early.put(&worlds[0], 1, &[]) }.unwrap(), 0);
    early.close(&worlds[0]).unwrap();
    let [mut from, mut to] =
        [0, 1].map(|rank| RdmaChannel::open(&worlds[rank], CONTEXT, 2).unwrap());
    assert_eq!(pass(&worlds, &mut from, &mut to).unwrap(), 7);
    from.close(&worlds[0]).unwrap();
    to.close(&worlds[1]).unwrap();
}

#[test]
fn ends_of_different_designs_do_not_connect() {
    let worlds = World::in_process(2).unwrap();
    let [mut from, mut to] =
        [0, 1].map(|rank| RdmaChannel::open(&worlds[rank], CONTEXT, 0).unwrap());
    from.config = config(Design::Basic, 100);
    to.config = config(Design::Piggyback, 100);
    let error = pass(&worlds, &mut from, &mut to).unwrap_err();
    assert!(error.to_string().contains("another design"), "{error}");
    from.close(&worlds[0]).unwrap();
    to.close(&worlds[1]).unwrap();
}

#[test]
fn the_next_part_begins_where_the_counted_bytes_end() {
    let mut bytes = [0; 10];
    let [all] = parts(&mut bytes);
    let of = |range: core::ops::Range<usize>| Part {
        base: all.base.map_addr(|base| base.checked_add(range.start).unwrap()),
        length: range.len(),
    };
    let list = [of(0..0), of(0..4), of(4..4), of(4..10)];
    let next = |bytes| next(&list, bytes).map(|part| (part.base, part.length));
    assert_eq!(next(0), Some((of(0..4).base, 4)));
    assert_eq!(next(3), Some((of(3..4).base, 1)));
    assert_eq!(next(4), Some((of(4..10).base, 6)));
    assert_eq!(next(10), None);
    assert!(check_held(1, Some(of(4..10)), &[of(0..0), of(4..10)]).is_ok());
    assert!(check_held(1, Some(of(4..10)), &[of(4..9)]).is_err());
    assert!(check_held(1, Some(of(4..10)), &[of(5..10)]).is_err());
    assert!(check_held(1, Some(of(4..10)), &[]).is_ok());
}
