//! Receives that are posted early, late, with wildcards and out of order, against a list that is
//! searched from the front. One thread has all ranks, so the order of events is known.

use strait::{ANY_TAG, ErrorKind, OwnedRequest, Source, World};

/// A receive or probe: source (`None` is any) and tag.
type Wanted = (Option<u32>, u32);

/// A message: source, tag, number, length in bytes.
type Sent = (u32, u32, u64, usize);

const fn matches((source, tag): Wanted, message: &Sent) -> bool {
    (match source {
        Some(source) => source == message.0,
        None => true,
    }) && (tag == ANY_TAG || tag == message.1)
}

const RECEIVER: usize = 1;
const ROOM: usize = 256;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// The receiver's requests and what each has met, and messages that met none, all in their order.
struct Play<'worlds> {
    worlds: &'worlds [World],
    random: Random,
    posted: Vec<(Wanted, OwnedRequest<'worlds, u8>, Option<Sent>)>,
    arrived: Vec<Sent>,
    sent: u64,
    /// All ranks send, and each message is delivered before the next. Otherwise rank 0 sends.
    stepwise: bool,
    /// Number of receives that are posted at a time.
    posted_max: usize,
}

fn source((source, _): Wanted) -> Source {
    source.map_or(Source::Any, Source::Rank)
}

fn check(message: &Sent, status: strait::Status, bytes: &[u8]) {
    let (source, tag, number, length) = *message;
    assert_eq!((status.source, status.tag, status.bytes), (source, tag, length));
    assert_eq!(bytes[..length], body(number, length));
}

fn body(number: u64, length: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(length).collect()
}

impl<'worlds> Play<'worlds> {
    fn wanted(&mut self) -> Wanted {
        let source = [Some(0), Some(0), None][self.random.below(3) as usize];
        let source = if self.stepwise && self.random.below(3) == 0 { Some(2) } else { source };
        let tag = self.random.below(5) as u32;
        (source, if tag == 4 { ANY_TAG } else { tag })
    }

    fn deliver(&self) {
        self.worlds[RECEIVER].endpoint().progress().unwrap();
    }

    fn send(&mut self) {
        let from = if self.stepwise { [0, 2][self.random.below(2) as usize] } else { 0 };
        let lengths = [0, 1, 8, 17, 48, 49, 64, 200];
        let length = lengths[self.random.below(lengths.len() as u64) as usize];
        let (tag, number) = (self.random.below(4) as u32, self.sent);
        self.sent += 1;
        let message = (from, tag, number, length);
        let data = body(number, length);
        self.worlds[from as usize].endpoint().send(&data[..], RECEIVER as u32, tag).unwrap();
        if self.stepwise {
            self.deliver();
        }
        let free = |(wanted, _, met): &&mut (Wanted, _, Option<Sent>)| {
            met.is_none() && matches(*wanted, &message)
        };
        match self.posted.iter_mut().find(free) {
            Some((_, _, met)) => *met = Some(message),
            None => self.arrived.push(message),
        }
    }

    fn take_arrived(&mut self, wanted: Wanted) -> Option<Sent> {
        let place = self.arrived.iter().position(|message| matches(wanted, message))?;
        Some(self.arrived.remove(place))
    }

    fn post(&mut self) {
        let wanted = self.wanted();
        let endpoint = self.worlds[RECEIVER].endpoint();
        let request = endpoint.irecv_owned(vec![0_u8; ROOM], source(wanted), wanted.1).unwrap();
        let met = self.take_arrived(wanted);
        self.posted.push((wanted, request, met));
    }

