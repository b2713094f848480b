use super::*;
use crate::engine::testing::with_segment;

const KEY: Key = Key::new(0, 7);

fn pair(segment: &Segment) -> [PeerParcels; 2] {
    [(0, 1), (1, 0)].map(|(rank, peer)| {
        let mut parcels = PeerParcels::new(segment, rank, peer);
        assert!(parcels.wants_memory(1) == Some(ParcelSet::First) && !parcels.have_room(1));
        parcels.backed(ParcelSet::First, true);
        parcels.backed(ParcelSet::First, true);
        assert!(parcels.wants_memory(FIRST_MAX).is_none() && parcels.have_room(FIRST_MAX));
        parcels
    })
}

/// Hands a message over in `pieces` pieces. Returns its head and the number of its packet.
fn send(
    segment: &Segment,
    out: &mut PeerParcels,
    message: &[u8],
    pieces: u8,
) -> (ParcelHead, Sequence) {
    let mut paths = ShortPaths::new(segment, 0, 1);
    let (run, place) = out.next(message.len()).unwrap();
    let (total, length, number) = (message.len() as u64, message.len() as u32, run.number as u8);
    let head =
        ParcelHead { total, offset: 0, length, number, asks: 0, pieces, lent: out.lends().into() };
    let (mut rest, sequence) = (message, paths.next_out());
    let fill = |to: NonNull<u8>, piece| {
        let (next, others) = rest.split_at(piece);
        rest = others;
        // SAFETY: the run has room for the message.
        unsafe { copy_cached(next.as_ptr(), to.as_ptr(), piece) };
    };
    assert_eq!(out.send_in_pieces(&mut paths, KEY, head, place, fill), Ok(true));
    assert_ne!(paths.next_out(), sequence);
    (head, sequence)
}

#[test]
fn only_the_first_answer_about_the_memory_counts() {
    with_segment(2, |segment| {
        let mut parcels = PeerParcels::new(segment, 0, 1);
        parcels.backed(ParcelSet::First, false);
        parcels.backed(ParcelSet::First, true);
        assert!(!parcels.have_room(1) && parcels.wants_memory(1).is_none());
        assert!(PeerParcels::new(segment, 0, 0).wants_memory(1).is_none());
    });
}

#[test]
fn a_longer_message_wants_the_further_parcels() {
    with_segment(2, |segment| {
        let [mut low, _] = pair(segment);
        assert_eq!(low.wants_memory(FIRST_MAX + 1), Some(ParcelSet::Further));
        assert!(!low.have_room(FIRST_MAX + 1));
        low.backed(ParcelSet::Further, true);
        assert!(low.wants_memory(FURTHER_MAX).is_none() && low.have_room(FIRST_MAX + 1));
        assert_eq!(low.wants_memory(FURTHER_MAX + 1), Some(ParcelSet::Last));
        assert!(low.have_room(FURTHER_MAX) && !low.have_room(FURTHER_MAX + 1));
        low.backed(ParcelSet::Last, true);
        assert!(low.wants_memory(usize::MAX).is_none() && low.have_room(2 * FURTHER_MAX));
        low.refuse();
        assert!(PeerParcels::new(segment, 1, 1).wants_memory(usize::MAX).is_none());
    });
}

#[test]
fn a_message_in_pieces_is_taken_at_once_and_its_run_stays_with_the_reader() {
    with_segment(2, |segment| {
        let [mut out, mut back] = pair(segment);
        let message = [7; 5000];
        let (head, sequence) = send(segment, &mut out, &message, 2);
        let mut buffer = [0; 5000];
        assert!(!back.take_message(&head, sequence, &mut buffer[1..]));
        assert!(back.take_message(&head, sequence, &mut buffer));
        assert_eq!(buffer, message);
        assert_eq!(out.parcels.find(head.run()), back.parcels.find(head.run()));
        back.keep(&head);
        assert!(back.parcels.find(head.run()).is_err(), "the reader has it, not the peer");
    });
}

