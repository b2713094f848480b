//! The connection manager, through which alone iWARP connects: librdmacm.
//!
//! Every device listens, and what a peer has to know is where, and which end is meant ([`Door`]). Of two doors the lesser
//! asks, with the name of the end that it wants; the other accepts for the end of this name, or refuses. So both sides do the
//! same, a rank connects to itself as to any other, and a request that is late or stray meets nobody.
//!
//! Nothing waits here: each call does what the manager's events say that can be done, for all ends of the device. (The kernel's
//! soft iWARP waits for the peer's TCP to answer, though, while it asks.)

use core::ffi::{c_int, c_void};
use core::mem;
use core::net::{IpAddr, SocketAddr};
use core::ptr;
use core::slice;
use std::os::fd::BorrowedFd;

use rdma_mummy_sys as ibv;
use rdma_mummy_sys::rdma_cm_event_type as kind;
use rustix::net::addr::SocketAddrArg as _;
use strait_core::hca::{Address, Completion, Connection, HcaError, Readiness, Remote};

use super::address::{Door, EndName};
use super::device::{Link, name_of};
use super::end::{End, Limits, State};
use super::greeting::Greetings;
use super::order::Order;
use super::owned::Owned;
use super::{OpenError, Verbs};

/// Identifies a connection, or a place to listen.
type Id = Owned<ibv::rdma_cm_id>;

/// Requests that wait to be looked at: more are asked again by the peer's TCP.
const BACKLOG: c_int = 1024;
/// How long to look for the way to a peer, milliseconds.
const LOOKING: c_int = 5000;
/// What is about no end: a listener.
const NOBODY: u32 = u32::MAX;

/// The manager's part of one device.
pub(super) struct Manager {
    // Before the channel that it was made on.
    listener: Id,
    channel: Owned<ibv::rdma_event_channel>,
    /// Where it listens.
    place: SocketAddr,
}

impl Manager {
    /// Listens at an address of the device of this name.
    pub(super) fn new(device: &str) -> Result<Self, OpenError> {
        // SAFETY: the channel is only here, and what is made on it goes before it.
        let channel = unsafe {
            let raw = ibv::rdma_create_event_channel();
            Owned::new("making a channel of the connection manager", raw, destroy_channel)
        };
        let channel = channel.map_err(|error| match super::error::errno() {
            libc::EOPNOTSUPP => OpenError::Manager { name: device.to_owned() },
            _ => error,
        })?;
        let system = |what| move |error| OpenError::System { what, error };
        // SAFETY: the channel is live, and its descriptor open.
        let descriptor = unsafe { BorrowedFd::borrow_raw((*channel.as_ptr()).fd) };
        rustix::io::ioctl_fionbio(descriptor, true)
            .map_err(|error| system("making the connection manager patient")(error.into()))?;
        let interfaces = if_addrs::get_if_addrs().map_err(system("listing the IP addresses"))?;
        let mut addresses: Vec<IpAddr> = interfaces.iter().map(if_addrs::Interface::ip).collect();
        // One of the link alone would need the interface's number at the peer; the loopback's leads to any device.
        addresses.retain(|ip| !ip.is_loopback() && !is_link_local(*ip));
        addresses.sort();
        for ip in addresses {
            let listener = new_id(&channel, NOBODY)?;
            if !leads_to(&listener, SocketAddr::new(ip, 0), device) {
                continue;
            }
            // SAFETY: the identifier is live, and bound to an address, whose port has the same place in either version of IP.
            let port = unsafe {
                if ibv::rdma_listen(listener.as_ptr(), BACKLOG) != 0 {
                    return Err(OpenError::last("listening for connections"));
                }
                u16::from_be((*listener.as_ptr()).route.addr.src_addr_union.src_sin.sin_port)
            };
            return Ok(Self { listener, channel, place: SocketAddr::new(ip, port) });
        }
        Err(OpenError::NoPort { name: device.to_owned(), port: None, gid: None })
    }

    /// What port `number` of the device is connected to, if it is the one that listens.
    pub(super) fn link(&self, number: u8) -> Option<Link> {
        // SAFETY: the identifier is live, and bound to a device.
        let mine = unsafe { (*self.listener.as_ptr()).port_num };
        (mine == number).then(|| Link::Iwarp { gid: self.door_ip().octets() })
    }

    /// Where to ask for the end of this name, which is greeted there.
    pub(super) fn door(&self, end: EndName, greeting: Remote) -> Door {
        let Remote { address: word, key } = greeting;
        Door { ip: self.door_ip(), port: self.place.port(), end, word, key }
    }

