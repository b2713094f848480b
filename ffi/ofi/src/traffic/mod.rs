//! The messages of one endpoint: sends, arrivals and pending operations.
//!
//! Heads of a pair arrive in order, and each is handled before the next is taken. So the receive of
//! a message's data is posted before the data are read, and they go directly to their place.
//!
//! Where Strait's short paths do not apply, Strait puts heads into its own queue of unexpected
//! messages, which [`Traffic::drain`] empties at once.

mod access;
mod arrivals;
mod arrive;
mod asking;
mod atomic;
mod atomic_op;
mod class;
mod deliveries;
mod delivery;
mod far;
mod look;
mod outlets;
mod pending_receive;
mod progress;
mod promises;
mod queues;
mod receive;
mod remote;
mod send;
mod send_op;
mod waits;

use core::ffi::c_void;
use std::collections::VecDeque;

use strait::Error;
use strait::port::{CallBackoff, Port};
use strait_core::engine::{FailureCause, Fault, RequestId};
use strait_core::rndv::Rendezvous;
use strait_core::shm::SHORT_MAX;

use crate::buffer::UserBuffer;
use crate::cause::ErrorCause;
use crate::domain::Domain;
use crate::object::ObjectRef;
use crate::wire::{DATA, INLINE_MAX, NAMED, ProviderHead};

pub(crate) use access::RemoteAccess;
pub(crate) use atomic_op::{ATOMIC_MAX, Atomic};
pub(crate) use class::MessageClass;
pub(crate) use look::Look;
pub(crate) use pending_receive::{PendingReceive, Plain};
pub(crate) use send_op::SendOp;

/// Maximum size in bytes of a head and its message that fit into one line of Strait.
const LINE: usize = SHORT_MAX;

/// Maximum size in bytes of a message that fits into one line with its head.
pub(crate) const LINE_BODY: usize = LINE - ProviderHead::BYTES;

/// Minimum size in bytes of a buffer for which a receive may ask.
pub(crate) const ASKS_FROM: usize = INLINE_MAX + 1;

/// The messages of one endpoint.
pub(crate) struct Traffic {
    port: Port,
    domain: ObjectRef<Domain>,
    pub(crate) out: outlets::Outlets,
    lanes: [queues::ClassQueues; 2],
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
    deliveries: deliveries::Deliveries,
    next_number: u32,
    promises: promises::Promises,
    expected: promises::Expectations,
    /// Receives that have asked for their messages and are to be cancelled.
    cancels: Vec<(MessageClass, RequestId)>,
    /// Atomic operations without their answers yet, oldest first.
    atomics: VecDeque<atomic_op::PendingAtomic>,
    next_atomic: u64,
    far: far::RemoteAccesses,
    /// Buffer in which requests for atomic operations and answers are composed.
    request: Box<[u8]>,
    answer: Box<[u8]>,
    /// Number of consecutive calls that took messages.
    busy: u32,
    /// Number of accesses to memory of other processes of this universe.
    accesses: u64,
    /// Number of calls of Strait's progress.
    works: u32,
    backoff: CallBackoff,
    /// Minimum room in bytes with which a buffer for many messages stays in use.
    pub(crate) min_multi: usize,
}

/// The purpose of one of Strait's operations.
#[derive(Debug)]
enum OperationPurpose {
    /// A send to a rank with head and data in one message.
    Whole(
        u32,
        SendOp,
        #[expect(dead_code, reason = "Strait reads what it leads to")] Box<send_op::OutgoingParts>,
    ),
    /// The data of a send, and the destination and operation that complete with it.
    Data(Option<(u32, SendOp)>, #[expect(dead_code, reason = "Strait reads it")] UserBuffer),
    /// The data of a receive.
    Receive(pending_receive::Receipt, #[expect(dead_code, reason = "Strait writes it")] UserBuffer),
    /// The data of a message that was discarded.
    Drop,
}

impl Traffic {
    /// Returns the state of `port`, without any message yet.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub(crate) fn new(port: Port, domain: ObjectRef<Domain>) -> Result<Self, Error> {
        // The head of a message announces it before its receive is posted to Strait.
        port.choose_rendezvous(DATA, Rendezvous::Plain)?;
        port.name_messages(NAMED);
        let adapts = port.rendezvous() == Rendezvous::Adaptive;
        let backoff = CallBackoff::new(port.is_crowded());
        Ok(Self {
            port,
            domain,
            out: outlets::Outlets::default(),
            lanes: [queues::ClassQueues::new(), queues::ClassQueues::new()],
            claimed: Vec::new(),
            arrivals: arrivals::Arrivals::default(),
            bounce: vec![0; ProviderHead::BYTES + INLINE_MAX].into(),
            draining: None,
            pending: Vec::new(),
            deliveries: deliveries::Deliveries::default(),
            next_number: 0,
            promises: promises::Promises::new(),
            expected: promises::Expectations::new(adapts),
            cancels: Vec::new(),
            atomics: VecDeque::new(),
            next_atomic: 0,
            far: far::RemoteAccesses::default(),
            request: vec![0; atomic_op::REQUEST_MAX].into(),
            answer: vec![0; atomic_op::ANSWER_MAX].into(),
            busy: 0,
            accesses: 0,
            works: 0,
            backoff,
            min_multi: 64,
        })
    }

    pub(crate) const fn port(&self) -> &Port {
        &self.port
    }

    /// Returns a number for a message's data that no other pending message of this endpoint has.
    fn next_number(&mut self) -> u32 {
        self.next_number = (self.next_number + 1) & strait::TAG_MAX;
        self.next_number
    }

    /// Returns the cause with which operations fail that wait for a peer that is gone.
    #[cold]
    fn cause_of_end(&self, rank: u32) -> ErrorCause {
        let died = Fault::PeerFailed { rank, sign: FailureCause::Ended };
        self.port.gone(rank).map_or(died, |gone| gone.fault(rank)).into()
    }

    /// Cancels operations that the user left behind, before the process leaves the universe.
    pub(crate) fn close(&mut self) {
        self.finish_far();
        self.dismiss_all();
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
