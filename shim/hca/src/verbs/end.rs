//! This side's end of one connection: a reliable queue pair.

use core::mem;

use rdma_mummy_sys as ibv;
use rdma_mummy_sys::ibv_qp_attr_mask as mask;
use rdma_mummy_sys::ibv_qp_state as state;
use strait_core::hca::{Address, Atomics, ConnectStep, HcaError, Readiness, WorkError};

use super::OpenError;
use super::address::{IwarpAddress, QueuePairAddress};
use super::device::{OpenedDevice, PortLink};
use super::error::checked;
use super::order::{self, RequestOrder};
use super::owned::VerbsObject;
use super::window::RequestWindow;

/// Code of the time for which the device waits for an answer before it sends again: 4.096 µs · 2¹⁷,
/// half a second. With six retries, a peer that connects a little late is no failure, and a peer
/// that is gone is detected after seconds.
const TIMEOUT: u8 = 17;
/// Number of retries before a peer counts as unreachable. The maximum is 7, but the kernel's soft
/// RoCE treats 7 as infinite.
const RETRIES: u8 = 6;
/// Code of the time before a retry when the peer has no receive posted: 0.64 ms.
const NOT_READY_TIMER: u8 = 12;
/// Number of such retries: 7 means infinite. A peer that is slow to post receives delays its
/// senders, and fails none.
const NOT_READY_RETRIES: u8 = 7;
/// Largest number of routers that a packet may pass.
const HOPS: u8 = 64;
/// Mask of packet and queue pair numbers, which have 24 bits.
const NUMBER: u32 = (1 << 24) - 1;

/// Limits of the queue pairs of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuePairLimits {
    pub(super) depth: u32,
    /// Number of the library's requests: more than the depth, if the device makes requests of its
    /// own.
    pub(super) requests: u32,
    pub(super) pieces: u32,
    pub(super) inline: u32,
    pub(super) reads: u8,
}

/// One end of a connection.
pub(super) struct QueuePair {
    // Before its identifier, which the connection manager requires to be destroyed last.
    pair: VerbsObject<ibv::ibv_qp>,
    /// The identifier in the connection manager.
    pub(super) id: Option<VerbsObject<ibv::rdma_cm_id>>,
    pub(super) peer: u32,
    pub(super) window: RequestWindow,
    pub(super) readiness: QueuePairState,
    /// Whether a failure was reported, or this side has closed the connection.
    pub(super) failed: bool,
    /// The index of the word in which it is greeted, on iWARP only.
    pub(super) greeting: Option<u32>,
    /// The order of its requests, on iWARP only.
    pub(super) order: Option<RequestOrder>,
    /// Number of checks for the peer's greeting.
    pub(super) looks: u32,
    /// Number of times that it has asked the peer for a connection.
    pub(super) asked: u32,
    first_packet: u32,
}

/// The state of an end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum QueuePairState {
    /// Created, and not connected.
    Open,
    /// The connection manager is connecting it to the peer's end at `to`.
    Joining { to: IwarpAddress },
    /// It asked for the connection, which is established, and it greets the peer.
    Greeting,
    /// The peer asked for the connection, and is to greet this end.
    Accepted,
    /// It could not be connected.
    Failed(HcaError),
    /// The connection has ended, and requests in flight are to be completed.
    Ended,
    /// Requests can be posted.
    Ready,
    /// A request failed, or the peer closed the connection.
    Broken,
}

/// The objects that all ends of a device share.
#[derive(Clone, Copy)]
pub(super) struct SharedResources {
    pub(super) domain: *mut ibv::ibv_pd,
    pub(super) completions: *mut ibv::ibv_cq,
    pub(super) receives: *mut ibv::ibv_srq,
}

/// Makes a queue pair. Returns it with the inline length that the device grants, in bytes.
///
/// # Safety
///
/// The objects of `shared` are live, and outlive the pair.
pub(super) unsafe fn make_pair(
    shared: SharedResources,
    limits: QueuePairLimits,
) -> Result<(VerbsObject<ibv::ibv_qp>, u32), OpenError> {
    // SAFETY: the structure consists of integers and pointers, for which zero is a valid value.
    let mut wanted: ibv::ibv_qp_init_attr = unsafe { mem::zeroed() };
    wanted.send_cq = shared.completions;
    wanted.recv_cq = shared.completions;
    wanted.srq = shared.receives;
    wanted.qp_type = ibv::ibv_qp_type::IBV_QPT_RC;
    wanted.cap.max_send_wr = limits.requests;
    wanted.cap.max_send_sge = limits.pieces;
    wanted.cap.max_inline_data = limits.inline;
    // SAFETY: the caller guarantees that the objects of `shared` are live and outlive the pair
    // (contract of `make_pair`). `raw` is the only handle to the pair.
    let pair = unsafe {
        let raw = ibv::ibv_create_qp(shared.domain, &raw mut wanted);
        VerbsObject::new("making a queue pair", raw, ibv::ibv_destroy_qp)?
    };
    Ok((pair, wanted.cap.max_inline_data))
}

