//! Parcels: buffers that change hands by the lines that name them.

use core::ptr::NonNull;

use strait_core::shm::{FastboxPtr, FastboxReceiver, FastboxSender, Line, PARCEL, Parcels};
use strait_core::sync::{AtomicU64, CacheLine, UnsafeCell};
use strait_core::wire::{Kind, ParcelHead, Sequence};
use strait_loom_tests::{Arc, key, model_in_full, read, thread, writer};

/// Where the parcels are. Nobody touches them: what is in them is in cells that loom watches.
static MEMORY: [u8; 4 * PARCEL] = [0; 4 * PARCEL];

/// The memory of a pair: a fastbox each way, and what stands for the bytes in the parcels.
struct Pair {
    credits: [CacheLine<AtomicU64>; 2],
    lines: [Vec<Line>; 2],
    parcels: Vec<UnsafeCell<u64>>,
}

// SAFETY: a parcel is reached by whoever has it in hand, which is what these models find out.
unsafe impl Sync for Pair {}
// SAFETY: as above.
unsafe impl Send for Pair {}

/// One rank's end.
struct End {
    pair: Arc<Pair>,
    out: FastboxSender,
    inbox: FastboxReceiver,
    parcels: Parcels,
    next_out: Sequence,
    next_in: Sequence,
}

impl Pair {
    /// Both ends of `parcels` parcels, at most 4, and of fastboxes of `lines` lines.
    fn ends(parcels: u32, lines: u32) -> [End; 2] {
        let pair = Arc::new(Self {
            credits: [0; 2].map(|credit| CacheLine(AtomicU64::new(credit))),
            lines: [0; 2].map(|_| (0..lines).map(|_| Line::empty()).collect()),
            parcels: (0..parcels).map(|_| UnsafeCell::new(0)).collect(),
        });
        [0_u32, 1].map(|rank| {
            let fastbox = |way: u32| {
                let lines = &pair.lines[way as usize];
                let place = NonNull::from(lines.as_slice()).cast();
                let credit = (&pair.credits[way as usize]).into();
                // SAFETY: both ends keep the pair alive, and there is one of each.
                unsafe { FastboxPtr::new(credit, place, lines.len() as u32) }
            };
            // SAFETY: the memory is there for ever, has room for as many parcels, and each rank has one view.
            let mut view =
                unsafe { Parcels::new(NonNull::from(&MEMORY).cast(), parcels, rank == 1) };
            view.open();
            End {
                out: FastboxSender::new(fastbox(rank)),
                inbox: FastboxReceiver::new(fastbox(1 - rank)),
                parcels: view,
                next_out: Sequence::first(rank, 1 - rank),
                next_in: Sequence::first(1 - rank, rank),
                pair: Arc::clone(&pair),
            }
        })
    }
}

impl End {
    /// Sends the next message in a parcel, if one is here and there is a line.
    fn send(&mut self) -> bool {
        let Some((number, _)) = self.parcels.next() else { return false };
        let message = self.next_out.number();
        // SAFETY: the parcel is in our hands.
        self.pair.parcels[number as usize].with_mut(|parcel| unsafe { parcel.write(message) });
        let head = ParcelHead { total: 1, offset: 0, length: 1, number }.pack();
        let fill = writer(&head);
        let sent = self.out.send(self.next_out, Kind::Parcel, key(message), head.len(), fill);
        let sent = sent.unwrap();
        if sent {
            self.parcels.hand_over(number);
            self.next_out += 1;
        }
        sent
    }

    /// Takes the next message if it is there, and checks it.
    fn look(&mut self) -> bool {
        let Some(found) = self.inbox.peek(self.next_in) else { return false };
        let head = read(&self.inbox.message(), found.length());
        let number = ParcelHead::parse(head.try_into().unwrap()).unwrap().number;
        self.parcels.find(number).unwrap();
        // SAFETY: the packet hands the parcel to us.
        let message = self.pair.parcels[number as usize].with(|parcel| unsafe { parcel.read() });
        assert_eq!(message, self.next_in.number(), "a parcel with another message in it");
        self.inbox.release(found.length());
        self.parcels.keep(number);
        self.next_in += 1;
        true
    }

    /// Looks and sends, `times` times.
    fn talk(mut self, times: u32) -> Self {
        for _ in 0..times {
            if !self.look() {
                thread::yield_now();
            }
            self.send();
        }
        self
    }
}

fn talk(parcels: u32, lines: u32, times: u32) {
    let [low, high] = Pair::ends(parcels, lines);
    let peer = thread::spawn(move || high.talk(times));
    let mut low = low.talk(times);
    let mut high = peer.join().unwrap();
    while low.look() {}
    while high.look() {}
    assert_eq!(low.next_out.number(), high.next_in.number(), "messages to the higher rank lost");
    assert_eq!(high.next_out.number(), low.next_in.number(), "messages to the lower rank lost");
    for number in 0..parcels {
        let held = [&low, &high].map(|end| end.parcels.find(number).is_err());
        assert!(held[0] != held[1], "parcel {number} is in one hand");
    }
}

#[test]
fn each_begins_with_one_and_they_cross() {
    model_in_full(|| talk(2, 1, 3));
}

#[test]
fn two_go_the_same_way() {
    model_in_full(|| talk(4, 2, 2));
}
