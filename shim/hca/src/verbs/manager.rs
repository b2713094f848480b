//! The connection manager of rdma-core, librdmacm. iWARP connects only through it.
//!
//! Every device listens. A peer needs the address of the listener and the name of an end
//! ([`IwarpAddress`]). Of two listeners, the lesser asks, with the name of the end that it wants.
//! The other accepts for the end of that name, or refuses.
//!
//! So both sides make the same calls, and a rank connects to itself as to any other rank. A late or
//! stray request finds no end and is refused.
//!
//! No call waits: each handles the pending events of the manager, for all ends of the device. (The
//! kernel's soft iWARP does wait for the peer's TCP when it asks for a connection.)

use core::ffi::{c_int, c_void};
use core::mem;
use core::net::{IpAddr, SocketAddr};
use core::ptr;
use core::slice;
use std::os::fd::BorrowedFd;

use rdma_mummy_sys as ibv;
use rdma_mummy_sys::rdma_cm_event_type as kind;
use rustix::net::addr::SocketAddrArg as _;
use strait_core::hca::{Address, ConnectStep, HcaError, Readiness, RemoteAddress};

use super::OpenError;
use super::address::{EndName, IwarpAddress};
use super::device::{ListedDevice, PortLink};
use super::end::{QueuePair, QueuePairLimits, QueuePairState};
use super::greeting::Greetings;
use super::owned::VerbsObject;

/// The identifier of a connection, or of a listener.
type Id = VerbsObject<ibv::rdma_cm_id>;

/// Number of requests that wait to be accepted. The peer's TCP repeats further ones.
const BACKLOG: c_int = 1024;
/// Time limit for the resolution of an address or a route, in milliseconds.
const LOOKING: c_int = 5000;
/// Number of ports to try. The connection manager chooses a port that no identifier has; a socket
/// of soft iWARP, or of any other program, may have it nevertheless.
const TRIES: u32 = 32;
/// The context of an identifier that belongs to no end: the listener.
const NOBODY: u32 = u32::MAX;

/// The connection manager of one device.
pub(super) struct ConnectionManager {
    // Declared before the channel that it was made on, so that it is destroyed first.
    listener: Id,
    channel: VerbsObject<ibv::rdma_event_channel>,
    /// The address at which it listens.
    place: SocketAddr,
}

impl ConnectionManager {
    /// Listens at an address of the device named `device`.
    pub(super) fn new(device: &str) -> Result<Self, OpenError> {
        // SAFETY: this is the only handle to the channel, and everything made on it is destroyed
        // before it.
        let channel = unsafe {
            let raw = ibv::rdma_create_event_channel();
            VerbsObject::new("making a channel of the connection manager", raw, destroy_channel)
        };
        let channel = channel.map_err(|error| match super::error::errno() {
            libc::EOPNOTSUPP => OpenError::Manager { name: device.to_owned() },
            _ => error,
        })?;
        let system = |what| move |error| OpenError::System { what, error };
        // SAFETY: the channel is live, and its descriptor is open.
        let descriptor = unsafe { BorrowedFd::borrow_raw((*channel.as_ptr()).fd) };
        rustix::io::ioctl_fionbio(descriptor, true)
            .map_err(|error| system("making the connection manager non-blocking")(error.into()))?;
        let interfaces = if_addrs::get_if_addrs().map_err(system("listing the IP addresses"))?;
        let mut addresses: Vec<IpAddr> = interfaces.iter().map(if_addrs::Interface::ip).collect();
        // A link-local address would need the interface's number at the peer, and the loopback
        // address leads to any device.
        addresses.retain(|ip| !ip.is_loopback() && !is_link_local(*ip));
        addresses.sort();
        for ip in addresses {
            if let Some((listener, place)) = listen(&channel, ip, device)? {
                return Ok(Self { listener, channel, place });
            }
        }
        Err(OpenError::NoPort { name: device.to_owned(), port: None, gid: None })
    }

    /// Returns the network of port `number` of the device, if that port listens.
    pub(super) fn link(&self, number: u8) -> Option<PortLink> {
        // SAFETY: the identifier is live and bound to a device.
        let mine = unsafe { (*self.listener.as_ptr()).port_num };
        (mine == number).then(|| PortLink::Iwarp { gid: self.listen_ip().octets() })
    }

