//! Runs a virtual machine from its start to its end.

use core::time::Duration;
use std::fs::{self, File};
use std::path::Path;
use std::process::ExitStatus;

use wait_timeout::ChildExt as _;

use crate::shell::{Shell, Step};
use crate::stop::Stop;

/// Two processors, a serial port, and a device with which the guest ends the machine. The machine
/// is emulated, because hosts do not always offer virtualization, and these tests do not measure
/// speed.
const MACHINE: &str = "-accel tcg,thread=multi -machine q35 -cpu max -smp 2 -nodefaults \
                       -no-user-config -nic none -display none -serial stdio -no-reboot \
                       -device isa-debug-exit,iobase=0xf4,iosize=0x04";

/// A machine that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit status; `None` if the watchdog ended it.
    pub(crate) status: Option<ExitStatus>,
    /// The output of the guest.
    pub(crate) said: String,
}

/// Returns a QEMU command, to which the caller adds the memory size and the image.
pub(crate) fn machine(shell: &Shell) -> Step<'_> {
    shell.step("qemu-system-x86_64", MACHINE)
}

/// Runs `machine`, for at most the time of `watchdog`. The output of the guest goes to `log`.
pub(crate) fn run(machine: Step<'_>, log: &Path, watchdog: Duration) -> Result<Ended, Stop> {
    let io = |error| Stop::io(log, &error);
    let file = File::create(log).map_err(io)?;
    let mut guest = machine
        .spawn_into(file)
        .map_err(|error| Stop::Failed(format!("the virtual machine did not start: {error}")))?;
    let status = guest.wait_timeout(watchdog).map_err(io)?;
    if status.is_none() {
        let _ = guest.kill();
        let _ = guest.wait();
    }
    let said = fs::read(log).map_err(io)?;
    Ok(Ended { status, said: String::from_utf8_lossy(&said).replace('\r', "") })
}