    fn receive(&mut self) {
        let wanted = self.wanted();
        let Some(message) = self.take_arrived(wanted) else { return };
        let mut buffer = [0_u8; ROOM];
        // One receive in eight has too little room.
        let room = if self.random.below(8) == 0 { message.3 / 2 } else { ROOM };
        let endpoint = self.worlds[RECEIVER].endpoint();
        match endpoint.recv(&mut buffer[..room], source(wanted), wanted.1) {
            Ok(status) => check(&message, status, &buffer),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Truncated);
                assert!(message.3 > room);
                assert_eq!(buffer[..room], body(message.2, message.3)[..room]);
            }
        }
    }

    fn probe(&mut self) {
        let wanted = self.wanted();
        let endpoint = self.worlds[RECEIVER].endpoint();
        let found = endpoint.iprobe(source(wanted), wanted.1).unwrap();
        let expected = self.arrived.iter().find(|message| matches(wanted, message));
        let found = found.map(|status| (status.source, status.tag, status.bytes));
        assert_eq!(found, expected.map(|message| (message.0, message.1, message.3)));
    }

    fn wait(&mut self) {
        let met = self.posted.iter().map(|(.., met)| met.is_some());
        let places: Vec<_> = met.enumerate().filter(|(_, met)| *met).map(|(at, _)| at).collect();
        if places.is_empty() {
            return;
        }
        let place = places[self.random.below(places.len() as u64) as usize];
        let (_, request, met) = self.posted.remove(place);
        let (bytes, outcome) = request.wait();
        check(&met.unwrap(), outcome.unwrap(), &bytes);
    }

    fn cancel(&mut self) {
        if self.posted.is_empty() {
            return;
        }
        self.deliver();
        let place = self.random.below(self.posted.len() as u64) as usize;
        let (_, mut request, met) = self.posted.remove(place);
        assert_eq!(request.cancel(), met.is_none());
        let (bytes, outcome) = request.wait();
        match met {
            Some(message) => check(&message, outcome.unwrap(), &bytes),
            None => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled),
        }
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0..5 if self.arrived.len() + self.posted.len() < 90 => self.send(),
            5..9 if self.posted.len() < self.posted_max => self.post(),
            9..12 => self.receive(),
            12 => self.probe(),
            13 | 14 => self.wait(),
            _ => self.cancel(),
        }
    }
}

fn play(seed: u64, stepwise: bool, posted_max: usize) {
    let worlds = World::in_process(3).unwrap();
    let (random, posted, arrived) = (Random(seed), Vec::new(), Vec::new());
    let mut play = Play { worlds: &worlds, random, posted, arrived, sent: 0, stepwise, posted_max };
    (0..4000).for_each(|_| play.step());
}

#[test]
fn receives_of_one_source_take_what_a_search_from_the_front_finds() {
    (0..6).for_each(|seed| play(seed, false, 70));
}

#[test]
fn receives_of_several_sources_take_what_a_search_from_the_front_finds() {
    (0..6).for_each(|seed| play(seed, true, 70));
}

/// A receive that is alone, or was when it was posted, has ways of its own.
#[test]
fn receives_that_are_almost_alone_take_what_a_search_from_the_front_finds() {
    for (seed, posted_max) in (0..12).zip([1, 2, 3].into_iter().cycle()) {
        play(seed, false, posted_max);
        play(seed, true, posted_max);
    }
}

/// An older receive keeps its message from a later receive of any source, which takes the next.
#[test]
fn a_posted_receive_keeps_its_message_from_a_blocking_one() {
    let worlds = World::in_process(2).unwrap();
    let [sender, receiver] = [0, 1].map(|rank| worlds[rank].endpoint());
    for number in 0..100_u8 {
        let older = receiver.irecv_owned(vec![0_u8; 8], 0, 3).unwrap();
        sender.send(&[number; 8], 1, 3).unwrap();
        sender.send(&[number + 1; 8], 1, 3).unwrap();
        let mut buffer = [0_u8; 8];
        let status = receiver.recv(&mut buffer, Source::Any, ANY_TAG).unwrap();
        assert_eq!((status.tag, buffer), (3, [number + 1; 8]));
        let (bytes, outcome) = older.wait();
        assert_eq!((bytes, outcome.unwrap().bytes), (vec![number; 8], 8));
    }
}
