//! The device of rdma-core: InfiniBand, RoCE and iWARP through libibverbs.
//!
//! One protection domain, one completion queue and one shared receive queue for a device; a reliable queue pair for each
//! connection, connected with the addresses that the embedder exchanges: by hand on InfiniBand and RoCE, through the connection
//! manager on iWARP. Registered memory is kept out of children ([`ibv_fork_init`]), so that a fork takes nothing from under
//! the device.
//!
//! The libraries are looked for when the first device is opened, not when the program is linked: one that was built with
//! this feature runs where there is no rdma-core, and [`Verbs::open`] says so.
//!
//! [`ibv_fork_init`]: https://man7.org/linux/man-pages/man3/ibv_fork_init.3.html

mod address;
mod completions;
mod config;
mod device;
mod end;
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
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rdma_mummy_sys as ibv;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use strait_core::hca::{
    Access, Address, Capabilities, Completion, Connection, Hca, HcaError, Piece, PostError,
    Readiness, Region, WorkRequest,
};
use strait_core::sync::dma;

use address::{Door, EndName};
use device::Device;
use end::{End, Limits, Shared, State};
use greeting::{Greetings, ROOM};
use order::Order;
use owned::Owned;
use request::{PIECES, Pieces};
use window::{Request, Slots};

pub use config::Config;
pub use error::OpenError;

/// Inline lengths to ask for, best first: a device says only yes or no.
const INLINE: [u32; 4] = [256, 128, 64, 0];
/// Reads and atomics of one connection that are under way at a time, where the device has so many.
const READS: i32 = 16;
/// Marks the numbers of receives; those of requests have their connection above the lower 32 bits.
const RECEIVE: u64 = 1 << 63;
/// Polls in vain until the connection manager is asked, which is a call of the system.
const LOOK: u32 = 64;
/// How long a device stays when nobody needs it any more.
const LINGER: Duration = Duration::from_millis(5);
/// Completions that are taken from the library at a time.
const BATCH: usize = 16;

/// An open RDMA device.
pub struct Verbs {
    // In the order of their end: what is made of something goes before it.
    /// By index. Indices are not used again, so that a late completion cannot be taken for another connection's.
    ends: Vec<Option<End>>,
    /// By local key.
    regions: HashMap<u32, Owned<ibv::ibv_mr>>,
    receives: Owned<ibv::ibv_srq>,
    completions: Owned<ibv::ibv_cq>,
    events: Owned<ibv::ibv_comp_channel>,
    /// The channel's descriptor, for those who wait on it.
    bell: Arc<OwnedFd>,
    /// On iWARP alone.
    greetings: Option<Greetings>,
    domain: Owned<ibv::ibv_pd>,
    device: Device,

    slots: Slots,
    /// Which connection a queue pair is, by its number: a receive's completion tells no more.
    pairs: HashMap<u32, Connection>,
    /// Completions taken from the library and not yet by the caller.
    taken: VecDeque<Completion>,
    capabilities: Capabilities,
    limits: Limits,
    connections: u32,
    random: u32,
    /// Polls that found nothing.
    in_vain: u32,
}

// SAFETY: the library may be called from any thread, and `&mut self` keeps the tables to one at a time.
unsafe impl Send for Verbs {}

impl Verbs {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says what is missing: the libraries, a device, a port that is up, the right to lock memory.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        config::may_lock(config.memory)?;
        // Before any memory is registered. A refusal means that somebody else in this process has registered some; kernels
        // since 5.12 keep registered memory whole by themselves.
        // SAFETY: no argument, and any thread may call it.
        let _ = unsafe { ibv::ibv_fork_init() };
        let device = Device::open(config)?;
        let attributes = &device.attributes;
        let at_most = |wanted: u32, limit: i32| wanted.clamp(1, limit.max(1).cast_unsigned());
        let receives = at_most(config.receives, attributes.max_srq_wr);
        let is_iwarp = device.manager.is_some();
        // On iWARP the ends greet, and a read may be two.
        let (each, more) = if is_iwarp { (2, ROOM) } else { (1, 0) };
        let depth = at_most(config.depth, (attributes.max_qp_wr - more.cast_signed()) / each);
        let requests = depth * each.cast_unsigned() + more;
        // Every request and receive has room for its completion: a queue that overflows is lost.
        let room = at_most(u32::MAX, attributes.max_cqe).saturating_sub(receives) / requests;
        let connections = config.connections.clamp(1, room.max(1));

