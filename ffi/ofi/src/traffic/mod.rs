//! The messages of one endpoint: sends, arrivals and pending operations.
//!
//! Heads of a pair arrive in order, and each is handled before the next is taken. So the receive of
//! a message's data is posted before the data are read, and they go directly to their place.
//!
//! Where Strait's short paths do not apply, Strait puts heads into its own queue of unexpected
//! messages, which [`Traffic::drain`] empties at once.

mod arrivals;
mod arrive;
mod atomic;
mod delivery;
mod far;
mod outlets;
mod queues;
mod receive;
mod remote;
mod send;

use core::ffi::c_void;
use core::iter;
use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;

use strait::port::Port;
use strait::{ANY_SOURCE, ANY_TAG, Error};
use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{Bypass, Fault, Outcome, Received, RequestId, Want};
use strait_core::matching::{MaskedPattern, Pattern};
use strait_core::rndv::Rendezvous;
use strait_core::shm::SHORT_MAX;

use crate::abi::errno;
use crate::buffer::UserBuffer;
use crate::domain::Domain;
use crate::wire::{Away, DATA, HEADS, INLINE_MAX, ProviderHead};

pub(crate) use atomic::{ATOMIC_MAX, Atomic};
pub(crate) use outlets::{OPS, OperationKind, Outlets};
pub(crate) use queues::Plain;
pub(crate) use receive::{Look, PendingReceive};
pub(crate) use remote::RemoteAccess;
pub(crate) use send::SendOp;

/// Maximum size in bytes of a head and its message that fit into one line of Strait.
const LINE: usize = SHORT_MAX;

/// Maximum size in bytes of a message that fits into one line with its head.
pub(crate) const LINE_BODY: usize = LINE - ProviderHead::BYTES;

/// Number of heads taken from one source before the other sources are polled.
const AT_ONCE: u32 = 64;

/// Number of polls without a message between two calls of Strait's progress, which detects peers
/// that are gone.
const IDLE: u32 = 32;

/// Number of calls that took messages between two polls of everything else.
const BUSY: u32 = 8;

/// Number of polls without a message after which the process yields the processor: a multiple of
/// [`IDLE`].
const YIELD: u32 = 1024;

/// Number of polls without a message after which a process sleeps if there are fewer processors
/// than processes: a multiple of [`IDLE`]. A yield does not help there: the scheduler soon returns
/// the processor to the waiting process.
const CROWDED_LOOKS: u32 = 64;

/// Duration of such a sleep.
const SLEEP: Duration = Duration::from_micros(50);

/// Number of calls of Strait's progress between two searches for operations on peers that are gone.
const REAP: u32 = 128;

/// A pattern that matches every head.
const WANT: Want = Want::new(HEADS, ANY_TAG);

/// The class of a message. The two classes are matched separately.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub(crate) enum MessageClass {
    Msg = 0,
    Tagged = 1,
}

/// The messages of one endpoint.
pub(crate) struct Traffic {
    port: Port,
    /// The domain, which outlives its endpoints.
    domain: *const Domain,
    pub(crate) out: Outlets,
    lanes: [queues::Queues; 2],
    /// Messages that a probe has claimed, by the context of the probe.
    claimed: Vec<(*mut c_void, queues::Unmatched)>,
    /// Messages in buffers that receive many messages. Their completions are reported in order.
    arrivals: arrivals::Arrivals,
    /// Buffer for a head that does not fit into one line.
    bounce: Box<[u8]>,
    /// Strait's pending receive of a head into `bounce`.
    draining: Option<RequestId>,
    /// Pending operations of Strait.
    pending: Vec<(RequestId, OperationPurpose)>,
    deliveries: delivery::Deliveries,
    next_number: u32,
    /// Atomic operations without their answers yet, oldest first.
    atomics: VecDeque<atomic::PendingAtomic>,
    next_atomic: u64,
    far: far::RemoteAccesses,
    /// Buffer in which requests for atomic operations and answers are composed.
    request: Box<[u8]>,
    answer: Box<[u8]>,
    /// Number of consecutive calls that took messages.
    busy: u32,
    /// Number of polls without a message so far, and of calls of Strait's progress.
    idle: u32,
    works: u32,
    /// There are fewer processors than processes on this host.
    crowded: bool,
    /// Minimum room in bytes with which a buffer for many messages stays in use.
    pub(crate) min_multi: usize,
}

/// A message that no receive has matched yet.
#[derive(Debug)]
pub(crate) struct UnmatchedMessage {
    data: u64,
    /// Flags of the head.
    flags: u32,
    body: MessageBody,
}

#[derive(Debug)]
enum MessageBody {
    /// The bytes, and the number with which the delivery is reported.
    Here(u32, Box<[u8]>),
    /// The data are still at the sender.
    Away(Away),
}