    /// Returns the address at which to ask for the end of this name, with the address of its
    /// greeting.
    pub(super) fn iwarp_address(&self, end: EndName, greeting: RemoteAddress) -> IwarpAddress {
        let RemoteAddress { address: word, key } = greeting;
        IwarpAddress { ip: self.listen_ip(), port: self.place.port(), end, word, key }
    }

    fn listen_ip(&self) -> core::net::Ipv6Addr {
        match self.place.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        }
    }

    /// Starts to connect `end`, which has the address `mine`, to the end at `address`. An end
    /// cannot be both sides of a connection.
    pub(super) fn join(
        &self,
        end: &mut QueuePair,
        mine: IwarpAddress,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        let peer = end.peer;
        let theirs = IwarpAddress::parse(address).ok_or(HcaError::Unreachable { peer })?;
        if mine == theirs {
            return Err(HcaError::Refused { peer });
        }
        if mine < theirs {
            self.ask(end, mine.end.connection, theirs)?;
        }
        end.readiness = QueuePairState::Joining { to: theirs };
        Ok(Readiness::Pending)
    }

    /// Asks for a connection to `to`, with a new identifier and so from another local port than
    /// before.
    fn ask(&self, end: &mut QueuePair, connection: u32, to: IwarpAddress) -> Result<(), HcaError> {
        let failed = || {
            let (step, code) = (ConnectStep::Address, super::error::errno());
            HcaError::Connect { peer: end.peer, step, code }
        };
        let id = new_id(&self.channel, connection).map_err(|_| failed())?;
        let (mine, socket) = (SocketAddr::new(self.place.ip(), 0), to.socket());
        // SAFETY: the identifier is live, and the library copies both addresses.
        let code = unsafe {
            mine.with_sockaddr(|from, _| {
                socket.with_sockaddr(|to, _| {
                    let (from, to) = (from.cast_mut().cast(), to.cast_mut().cast());
                    ibv::rdma_resolve_addr(id.as_ptr(), from, to, LOOKING)
                })
            })
        };
        if code != 0 {
            return Err(failed());
        }
        end.asked += 1;
        end.id = Some(id);
        Ok(())
    }

    /// Asks again after `error`, if another local port may help.
    fn ask_again(
        &self,
        end: &mut QueuePair,
        connection: u32,
        error: HcaError,
    ) -> Result<(), HcaError> {
        match (end.readiness, error) {
            (QueuePairState::Joining { to }, HcaError::Connect { code, .. })
                if is_taken(code) && end.asked < TRIES =>
            {
                self.ask(end, connection, to)
            }
            _ => Err(error),
        }
    }

    /// Advances the connections of all `ends` of a device with this nonce.
    pub(super) fn progress(
        &self,
        ends: &mut [Option<QueuePair>],
        nonce: u32,
        limits: QueuePairLimits,
        greetings: &Greetings,
    ) {
        while let Some(event) = self.next() {
            if event.kind == kind::RDMA_CM_EVENT_CONNECT_REQUEST {
                answer(&event, ends, nonce, limits);
            } else if let Some(end) = ends.get_mut(event.about as usize).and_then(Option::as_mut)
                && let Err(error) = go_on(&event, end, limits)
                    .or_else(|error| self.ask_again(end, event.about, error))
            {
                end.readiness = match end.readiness {
                    QueuePairState::Ready | QueuePairState::Ended => QueuePairState::Ended,
                    QueuePairState::Accepted | QueuePairState::Greeting
                        if greetings.has_come(end.greeting) =>
                    {
                        QueuePairState::Ended
                    }
                    QueuePairState::Broken => QueuePairState::Broken,
                    _ => QueuePairState::Failed(error),
                };
            }
        }
    }

    /// Returns the next event, if there is one.
    fn next(&self) -> Option<CmEvent> {
        let mut raw = ptr::null_mut();
        // SAFETY: the channel is live, and the library writes one pointer.
        if unsafe { ibv::rdma_get_cm_event(self.channel.as_ptr(), &raw mut raw) } != 0 {
            return None;
        }
        // SAFETY: the event is valid until it is acknowledged below, and its identifier until it is
        // destroyed.
        let event = unsafe {
            let event = &*raw;
            let about = (*event.id).context.addr() as u32;
            let parameters = event.param.conn;
            let data = match parameters.private_data.is_null() {
                true => &[],
                false => slice::from_raw_parts(
                    parameters.private_data.cast::<u8>(),
                    parameters.private_data_len.into(),
                ),
            };
            let asks = data.first_chunk::<{ EndName::LENGTH }>().map(|name| EndName::parse(*name));
            let reads = [parameters.responder_resources, parameters.initiator_depth];
            CmEvent { kind: event.event, status: event.status, id: event.id, about, asks, reads }
        };
        // SAFETY: the event is valid, and is acknowledged only here.
        unsafe { ibv::rdma_ack_cm_event(raw) };
        Some(event)
    }
}

