//! Finds a device, and the port and the global identifier to use.

use core::ffi::{CStr, c_int};
use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::net::Ipv6Addr;
use core::ptr::NonNull;
use core::slice;

use rdma_mummy_sys as ibv;
use rdma_mummy_sys::ibv_access_flags as may;
use strait_core::hca::{Access, Atomics};

use super::manager::ConnectionManager;
use super::owned::VerbsObject;
use super::{OpenError, VerbsConfig};

/// `IBV_LINK_LAYER_ETHERNET`, which the C header defines in an enumeration without a name.
const ETHERNET: u8 = 2;

/// The vendor ids of soft RoCE and soft iWARP, drivers of the kernel that need no card.
const SOFTWARE: [u32; 2] = [0x00ff_ffff, 0x0062_6d74];

/// An open device, and the attributes that it reports.
pub(super) struct OpenedDevice {
    pub(super) context: VerbsObject<ibv::ibv_context>,
    pub(super) name: String,
    pub(super) attributes: ibv::ibv_device_attr,
    pub(super) port: HcaPort,
    /// The connection manager, on iWARP only.
    pub(super) manager: Option<ConnectionManager>,
}

/// The port of a device that is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct HcaPort {
    pub(super) number: u8,
    pub(super) lid: u16,
    /// Code of the longest packet.
    pub(super) mtu: u8,
    /// Longest message, bytes.
    pub(super) message: u32,
    pub(super) link: PortLink,
}

/// The network of a port, and the port's address there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PortLink {
    /// InfiniBand. Peers use the LID, or from other subnets the global identifier at this index of
    /// the port's table.
    InfiniBand { gid: [u8; 16], index: u8 },
    /// RoCE. Peers use the global identifier at this index of the port's table.
    Ethernet { gid: [u8; 16], index: u8 },
    /// iWARP. The connection manager listens at this IP address.
    Iwarp { gid: [u8; 16] },
}

impl fmt::Display for PortLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, gid) = match self {
            Self::InfiniBand { gid, .. } => ("InfiniBand", gid),
            Self::Ethernet { gid, .. } => ("RoCE", gid),
            Self::Iwarp { gid } => ("iWARP", gid),
        };
        write!(f, "{kind} at {}", Ipv6Addr::from(*gid).to_canonical())
    }
}

impl OpenedDevice {
    /// Opens the requested device, or else the first usable device.
    pub(super) fn open(config: &VerbsConfig) -> Result<Self, OpenError> {
        let (list, name) = (DeviceList::new()?, config.device.as_deref());
        let wanted = |device: &ListedDevice<'_>| name.is_none_or(|name| device.name() == name);
        let mut why = None;
        for device in list.devices().filter(wanted) {
            match Self::open_one(device, config) {
                Ok(device) => return Ok(device),
                Err(error) => why = why.or(Some(error)),
            }
        }
        Err(why.unwrap_or_else(|| match name {
            Some(name) => OpenError::Unknown { name: name.to_owned(), found: list.names() },
            None => OpenError::NoDevice,
        }))
    }

    fn open_one(device: ListedDevice<'_>, config: &VerbsConfig) -> Result<Self, OpenError> {
        let name = device.name();
        let manager = if device.is_iwarp() { Some(ConnectionManager::new(&name)?) } else { None };
        let raw = device.raw.as_ptr();
        // SAFETY: a listed device is valid. The context is the first object made of the device, and
        // its owner is dropped last.
        let context = unsafe {
            VerbsObject::new("opening it", ibv::ibv_open_device(raw), ibv::ibv_close_device)?
        };
        // SAFETY: the structure consists of integers, for which zero is a valid value.
        let mut attributes: ibv::ibv_device_attr = unsafe { mem::zeroed() };
        // SAFETY: the context is open, and the library writes a structure of this type.
        if unsafe { ibv::ibv_query_device(context.as_ptr(), &raw mut attributes) } != 0 {
            return Err(OpenError::last("asking for its limits"));
        }
        let VerbsConfig { port, gid, .. } = *config;
        let wanted = |number: &u8| port.is_none_or(|port| port == *number);
        let mut ports = (1..=attributes.phys_port_cnt).filter(wanted).filter_map(|number| {
            let attributes = query_port(&context, number)?;
            let link = match &manager {
                Some(manager) => manager.link(number)?,
                None => link(&context, number, &attributes, gid)?,
            };
            let (lid, message) = (attributes.lid, attributes.max_msg_sz);
            Some(HcaPort { number, lid, mtu: attributes.active_mtu as u8, message, link })
        });
        let port =
            ports.next().ok_or_else(|| OpenError::NoPort { name: name.clone(), port, gid })?;
        Ok(Self { context, name, attributes, port, manager })
    }