    fn door_ip(&self) -> core::net::Ipv6Addr {
        match self.place.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        }
    }

    /// Begins to connect `end`, whose door is `mine`, to the one at `address`. An end cannot be both sides of a connection.
    pub(super) fn join(
        &self,
        end: &mut End,
        mine: Door,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        let unreachable = HcaError::Unreachable { peer: end.peer };
        let theirs = Door::parse(address).ok_or(unreachable)?;
        if mine == theirs {
            return Err(HcaError::Refused { peer: end.peer });
        }
        if mine < theirs {
            let id = new_id(&self.channel, mine.end.connection).map_err(|_| unreachable)?;
            let (mine, socket) = (SocketAddr::new(self.place.ip(), 0), theirs.socket());
            // SAFETY: the identifier is live; the library copies both addresses.
            let code = unsafe {
                mine.with_sockaddr(|from, _| {
                    socket.with_sockaddr(|to, _| {
                        let (from, to) = (from.cast_mut().cast(), to.cast_mut().cast());
                        ibv::rdma_resolve_addr(id.as_ptr(), from, to, LOOKING)
                    })
                })
            };
            if code != 0 {
                return Err(unreachable);
            }
            end.id = Some(id);
        }
        end.readiness = State::Joining { to: theirs };
        Ok(Readiness::Pending)
    }

    /// Goes on with the connections of all `ends`, of a device with this nonce.
    pub(super) fn progress(
        &self,
        ends: &mut [Option<End>],
        nonce: u32,
        limits: Limits,
        greetings: &Greetings,
    ) {
        while let Some(event) = self.next() {
            if event.kind == kind::RDMA_CM_EVENT_CONNECT_REQUEST {
                answer(&event, ends, nonce, limits);
            } else if let Some(end) = ends.get_mut(event.about as usize).and_then(Option::as_mut)
                && let Err(error) = go_on(&event, end, limits)
            {
                end.readiness = match end.readiness {
                    State::Ready | State::Ended => State::Ended,
                    State::Accepted | State::Greeting if greetings.has_come(end.greeting) => {
                        State::Ended
                    }
                    State::Broken => State::Broken,
                    _ => State::Failed(error),
                };
            }
        }
    }

    /// The next event, if there is one.
    fn next(&self) -> Option<Event> {
        let mut raw = ptr::null_mut();
        // SAFETY: the channel is live, and the library writes a pointer.
        if unsafe { ibv::rdma_get_cm_event(self.channel.as_ptr(), &raw mut raw) } != 0 {
            return None;
        }
        // SAFETY: the event is live until it is acknowledged, and its identifier until it is destroyed.
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
            Event { kind: event.event, id: event.id, about, asks, reads }
        };
        // SAFETY: it is acknowledged once.
        unsafe { ibv::rdma_ack_cm_event(raw) };
        Some(event)
    }
}

impl Verbs {
    /// Goes on with all connections, where there is a manager.
    pub(super) fn manage(&mut self) {
        if let (Some(manager), Some(greetings)) = (&self.device.manager, &self.greetings) {
            manager.progress(&mut self.ends, self.random, self.limits, greetings);
        }
    }

    /// Completes what was under way on connections that the other side has ended, of which the manager tells. The kernel's soft
    /// iWARP never completes what was posted after it knew.
    pub(super) fn finish_ended(&mut self) -> Result<(), HcaError> {
        self.manage();
        let has_ended =
            |end: &Option<End>| end.as_ref().is_some_and(|end| end.readiness == State::Ended);
        while let Some(index) = self.ends.iter().position(has_ended) {
            let connection = Connection(index as u32);
            if let Some(end) = &mut self.ends[index] {
                end.stop();
            }
            self.take(usize::MAX)?;
            let Some(end) = &mut self.ends[index] else { continue };
            end.readiness = State::Broken;
            end.order.iter_mut().for_each(Order::clear);
            while let Some(request) = end.window.pop() {
                if request.signaled {
                    let result = Err(end.flushed());
                    self.taken.push_back(Completion { id: request.id, connection, result });
                }
            }
        }
        Ok(())
    }
}

/// What the manager says.
struct Event {
    kind: kind::Type,
    id: *mut ibv::rdma_cm_id,
    /// The connection that it is about.
    about: u32,
    /// The end that the peer asks for.
    asks: Option<EndName>,
    /// Reads at a time that are to be answered and asked.
    reads: [u8; 2],
}