        let context = device.context.as_ptr();
        // SAFETY: each is made of what was made before it, and is a field before it.
        let (domain, events) = unsafe {
            let domain = Owned::new(
                "making a protection domain",
                ibv::ibv_alloc_pd(context),
                ibv::ibv_dealloc_pd,
            )?;
            let events = Owned::new(
                "making a completion channel",
                ibv::ibv_create_comp_channel(context),
                ibv::ibv_destroy_comp_channel,
            )?;
            (domain, events)
        };
        let system = |what| move |error: Errno| OpenError::System { what, error: error.into() };
        let channel = events::descriptor(&events);
        rustix::io::ioctl_fionbio(channel, true).map_err(system("making the channel patient"))?;
        let bell = fcntl_dupfd_cloexec(channel, 0).map_err(system("sharing the channel"))?;
        let entries = (connections * requests + receives).cast_signed();
        // SAFETY: as above; a queue without a context of its own.
        let completions = unsafe {
            let raw = ibv::ibv_create_cq(context, entries, ptr::null_mut(), events.as_ptr(), 0);
            Owned::new("making a completion queue", raw, ibv::ibv_destroy_cq)?
        };
        // SAFETY: integers and a pointer, for which zero is a value.
        let mut wanted: ibv::ibv_srq_init_attr = unsafe { mem::zeroed() };
        (wanted.attr.max_wr, wanted.attr.max_sge) = (receives, 1);
        // SAFETY: as above.
        let shared = unsafe {
            let raw = ibv::ibv_create_srq(domain.as_ptr(), &raw mut wanted);
            Owned::new("making a shared receive queue", raw, ibv::ibv_destroy_srq)?
        };
        let reads = READS.min(attributes.max_qp_rd_atom).min(attributes.max_qp_init_rd_atom);
        let limits = Limits {
            depth,
            requests,
            pieces: at_most(PIECES as u32, attributes.max_sge),
            inline: 0,
            reads: u8::try_from(reads).unwrap_or(0).max(1),
        };
        // SAFETY: a field before the domain.
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
                // Most devices do it so, and none says it.
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
            slots: Slots::new(receives),
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