/// An event of the connection manager.
struct CmEvent {
    kind: kind::Type,
    /// Zero, or the negative number of the system's error.
    status: i32,
    id: *mut ibv::rdma_cm_id,
    /// The connection that it concerns.
    about: u32,
    /// The end that the peer asks for.
    asks: Option<EndName>,
    /// Numbers of reads at a time: to answer, and to ask.
    reads: [u8; 2],
}

/// Performs the next step of the asking end, or of either end when the connection is made.
fn go_on(event: &CmEvent, end: &mut QueuePair, limits: QueuePairLimits) -> Result<(), HcaError> {
    let peer = end.peer;
    let code = match (event.kind, end.readiness) {
        // SAFETY: the identifier belongs to the end, and is live.
        (kind::RDMA_CM_EVENT_ADDR_RESOLVED, _) => unsafe {
            ibv::rdma_resolve_route(event.id, LOOKING)
        },
        (kind::RDMA_CM_EVENT_ROUTE_RESOLVED, QueuePairState::Joining { to }) => {
            let name = to.end.pack();
            let mut parameters = parameters(end, [limits.reads; 2]);
            parameters.private_data = name.as_ptr().cast();
            parameters.private_data_len = EndName::LENGTH as u8;
            // SAFETY: the identifier belongs to the end, and is live. The library copies the
            // parameters and the data that they point to.
            unsafe { ibv::rdma_connect(event.id, &raw mut parameters) }
        }
        (kind::RDMA_CM_EVENT_ESTABLISHED, QueuePairState::Joining { .. }) => {
            end.readiness = QueuePairState::Greeting;
            0
        }
        (kind::RDMA_CM_EVENT_REJECTED, _) => return Err(HcaError::Refused { peer }),
        (kind, _) => match failed_step(kind) {
            // The status is a negative error number.
            Some(step) => return Err(HcaError::Connect { peer, step, code: event.status.abs() }),
            None => 0,
        },
    };
    if code == 0 {
        return Ok(());
    }
    let step = match event.kind {
        kind::RDMA_CM_EVENT_ADDR_RESOLVED => ConnectStep::Route,
        _ => ConnectStep::Ask,
    };
    Err(match super::error::errno() {
        // The peer no longer listens there.
        libc::ECONNREFUSED => HcaError::Refused { peer },
        code => HcaError::Connect { peer, step, code },
    })
}

/// Returns the failed step that an event reports, or `None` for any other event.
const fn failed_step(event: kind::Type) -> Option<ConnectStep> {
    Some(match event {
        kind::RDMA_CM_EVENT_ADDR_ERROR => ConnectStep::Address,
        kind::RDMA_CM_EVENT_ROUTE_ERROR => ConnectStep::Route,
        kind::RDMA_CM_EVENT_CONNECT_ERROR | kind::RDMA_CM_EVENT_UNREACHABLE => ConnectStep::Ask,
        kind::RDMA_CM_EVENT_DISCONNECTED => ConnectStep::Confirm,
        kind::RDMA_CM_EVENT_DEVICE_REMOVAL => ConnectStep::Device,
        _ => return None,
    })
}

/// Answers a peer that asks for an end: accepts if the end exists and is not connected.
fn answer(event: &CmEvent, ends: &mut [Option<QueuePair>], nonce: u32, limits: QueuePairLimits) {
    // SAFETY: the library made the identifier for this request, and this is its only handle.
    let id = unsafe { VerbsObject::new("a request", event.id, ibv::rdma_destroy_id) };
    let Ok(id) = id else { return };
    let asked = event.asks.filter(|name| name.nonce == nonce);
    let end = asked.and_then(|name| ends.get_mut(name.connection as usize)?.as_mut());
    let is_free = |end: &&mut QueuePair| {
        end.id.is_none()
            && matches!(end.readiness, QueuePairState::Open | QueuePairState::Joining { .. })
    };
    let (Some(name), Some(end)) = (asked, end.filter(is_free)) else {
        // SAFETY: the identifier is live. If the rejection is lost, the peer learns of it when the
        // identifier is destroyed.
        unsafe { ibv::rdma_reject(id.as_ptr(), ptr::null(), 0) };
        return;
    };
    let mut parameters = parameters(end, event.reads.map(|reads| reads.clamp(1, limits.reads)));
    // SAFETY: the identifier is live, its context is a number, and the library copies the
    // parameters.
    let code = unsafe {
        (*id.as_ptr()).context = context(name.connection);
        ibv::rdma_accept(id.as_ptr(), &raw mut parameters)
    };
    if code == 0 {
        end.id = Some(id);
        end.readiness = QueuePairState::Accepted;
    } else {
        let (step, code) = (ConnectStep::Accept, super::error::errno());
        end.readiness = QueuePairState::Failed(HcaError::Connect { peer: end.peer, step, code });
    }
}