/// The purpose of one of Strait's operations.
#[derive(Debug)]
enum OperationPurpose {
    /// A send to a rank with head and data in one message.
    Whole(
        u32,
        SendOp,
        #[expect(dead_code, reason = "Strait reads what it leads to")] Box<send::OutgoingParts>,
    ),
    /// The data of a send, and the destination and operation that complete with it.
    Data(Option<(u32, SendOp)>, #[expect(dead_code, reason = "Strait reads it")] UserBuffer),
    /// The data of a receive.
    Receive(receive::Receipt, #[expect(dead_code, reason = "Strait writes it")] UserBuffer),
    /// The data of a message that was discarded.
    Drop,
}

impl Traffic {
    /// Returns the state of `port`, without any message yet.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub(crate) fn new(port: Port, domain: *const Domain) -> Result<Self, Error> {
        // The head of a message announces it before its receive is posted to Strait.
        port.choose_rendezvous(DATA, Rendezvous::Plain)?;
        let port_is_crowded = port.is_crowded();
        Ok(Self {
            port,
            domain,
            out: Outlets::default(),
            lanes: [queues::Queues::new(), queues::Queues::new()],
            claimed: Vec::new(),
            arrivals: arrivals::Arrivals::default(),
            bounce: vec![0; ProviderHead::BYTES + INLINE_MAX].into(),
            draining: None,
            pending: Vec::new(),
            deliveries: delivery::Deliveries::default(),
            next_number: 0,
            atomics: VecDeque::new(),
            next_atomic: 0,
            far: far::RemoteAccesses::default(),
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

    /// Makes progress.
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
        // While messages arrive, everything else is polled now and then, so that it advances as
        // well.
        self.busy = if took { self.busy.wrapping_add(1) } else { 0 };
        let mute = !stuck && self.pending.is_empty();
        if took {
            // The next message may arrive soon.
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

    /// Takes the messages of `source` from the short paths. Returns whether a message is left that
    /// needs Strait's own progress.
    #[inline(never)]
    fn take_from(&mut self, source: u32) -> bool {
        if !self.deliveries.has_no_mark() {
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

    /// Takes the next message of `source`, which is not a head in one line. Returns false if it
    /// needs Strait's own progress.
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
            // Strait's progress meets and reports the same failure again.
            Bypass::Closed => self.port.serve_context(source, DATA).unwrap_or(false),
        }
    }

    /// Makes Strait's progress, and handles the results.
    #[inline(never)]
    fn work(&mut self) {
        // A lack of memory is temporary. Damage shows in operations that do not end, and in the
        // deaths of peers.
        let _ = self.port.poll();
        self.drain();
        if !self.deliveries.has_no_mark() {
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
        if !self.deliveries.has_no_mark() {
            self.see_taken_late();
        }
        self.idle = self.idle.wrapping_add(1);
        if self.idle.is_multiple_of(IDLE) {
            self.work();
            if self.idle.is_multiple_of(YIELD) {
                self.crowded = self.port.is_crowded();
                std::thread::yield_now();
            } else if self.crowded && self.idle.is_multiple_of(CROWDED_LOOKS) {
                std::thread::sleep(SLEEP);
            }
        }
    }

    /// Takes heads out of Strait's queue of unexpected messages.
    fn drain(&mut self) {
        let any = Pattern { context: HEADS, source: ANY_SOURCE, tag: ANY_TAG };
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
            // SAFETY: `bounce` is not accessed while `draining` says that Strait uses it, and it
            // lives until then.
            match unsafe { self.port.irecv(any, Cursor::contiguous(part)) } {
                Ok(Received::Done(outcome)) => self.take_drained(outcome),
                Ok(Received::Pending(id)) => self.draining = Some(id),
                Err(_) => return,
            }
        }
    }

    fn take_drained(&mut self, outcome: Outcome) {
        // A message that is longer than any head is invalid. A head from a dead source is not
        // needed.
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

    fn finish(&mut self, pending: OperationPurpose, outcome: Outcome) {
        match pending {
            OperationPurpose::Whole(rank, op, _) | OperationPurpose::Data(Some((rank, op)), _) => {
                self.sent(rank, &op, outcome.err());
            }
            OperationPurpose::Receive(receipt, _) => self.received(receipt, outcome.err()),
            OperationPurpose::Data(None, _) | OperationPurpose::Drop => {}
        }
    }

    /// Fails the operations that wait for peers that are gone.
    #[cold]
    fn reap(&mut self) {
        for lane in [MessageClass::Msg, MessageClass::Tagged] {
            let (port, queue) = (&self.port, &mut self.lanes[lane as usize]);
            let is_gone = |MaskedPattern { source, .. }: &MaskedPattern, _| {
                if *source == ANY_SOURCE {
                    return false;
                }
                // A peer that has sent nothing yet is connected, or its end would stay unknown.
                port.call(*source);
                port.gone(*source).is_some()
            };
            let orphans: Vec<_> = iter::from_fn(|| queue.withdraw(is_gone)).collect();
            orphans.into_iter().for_each(|receive| self.give_up(lane, &receive, errno::ECONNRESET));
        }
        self.reap_atomics();
        self.reap_deliveries();
    }

    /// Returns a number for a message's data that no other pending message of this endpoint has.
    fn next_number(&mut self) -> u32 {
        self.next_number = (self.next_number + 1) & strait::TAG_MAX;
        self.next_number
    }

    /// Cancels operations that the user left behind, before the process leaves the universe.
    pub(crate) fn close(&mut self) {
        self.finish_far();
        for (id, _) in core::mem::take(&mut self.pending) {
            self.port.settle(id);
        }
        if let Some(id) = self.draining.take() {
            self.port.settle(id);
        }
        for warning in self.port.take_warnings() {
            eprintln!("strait: {warning}");
        }
    }
}

/// Returns the error number of a fault.
const fn errno_of(fault: Fault) -> i32 {
    match fault {
        Fault::Truncated { .. } => errno::ETRUNC,
        Fault::PeerFailed { .. } | Fault::PeerFinished { .. } => errno::ECONNRESET,
        Fault::Unreachable { .. } => errno::EHOSTUNREACH,
        Fault::Cancelled => errno::ECANCELED,
        _ => errno::EIO,
    }
}

/// A buffer for many messages, which its messages share.
type SharedMulti = Rc<receive::Multi>;