    /// Returns whether threads of the kernel do the work of a card.
    pub(super) fn is_software(&self) -> bool {
        SOFTWARE.contains(&self.attributes.vendor_id)
    }

    /// Returns the atomics that the device reports.
    pub(super) fn atomics(&self) -> Atomics {
        match self.attributes.atomic_cap {
            ibv::ibv_atomic_cap::IBV_ATOMIC_HCA => Atomics::Hca,
            ibv::ibv_atomic_cap::IBV_ATOMIC_GLOB => Atomics::Coherent,
            _ => Atomics::None,
        }
    }
}

/// Returns the attributes of a port, if the port is up.
fn query_port(context: &VerbsObject<ibv::ibv_context>, number: u8) -> Option<ibv::ibv_port_attr> {
    // SAFETY: the structure consists of integers, for which zero is a valid value.
    let mut port: ibv::ibv_port_attr = unsafe { mem::zeroed() };
    // SAFETY: the context is open, and the library writes a structure of this type.
    let asked = unsafe { ibv::ibv_query_port(context.as_ptr(), number, &raw mut port) };
    (asked == 0 && port.state == ibv::ibv_port_state::IBV_PORT_ACTIVE).then_some(port)
}

fn link(
    context: &VerbsObject<ibv::ibv_context>,
    port: u8,
    attributes: &ibv::ibv_port_attr,
    wanted: Option<u8>,
) -> Option<PortLink> {
    // SAFETY: the structure consists of integers, for which zero is a valid value.
    let empty: ibv::ibv_gid_entry = unsafe { mem::zeroed() };
    let mut table = vec![empty; usize::try_from(attributes.gid_tbl_len).unwrap_or(0).max(1)];
    // SAFETY: the context is open, and the library writes at most `table.len()` entries.
    let count =
        unsafe { ibv::ibv_query_gid_table(context.as_ptr(), table.as_mut_ptr(), table.len(), 0) };
    table.truncate(usize::try_from(count).unwrap_or(0));
    let gids = table.iter().filter(|entry| entry.port_num == u32::from(port)).map(|entry| Gid {
        index: entry.gid_index,
        routable: entry.gid_type == ibv::IBV_GID_TYPE_ROCE_V2,
        // SAFETY: all 16 bytes of the union are integers, and every entry is initialised.
        raw: unsafe { entry.gid.raw },
    });
    let gids = gids.filter(|gid| wanted.is_none_or(|wanted| gid.index == wanted.into()));
    let is_ethernet = attributes.link_layer == ETHERNET;
    let Gid { index, raw: gid, .. } = match is_ethernet {
        true => best(gids)?,
        false => gids.min_by_key(|gid| gid.index)?,
    };
    let index = u8::try_from(index).ok()?;
    Some(match is_ethernet {
        true => PortLink::Ethernet { gid, index },
        false => PortLink::InfiniBand { gid, index },
    })
}

/// An entry of a port's table of global identifiers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Gid {
    index: u32,
    /// Whether it is RoCE version 2, which travels over UDP.
    routable: bool,
    raw: [u8; 16],
}

/// Returns the entry with the widest reach. RoCE version 2 precedes version 1, then an IPv4 address
/// precedes an IPv6 address, and a link-local address comes last. Among equals it is the first.
fn best(gids: impl Iterator<Item = Gid>) -> Option<Gid> {
    let rank = |gid: &Gid| {
        let ip = Ipv6Addr::from(gid.raw);
        let reach =
            if ip.to_ipv4_mapped().is_some() { 2 } else { u8::from(!ip.is_unicast_link_local()) };
        (gid.routable, reach, core::cmp::Reverse(gid.index))
    };
    gids.max_by_key(rank)
}

