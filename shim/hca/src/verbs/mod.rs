//! The device of rdma-core: InfiniBand, RoCE and iWARP through libibverbs.
//!
//! A device has one protection domain, completion queue and shared receive queue, and a reliable
//! queue pair for each connection. The embedder exchanges the addresses, and iWARP connects through
//! the connection manager. Forked children have no registered memory ([`ibv_fork_init`]).
//!
//! The libraries are loaded when the first device is opened. A program with this feature also runs
//! without rdma-core, and [`Verbs::open`] then returns an error.
//!
//! [`ibv_fork_init`]: https://man7.org/linux/man-pages/man3/ibv_fork_init.3.html

mod address;
mod completions;
mod config;
mod device;
mod end;
mod ended;
mod error;
mod events;
mod greeting;
mod manager;
mod order;
mod owned;
mod request;
mod torn;
mod window;

use core::fmt;
use core::mem;
use core::ptr::{self, NonNull};
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rdma_mummy_sys as ibv;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use strait_core::hca::{
    Access, Address, Capabilities, Completion, Connection, Hca, HcaError, PostError, Readiness,
    Region, Sge, WorkRequest,
};
use strait_core::sync::dma;
use strait_platform::backoff::{DEVICE_LINGER, POLLS_PER_MANAGER};

use address::{EndName, IwarpAddress};
use device::OpenedDevice;
use end::{QueuePair, QueuePairLimits, QueuePairState, SharedResources};
use greeting::{Greetings, ROOM};
use order::RequestOrder;
use owned::VerbsObject;
use request::{PIECES, Pieces};
use window::{PostedRequest, ReceiveIds};

pub use config::VerbsConfig;
pub use error::OpenError;

/// Inline lengths to ask for in bytes, best first: a device only accepts or refuses.
const INLINE: [u32; 4] = [256, 128, 64, 0];
/// Reads and atomics in flight on one connection at a time, where the device supports so many.
const READS: i32 = 16;
/// Marks the numbers of receives; requests have their connection above the lower 32 bits.
const RECEIVE: u64 = 1 << 63;
/// Number of completions that are taken from the library at a time.
const BATCH: usize = 16;

/// An open RDMA device.
pub struct Verbs {
    // Fields are dropped in this order: an object precedes the objects that it was made of.
    /// The ends, by index. An index is not reused, so a late completion finds no other end.
    ends: Vec<Option<QueuePair>>,
    /// The registered regions, by local key.
    regions: HashMap<u32, VerbsObject<ibv::ibv_mr>>,
    receives: VerbsObject<ibv::ibv_srq>,
    completions: VerbsObject<ibv::ibv_cq>,
    events: VerbsObject<ibv::ibv_comp_channel>,
    /// The channel's descriptor, for threads that wait on it.
    bell: Arc<OwnedFd>,
    /// The words for greetings, on iWARP only.
    greetings: Option<Greetings>,
    domain: VerbsObject<ibv::ibv_pd>,
    device: OpenedDevice,
    slots: ReceiveIds,
    /// The connection of each queue pair number; a receive's completion has only the number.
    pairs: HashMap<u32, Connection>,
    /// Completions that were taken from the library and not yet by the caller.
    taken: VecDeque<Completion>,
    capabilities: Capabilities,
    limits: QueuePairLimits,
    connections: u32,
    random: u32,
    /// Number of polls that found nothing.
    in_vain: u32,
}

// SAFETY: any thread may call the library, and `&mut self` admits one thread at a time.
unsafe impl Send for Verbs {}

