//! Address vectors: tables of processes. An address of libfabric is an index into the table.

use core::cell::{Cell, RefCell};
use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;

use strait::port::PeerAddress;

use crate::abi::{
    ADDR_UNSPEC, AnswersArg, AvArg, AvAttr, AvFid, DomainArg, FiAddr, FiStatus, Fid, LengthArg,
    ListArg, MemoryArg, NAME_BYTES, NewArg, OpsAv, RoomArg, absent, class, errno, flag,
};
use crate::cause::failed;
use crate::domain::Domain;
use crate::endpoint_list::{EndpointList, OpenEndpoint};
use crate::object::{self, Object, ObjectRef};
use crate::wire::ProviderName;

/// An address vector.
#[repr(C)]
pub(crate) struct Av {
    fid: Fid,
    ops: *const OpsAv,
    domain: ObjectRef<Domain>,
    /// The numbers of the inserted processes in this process, or [`REMOVED`].
    numbers: RefCell<Vec<u32>>,
    /// The names of the inserted processes.
    names: RefCell<Vec<ProviderName>>,
    /// The endpoints that are bound to it.
    endpoints: EndpointList<dyn OpenEndpoint>,
}

/// A number that stands for no process.
const REMOVED: u32 = u32::MAX;

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Av {
    type Class = AvFid;
    const CLASS: usize = class::AV;
}

impl Av {
    /// Returns the number of the process at `address`.
    #[inline(always)]
    pub(crate) fn rank(&self, address: FiAddr) -> Option<u32> {
        let numbers = self.numbers.borrow();
        numbers.get(address as usize).copied().filter(|number| *number != REMOVED)
    }

    /// Returns the first address of the process with this number.
    pub(crate) fn address_of(&self, number: u32) -> FiAddr {
        let place = self.numbers.borrow().iter().position(|inserted| *inserted == number);
        place.map_or(ADDR_UNSPEC, |place| place as FiAddr)
    }

    /// Binds an endpoint, and connects it to all present and later processes of the table.
    ///
    /// # Errors
    ///
    /// One of libfabric's: the endpoint has no way to a process on another node.
    pub(crate) fn attach(&self, endpoint: ObjectRef<dyn OpenEndpoint>) -> Result<(), FiStatus> {
        let numbers = self.numbers.borrow();
        let mut there = numbers.iter().filter(|number| **number != REMOVED);
        there.try_for_each(|number| endpoint.meet(*number))?;
        self.endpoints.attach(endpoint);
        Ok(())
    }

    pub(crate) const fn endpoints(&self) -> &EndpointList<dyn OpenEndpoint> {
        &self.endpoints
    }

    /// Inserts a name. Returns `None` when no process with this name can be reached.
    fn insert(&self, bytes: &[u8; ProviderName::BYTES]) -> Option<FiAddr> {
        let name = ProviderName::parse(bytes)?;
        let universe = self.domain.universe();
        let number = universe.number(name.address).map_err(|error| failed(&error)).ok()?;
        self.endpoints.try_each(|endpoint| endpoint.meet(number)).ok()?;
        self.names.borrow_mut().push(name);
        let mut numbers = self.numbers.borrow_mut();
        numbers.push(number);
        Some(numbers.len() as FiAddr - 1)
    }
}

static OPS: OpsAv = OpsAv {
    size: size_of::<OpsAv>(),
    insert,
    insertsvc: absent,
    insertsym: absent,
    remove,
    lookup,
    straddr,
    av_set: absent,
};

/// Opens an address vector in `domain`, for `fi_av_open`.
pub(crate) extern "C" fn open(
    domain: DomainArg<'_>,
    attr: Option<&Cell<AvAttr>>,
    av: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    if let Some(attr) = attr {
        let asked = attr.get();
        if !asked.name.is_null() || asked.flags & flag::EVENT != 0 {
            return -errno::ENOSYS;
        }
        attr.set(AvAttr { kind: 2, ..asked });
    }
    let made = Av {
        fid: object::fid::<Av>(context),
        ops: &raw const OPS,
        domain: Domain::keep(domain),
        numbers: RefCell::default(),
        names: RefCell::default(),
        endpoints: EndpointList::default(),
    };
    object::hand_out(made, av)
}

extern "C" fn insert(
    av: AvArg<'_>,
    names: ListArg<'_, [u8; NAME_BYTES]>,
    count: LengthArg,
    addresses: AnswersArg<'_, FiAddr>,
    _flags: u64,
    _context: *mut c_void,
) -> FiStatus {
    let av = Av::of(av);
    let _turn = av.domain.enter();
    let addresses = addresses.slice(count);
    let mut inserted = 0;
    for (place, name) in names.slice(count).iter().enumerate() {
        let address = av.insert(name);
        inserted += i32::from(address.is_some());
        if let Some(wanted) = addresses.get(place) {
            wanted.set(MaybeUninit::new(address.unwrap_or(ADDR_UNSPEC)));
        }
    }
    inserted
}

extern "C" fn remove(
    av: AvArg<'_>,
    addresses: ListArg<'_, FiAddr>,
    count: LengthArg,
    _flags: u64,
) -> FiStatus {
    let av = Av::of(av);
    let _turn = av.domain.enter();
    let mut numbers = av.numbers.borrow_mut();
    for address in addresses.slice(count) {
        match numbers.get_mut(*address as usize) {
            Some(number) => *number = REMOVED,
            None => return -errno::EINVAL,
        }
    }
    0
}

extern "C" fn lookup(
    av: AvArg<'_>,
    address: FiAddr,
    name: MemoryArg,
    length: RoomArg<'_>,
) -> FiStatus {
    let av = Av::of(av);
    let found = av.rank(address).and_then(|_| av.names.borrow().get(address as usize).copied());
    let Some(found) = found else { return -errno::EINVAL };
    length.fill(name, &found.bytes());
    0
}

extern "C" fn straddr(
    _av: AvArg<'_>,
    name: Option<&[u8; NAME_BYTES]>,
    buffer: MemoryArg,
    length: RoomArg<'_>,
) -> *const c_char {
    let text = name.and_then(ProviderName::parse).map_or_else(
        String::new,
        |ProviderName { pid, address: peer_address }| {
            let PeerAddress { nonce, rank, address, .. } = peer_address;
            let host = address.map_or_else(String::new, |address| format!("{address}/"));
            format!("fi_strait://{host}{nonce:016x}/{rank}?pid={pid}")
        },
    );
    length.fill_text(buffer, &text);
    buffer.as_ptr().cast()
}
