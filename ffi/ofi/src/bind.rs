//! The functions that an endpoint has like every object: `fi_ep_bind` and `fi_control`.

use core::ffi::{c_int, c_void};

use crate::abi::{EpFid, FiStatus, FidArg, class, command, errno, flag};
use crate::av::Av;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::endpoint::FidEp;
use crate::object::{Object, as_class};

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for FidEp {
    type Class = EpFid;
    const CLASS: usize = class::EP;
    const BIND: extern "C" fn(FidArg<'_>, Option<FidArg<'_>>, u64) -> FiStatus = bind;
    const CONTROL: extern "C" fn(FidArg<'_>, c_int, *mut c_void) -> FiStatus = control;
}

/// Binds a completion queue, a counter or an address vector. An event queue never has an event, so
/// it needs no work.
extern "C" fn bind(endpoint: FidArg<'_>, other: Option<FidArg<'_>>, flags: u64) -> FiStatus {
    let (Some(this), Some(other)) = (as_class::<FidEp>(endpoint), other) else {
        return -errno::EINVAL;
    };
    if let Some(cq) = as_class::<Cq>(other) {
        this.bind_queue(cq.project(Cq::entries), flags);
        this.join(cq.project(Cq::endpoints));
    } else if let Some(counter) = as_class::<Cntr>(other) {
        this.bind_counter(counter.project(Cntr::counts), flags);
        this.join(counter.project(Cntr::endpoints));
    } else if let Some(av) = as_class::<Av>(other) {
        return this.bind_av(av).err().unwrap_or(0);
    }
    0
}

extern "C" fn control(endpoint: FidArg<'_>, what: c_int, argument: *mut c_void) -> FiStatus {
    let Some(this) = as_class::<FidEp>(endpoint) else { return -errno::EINVAL };
    match what {
        command::ENABLE if !this.has_av() => -errno::ENOAV,
        command::ENABLE => 0,
        command::GETOPSFLAG | command::SETOPSFLAG => {
            // SAFETY: the argument of these commands is null or a number.
            let Some(flags) = (unsafe { argument.cast::<u64>().as_mut() }) else {
                return -errno::EINVAL;
            };
            let (sends, receives) = (*flags & flag::SEND != 0, *flags & flag::RECV != 0);
            if sends == receives {
                return -errno::EINVAL;
            }
            let op_flags = this.op_flags(sends);
            if what == command::SETOPSFLAG {
                op_flags.set(*flags & !(flag::SEND | flag::RECV));
            } else {
                *flags = op_flags.get();
            }
            0
        }
        _ => -errno::ENOSYS,
    }
}
