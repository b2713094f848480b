//! Boots the virtual machine once: its input, its output and its exit status.

use core::time::Duration;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::image::{self, Image};
use crate::qemu::{self, Ended};
use crate::shell::Shell;
use crate::stop::Stop;

/// Time after which a guest that hangs is ended, unless its task gives another. It takes five
/// minutes, and twice as long on a slow machine. Two of them fit into the limit of a rung.
const WATCHDOG: Duration = Duration::from_secs(900);
/// The text with which `init` in the guest announces its status.
const STATUS: &str = "STRAIT-VM-EXIT:";
/// Process 1 of the guest.
const INIT: &str = include_str!("init");

/// The task of one boot.
pub(super) struct Task<'a> {
    /// The kind of the soft devices, as `rdma link add` names it.
    pub(super) device: &'a str,
    /// A shell script. Its exit status is that of the boot.
    pub(super) script: &'a str,
    /// Programs, with their names in `/user`.
    pub(super) programs: &'a [(&'a str, PathBuf)],
    /// Time after which the guest is ended.
    pub(super) limit: Duration,
}

impl<'a> Task<'a> {
    /// Creates a task with the time limit of a part of the rung.
    pub(super) const fn new(
        device: &'a str,
        script: &'a str,
        programs: &'a [(&'a str, PathBuf)],
    ) -> Self {
        Self { device, script, programs, limit: WATCHDOG }
    }
}

/// Boots and runs the task. If the task passes, returns the guest's output up to its status.
pub(super) fn boot(
    shell: &Shell,
    folder: &Path,
    image: &Image,
    task: &Task<'_>,
) -> Result<String, Stop> {
    let initrd = initrd(shell, folder, image, task)?;
    let words = format!(
        "console=ttyS0 quiet panic=-1 mitigations=off nokaslr nowatchdog tsc=reliable \
         no_timer_check device={}",
        task.device
    );
    let machine = qemu::machine(shell).arg("-m").arg("1024").arg("-append").arg(words);
    let machine = machine.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&initrd);
    let log = folder.join(format!("{}.log", task.device));
    let Ended { status: ended, said } = qemu::run(machine, &log, task.limit)?;
    let why = match (ended, status(&said)) {
        (Some(_), Some((told, 0))) => return Ok(told.to_owned()),
        (Some(_), Some((_, status))) => format!("ended with status {status}"),
        (Some(ended), None) => format!("ended without a status ({ended})"),
        (None, _) => format!("was ended after {} seconds", task.limit.as_secs()),
    };
    let device = task.device;
    Err(Stop::Failed(format!("the guest with {device} {why}; output:\n{said}")))
}

/// Returns the last status that the guest announced, and the output before it.
fn status(said: &str) -> Option<(&str, i32)> {
    let (told, rest) = said.rsplit_once(STATUS)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((told, rest[..end].parse().ok()?))
}

/// Appends the task's own files to the base image: the kernel unpacks one archive after the other.
fn initrd(shell: &Shell, folder: &Path, image: &Image, task: &Task<'_>) -> Result<PathBuf, Stop> {
    // The folder has the name of the device, so that a guest can be made while another runs.
    let own = folder.join(format!("{}.own", task.device));
    let _ = fs::remove_dir_all(&own);
    let user = own.join("user");
    fs::create_dir_all(&user).map_err(|error| Stop::io(&user, &error))?;
    for (name, program) in task.programs {
        // Nine tenths of a program are debug information, and the guest holds its files in memory.
        shell.step("strip", "--strip-debug -o").arg(user.join(name)).arg(program).output()?;
    }
    let run = user.join("run");
    fs::write(&run, task.script).map_err(|error| Stop::io(&run, &error))?;
    let init = own.join("init");
    fs::write(&init, INIT).map_err(|error| Stop::io(&init, &error))?;
    executable(&init)?;
    let archive = folder.join(format!("{}.cpio", task.device));
    image::pack(shell, &image::root(folder), &own, &archive)?;

    let whole = folder.join(format!("{}.initrd", task.device));
    image::copy(&image.base, &whole)?;
    let append = || {
        let mut whole = File::options().append(true).open(&whole)?;
        std::io::copy(&mut File::open(&archive)?, &mut whole)
    };
    append().map_err(|error| Stop::io(&whole, &error))?;
    Ok(whole)
}

fn executable(path: &Path) -> Result<(), Stop> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .map_err(|error| Stop::io(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_status_counts() {
        assert_eq!(status("[    8.9] STRAIT-VM-EXIT:0\n"), Some(("[    8.9] ", 0)));
        assert_eq!(status("STRAIT-VM-EXIT:0\nSTRAIT-VM-EXIT:99"), Some(("STRAIT-VM-EXIT:0\n", 99)));
        assert_eq!(status("Kernel panic"), None);
        assert_eq!(status("STRAIT-VM-EXIT:"), None);
    }
}