/// Returns the library's flags for `access`.
pub(super) fn flags(access: Access, atomics: Atomics, is_iwarp: bool) -> may {
    let atomic = access.remote_atomic && atomics != Atomics::None;
    // On iWARP the answer to a read is a write of the peer.
    let answers = access.local_write && is_iwarp;
    let wanted = [
        // The library permits remote writes only with local write access.
        (access.local_write || access.remote_write || atomic, may::IBV_ACCESS_LOCAL_WRITE),
        (access.remote_read, may::IBV_ACCESS_REMOTE_READ),
        (access.remote_write || answers, may::IBV_ACCESS_REMOTE_WRITE),
        (atomic, may::IBV_ACCESS_REMOTE_ATOMIC),
    ];
    let set = wanted.into_iter().filter(|(set, _)| *set);
    set.fold(may(0), |flags, (_, flag)| flags | flag)
}

/// The devices of the system, as the library lists them.
pub(super) struct DeviceList {
    raw: *mut *mut ibv::ibv_device,
    count: usize,
}

impl DeviceList {
    pub(super) fn new() -> Result<Self, OpenError> {
        // The library returns null whether it is absent or refuses; only the error number differs.
        let mut count: c_int = 0;
        // SAFETY: the library writes one integer, which `count` is.
        let raw = unsafe { ibv::ibv_get_device_list(&raw mut count) };
        if raw.is_null() {
            return Err(match super::error::errno() {
                libc::EOPNOTSUPP => OpenError::Library,
                // The kernel has no RDMA support.
                libc::ENOSYS => OpenError::NoDevice,
                _ => OpenError::last("listing the RDMA devices"),
            });
        }
        Ok(Self { raw, count: usize::try_from(count).unwrap_or(0) })
    }

    fn devices(&self) -> impl Iterator<Item = ListedDevice<'_>> {
        // SAFETY: the library returned a list of `count` pointers, which stays until `drop` frees
        // it.
        let all = unsafe { slice::from_raw_parts(self.raw, self.count) };
        // SAFETY: the devices of a list are valid until the list is freed.
        all.iter().filter_map(|raw| unsafe { ListedDevice::new(*raw) })
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.devices().map(ListedDevice::name).collect()
    }
}

/// A device that the library keeps for at least the lifetime of this value: its list, or a context
/// made of it, is alive.
#[derive(Clone, Copy)]
pub(super) struct ListedDevice<'a> {
    raw: NonNull<ibv::ibv_device>,
    _keeper: PhantomData<&'a DeviceList>,
}

impl ListedDevice<'_> {
    /// Takes a device of the library. Returns `None` for null.
    ///
    /// # Safety
    ///
    /// Unless it is null, the device is valid as long as the returned value.
    pub(super) unsafe fn new(raw: *mut ibv::ibv_device) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self { raw, _keeper: PhantomData })
    }

    /// Returns the name of the device.
    pub(super) fn name(self) -> String {
        // SAFETY: the device is valid (contract of `new`), and the library keeps a string with each
        // device.
        let name = unsafe { CStr::from_ptr(ibv::ibv_get_device_name(self.raw.as_ptr())) };
        name.to_string_lossy().into_owned()
    }

    fn is_iwarp(self) -> bool {
        // SAFETY: the device is valid (contract of `new`).
        let transport = unsafe { (*self.raw.as_ptr()).transport_type };
        transport == ibv::ibv_transport_type::IBV_TRANSPORT_IWARP
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: the list came from the library, and is freed only here.
        unsafe { ibv::ibv_free_device_list(self.raw) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(index: u32, routable: bool, ip: &str) -> Gid {
        Gid { index, routable, raw: ip.parse::<Ipv6Addr>().unwrap().octets() }
    }

    #[test]
    fn the_identifier_with_the_widest_reach_is_taken() {
        let table = [
            gid(0, false, "fe80::1"),
            gid(1, true, "fe80::1"),
            gid(2, false, "::ffff:10.9.0.1"),
            gid(3, true, "2001:db8::1"),
            gid(4, true, "::ffff:10.9.0.1"),
            gid(5, true, "::ffff:10.9.0.2"),
        ];
        for (length, index) in [(6, 4), (4, 3), (3, 1), (1, 0)] {
            assert_eq!(best(table[..length].iter().copied()), Some(table[index]));
        }
        assert_eq!(best(core::iter::empty()), None);
    }
}
