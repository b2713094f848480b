//! This side's end of one connection: a reliable queue pair.

use core::mem;

use rdma_mummy_sys as ibv;
use rdma_mummy_sys::ibv_qp_attr_mask as mask;
use rdma_mummy_sys::ibv_qp_state as state;
use strait_core::hca::{Address, Atomics, HcaError, Readiness, WorkError};

use super::OpenError;
use super::address::{Door, Place};
use super::device::{Device, Link};
use super::error::checked;
use super::order::{self, Order};
use super::owned::Owned;
use super::window::Window;

/// How long the device waits for an answer before it sends again: 4.096 µs · 2¹⁷, half a second. With six tries a peer that
/// connects a little late is no failure, and one that is gone is known after seconds.
const TIMEOUT: u8 = 17;
/// Tries before a peer counts as unreachable. 7 would be the most, but the kernel's soft RoCE takes it for always.
const RETRIES: u8 = 6;
/// How soon to try again when the peer has no receive posted: code of 0.64 ms.
const NOT_READY_TIMER: u8 = 12;
/// How often: 7 is for ever. A peer that is slow to post receives holds its senders back, and fails none.
const NOT_READY_RETRIES: u8 = 7;
/// Routers that a packet may pass.
const HOPS: u8 = 64;
/// Packets' and pairs' numbers have 24 bits.
const NUMBER: u32 = (1 << 24) - 1;

/// Limits of the queue pairs of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) depth: u32,
    /// Of the library's requests: more than of ours, if the device makes some by itself.
    pub(super) requests: u32,
    pub(super) pieces: u32,
    pub(super) inline: u32,
    pub(super) reads: u8,
}

/// One end.
pub(super) struct End {
    // Before its identifier, which the manager wants to go last.
    pair: Owned<ibv::ibv_qp>,
    /// What the connection manager knows of it.
    pub(super) id: Option<Owned<ibv::rdma_cm_id>>,
    pub(super) peer: u32,
    pub(super) window: Window,
    pub(super) readiness: State,
    /// Whether a failure was reported, or this side wants no more.
    pub(super) failed: bool,
    /// The word in which it is greeted: on iWARP alone.
    pub(super) greeting: Option<u32>,
    /// On iWARP alone.
    pub(super) order: Option<Order>,
    /// How often it was looked for an answer.
    pub(super) looks: u32,
    first_packet: u32,
}

/// How far an end is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    /// Made, and not connected.
    Open,
    /// The connection manager is about to connect it to the peer's end there.
    Joining { to: Door },
    /// It has asked, is connected, and greets the peer.
    Greeting,
    /// The peer has asked for it, and is to greet it.
    Accepted,
    /// It could not be connected.
    Failed(HcaError),
    /// It is over, and what is under way is to be completed.
    Ended,
    /// Requests can be posted.
    Ready,
    /// A request failed, or the peer took the connection down.
    Broken,
}

/// What all ends of a device share.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    pub(super) domain: *mut ibv::ibv_pd,
    pub(super) completions: *mut ibv::ibv_cq,
    pub(super) receives: *mut ibv::ibv_srq,
}

/// Makes a queue pair. Reports the inline length that the device grants.
///
/// # Safety
///
/// The objects of `shared` are live, and outlive the pair.
pub(super) unsafe fn make_pair(
    shared: Shared,
    limits: Limits,
) -> Result<(Owned<ibv::ibv_qp>, u32), OpenError> {
    // SAFETY: integers and pointers, for which zero is a value.
    let mut wanted: ibv::ibv_qp_init_attr = unsafe { mem::zeroed() };
    wanted.send_cq = shared.completions;
    wanted.recv_cq = shared.completions;
    wanted.srq = shared.receives;
    wanted.qp_type = ibv::ibv_qp_type::IBV_QPT_RC;
    wanted.cap.max_send_wr = limits.requests;
    wanted.cap.max_send_sge = limits.pieces;
    wanted.cap.max_inline_data = limits.inline;
    // SAFETY: by the contract, what the pair is made of is live and outlives it.
    let pair = unsafe {
        let raw = ibv::ibv_create_qp(shared.domain, &raw mut wanted);
        Owned::new("making a queue pair", raw, ibv::ibv_destroy_qp)?
    };
    Ok((pair, wanted.cap.max_inline_data))
}