impl Verbs {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// [`OpenError`] names what is missing: libraries, device, active port, right to lock memory.
    pub fn open(config: &VerbsConfig) -> Result<Self, OpenError> {
        config::may_lock(config.memory)?;
        // This precedes any registration; it fails if other code in this process has registered
        // memory. Kernels since 5.12 keep registered memory intact by themselves.
        // SAFETY: the call takes no argument, and any thread may make it.
        let _ = unsafe { ibv::ibv_fork_init() };
        let device = OpenedDevice::open(config)?;
        let attributes = &device.attributes;
        let at_most = |wanted: u32, limit: i32| wanted.clamp(1, limit.max(1).cast_unsigned());
        let receives = at_most(config.receives, attributes.max_srq_wr);
        let is_iwarp = device.manager.is_some();
        // On iWARP the ends send greetings, and a read may be split in two.
        let (each, more) = if is_iwarp { (2, ROOM) } else { (1, 0) };
        let depth = at_most(config.depth, (attributes.max_qp_wr - more.cast_signed()) / each);
        let requests = depth * each.cast_unsigned() + more;
        // Every request and receive has room for its completion: a queue that overflows is lost.
        let room = at_most(u32::MAX, attributes.max_cqe).saturating_sub(receives) / requests;
        let connections = config.connections.clamp(1, room.max(1));
        let context = device.context.as_ptr();
        // SAFETY: both are made of the context, and their fields precede it, so they drop first.
        let (domain, events) = unsafe {
            let domain = VerbsObject::new(
                "making a protection domain",
                ibv::ibv_alloc_pd(context),
                ibv::ibv_dealloc_pd,
            )?;
            let events = VerbsObject::new(
                "making a completion channel",
                ibv::ibv_create_comp_channel(context),
                ibv::ibv_destroy_comp_channel,
            )?;
            (domain, events)
        };
        let system = |what| move |error: Errno| OpenError::System { what, error: error.into() };
        let channel = events::descriptor(&events);
        rustix::io::ioctl_fionbio(channel, true)
            .map_err(system("making the channel non-blocking"))?;
        let bell = fcntl_dupfd_cloexec(channel, 0).map_err(system("sharing the channel"))?;
        let entries = (connections * requests + receives).cast_signed();
        // SAFETY: made of context and channel, and its field precedes both, so it drops first.
        let completions = unsafe {
            let raw = ibv::ibv_create_cq(context, entries, ptr::null_mut(), events.as_ptr(), 0);
            VerbsObject::new("making a completion queue", raw, ibv::ibv_destroy_cq)?
        };
        // SAFETY: integers and a pointer, for which zero is a valid value.
        let mut wanted: ibv::ibv_srq_init_attr = unsafe { mem::zeroed() };
        (wanted.attr.max_wr, wanted.attr.max_sge) = (receives, 1);
        // SAFETY: made of the domain, and its field precedes that, so it drops first.
        let shared = unsafe {
            let raw = ibv::ibv_create_srq(domain.as_ptr(), &raw mut wanted);
            VerbsObject::new("making a shared receive queue", raw, ibv::ibv_destroy_srq)?
        };
        let reads = READS.min(attributes.max_qp_rd_atom).min(attributes.max_qp_init_rd_atom);
        let limits = QueuePairLimits {
            depth,
            requests,
            pieces: at_most(PIECES as u32, attributes.max_sge),
            inline: 0,
            reads: u8::try_from(reads).unwrap_or(0).max(1),
        };
        // SAFETY: the field `greetings` precedes the domain, so the words are dropped first.
        let greetings = is_iwarp.then(|| unsafe { Greetings::new(domain.as_ptr(), connections) });
        let mut verbs = Self {
            capabilities: Capabilities {
                inline: 0,
                pieces: limits.pieces,
                read_pieces: at_most(limits.pieces, attributes.max_sge_rd),
                reads: limits.reads.into(),
                depth,
                receives,
                message: device.port.message.into(),
                atomics: device.atomics(),
                immediate: !is_iwarp,
                acknowledged: !is_iwarp,
                // Most devices write bytes in order, but none reports it.
                ordered_bytes: false,
            },
            ends: Vec::new(),
            regions: HashMap::new(),
            receives: shared,
            completions,
            events,
            bell: Arc::new(bell),
            greetings: greetings.transpose()?,
            domain,
            slots: ReceiveIds::new(receives),
            pairs: HashMap::new(),
            taken: VecDeque::new(),
            limits,
            connections,
            random: random()?,
            in_vain: 0,
            device,
        };
        verbs.try_pair()?;
        Ok(verbs)
    }

    /// Returns the names of the system's devices, usable or not.
    ///
    /// # Errors
    ///
    /// [`OpenError::Library`] without the library, [`OpenError::NoDevice`] without RDMA support.
    pub fn names() -> Result<Vec<String>, OpenError> {
        Ok(device::DeviceList::new()?.names())
    }

    /// Returns the device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// Returns the network of its port and the port's address there, as text.
    #[must_use]
    pub fn link(&self) -> impl fmt::Display + use<> {
        self.device.port.link
    }

    /// Returns whether kernel threads carry out posted requests: soft RoCE and soft iWARP.
    #[must_use]
    pub fn has_threads(&self) -> bool {
        self.device.is_software()
    }

