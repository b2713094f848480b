//! The messages of one endpoint: what is sent, what comes, and what waits for what.
//!
//! Heads come in the order of their pair, one after the other, and each is dealt with before the next is taken: so the receive of
//! a message's data is posted before the data are looked at, and they go straight where they belong. Where Strait's short ways do
//! not serve, it puts heads into its own queue of unexpected messages, which is emptied at once ([`Traffic::drain`]).

mod arrivals;
mod arrive;
mod atomic;
mod far;
mod outlets;
mod receive;
mod remote;
mod send;
mod untaken;

use core::ffi::c_void;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use strait::port::Port;
use strait::{ANY_SOURCE, ANY_TAG, Error};
use strait_core::matching::Pattern as StraitPattern;
use strait_core::progress::{
    Bypass, Cursor, Fault, Outcome, Part, Received, RequestId, Sign, Want,
};
use strait_core::rndv::Rendezvous;
use strait_core::shm::SHORT_MAX;

use crate::abi::errno;
use crate::buffer::Buffer;
use crate::domain::Domain;
use crate::matching::Queue;
use crate::wire::{Away, DATA, HEADS, Head, INLINE_MAX};

pub(crate) use atomic::{ATOMIC_MAX, Atomic};
pub(crate) use outlets::{OPS, Op, Outlets};
pub(crate) use receive::{Look, Receive};
pub(crate) use remote::Access;
pub(crate) use send::How;

/// Longest message that stands in one line of Strait's with its head, bytes.
const LINE: usize = SHORT_MAX;

/// Longest message that stands there, bytes.
pub(crate) const LINE_BODY: usize = LINE - Head::BYTES;

/// Heads taken from one source before the others are looked at.
const AT_ONCE: u32 = 64;

/// Looks in vain between two of Strait's own progress, which looks who is gone.
const IDLE: u32 = 32;

/// Calls that took messages between two looks at the rest.
const BUSY: u32 = 8;

/// Looks in vain after which another process may have the processor: a multiple of [`IDLE`].
const YIELD: u32 = 1024;

/// Looks in vain after which a process sleeps where there are fewer processors than processes: a multiple of [`IDLE`]. To yield does
/// not help there: the scheduler soon gives the processor back to the process that waits.
const CROWDED_LOOKS: u32 = 64;

/// How long such a process sleeps.
const NAP: Duration = Duration::from_micros(50);

/// Calls of Strait's progress between two searches for what waits for peers that are gone.
const REAP: u32 = 128;

/// Every head.
const WANT: Want = Want::new(HEADS, ANY_TAG);

/// Which of the two kinds of messages; they are matched apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub(crate) enum Lane {
    Msg = 0,
    Tagged = 1,
}

/// The messages of one endpoint.
pub(crate) struct Traffic {
    port: Port,
    /// It outlives its endpoints.
    domain: *const Domain,
    pub(crate) out: Outlets,
    lanes: [Queue<Receive, Kept>; 2],
    /// Messages that were found and claimed, by the context of the operation that did.
    claimed: Vec<(*mut c_void, u32, u64, Kept)>,
    /// Messages in buffers for many that are told of in their order.
    arrivals: arrivals::Arrivals,
    /// Where a head lands that does not stand in one line.
    bounce: Box<[u8]>,
    /// Strait's receive of a head into `bounce`, when it takes time.
    draining: Option<RequestId>,
    /// Operations of Strait's under way.
    pending: Vec<(RequestId, Pending)>,
    /// Sends whose deliveries will be told, by destination and number.
    undelivered: HashMap<(u32, u64), How>,
    untaken: untaken::Untaken,
    next_number: u32,
    /// Atomic operations whose answers have not come, oldest first.
    atomics: VecDeque<atomic::Waiting>,
    next_atomic: u64,
    far: far::Far,
    /// Where requests for them are put together, and answers.
    request: Box<[u8]>,
    answer: Box<[u8]>,
    /// Calls in a row that took messages.
    busy: u32,
    /// Looks in vain so far, and calls of Strait's progress.
    idle: u32,
    works: u32,
    /// There are fewer processors than processes on this host.
    crowded: bool,
    /// Smallest room that a buffer for many messages goes on with, bytes.
    pub(crate) min_multi: usize,
}

/// A message that no receive has accepted yet.
#[derive(Debug)]
pub(crate) struct Kept {
    data: u64,
    /// Flags of the head.
    flags: u32,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// With the number by which its delivery is told.
    Here(u32, Box<[u8]>),
    Away(Away),
}