impl QueuePair {
    /// Makes an end for `peer`, ready to be connected.
    ///
    /// # Safety
    ///
    /// The objects of `shared` are live, and outlive the end.
    pub(super) unsafe fn new(
        device: &OpenedDevice,
        shared: SharedResources,
        limits: QueuePairLimits,
        peer: u32,
        random: u32,
    ) -> Result<Self, HcaError> {
        // SAFETY: the caller guarantees that the objects of `shared` are live and outlive the end
        // (contract of `new`).
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
            window: RequestWindow::new(limits.depth),
            readiness: QueuePairState::Open,
            failed: false,
            greeting: None,
            order: None,
            looks: 0,
            asked: 0,
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

    /// Returns the library's handle, which is valid as long as `self`.
    pub(super) fn pair(&self) -> *mut ibv::ibv_qp {
        self.pair.as_ptr()
    }

    /// Returns the queue pair number, which completions contain.
    pub(super) fn number(&self) -> u32 {
        // SAFETY: the pair is live, and its number does not change.
        unsafe { (*self.pair()).qp_num }
    }

    /// Returns the address of this end for peers on InfiniBand or RoCE.
    pub(super) fn place(&self, device: &OpenedDevice, limits: QueuePairLimits) -> QueuePairAddress {
        let gid = match device.port.link {
            PortLink::InfiniBand { gid, .. }
            | PortLink::Ethernet { gid, .. }
            | PortLink::Iwarp { gid } => gid,
        };
        QueuePairAddress {
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
        device: &OpenedDevice,
        limits: QueuePairLimits,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        let peer =
            QueuePairAddress::parse(address).ok_or(HcaError::Unreachable { peer: self.peer })?;
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
        // Only this step uses the peer's address: the kernel resolves the next hop.
        self.modify(&mut receiving, given).map_err(|error| match error {
            HcaError::Device { code } => {
                HcaError::Connect { peer: self.peer, step: ConnectStep::Local, code }
            }
            other => other,
        })?;

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
        self.readiness = QueuePairState::Ready;
        Ok(Readiness::Ready)
    }

    /// Passes on waiting requests that may start now, after a request has completed.
    pub(super) fn go_on(&mut self) {
        let pair = self.pair();
        let is_ready = self.readiness == QueuePairState::Ready;
        let Some(order) = self.order.as_mut().filter(|_| is_ready) else { return };
        // SAFETY: the pair is live. The memory of a waiting request stays valid until the request
        // completes (contract of `Hca::post`).
        if order.go_on(|raw| unsafe { order::send(pair, raw) }) != 0 {
            self.readiness = QueuePairState::Ended;
        }
    }

    /// Records that a request failed. On iWARP, not every other request then completes by itself:
    /// neither those that wait here, nor those that the kernel's driver took after the failure.
    /// [`super::Verbs::finish_ended`] completes them.
    pub(super) fn break_down(&mut self) {
        self.readiness =
            if self.order.is_some() { QueuePairState::Ended } else { QueuePairState::Broken };
    }

    /// Stops the pair: posted requests complete as flushed.
    pub(super) fn stop(&mut self) {
        self.readiness = QueuePairState::Broken;
        let mut attributes = self.attributes(state::IBV_QPS_ERR);
        // If even this fails, the pair is about to be destroyed.
        let _ = self.modify(&mut attributes, mask::IBV_QP_STATE);
    }

    /// Returns the error of a request that was flushed on iWARP. If no request of this side had
    /// failed, the first is `Unreachable`: the other side has ended the connection, and no more is
    /// known.
    pub(super) fn flushed(&mut self) -> WorkError {
        match mem::replace(&mut self.failed, true) {
            false => WorkError::Unreachable,
            true => WorkError::Flushed,
        }
    }

    fn attributes(&self, state: state::Type) -> ibv::ibv_qp_attr {
        // SAFETY: the structure consists of integers, for which zero is a valid value.
        let mut attributes: ibv::ibv_qp_attr = unsafe { mem::zeroed() };
        attributes.qp_state = state;
        attributes
    }

    fn modify(&self, attributes: &mut ibv::ibv_qp_attr, given: mask) -> Result<(), HcaError> {
        // SAFETY: the pair is live, and the library reads a structure of this type.
        checked(unsafe { ibv::ibv_modify_qp(self.pair(), attributes, given.0 as i32) })
    }
}

/// Returns the access that connections permit to peers. Each region restricts the access to itself.
fn allowed(device: &OpenedDevice) -> ibv::ibv_access_flags {
    let flags = ibv::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
        | ibv::ibv_access_flags::IBV_ACCESS_REMOTE_READ;
    match device.atomics() {
        Atomics::None => flags,
        _ => flags | ibv::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC,
    }
}

/// Returns the route from `device` to `peer`.
fn route(device: &OpenedDevice, peer: &QueuePairAddress) -> ibv::ibv_ah_attr {
    // SAFETY: the structure consists of integers, for which zero is a valid value.
    let mut route: ibv::ibv_ah_attr = unsafe { mem::zeroed() };
    route.port_num = device.port.number;
    route.dlid = peer.lid;
    let (global, index) = match device.port.link {
        PortLink::Ethernet { index, .. } => (true, index),
        // Within one subnet the LID is enough. The first half of a global identifier is the
        // subnet's prefix.
        PortLink::InfiniBand { gid, index } => (gid[..8] != peer.gid[..8], index),
        // The connection manager resolves the route.
        PortLink::Iwarp { .. } => (false, 0),
    };
    if global {
        route.is_global = 1;
        route.grh.dgid = ibv::ibv_gid { raw: peer.gid };
        route.grh.sgid_index = index;
        route.grh.hop_limit = HOPS;
    }
    route
}