impl End {
    /// An end for `peer`, ready to be connected.
    ///
    /// # Safety
    ///
    /// As for [`make_pair`].
    pub(super) unsafe fn new(
        device: &Device,
        shared: Shared,
        limits: Limits,
        peer: u32,
        random: u32,
    ) -> Result<Self, HcaError> {
        // SAFETY: passed on.
        let made = unsafe { make_pair(shared, limits) };
        let (pair, _) = made.map_err(|error| match error {
            OpenError::System { error, .. } => {
                HcaError::Device { code: error.raw_os_error().unwrap_or(0) }
            }
            _ => HcaError::Device { code: 0 },
        })?;
        let end = Self {
            pair,
            id: None,
            peer,
            window: Window::new(limits.depth),
            readiness: State::Open,
            failed: false,
            greeting: None,
            order: None,
            looks: 0,
            first_packet: random & NUMBER,
        };
        let mut attributes = end.attributes(state::IBV_QPS_INIT);
        attributes.port_num = device.port.number;
        attributes.qp_access_flags = allowed(device).0;
        let mut given = mask::IBV_QP_STATE | mask::IBV_QP_ACCESS_FLAGS;
        if device.manager.is_none() {
            given |= mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT;
        }
        end.modify(&mut attributes, given)?;
        Ok(end)
    }

    /// The library's handle. Valid as long as `self` is.
    pub(super) fn pair(&self) -> *mut ibv::ibv_qp {
        self.pair.as_ptr()
    }

    /// The number that completions bear.
    pub(super) fn number(&self) -> u32 {
        // SAFETY: the pair is live, and its number does not change.
        unsafe { (*self.pair()).qp_num }
    }

    /// Where a peer on InfiniBand or RoCE finds this end.
    pub(super) fn place(&self, device: &Device, limits: Limits) -> Place {
        let gid = match device.port.link {
            Link::InfiniBand { gid, .. } | Link::Ethernet { gid, .. } | Link::Iwarp { gid } => gid,
        };
        Place {
            pair: self.number(),
            first_packet: self.first_packet,
            lid: device.port.lid,
            gid,
            mtu: device.port.mtu,
            reads: limits.reads,
        }
    }

    /// Connects to the queue pair at `address`.
    pub(super) fn join(
        &mut self,
        device: &Device,
        limits: Limits,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        let peer = Place::parse(address).ok_or(HcaError::Unreachable { peer: self.peer })?;
        let mut receiving = self.attributes(state::IBV_QPS_RTR);
        receiving.path_mtu = peer.mtu.min(device.port.mtu).into();
        receiving.dest_qp_num = peer.pair;
        receiving.rq_psn = peer.first_packet;
        receiving.max_dest_rd_atomic = limits.reads;
        receiving.min_rnr_timer = NOT_READY_TIMER;
        receiving.ah_attr = route(device, &peer);
        let given = mask::IBV_QP_STATE
            | mask::IBV_QP_AV
            | mask::IBV_QP_PATH_MTU
            | mask::IBV_QP_DEST_QPN
            | mask::IBV_QP_RQ_PSN
            | mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | mask::IBV_QP_MIN_RNR_TIMER;
        // The one step that looks at the peer's address: the kernel asks who the next hop is.
        self.modify(&mut receiving, given)
            .map_err(|_| HcaError::Unreachable { peer: self.peer })?;

        let mut sending = self.attributes(state::IBV_QPS_RTS);
        sending.sq_psn = self.first_packet;
        sending.timeout = TIMEOUT;
        sending.retry_cnt = RETRIES;
        sending.rnr_retry = NOT_READY_RETRIES;
        sending.max_rd_atomic = limits.reads.min(peer.reads);
        let given = mask::IBV_QP_STATE
            | mask::IBV_QP_SQ_PSN
            | mask::IBV_QP_TIMEOUT
            | mask::IBV_QP_RETRY_CNT
            | mask::IBV_QP_RNR_RETRY
            | mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(&mut sending, given)?;
        self.readiness = State::Ready;
        Ok(Readiness::Ready)
    }