/// What an operation of Strait's is for.
#[derive(Debug)]
enum Pending {
    /// A send whose head and data are one message.
    Whole(How, #[expect(dead_code, reason = "Strait reads what it leads to")] Box<send::Outgoing>),
    /// The data of a send.
    Data(Option<How>, #[expect(dead_code, reason = "as above")] Buffer),
    /// The data of a receive.
    Receive(receive::Receipt, #[expect(dead_code, reason = "Strait writes it")] Buffer),
    /// The data of a message that nobody wants.
    Drop,
}

impl Traffic {
    /// The messages of `port`, none so far.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub(crate) fn new(port: Port, domain: *const Domain) -> Result<Self, Error> {
        // The head of a message says that it comes before its receive is posted to Strait.
        port.choose_rendezvous(DATA, Rendezvous::Plain)?;
        let port_is_crowded = port.is_crowded();
        Ok(Self {
            port,
            domain,
            out: Outlets::default(),
            lanes: [Queue::default(), Queue::default()],
            claimed: Vec::new(),
            arrivals: arrivals::Arrivals::default(),
            bounce: vec![0; Head::BYTES + INLINE_MAX].into(),
            draining: None,
            pending: Vec::new(),
            undelivered: HashMap::new(),
            untaken: untaken::Untaken::default(),
            next_number: 0,
            atomics: VecDeque::new(),
            next_atomic: 0,
            far: far::Far::default(),
            request: vec![0; atomic::REQUEST_MAX].into(),
            answer: vec![0; atomic::ANSWER_MAX].into(),
            busy: 0,
            idle: 0,
            works: 0,
            crowded: port_is_crowded,
            min_multi: 64,
        })
    }

    pub(crate) const fn port(&self) -> &Port {
        &self.port
    }

    /// Moves whatever can move.
    #[inline(always)]
    pub(crate) fn progress(&mut self) {
        let (mut took, mut stuck) = (false, self.draining.is_some());
        let mut place = 0;
        while !stuck && let Some(source) = self.port.inbox(place) {
            place += 1;
            if self.port.has_next(source) {
                stuck = self.take_from(source);
                took = true;
            }
        }
        // While messages come the rest is looked at now and then, so that it goes on, too.
        self.busy = if took { self.busy.wrapping_add(1) } else { 0 };
        let mute = !stuck && self.pending.is_empty();
        if took {
            // What is awaited next may come soon.
            self.idle &= !(CROWDED_LOOKS - 1);
        }
        if mute && !self.busy.is_multiple_of(BUSY) {
            return;
        }
        if !mute || self.port.has_work() {
            self.work();
        } else if !took {
            self.rest();
        }
    }

    /// Takes what has come from `source` by the short ways. Whether something is left that needs Strait's own progress.
    #[inline(never)]
    fn take_from(&mut self, source: u32) -> bool {
        if !self.untaken.is_empty() {
            self.see_taken();
        }
        let mut line = [0; LINE];
        for _ in 0..AT_ONCE {
            match self.port.take_next_short(source, WANT, &mut line) {
                Bypass::Received(status) => {
                    self.arrive(source, status.tag, &line[..status.bytes]);
                }
                Bypass::Nothing => return false,
                Bypass::Closed if self.take_longer(source) => {}
                Bypass::Closed => return true,
            }
        }
        false
    }

    /// Takes what comes next from `source` and is no head of one line. False: that needs Strait's own progress.
    #[inline(never)]
    fn take_longer(&mut self, source: u32) -> bool {
        let mut bounce = core::mem::take(&mut self.bounce);
        let found = self.port.take_next_medium(source, WANT, &mut bounce);
        if let Bypass::Received(status) = found {
            self.arrive(source, status.tag, &bounce[..status.bytes]);
        }
        self.bounce = bounce;
        match found {
            Bypass::Received(_) => true,
            Bypass::Nothing => false,
            // What is wrong with it is met again by Strait's progress.
            Bypass::Closed => self.port.serve_context(source, DATA).unwrap_or(false),
        }
    }

    /// Has Strait make progress, and sees what has come of it.
    #[inline(never)]
    fn work(&mut self) {
        // Want of memory passes; damage shows in operations that do not end, and in the peers' deaths.
        let _ = self.port.poll();
        self.drain();
        if !self.untaken.is_empty() {
            self.see_taken();
        }
        self.finish_pending();
        self.push_far();
        self.works = self.works.wrapping_add(1);
        if self.works.is_multiple_of(REAP) {
            self.reap();
        }
    }

    #[inline]
    fn rest(&mut self) {
        if !self.untaken.is_empty() {
            self.see_taken_late();
        }
        self.idle = self.idle.wrapping_add(1);
        if self.idle.is_multiple_of(IDLE) {
            self.work();
            if self.idle.is_multiple_of(YIELD) {
                self.crowded = self.port.is_crowded();
                std::thread::yield_now();
            } else if self.crowded && self.idle.is_multiple_of(CROWDED_LOOKS) {
                std::thread::sleep(NAP);
            }
        }
    }

    /// Takes heads out of Strait's queue of unexpected messages.
    fn drain(&mut self) {
        let any = StraitPattern { context: HEADS, source: ANY_SOURCE, tag: ANY_TAG };
        loop {
            if let Some(id) = self.draining {
                let Some(outcome) = self.port.test(id) else { return };
                self.draining = None;
                self.take_drained(outcome);
                continue;
            }
            if !matches!(self.port.iprobe(any), Ok(Some(_))) {
                return;
            }
            let base = core::ptr::NonNull::from(&mut *self.bounce).cast();
            let part = Part { base, length: self.bounce.len() };
            // SAFETY: nobody touches `bounce` while `draining` says that Strait does, and it is kept until then.
            match unsafe { self.port.irecv(any, Cursor::contiguous(part)) } {
                Ok(Received::Done(outcome)) => self.take_drained(outcome),
                Ok(Received::Pending(id)) => self.draining = Some(id),
                Err(_) => return,
            }
        }
    }

    fn take_drained(&mut self, outcome: Outcome) {
        // A head that is longer than any is none; one whose source died is not missed.
        let Ok(status) = outcome else { return };
        let bounce = core::mem::take(&mut self.bounce);
        self.arrive(status.source, status.tag, &bounce[..status.bytes]);
        self.bounce = bounce;
    }

    fn finish_pending(&mut self) {
        let mut place = 0;
        while let Some((id, _)) = self.pending.get(place) {
            match self.port.test(*id) {
                None => place += 1,
                Some(outcome) => {
                    let (_, pending) = self.pending.remove(place);
                    self.finish(pending, outcome);
                }
            }
        }
    }

    fn finish(&mut self, pending: Pending, outcome: Outcome) {
        match pending {
            Pending::Whole(how, _) | Pending::Data(Some(how), _) => self.sent(&how, outcome.err()),
            Pending::Receive(receipt, _) => self.received(receipt, outcome.err()),
            Pending::Data(None, _) | Pending::Drop => {}
        }
    }

    /// Ends what waits for peers that are gone.
    #[cold]
    fn reap(&mut self) {
        for lane in [Lane::Msg, Lane::Tagged] {
            let (port, queue) = (&self.port, &mut self.lanes[lane as usize]);
            let is_gone = |source| {
                if source == ANY_SOURCE {
                    return false;
                }
                // Who has said nothing yet is called: else nobody would hear of its end.
                port.call(source);
                port.gone(source).is_some()
            };
            let mut orphans = Vec::new();
            while let Some(receive) = queue.withdraw(|pattern, _| is_gone(pattern.source)) {
                orphans.push(receive);
            }
            orphans.into_iter().for_each(|receive| self.give_up(lane, &receive, errno::ECONNRESET));
        }
        self.reap_atomics();
        self.reap_untaken();
        let port = &self.port;
        let lost = self.undelivered.keys().filter(|(rank, _)| port.gone(*rank).is_some());
        let lost: Vec<_> = lost.copied().collect();
        for key in lost {
            if let Some(how) = self.undelivered.remove(&key) {
                self.sent(&how, Some(Fault::PeerFailed { rank: key.0, sign: Sign::Ended }));
            }
        }
    }

    /// A number for a message's data that no other of this endpoint's under way has.
    fn next_number(&mut self) -> u32 {
        self.next_number = (self.next_number + 1) & strait::TAG_MAX;
        self.next_number
    }

    /// Gives up what the user left behind, before the universe is left.
    pub(crate) fn close(&mut self) {
        self.finish_far();
        for (id, _) in core::mem::take(&mut self.pending) {
            self.port.settle(id);
        }
        if let Some(id) = self.draining.take() {
            self.port.settle(id);
        }
    }
}

/// The error number that a fault is.
const fn errno_of(fault: Fault) -> i32 {
    match fault {
        Fault::Truncated { .. } => errno::ETRUNC,
        Fault::PeerFailed { .. } | Fault::PeerFinished { .. } => errno::ECONNRESET,
        Fault::Unreachable { .. } => errno::EHOSTUNREACH,
        Fault::Cancelled => errno::ECANCELED,
        _ => errno::EIO,
    }
}

/// Shared by the messages of one buffer.
type SharedMulti = Rc<receive::Multi>;
