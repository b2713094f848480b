//! Parcels: buffers that change owners with the lines that name them, filled before or piece by
//! piece afterwards.

use core::ptr::NonNull;

use strait_core::shm::{
    FastboxPtr, FastboxReceiver, FastboxSender, Line, PARCEL, ParcelRun, ParcelSet, ParcelWord,
    Parcels, parcel_words,
};
use strait_core::sync::{AtomicU64, CacheLine, UnsafeCell};
use strait_core::wire::{PacketKind, ParcelHead, Sequence};
use strait_loom_tests::{Arc, key, model_in_full, read, thread, writer};

/// The address of the parcels. No thread accesses it: loom watches cells that stand for the
/// contents.
static MEMORY: [u8; 4 * PARCEL] = [0; 4 * PARCEL];

/// Number of pieces in a message, and size of each in bytes as its head says.
const PIECES: usize = 2;
const PIECE: usize = 64;

/// The memory of a pair: a fastbox each way, words, and cells that stand for the pieces in the
/// parcels.
struct Pair {
    credits: [CacheLine<AtomicU64>; 2],
    lines: [Vec<Line>; 2],
    words: Vec<ParcelWord>,
    parcels: Vec<[UnsafeCell<u64>; PIECES]>,
}

// SAFETY: only the owner of a parcel accesses it, which these models check.
unsafe impl Sync for Pair {}
// SAFETY: see the preceding `Sync`.
unsafe impl Send for Pair {}

/// One rank's end.
struct End {
    pair: Arc<Pair>,
    out: FastboxSender,
    inbox: FastboxReceiver,
    parcels: Parcels,
    next_out: Sequence,
    next_in: Sequence,
    /// Number of bytes taken of the next message.
    taken: usize,
    /// Whether this end lends its parcels.
    lends: bool,
}

impl Pair {
    /// Creates both ends of `parcels` parcels, at most 4, and of fastboxes of `lines` lines.
    fn ends(parcels: u32, lines: u32) -> [End; 2] {
        let pair = Arc::new(Self {
            credits: [0; 2].map(|credit| CacheLine(AtomicU64::new(credit))),
            lines: [0; 2].map(|_| (0..lines).map(|_| Line::empty()).collect()),
            words: (0..parcel_words(parcels)).map(|_| CacheLine(AtomicU64::new(0))).collect(),
            parcels: (0..parcels).map(|_| [0; PIECES].map(UnsafeCell::new)).collect(),
        });
        [0_u32, 1].map(|rank| {
            let fastbox = |way: u32| {
                let lines = &pair.lines[way as usize];
                let place = NonNull::from(lines.as_slice()).cast();
                let credit = (&pair.credits[way as usize]).into();
                // SAFETY: both ends keep the pair alive, and there is one of each.
                unsafe { FastboxPtr::new(credit, place, lines.len() as u32) }
            };
            // SAFETY: the memory is valid for ever, has room for that many parcels, and each rank
            // has one view.
            let mut view = unsafe {
                let words = NonNull::from(pair.words.as_slice()).cast();
                Parcels::new(words, NonNull::from(&MEMORY).cast(), parcels, rank == 1)
            };
            view.open(ParcelSet::First);
            End {
                out: FastboxSender::new(fastbox(rank)),
                inbox: FastboxReceiver::new(fastbox(1 - rank)),
                parcels: view,
                next_out: Sequence::first(rank, 1 - rank),
                next_in: Sequence::first(1 - rank, rank),
                taken: 0,
                lends: false,
                pair: Arc::clone(&pair),
            }
        })
    }
}