/// The next step of the end that asks, or of either when it is done.
fn go_on(event: &Event, end: &mut End, limits: Limits) -> Result<(), HcaError> {
    let unreachable = HcaError::Unreachable { peer: end.peer };
    let code = match (event.kind, end.readiness) {
        // SAFETY: the identifier is the end's.
        (kind::RDMA_CM_EVENT_ADDR_RESOLVED, _) => unsafe {
            ibv::rdma_resolve_route(event.id, LOOKING)
        },
        (kind::RDMA_CM_EVENT_ROUTE_RESOLVED, State::Joining { to }) => {
            let name = to.end.pack();
            let mut parameters = parameters(end, [limits.reads; 2]);
            parameters.private_data = name.as_ptr().cast();
            parameters.private_data_len = EndName::LENGTH as u8;
            // SAFETY: as above; the library copies the parameters and what they point to.
            unsafe { ibv::rdma_connect(event.id, &raw mut parameters) }
        }
        (kind::RDMA_CM_EVENT_ESTABLISHED, State::Joining { .. }) => {
            end.readiness = State::Greeting;
            0
        }
        (kind::RDMA_CM_EVENT_REJECTED, _) => return Err(HcaError::Refused { peer: end.peer }),
        (
            kind::RDMA_CM_EVENT_ADDR_ERROR
            | kind::RDMA_CM_EVENT_ROUTE_ERROR
            | kind::RDMA_CM_EVENT_CONNECT_ERROR
            | kind::RDMA_CM_EVENT_UNREACHABLE
            | kind::RDMA_CM_EVENT_DISCONNECTED
            | kind::RDMA_CM_EVENT_DEVICE_REMOVAL,
            _,
        ) => return Err(unreachable),
        _ => 0,
    };
    match code {
        0 => Ok(()),
        // Nobody listens there any more.
        _ if super::error::errno() == libc::ECONNREFUSED => {
            Err(HcaError::Refused { peer: end.peer })
        }
        _ => Err(unreachable),
    }
}

/// A peer asks for an end: accepts if it is there and not connected.
fn answer(event: &Event, ends: &mut [Option<End>], nonce: u32, limits: Limits) {
    // SAFETY: the library made the identifier for this request, and it is only here.
    let id = unsafe { Owned::new("a request", event.id, ibv::rdma_destroy_id) };
    let Ok(id) = id else { return };
    let asked = event.asks.filter(|name| name.nonce == nonce);
    let end = asked.and_then(|name| ends.get_mut(name.connection as usize)?.as_mut());
    let is_free = |end: &&mut End| {
        end.id.is_none() && matches!(end.readiness, State::Open | State::Joining { .. })
    };
    let (Some(name), Some(end)) = (asked, end.filter(is_free)) else {
        // SAFETY: the identifier is live. A peer that does not hear of it learns of it when the identifier goes.
        unsafe { ibv::rdma_reject(id.as_ptr(), ptr::null(), 0) };
        return;
    };
    let mut parameters = parameters(end, event.reads.map(|reads| reads.clamp(1, limits.reads)));
    // SAFETY: the identifier is live, and its context is a number; the library copies the parameters.
    let code = unsafe {
        (*id.as_ptr()).context = context(name.connection);
        ibv::rdma_accept(id.as_ptr(), &raw mut parameters)
    };
    if code == 0 {
        end.id = Some(id);
        end.readiness = State::Accepted;
    } else {
        end.readiness = State::Failed(HcaError::Unreachable { peer: end.peer });
    }
}

fn parameters(end: &End, [answered, asked]: [u8; 2]) -> ibv::rdma_conn_param {
    // SAFETY: integers and a pointer, for which zero is a value.
    let mut parameters: ibv::rdma_conn_param = unsafe { mem::zeroed() };
    parameters.responder_resources = answered;
    parameters.initiator_depth = asked;
    parameters.srq = 1;
    parameters.qp_num = end.number();
    parameters
}

/// An identifier of what is about `connection`.
fn new_id(channel: &Owned<ibv::rdma_event_channel>, connection: u32) -> Result<Id, OpenError> {
    const WHAT: &str = "making an identifier of a connection";
    let mut raw = ptr::null_mut();
    let space = ibv::rdma_port_space::RDMA_PS_TCP;
    // SAFETY: the channel is live; the library writes a pointer.
    let code =
        unsafe { ibv::rdma_create_id(channel.as_ptr(), &raw mut raw, context(connection), space) };
    if code != 0 {
        return Err(OpenError::last(WHAT));
    }
    // SAFETY: the identifier was just made, and whoever has it lets it go before the channel.
    unsafe { Owned::new(WHAT, raw, ibv::rdma_destroy_id) }
}

/// A connection's number where the library has room for a pointer.
fn context(connection: u32) -> *mut c_void {
    ptr::without_provenance_mut(connection as usize)
}

/// Binds to an address, and says whether it is the device's.
fn leads_to(id: &Id, address: SocketAddr, device: &str) -> bool {
    // SAFETY: the identifier is live; the library copies the address. A device that it has found stays open.
    unsafe {
        let code = address.with_sockaddr(|address, _| {
            ibv::rdma_bind_addr(id.as_ptr(), address.cast_mut().cast())
        });
        let verbs = (*id.as_ptr()).verbs;
        code == 0 && !verbs.is_null() && name_of((*verbs).device) == device
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

unsafe extern "C" fn destroy_channel(channel: *mut ibv::rdma_event_channel) -> c_int {
    // SAFETY: by the contract of `Owned` the channel is live, and nothing is left on it.
    unsafe { ibv::rdma_destroy_event_channel(channel) };
    0
}
