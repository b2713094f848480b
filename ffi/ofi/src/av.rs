//! Address vectors: the processes behind libfabric's addresses, which are places in a table.

use core::cell::RefCell;
use core::ffi::{c_char, c_void};

use strait::port::Contact;

use crate::abi::{ADDR_UNSPEC, AvAttr, FiAddr, Fid, OpsAv, Status, absent, class, errno, flag};
use crate::domain::{Domain, failed};
use crate::endpoint::Endpoint;
use crate::object::{self, Object};
use crate::wire::Name;

/// An address vector.
#[repr(C)]
pub(crate) struct Av {
    fid: Fid,
    ops: *const OpsAv,
    domain: *const Domain,
    /// The numbers by which this process knows those that were inserted, or [`REMOVED`].
    numbers: RefCell<Vec<u32>>,
    /// Their names.
    names: RefCell<Vec<Name>>,
    /// Bound to it.
    endpoints: RefCell<Vec<*const Endpoint>>,
}

/// Nobody's number.
const REMOVED: u32 = u32::MAX;

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Av {
    const CLASS: usize = class::AV;
}

impl Av {
    /// The number of the process at `address`.
    #[inline(always)]
    pub(crate) fn rank(&self, address: FiAddr) -> Option<u32> {
        let numbers = self.numbers.borrow();
        numbers.get(address as usize).copied().filter(|number| *number != REMOVED)
    }

    /// The first address of a process, by its number.
    pub(crate) fn address_of(&self, number: u32) -> FiAddr {
        let place = self.numbers.borrow().iter().position(|inserted| *inserted == number);
        place.map_or(ADDR_UNSPEC, |place| place as FiAddr)
    }

    /// Binds an endpoint, which meets all processes that are here, and those that will be.
    ///
    /// # Errors
    ///
    /// One of libfabric's: the endpoint has no way to a process elsewhere.
    pub(crate) fn attach(&self, endpoint: &Endpoint) -> Result<(), Status> {
        let numbers = self.numbers.borrow();
        let mut there = numbers.iter().filter(|number| **number != REMOVED);
        there.try_for_each(|number| endpoint.meet(*number))?;
        self.endpoints.borrow_mut().push(endpoint);
        Ok(())
    }

    /// Forgets an endpoint, which is about to go.
    pub(crate) fn detach(&self, endpoint: *const Endpoint) {
        self.endpoints.borrow_mut().retain(|bound| *bound != endpoint);
    }

    /// Takes in a name; `None` when no process can be reached that has it.
    fn insert(&self, bytes: &[u8; Name::BYTES]) -> Option<FiAddr> {
        let name = Name::parse(bytes)?;
        // SAFETY: a domain outlives what was made in it.
        let universe = unsafe { &*self.domain }.universe();
        let number = universe.number(name.contact).map_err(|error| failed(&error)).ok()?;
        for endpoint in self.endpoints.borrow().iter() {
            // SAFETY: it is open, or it would have detached itself.
            unsafe { &**endpoint }.meet(number).ok()?;
        }
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

/// Opens an address vector in `domain`.
///
/// # Safety
///
/// libfabric's, of `fi_av_open`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut Fid,
    attr: *mut AvAttr,
    av: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    // SAFETY: by the contract.
    let (domain, attr) = unsafe { (Domain::of(domain), attr.as_mut()) };
    if let Some(attr) = attr {
        if !attr.name.is_null() || attr.flags & flag::EVENT != 0 {
            return -errno::ENOSYS;
        }
        attr.kind = 2;
    }
    let fid = object::fid::<Av>(context);
    let (numbers, names) = (RefCell::default(), RefCell::default());
    let endpoints = RefCell::default();
    let made = Av { fid, ops: &raw const OPS, domain, numbers, names, endpoints };
    // SAFETY: by the contract.
    unsafe { object::hand_out(made, av) }
}

unsafe extern "C" fn insert(
    av: *mut Fid,
    names: *const c_void,
    count: usize,
    addresses: *mut FiAddr,
    _flags: u64,
    _context: *mut c_void,
) -> Status {
    // SAFETY: by libfabric's contract.
    let av = unsafe { Av::of(av) };
    // SAFETY: a domain outlives what was made in it.
    let _turn = unsafe { &*av.domain }.enter();
    let mut inserted = 0;
    for place in 0..count {
        // SAFETY: by libfabric's contract there are `count` names, and room for as many addresses if for any.
        unsafe {
            let address = av.insert(&*names.cast::<[u8; Name::BYTES]>().add(place));
            inserted += i32::from(address.is_some());
            if !addresses.is_null() {
                addresses.add(place).write(address.unwrap_or(ADDR_UNSPEC));
            }
        }
    }
    inserted
}

unsafe extern "C" fn remove(
    av: *mut Fid,
    addresses: *mut FiAddr,
    count: usize,
    _flags: u64,
) -> Status {
    // SAFETY: by libfabric's contract.
    let av = unsafe { Av::of(av) };
    // SAFETY: a domain outlives what was made in it.
    let _turn = unsafe { &*av.domain }.enter();
    let mut numbers = av.numbers.borrow_mut();
    for place in 0..count {
        // SAFETY: by libfabric's contract there are `count` addresses.
        let address = unsafe { addresses.add(place).read() };
        match numbers.get_mut(address as usize) {
            Some(number) => *number = REMOVED,
            None => return -errno::EINVAL,
        }
    }
    0
}

unsafe extern "C" fn lookup(
    av: *mut Fid,
    address: FiAddr,
    name: *mut c_void,
    length: *mut usize,
) -> Status {
    // SAFETY: by libfabric's contract.
    let av = unsafe { Av::of(av) };
    let found = av.rank(address).and_then(|_| av.names.borrow().get(address as usize).copied());
    let Some(found) = found else { return -errno::EINVAL };
    // SAFETY: by libfabric's contract.
    unsafe { give_name(found, name, length) };
    0
}

/// Writes a name, as much as has room, and its length. Says whether all of it had.
///
/// # Safety
///
/// `to` has room for `*length` bytes.
pub(crate) unsafe fn give_name(name: Name, to: *mut c_void, length: *mut usize) -> bool {
    // SAFETY: by the contract.
    unsafe {
        let room = length.read();
        let count = room.min(Name::BYTES);
        to.cast::<u8>().copy_from_nonoverlapping(name.bytes().as_ptr(), count);
        length.write(Name::BYTES);
        room >= Name::BYTES
    }
}

unsafe extern "C" fn straddr(
    _av: *mut Fid,
    name: *const c_void,
    buffer: *mut c_char,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: by libfabric's contract.
    let found = Name::parse(unsafe { &*name.cast() });
    let text = found.map_or_else(String::new, |Name { pid, contact }| {
        let Contact { nonce, rank, address, .. } = contact;
        let host = address.map_or_else(String::new, |address| format!("{address}/"));
        format!("fi_strait://{host}{nonce:016x}/{rank}?pid={pid}")
    });
    // SAFETY: by libfabric's contract the buffer has this length.
    unsafe {
        let room = length.read();
        let count = text.len().min(room.saturating_sub(1));
        if room > 0 {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), count);
            buffer.add(count).write(0);
        }
        length.write(text.len() + 1);
    }
    buffer
}
