//! Downloads the Debian packages of the virtual machine and unpacks them, without installing them.
//!
//! apt checks its downloads against the signed lists. It resolves the packages as if for an empty
//! system, so the guest has the C library of the release that its libraries are from.

use std::fs;
use std::path::{Path, PathBuf};

use crate::setup::is_offline;
use crate::shell::{Shell, Step};
use crate::stop::{Absence, Stop};

/// The requested packages; apt adds their dependencies.
const GUEST: &str = "busybox-static ibverbs-providers librdmacm1 iproute2";
/// MPICH's launcher and the libraries that it is linked with. The other dependencies of its
/// package, which are MPI and its compilers, are left out.
const HYDRA: &str = "mpich libhwloc15 libslurm38 libudev1";
/// Kernels with soft RDMA drivers that are known to work. The newest of them is used.
const KERNEL: &str = r"^linux-image-6\.12\.[0-9]+\+deb[0-9]+-amd64$";

/// Downloaded packages.
#[derive(Debug)]
pub(super) struct Packages {
    /// The packages of the guest's programs and libraries.
    pub(super) guest: Vec<PathBuf>,
    /// The package of the kernel.
    pub(super) kernel: PathBuf,
}

/// Downloads the packages into `folder`, or finds them there.
pub(super) fn fetch(shell: &Shell, folder: &Path) -> Result<Packages, Stop> {
    if let Some(packages) = found(folder) {
        return Ok(packages);
    }
    if !shell.answers("apt-get", "--version") {
        return Err(absent(
            "the guest is made of Debian packages, and this is no Debian system",
            None,
        ));
    }
    eprintln!("vm: downloading the guest's packages");
    refreshed(shell, || download(shell, folder))?;
    found(folder).ok_or_else(|| Stop::Failed("apt-get left no packages".into()))
}

/// Downloads packages, and retries with new package lists, because the present lists may be missing
/// or old. Reports packages that cannot be downloaded as absent.
pub(super) fn refreshed(
    shell: &Shell,
    download: impl Fn() -> Result<(), Stop>,
) -> Result<(), Stop> {
    let fetched = download().or_else(|_| {
        shell.step("apt-get", "update --quiet").output()?;
        download()
    });
    fetched.map_err(|stop| {
        let Stop::Failed(why) = stop else { return stop };
        let remedy = (!is_offline(&why)).then_some("run `apt-get update` as root, then again");
        // The first error is the cause of the others.
        let why = why.lines().find(|line| line.starts_with("E: ")).unwrap_or(&why);
        absent(&format!("packages for the guest cannot be downloaded: {why}"), remedy)
    })
}

/// Downloads these packages without their dependencies.
pub(super) fn download_only(shell: &Shell, folder: &Path, packages: &[String]) -> Result<(), Stop> {
    let script = "cd \"$1\" && shift && apt-get -qq -o APT::Sandbox::User= download \"$@\" >&2";
    let step = shell.step("sh", "-c").arg(script).arg("sh").arg(folder);
    packages.iter().fold(step, Step::arg).output().map(drop)
}

/// Returns the packages in `folder`, if all were downloaded.
fn found(folder: &Path) -> Option<Packages> {
    let names = fs::read_to_string(folder.join("complete")).ok()?;
    let (asked, kernel) = names.split_once('\n')?;
    let kernel = folder.join(kernel.trim_end());
    if asked != wanted() || !kernel.is_file() {
        return None;
    }
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_package = |path: &PathBuf| path.extension().is_some_and(|e| e == "deb");
    let mut guest: Vec<PathBuf> =
        entries.filter(is_package).filter(|path| *path != kernel).collect();
    guest.sort();
    Some(Packages { guest, kernel })
}

fn download(shell: &Shell, folder: &Path) -> Result<(), Stop> {
    // The files of an earlier attempt may be of other versions.
    let _ = fs::remove_dir_all(folder);
    let partial = folder.join("partial");
    fs::create_dir_all(&partial).map_err(|error| Stop::io(&partial, &error))?;
    let nothing = folder.join("nothing-installed");
    fs::write(&nothing, "").map_err(|error| Stop::io(&nothing, &error))?;
    let arguments = format!(
        "-qq --yes --no-install-recommends --download-only -o Debug::NoLocking=1 \
         -o APT::Sandbox::User= install {GUEST}"
    );
    shell
        .step("apt-get", &arguments)
        .arg(format!("-oDir::State::status={}", nothing.display()))
        .arg(format!("-oDir::Cache::archives={}", folder.display()))
        .output()?;
    let kernel = newest_kernel(shell)?;
    let alone: Vec<String> = HYDRA.split(' ').map(str::to_owned).chain([kernel.clone()]).collect();
    download_only(shell, folder, &alone)?;
    let file = file_of(folder, &kernel)
        .ok_or_else(|| Stop::Failed(format!("apt-get did not download {kernel}")))?;
    let complete = folder.join("complete");
    fs::write(&complete, format!("{}\n{file}\n", wanted()))
        .map_err(|error| Stop::io(&complete, &error))
}

/// Returns the requested packages in one line.
fn wanted() -> String {
    format!("{GUEST} {HYDRA}")
}

/// Returns the name of the file that has this package.
fn file_of(folder: &Path, package: &str) -> Option<String> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|name| name.strip_prefix(package).is_some_and(|rest| rest.starts_with('_')))
}

fn newest_kernel(shell: &Shell) -> Result<String, Stop> {
    let listed = shell.step("apt-cache", "search --names-only").arg(KERNEL).output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let newest = names.max_by_key(|name| version(name));
    newest
        .map(str::to_owned)
        .ok_or_else(|| Stop::Failed("the package lists have no kernel 6.12".into()))
}

/// Returns the numbers in a package's name, which order its versions.
fn version(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

fn absent(what: &str, remedy: Option<&str>) -> Stop {
    Stop::NotRun(Absence { what: what.to_owned(), remedy: remedy.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_number() {
        let name = |patch: u32| format!("linux-image-6.12.{patch}+deb12-amd64");
        assert!(version(&name(107)) > version(&name(98)));
    }

    #[test]
    fn a_folder_without_the_last_file_is_not_complete() {
        let folder = std::env::temp_dir().join(format!("strait-packages-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in ["b_1.deb", "a_1.deb", "kernel_6.deb", "nothing-installed"] {
            fs::write(folder.join(name), "").unwrap();
        }
        assert!(found(&folder).is_none());
        fs::write(folder.join("complete"), format!("{}\nkernel_6.deb\n", wanted())).unwrap();
        let packages = found(&folder).unwrap();
        assert_eq!(packages.kernel, folder.join("kernel_6.deb"));
        assert_eq!(packages.guest, [folder.join("a_1.deb"), folder.join("b_1.deb")]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