    /// Makes a queue pair, to find the inline length, and whether pairs can be made at all.
    fn try_pair(&mut self) -> Result<(), OpenError> {
        let mut outcome = Ok(());
        for inline in INLINE {
            let limits = QueuePairLimits { inline, ..self.limits };
            // SAFETY: the pair is dropped in this iteration, and the shared objects with `self`.
            match unsafe { end::make_pair(self.shared(), limits) } {
                Ok((_, granted)) => {
                    self.limits.inline = inline;
                    self.capabilities.inline = granted;
                    return Ok(());
                }
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    fn shared(&self) -> SharedResources {
        SharedResources {
            domain: self.domain.as_ptr(),
            completions: self.completions.as_ptr(),
            receives: self.receives.as_ptr(),
        }
    }

    /// Returns the address at which a peer asks for an end, where there is a connection manager.
    fn iwarp_address(&self, end: &QueuePair, connection: u32) -> Option<IwarpAddress> {
        let greeting = self.greetings.as_ref()?.place(end.greeting?);
        let name = EndName { connection, nonce: self.random };
        Some(self.device.manager.as_ref()?.iwarp_address(name, greeting))
    }

    fn end(&mut self, connection: Connection) -> Option<&mut QueuePair> {
        self.ends.get_mut(connection.0 as usize)?.as_mut()
    }
}

impl Hca for Verbs {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError> {
        let is_iwarp = self.device.manager.is_some();
        let flags = device::flags(access, self.capabilities.atomics, is_iwarp);
        // SAFETY: the memory stays mapped and permits this access (contract of `Hca::register`).
        let owner = unsafe {
            let raw = ibv::ibv_reg_mr(
                self.domain.as_ptr(),
                base.as_ptr().cast(),
                length,
                flags.0.cast_signed(),
            );
            VerbsObject::new("registering memory", raw, ibv::ibv_dereg_mr)
        };
        let owner = owner.map_err(|_| match error::errno() {
            libc::ENOMEM | libc::EAGAIN => HcaError::Memory { bytes: length as u64 },
            code => HcaError::Device { code },
        })?;
        // SAFETY: the region was just made, and is live.
        let (local_key, remote_key) = unsafe { ((*owner.as_ptr()).lkey, (*owner.as_ptr()).rkey) };
        self.regions.insert(local_key, owner);
        let base = base.as_ptr().expose_provenance() as u64;
        Ok(Region { base, length: length as u64, local_key, remote_key })
    }

    fn deregister(&mut self, region: Region) -> Result<(), HcaError> {
        let key = region.local_key;
        self.regions.remove(&key).map(drop).ok_or(HcaError::UnknownRegion { key })
    }

    fn open(&mut self, peer: u32) -> Result<(Connection, Address), HcaError> {
        if self.ends.iter().flatten().count() >= self.connections as usize {
            return Err(HcaError::Connections { limit: self.connections });
        }
        let index = self.ends.len() as u32;
        // Packet numbers that a late packet of an earlier connection is unlikely to have.
        let random = self.random.wrapping_add(index.wrapping_mul(0x9E37_79B9));
        // SAFETY: the field `ends` precedes the shared objects, so ends are dropped first.
        let mut end =
            unsafe { QueuePair::new(&self.device, self.shared(), self.limits, peer, random)? };
        if let Some(greetings) = &mut self.greetings {
            end.greeting = greetings.take();
            end.order = Some(RequestOrder::new(self.limits.reads));
        }
        let address = match self.iwarp_address(&end, index) {
            Some(listener) => listener.pack(),
            None => end.place(&self.device, self.limits).pack(),
        };
        let connection = Connection(index);
        self.pairs.insert(end.number(), connection);
        self.ends.push(Some(end));
        Ok((connection, address))
    }

    fn connect(
        &mut self,
        connection: Connection,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        let unknown = HcaError::UnknownConnection { connection: connection.0 };
        self.manage();
        let end = self.ends.get(connection.0 as usize).and_then(Option::as_ref);
        let listener = self.iwarp_address(end.ok_or(unknown)?, connection.0);
        let end = self.ends.get_mut(connection.0 as usize).and_then(Option::as_mut);
        let end = end.ok_or(unknown)?;
        match (end.readiness, &self.device.manager, listener) {
            // Ended ones too: data may have landed, and the next request reports the end.
            (QueuePairState::Ready | QueuePairState::Ended | QueuePairState::Broken, ..) => {
                Ok(Readiness::Ready)
            }
            (QueuePairState::Accepted | QueuePairState::Greeting, ..) => {
                let theirs =
                    IwarpAddress::parse(address).ok_or(HcaError::Unreachable { peer: end.peer })?;
                let greetings = self.greetings.as_ref();
                if greetings.is_some_and(|words| words.exchange(end, theirs.greeting())) {
                    end.readiness = QueuePairState::Ready;
                    return Ok(Readiness::Ready);
                }
                Ok(Readiness::Pending)
            }
            (QueuePairState::Joining { .. }, ..) => Ok(Readiness::Pending),
            (QueuePairState::Failed(error), ..) => Err(error),
            (QueuePairState::Open, Some(manager), Some(listener)) => {
                manager.join(end, listener, address)
            }
            (QueuePairState::Open, ..) => end.join(&self.device, self.limits, address),
        }
    }

    fn close(&mut self, connection: Connection) -> Result<(), HcaError> {
        let unknown = HcaError::UnknownConnection { connection: connection.0 };
        let end = self.end(connection).ok_or(unknown)?;
        end.failed = true;
        end.stop();
        // This precedes the end of the pair, which identifies the connection of a receive.
        self.take(usize::MAX)?;
        if let Some(end) = self.ends[connection.0 as usize].take() {
            self.pairs.remove(&end.number());
            let word = end.greeting;
            drop(end);
            self.greetings.as_mut().zip(word).into_iter().for_each(|(all, word)| all.give(word));
        }
        Ok(())
    }

    unsafe fn post(
        &mut self,
        connection: Connection,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        let end = self.ends.get_mut(connection.0 as usize).and_then(Option::as_mut);
        let end = end.ok_or(PostError::NotConnected)?;
        match end.readiness {
            QueuePairState::Open
            | QueuePairState::Joining { .. }
            | QueuePairState::Greeting
            | QueuePairState::Accepted
            | QueuePairState::Failed(_) => {
                return Err(PostError::NotConnected);
            }
            QueuePairState::Ended | QueuePairState::Broken => return Err(PostError::Broken),
            QueuePairState::Ready => {}
        }
        let mut pieces = Pieces::new(request, &self.capabilities)?;
        if end.window.len() >= self.limits.depth {
            return Err(PostError::Full);
        }
        let number = u64::from(connection.0) << 32 | u64::from(end.window.next());
        let mut raw = request::form(request, number);
        let pair = end.pair();
        dma::payload_before_doorbell();
        let code = match &mut end.order {
            // SAFETY: the pair is live, and the pieces are valid memory (contract of `Hca::post`).
            None => unsafe {
                pieces.lend_to(&mut raw);
                order::send(pair, &mut raw)
            },
            // SAFETY: the pair is live, and the pieces are valid memory (contract of `Hca::post`).
            Some(order) => unsafe {
                pieces.mend(&request.operation);
                order.post(raw, pieces, |raw| order::send(pair, raw))
            },
        };
        if code != 0 {
            let error = error::refused(code);
            if error == PostError::Broken {
                end.readiness = QueuePairState::Ended;
            }
            return Err(error);
        }
        let sends = matches!(request.operation, strait_core::hca::Operation::Send { .. });
        end.window.push(PostedRequest { id: request.id, sends, signaled: request.signaled });
        Ok(())
    }

    unsafe fn post_receive(&mut self, id: u64, piece: Sge) -> Result<(), PostError> {
        let slot = self.slots.take(id).ok_or(PostError::Full)?;
        let mut element = request::element(&piece);
        let mut raw = ibv::ibv_recv_wr {
            wr_id: RECEIVE | u64::from(slot),
            next: ptr::null_mut(),
            sg_list: &raw mut element,
            num_sge: 1,
        };
        let mut refused = ptr::null_mut();
        dma::payload_before_doorbell();
        // SAFETY: the queue is live, and the library reads the request before the call returns. The
        // caller guarantees that the piece is valid (contract of `Hca::post_receive`).
        let code = unsafe {
            ibv::ibv_post_srq_recv(self.receives.as_ptr(), &raw mut raw, &raw mut refused)
        };
        if code != 0 {
            self.slots.give(slot);
            return Err(error::refused(code));
        }
        Ok(())
    }

    fn poll(&mut self, into: &mut [Completion]) -> Result<usize, HcaError> {
        self.take(into.len())?;
        if self.taken.is_empty() {
            self.in_vain = self.in_vain.wrapping_add(1);
            if self.in_vain.is_multiple_of(POLLS_PER_MANAGER) {
                self.finish_ended()?;
            }
        }
        let count = into.len().min(self.taken.len());
        for (place, completion) in into.iter_mut().zip(self.taken.drain(..count)) {
            *place = completion;
        }
        Ok(count)
    }

    fn arm(&mut self) -> Result<(), HcaError> {
        self.finish_ended()?;
        events::forget(&self.events);
        // SAFETY: the queue is live.
        error::checked(unsafe { ibv::ibv_req_notify_cq(self.completions.as_ptr(), 0) })
    }
}

/// Lingers: a device acknowledges the writes of peers only while the queue pair exists, and a peer
/// without the acknowledgement retries for seconds. On iWARP the system's TCP acknowledges.
impl Drop for Verbs {
    fn drop(&mut self) {
        let is_ready = |end: &QueuePair| end.readiness == QueuePairState::Ready;
        if self.device.manager.is_none() && self.ends.iter().flatten().any(is_ready) {
            std::thread::sleep(DEVICE_LINGER);
        }
    }
}

fn random() -> Result<u32, OpenError> {
    match strait_platform::segment::nonce() {
        Ok(number) => Ok(number as u32),
        Err(error) => Err(OpenError::System {
            what: "drawing a random number",
            error: std::io::Error::other(error.to_string()),
        }),
    }
}