    /// Something is done: the device may have what has waited for it.
    pub(super) fn go_on(&mut self) {
        let pair = self.pair();
        let is_ready = self.readiness == State::Ready;
        let Some(order) = self.order.as_mut().filter(|_| is_ready) else { return };
        // SAFETY: the pair is live; what waits has its memory until it completes.
        if order.go_on(|raw| unsafe { order::send(pair, raw) }) != 0 {
            self.readiness = State::Ended;
        }
    }

    /// A request failed. On iWARP not every other one completes by itself: those that wait here do not, nor those that the
    /// kernel's driver took after it knew of the failure. [`super::Verbs::finish_ended`] completes them.
    pub(super) fn break_down(&mut self) {
        self.readiness = if self.order.is_some() { State::Ended } else { State::Broken };
    }

    /// Stops the pair: what is posted completes as flushed.
    pub(super) fn stop(&mut self) {
        self.readiness = State::Broken;
        let mut attributes = self.attributes(state::IBV_QPS_ERR);
        // A pair that cannot even fail is about to be destroyed.
        let _ = self.modify(&mut attributes, mask::IBV_QP_STATE);
    }

    /// Why a request that was flushed on iWARP was. The first, when nothing of ours had failed: the other side has ended the
    /// connection, and no more is known.
    pub(super) fn flushed(&mut self) -> WorkError {
        match mem::replace(&mut self.failed, true) {
            false => WorkError::Unreachable,
            true => WorkError::Flushed,
        }
    }

    fn attributes(&self, state: state::Type) -> ibv::ibv_qp_attr {
        // SAFETY: integers, for which zero is a value.
        let mut attributes: ibv::ibv_qp_attr = unsafe { mem::zeroed() };
        attributes.qp_state = state;
        attributes
    }

    fn modify(&self, attributes: &mut ibv::ibv_qp_attr, given: mask) -> Result<(), HcaError> {
        // SAFETY: the pair is live; the library reads the structure.
        checked(unsafe { ibv::ibv_modify_qp(self.pair(), attributes, given.0 as i32) })
    }
}

/// What peers may do through any connection; each region says what they may do to it.
fn allowed(device: &Device) -> ibv::ibv_access_flags {
    let flags = ibv::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
        | ibv::ibv_access_flags::IBV_ACCESS_REMOTE_READ;
    match device.atomics() {
        Atomics::None => flags,
        _ => flags | ibv::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC,
    }
}

/// The way from `device` to `peer`.
fn route(device: &Device, peer: &Place) -> ibv::ibv_ah_attr {
    // SAFETY: integers, for which zero is a value.
    let mut route: ibv::ibv_ah_attr = unsafe { mem::zeroed() };
    route.port_num = device.port.number;
    route.dlid = peer.lid;
    let (global, index) = match device.port.link {
        Link::Ethernet { index, .. } => (true, index),
        // Within one subnet the LID is enough; the first half of a global identifier names the subnet.
        Link::InfiniBand { gid, index } => (gid[..8] != peer.gid[..8], index),
        // The connection manager knows the way.
        Link::Iwarp { .. } => (false, 0),
    };
    if global {
        route.is_global = 1;
        route.grh.dgid = ibv::ibv_gid { raw: peer.gid };
        route.grh.sgid_index = index;
        route.grh.hop_limit = HOPS;
    }
    route
}