#[test]
fn the_bytes_of_a_part_come_once() {
    with_segment(2, |segment| {
        let [mut out, mut back] = pair(segment);
        let (head, sequence) = send(segment, &mut out, &[7; 100], 0);
        let new = back.new_bytes(&head, sequence).unwrap().unwrap();
        assert_eq!((new.from, new.length), (0, 100));
        let first = NewBytes { length: 40, ..new };
        assert!(!back.take(&head, first));
        assert!(!back.take_message(&head, sequence, &mut [0; 100]), "begun before");
        let new = back.new_bytes(&head, sequence).unwrap().unwrap();
        assert_eq!((new.from, new.length), (40, 60));
        assert!(back.take(&head, new));
        back.keep(&head);
        assert!(back.new_bytes(&head, sequence).is_err(), "the run is not the peer's any more");
    });
}

#[test]
fn a_rank_that_has_given_away_all_wants_further_ones() {
    with_segment(2, |segment| {
        let [mut out, mut back] = pair(segment);
        assert!(out.have_room(FIRST_MAX));
        out.begin(FIRST_MAX);
        assert!(!out.lends());
        let (head, sequence) = send(segment, &mut out, &[7; FIRST_MAX], 0);
        assert!(back.take_message(&head, sequence, &mut [0; FIRST_MAX]));
        back.keep(&head);
        assert_eq!(out.wants_memory(1), None);
        assert!(!out.have_room(1) && out.wants_memory(1) == Some(ParcelSet::Further));
        assert!(back.have_room(2 * FIRST_MAX) && back.wants_memory(1).is_none());
    });
}

#[test]
fn a_long_message_that_takes_all_parcels_is_lent() {
    with_segment(2, |segment| {
        let [mut out, _] = pair(segment);
        out.backed(ParcelSet::Further, true);
        for length in [2 * FIRST_MAX, 2 * FIRST_MAX + 1, 4 * FIRST_MAX] {
            out.begin(length);
            assert_eq!(out.lends(), length > 3 * FIRST_MAX, "{length}");
        }
    });
}

#[test]
fn the_longest_messages_go_in_parcels_first_and_then_as_answers() {
    with_segment(2, |segment| {
        const LONG: usize = 2 * FURTHER_MAX;
        let [mut out, mut back] = pair(segment);
        for parcels in [&mut out, &mut back] {
            parcels.backed(ParcelSet::Further, true);
            parcels.backed(ParcelSet::Last, true);
            assert!(parcels.have_room(LONG));
        }
        let pass = |out: &mut PeerParcels, back: &mut PeerParcels| {
            let (head, sequence) = send(segment, out, &[7; PARCEL], 0);
            assert!(back.take_message(&head, sequence, &mut [0; PARCEL]));
            back.keep(&head);
        };
        for _ in 0..3 {
            pass(&mut out, &mut back);
            assert!(!out.have_room(LONG) && out.have_room(FURTHER_MAX));
            assert!(back.have_room(LONG));
            assert!(out.may_bring(LONG) && !back.may_bring(LONG));
            assert!(back.may_bring(FURTHER_MAX));
            pass(&mut back, &mut out);
            assert!(out.have_room(LONG));
        }
    });
}

#[test]
fn a_rank_that_only_sends_lends_what_it_has_left() {
    with_segment(2, |segment| {
        let [mut out, mut back] = pair(segment);
        let message = [7; PARCEL];
        let mut pass = |out: &mut PeerParcels| {
            assert!(out.have_room(PARCEL));
            out.begin(PARCEL);
            let (head, sequence) = send(segment, out, &message, 0);
            assert!(back.take_message(&head, sequence, &mut [0; PARCEL]));
            back.keep(&head);
            head.lent
        };
        assert_eq!([(); 6].map(|()| pass(&mut out)), [0, 0, 1, 1, 1, 1]);
        assert_eq!(out.wants_memory(1), Some(ParcelSet::Further));
        back.begin(PARCEL);
        let (head, sequence) = send(segment, &mut back, &message, 0);
        assert_eq!(head.lent, 0);
        assert!(out.take_message(&head, sequence, &mut [0; PARCEL]));
        out.keep(&head);
        out.begin(PARCEL);
        assert!(!out.lends(), "the peer has answered");
    });
}
