//! The machine: a serial port, the exit device, and the second processor.

use core::arch::{asm, global_asm};
use core::ffi::CStr;
use core::fmt::{self, Write as _};
use core::ptr::{self, with_exposed_provenance, with_exposed_provenance_mut};

use strait_core::sync::spin_hint;

global_asm!(include_str!("boot.s"));

/// The result of a run, as written to the exit device. QEMU's status is twice that value plus one,
/// so it is never zero, the status of a machine that has reset itself.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum BootVerdict {
    Passed = 0x10,
    Failed = 0x11,
}

const SERIAL: u16 = 0x3f8;
const EXIT: u16 = 0xf4;
/// Port with no effect; a write to it takes about a microsecond.
const DELAY: u16 = 0x80;

fn write_port(port: u16, value: u8) {
    // SAFETY: writes to the callers' ports change no memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack)) };
}

/// The serial port.
struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| write_port(SERIAL, byte));
        Ok(())
    }
}

/// Prints a line.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _ = Serial.write_fmt(line);
    let _ = Serial.write_char('\n');
}

/// Stops the machine.
pub(crate) fn exit(verdict: BootVerdict) -> ! {
    // SAFETY: the exit device stops the machine. A machine without that device loops until its
    // watchdog acts.
    unsafe {
        asm!("out dx, eax", in("dx") EXIT, in("eax") verdict as u32, options(nomem, nostack));
    }
    loop {
        spin_hint();
    }
}

/// Returns the words of the command line. `start_info` comes from the boot protocol.
pub(crate) fn words(start_info: usize) -> &'static str {
    /// Offset of the command line's address in `hvm_start_info`.
    const COMMAND_LINE: usize = 24;
    let place = with_exposed_provenance::<u64>(start_info + COMMAND_LINE);
    // SAFETY: QEMU put the start information and the zero-terminated command line into memory that
    // nothing else uses.
    let line = unsafe {
        match place.read() as usize {
            0 => c"",
            address => CStr::from_ptr(with_exposed_provenance(address)),
        }
    };
    line.to_str().unwrap_or("")
}

/// Starts the second processor at `wake`.
pub(crate) fn start_second_processor() {
    unsafe extern "C" {
        static wake: u8;
        static wake_end: u8;
    }
    /// A page below 1 MiB that nothing else uses; its number is the vector.
    const LOW: usize = 0x8000;
    const INIT: u32 = 0x4500;
    const STARTUP: u32 = 0x4600 | (LOW >> 12) as u32;
    /// Address of the interrupt controller's command register, and of the register with the target
    /// processor's number.
    const COMMAND: usize = 0xfee0_0300;
    const TARGET: usize = 0xfee0_0310;

    // SAFETY: the symbols are the two ends of the code in `boot.s`. The page is ordinary mapped
    // memory with no other user.
    unsafe {
        let (from, end) = (&raw const wake, &raw const wake_end);
        let length = end.addr() - from.addr();
        ptr::copy_nonoverlapping(from, with_exposed_provenance_mut(LOW), length);
    }
    let command = |what: u32, microseconds: u32| {
        // SAFETY: the registers are mapped, and nothing else writes them.
        unsafe {
            with_exposed_provenance_mut::<u32>(TARGET).write_volatile(1 << 24);
            with_exposed_provenance_mut::<u32>(COMMAND).write_volatile(what);
        }
        (0..microseconds).for_each(|_| write_port(DELAY, 0));
    };
    command(INIT, 10_000);
    // Intel's manual requires two (volume 3, §9.4.4): a processor that is awake ignores the second.
    command(STARTUP, 200);
    command(STARTUP, 200);
}
