//! The connection manager, through which alone iWARP connects.

use core::ffi::{CStr, c_int};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ptr;
use std::fs;

use rdma_mummy_sys as ibv;

use super::OpenError;
use super::device::name_of;
use super::owned::Owned;

/// The manager's handle to the device of this name. It stays open as long as the process lives.
pub(super) fn context_of(name: &str) -> Result<Owned<ibv::ibv_context>, OpenError> {
    unsafe extern "C" fn keep(_: *mut ibv::ibv_context) -> c_int {
        0
    }
    let mut count: c_int = 0;
    // SAFETY: the library writes one integer.
    let list = unsafe { ibv::rdma_get_devices(&raw mut count) };
    if list.is_null() {
        return Err(OpenError::last("asking the connection manager for its devices"));
    }
    // SAFETY: the library returned a list of so many live contexts.
    let contexts = unsafe { core::slice::from_raw_parts(list, count as usize) };
    // SAFETY: each context has a device.
    let found = contexts.iter().find(|context| name_of(unsafe { (***context).device }) == name);
    let context = found.copied().unwrap_or(ptr::null_mut());
    // SAFETY: the list is the library's, and freed once. The contexts are kept by the manager itself.
    unsafe { ibv::rdma_free_devices(list) };
    // SAFETY: the manager keeps its contexts open, and this owner ends none.
    unsafe { Owned::new("finding it in the connection manager", context, keep) }
}

/// An address of the network interface below a port.
pub(super) fn ip_of(name: &str, port: u8) -> Option<IpAddr> {
    let path = format!("/sys/class/infiniband/{name}/ports/{port}/gid_attrs/ndevs/0");
    let interface = fs::read_to_string(path).ok()?;
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the library writes one pointer, to a list that is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: an entry of the list, which lives until it is freed.
        let entry = unsafe { &*next };
        // SAFETY: each entry has a name.
        let of = unsafe { CStr::from_ptr(entry.ifa_name) };
        if of.to_str() == Ok(interface.trim()) && !entry.ifa_addr.is_null() {
            // SAFETY: an address of an entry, of the family that it says.
            found.extend(unsafe { ip(entry.ifa_addr) });
        }
        next = entry.ifa_next;
    }
    // SAFETY: the list is the library's, and freed once.
    unsafe { libc::freeifaddrs(list) };
    // An address of the link alone would need the interface's number at the peer.
    found.retain(|ip| !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local()));
    found.sort();
    found.first().copied()
}

/// The address in a socket's address.
///
/// # Safety
///
/// `address` points to one, as long as its family says.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: by the contract the memory is that of an address of this family.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let address = &*address.cast::<libc::sockaddr_in>();
                Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let address = &*address.cast::<libc::sockaddr_in6>();
                Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}
