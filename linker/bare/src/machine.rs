//! The machine: a serial port, the way out, and the second processor.

use core::arch::{asm, global_asm};
use core::ffi::CStr;
use core::fmt::{self, Write as _};
use core::ptr::{self, with_exposed_provenance, with_exposed_provenance_mut};

use strait_core::sync::spin_hint;

global_asm!(include_str!("boot.s"));

/// How a run ends: what is written to the exit device. QEMU's status is twice that plus one, so that it is never the zero of a
/// machine that has reset itself.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Verdict {
    Passed = 0x10,
    Failed = 0x11,
}

const SERIAL: u16 = 0x3f8;
const EXIT: u16 = 0xf4;
/// A write to it takes about a microsecond, and does nothing else.
const DELAY: u16 = 0x80;

fn write_port(port: u16, value: u8) {
    // SAFETY: the callers' ports change no memory.
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

/// Ends the machine.
pub(crate) fn exit(verdict: Verdict) -> ! {
    // SAFETY: the exit device ends the machine; one without it waits for its watchdog.
    unsafe {
        asm!("out dx, eax", in("dx") EXIT, in("eax") verdict as u32, options(nomem, nostack));
    }
    loop {
        spin_hint();
    }
}

/// The words that the image was started with. `start_info` is what the boot protocol gave.
pub(crate) fn words(start_info: usize) -> &'static str {
    /// Where the address of the command line stands in `hvm_start_info`.
    const COMMAND_LINE: usize = 24;
    let place = with_exposed_provenance::<u64>(start_info + COMMAND_LINE);
    // SAFETY: QEMU put the start information, and the command line that ends with a zero, into memory that nobody else uses.
    let line = unsafe {
        match place.read() as usize {
            0 => c"",
            address => CStr::from_ptr(with_exposed_provenance(address)),
        }
    };
    line.to_str().unwrap_or("")
}

/// Has the second processor begin at `wake`.
pub(crate) fn start_second_processor() {
    unsafe extern "C" {
        static wake: u8;
        static wake_end: u8;
    }
    /// A page below 1 MiB that nothing else uses; its number is the vector.
    const LOW: usize = 0x8000;
    const INIT: u32 = 0x4500;
    const STARTUP: u32 = 0x4600 | (LOW >> 12) as u32;
    /// The interrupt controller's command register, and the number of the processor that it is for.
    const COMMAND: usize = 0xfee0_0300;
    const TARGET: usize = 0xfee0_0310;

    // SAFETY: the symbols are the two ends of the code in `boot.s`; the page is ordinary memory, mapped and ours.
    unsafe {
        let (from, end) = (&raw const wake, &raw const wake_end);
        let length = end.addr() - from.addr();
        ptr::copy_nonoverlapping(from, with_exposed_provenance_mut(LOW), length);
    }
    let command = |what: u32, microseconds: u32| {
        // SAFETY: the registers are mapped, and nobody else writes them.
        unsafe {
            with_exposed_provenance_mut::<u32>(TARGET).write_volatile(1 << 24);
            with_exposed_provenance_mut::<u32>(COMMAND).write_volatile(what);
        }
        (0..microseconds).for_each(|_| write_port(DELAY, 0));
    };
    command(INIT, 10_000);
    // Twice, as Intel's manual has it (volume 3, §9.4.4): a processor that is awake takes no notice of the second.
    command(STARTUP, 200);
    command(STARTUP, 200);
}