impl End {
    /// Sends the next message in a parcel, if this end owns one and a line is free. The parcel is
    /// filled before the packet, or `behind` it.
    fn send(&mut self, behind: bool) -> bool {
        let Some((run, _)) = self.parcels.next(PIECES * PIECE) else { return false };
        let number = run.number;
        let (sequence, message) = (self.next_out, self.next_out.number());
        let pair = &self.pair;
        // SAFETY: this end owns the parcel.
        let fill =
            |piece: &UnsafeCell<u64>| piece.with_mut(|piece| unsafe { piece.write(message) });
        let pieces = if behind { PIECES as u8 } else { 0 };
        if !behind {
            pair.parcels[number as usize].iter().for_each(fill);
        }
        let length = (PIECES * PIECE) as u32;
        let total = u64::from(length);
        let lent = self.lends.into();
        let head =
            ParcelHead { total, offset: 0, length, number: number as u8, asks: 0, pieces, lent };
        let head = head.pack();
        let write = writer(&head);
        let sent =
            self.out.send(sequence, PacketKind::Parcel, key(message), head.len(), write).unwrap();
        if sent {
            if self.lends {
                self.parcels.lend(run);
            } else {
                self.parcels.hand_over(run);
            }
            self.next_out += 1;
            for piece in 0..pieces {
                fill(&pair.parcels[number as usize][piece as usize]);
                self.parcels.mark(number, piece.into(), sequence);
            }
        }
        sent
    }

    /// Takes what has arrived of the next message, and checks it. Returns true if something was
    /// new.
    fn look(&mut self) -> bool {
        let Some(found) = self.inbox.peek(self.next_in) else { return false };
        let head = read(&self.inbox.message(), found.length());
        let head = ParcelHead::parse(head.try_into().unwrap()).unwrap();
        let number = u32::from(head.number);
        self.parcels.find(head.run()).unwrap();
        let filled = self.parcels.filled(&head, self.next_in, self.taken);
        for piece in self.taken / PIECE..filled / PIECE {
            let piece = &self.pair.parcels[number as usize][piece];
            // SAFETY: the packet or the mark passes the piece to this end.
            let message = piece.with(|piece| unsafe { piece.read() });
            assert_eq!(message, self.next_in.number(), "a piece of another message");
        }
        let moved = filled > self.taken;
        self.taken = filled;
        if filled == head.length as usize {
            self.taken = 0;
            self.inbox.release(found.length());
            if head.lent == 0 {
                self.parcels.keep(head.run());
            } else {
                self.parcels.give_back(head.run());
            }
            self.next_in += 1;
        }
        moved
    }

    /// Polls and sends, `times` times.
    fn talk(mut self, times: u32, behind: bool) -> Self {
        for _ in 0..times {
            if !self.look() {
                thread::yield_now();
            }
            self.send(behind);
        }
        self
    }
}

fn talk(parcels: u32, lines: u32, times: u32, behind: bool) {
    let [low, high] = Pair::ends(parcels, lines);
    let peer = thread::spawn(move || high.talk(times, behind));
    let mut low = low.talk(times, behind);
    let mut high = peer.join().unwrap();
    while low.look() {}
    while high.look() {}
    assert_eq!(low.next_out.number(), high.next_in.number(), "messages to the higher rank lost");
    assert_eq!(high.next_out.number(), low.next_in.number(), "messages to the lower rank lost");
    for number in 0..parcels {
        let held =
            [&low, &high].map(|end| end.parcels.find(ParcelRun { number, length: 1 }).is_err());
        assert!(held[0] != held[1], "parcel {number} has exactly one owner");
    }
}

#[test]
fn each_begins_with_one_and_they_cross() {
    model_in_full(|| talk(2, 1, 3, false));
}

#[test]
fn two_go_the_same_way() {
    model_in_full(|| talk(4, 2, 2, false));
}

#[test]
fn a_piece_is_read_while_the_next_is_written() {
    model_in_full(|| talk(2, 1, 2, true));
}

#[test]
fn a_lent_parcel_is_filled_again_after_it_was_read() {
    model_in_full(|| {
        let [mut low, mut high] = Pair::ends(2, 2);
        low.lends = true;
        let reader = thread::spawn(move || {
            for _ in 0..2 {
                while !high.look() {
                    thread::yield_now();
                }
            }
            high
        });
        // The second message needs the parcel of the first.
        for _ in 0..2 {
            while !low.send(false) {
                low.parcels.collect();
                thread::yield_now();
            }
        }
        let high = reader.join().unwrap();
        low.parcels.collect();
        for end in [&low, &high] {
            assert!(end.parcels.hold(PARCEL) && !end.parcels.hold(PARCEL + 1));
        }
    });
}