    /// The names of the devices that the system has, usable or not.
    ///
    /// # Errors
    ///
    /// [`OpenError::Library`] and [`OpenError::NoDevice`].
    pub fn names() -> Result<Vec<String>, OpenError> {
        Ok(device::List::new()?.names())
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// What its port is connected to, and who it is there, in words.
    #[must_use]
    pub fn link(&self) -> impl fmt::Display + use<> {
        self.device.port.link
    }

    /// Whether threads carry out what is posted, on processors that ranks may want: soft RoCE and soft iWARP.
    #[must_use]
    pub fn has_threads(&self) -> bool {
        self.device.is_software()
    }

    /// Makes a queue pair to learn how much goes inline, and whether pairs can be made at all.
    fn try_pair(&mut self) -> Result<(), OpenError> {
        let mut outcome = Ok(());
        for inline in INLINE {
            let limits = Limits { inline, ..self.limits };
            // SAFETY: the pair is dropped here, and what it is made of with `self`.
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

    fn shared(&self) -> Shared {
        Shared {
            domain: self.domain.as_ptr(),
            completions: self.completions.as_ptr(),
            receives: self.receives.as_ptr(),
        }
    }

    /// Where a peer asks for an end, where there is a manager.
    fn door(&self, end: &End, connection: u32) -> Option<Door> {
        let greeting = self.greetings.as_ref()?.place(end.greeting?);
        let name = EndName { connection, nonce: self.random };
        Some(self.device.manager.as_ref()?.door(name, greeting))
    }

    fn end(&mut self, connection: Connection) -> Option<&mut End> {
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
        // SAFETY: by the contract the memory stays mapped, and peers may do with it what they are allowed.
        let owner = unsafe {
            let raw = ibv::ibv_reg_mr(
                self.domain.as_ptr(),
                base.as_ptr().cast(),
                length,
                flags.0.cast_signed(),
            );
            Owned::new("registering memory", raw, ibv::ibv_dereg_mr)
        };
        let owner = owner.map_err(|_| match error::errno() {
            libc::ENOMEM | libc::EAGAIN => HcaError::Memory { bytes: length as u64 },
            code => HcaError::Device { code },
        })?;
        // SAFETY: the region was just made.
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
        // Numbers that a forgotten packet of an earlier connection does not happen to bear.
        let random = self.random.wrapping_add(index.wrapping_mul(0x9E37_79B9));
        // SAFETY: ends are dropped before what they are made of.
        let mut end = unsafe { End::new(&self.device, self.shared(), self.limits, peer, random)? };
        if let Some(greetings) = &mut self.greetings {
            end.greeting = greetings.take();
            end.order = Some(Order::new(self.limits.reads));
        }
        let address = match self.door(&end, index) {
            Some(door) => door.pack(),
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
        let door = self.door(end.ok_or(unknown)?, connection.0);
        let end = self.ends.get_mut(connection.0 as usize).and_then(Option::as_mut);
        let end = end.ok_or(unknown)?;
        match (end.readiness, &self.device.manager, door) {
            // What has ended since tells so when it is used: something may have landed before.
            (State::Ready | State::Ended | State::Broken, ..) => Ok(Readiness::Ready),
            (State::Accepted | State::Greeting, ..) => {
                let theirs =
                    Door::parse(address).ok_or(HcaError::Unreachable { peer: end.peer })?;
                let greetings = self.greetings.as_ref();
                if greetings.is_some_and(|words| words.exchange(end, theirs.greeting())) {
                    end.readiness = State::Ready;
                    return Ok(Readiness::Ready);
                }
                Ok(Readiness::Pending)
            }
            (State::Joining { .. }, ..) => Ok(Readiness::Pending),
            (State::Failed(error), ..) => Err(error),
            (State::Open, Some(manager), Some(door)) => manager.join(end, door, address),
            (State::Open, ..) => end.join(&self.device, self.limits, address),
        }
    }

    fn close(&mut self, connection: Connection) -> Result<(), HcaError> {
        let unknown = HcaError::UnknownConnection { connection: connection.0 };
        let end = self.end(connection).ok_or(unknown)?;
        end.failed = true;
        end.stop();
        // Before its pair goes, and with it what tells a receive's connection.
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
            State::Open
            | State::Joining { .. }
            | State::Greeting
            | State::Accepted
            | State::Failed(_) => {
                return Err(PostError::NotConnected);
            }
            State::Ended | State::Broken => return Err(PostError::Broken),
            State::Ready => {}
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
            // SAFETY: the pair is live; the memory is valid by the contract.
            None => unsafe {
                pieces.lend_to(&mut raw);
                order::send(pair, &mut raw)
            },
            // SAFETY: as above.
            Some(order) => unsafe {
                pieces.mend(&request.operation);
                order.post(raw, pieces, |raw| order::send(pair, raw))
            },
        };
        if code != 0 {
            let error = error::refused(code);
            if error == PostError::Broken {
                end.readiness = State::Ended;
            }
            return Err(error);
        }
        let sends = matches!(request.operation, strait_core::hca::Operation::Send { .. });
        end.window.push(Request { id: request.id, sends, signaled: request.signaled });
        Ok(())
    }

    unsafe fn post_receive(&mut self, id: u64, piece: Piece) -> Result<(), PostError> {
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
        // SAFETY: the queue is live; the request is read before the call returns, and the piece is valid by the contract.
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
            if self.in_vain.is_multiple_of(LOOK) {
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

/// A device acknowledges by itself what peers have written, but only as long as there is the queue pair: a peer whose last
/// request is not acknowledged tries for seconds. On iWARP the system's TCP sees to it.
impl Drop for Verbs {
    fn drop(&mut self) {
        let is_ready = |end: &End| end.readiness == State::Ready;
        if self.device.manager.is_none() && self.ends.iter().flatten().any(is_ready) {
            std::thread::sleep(LINGER);
        }
    }
}

fn random() -> Result<u32, OpenError> {
    match crate::segment::nonce() {
        Ok(number) => Ok(number as u32),
        Err(error) => Err(OpenError::System {
            what: "drawing a random number",
            error: std::io::Error::other(error.to_string()),
        }),
    }
}