fn parameters(end: &QueuePair, [answered, asked]: [u8; 2]) -> ibv::rdma_conn_param {
    // SAFETY: the structure consists of integers and a pointer, for which zero is a valid value.
    let mut parameters: ibv::rdma_conn_param = unsafe { mem::zeroed() };
    parameters.responder_resources = answered;
    parameters.initiator_depth = asked;
    parameters.srq = 1;
    parameters.qp_num = end.number();
    parameters
}

/// Listens at a free port of an address. Returns `None` if the address does not belong to the
/// device.
fn listen(
    channel: &VerbsObject<ibv::rdma_event_channel>,
    ip: IpAddr,
    device: &str,
) -> Result<Option<(Id, SocketAddr)>, OpenError> {
    let mut tries = 1;
    loop {
        let listener = new_id(channel, NOBODY)?;
        if !leads_to(&listener, SocketAddr::new(ip, 0), device) {
            return Ok(None);
        }
        // SAFETY: the identifier is live and bound to an address. The port has the same offset in
        // both versions of IP.
        let port = unsafe {
            if ibv::rdma_listen(listener.as_ptr(), BACKLOG) != 0 {
                let error = OpenError::last("listening for connections");
                if is_taken(super::error::errno()) && tries < TRIES {
                    tries += 1;
                    continue;
                }
                return Err(error);
            }
            u16::from_be((*listener.as_ptr()).route.addr.src_addr_union.src_sin.sin_port)
        };
        return Ok(Some((listener, SocketAddr::new(ip, port))));
    }
}

/// Returns whether an error says that a port is in use.
const fn is_taken(error: i32) -> bool {
    matches!(error, libc::EADDRINUSE | libc::EADDRNOTAVAIL)
}

/// Makes an identifier for `connection`.
fn new_id(
    channel: &VerbsObject<ibv::rdma_event_channel>,
    connection: u32,
) -> Result<Id, OpenError> {
    const WHAT: &str = "making an identifier of a connection";
    let mut raw = ptr::null_mut();
    let space = ibv::rdma_port_space::RDMA_PS_TCP;
    // SAFETY: the channel is live, and the library writes one pointer.
    let code =
        unsafe { ibv::rdma_create_id(channel.as_ptr(), &raw mut raw, context(connection), space) };
    if code != 0 {
        return Err(OpenError::last(WHAT));
    }
    // SAFETY: the identifier was just made, this is its only handle, and its owner drops it before
    // the channel.
    unsafe { VerbsObject::new(WHAT, raw, ibv::rdma_destroy_id) }
}

/// Returns a connection's number in the form of the library's context pointer.
fn context(connection: u32) -> *mut c_void {
    ptr::without_provenance_mut(connection as usize)
}

/// Binds to an address, and returns whether the address belongs to the device.
fn leads_to(id: &Id, address: SocketAddr, device: &str) -> bool {
    // SAFETY: the identifier is live, and the library copies the address. A device that the library
    // has found stays open.
    unsafe {
        let code = address.with_sockaddr(|address, _| {
            ibv::rdma_bind_addr(id.as_ptr(), address.cast_mut().cast())
        });
        let verbs = (*id.as_ptr()).verbs;
        code == 0
            && !verbs.is_null()
            && ListedDevice::new((*verbs).device).is_some_and(|found| found.name() == device)
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

unsafe extern "C" fn destroy_channel(channel: *mut ibv::rdma_event_channel) -> c_int {
    // SAFETY: the caller guarantees that the channel is live and that nothing made on it is left
    // (contract of `VerbsObject::new`).
    unsafe { ibv::rdma_destroy_event_channel(channel) };
    0
}
