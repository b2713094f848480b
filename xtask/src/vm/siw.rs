//! Builds the driver of soft iWARP, which Debian's kernels leave out, from the kernel's own source
//! and against its own headers.

use std::fs;
use std::path::{Path, PathBuf};

use super::packages;
use crate::setup::{self, Tool};
use crate::shell::{Shell, Step};
use crate::stop::Stop;

/// The path of the driver in the kernel's source.
const DRIVER: &str = "drivers/infiniband/sw/siw";

/// Builds the driver for the kernel of this package, or finds it in `folder`.
pub(super) fn build(shell: &Shell, folder: &Path, kernel: &Path) -> Result<PathBuf, Stop> {
    let (module, stamp) = (folder.join("siw.ko"), folder.join("module-of"));
    let package = kernel.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if module.is_file() && fs::read_to_string(&stamp).is_ok_and(|of| of == package) {
        return Ok(module);
    }
    for tool in [Tool::Cpp, Tool::Make] {
        setup::need(shell, tool)?;
    }
    let names = Names::of(package)
        .ok_or_else(|| Stop::Failed(format!("{package} does not tell the kernel's version")))?;
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|error| Stop::io(folder, &error))?;
    eprintln!("vm: downloading the kernel's source, and building soft iWARP from it");
    let wanted = names.packages();
    packages::refreshed(shell, || packages::download_only(shell, folder, &wanted))?;

    let root = folder.join("root");
    let source = unpack(shell, folder, &root, &names)?;
    make(shell, &root.join("usr/src"), &source, &names)?;
    fs::rename(source.join("siw.ko"), &module).map_err(|error| Stop::io(&module, &error))?;
    // Removes the unpacked files, most of which are the source of other drivers.
    for entry in fs::read_dir(folder).map_err(|error| Stop::io(folder, &error))?.flatten() {
        let path = entry.path();
        if path != module {
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
    }
    fs::write(&stamp, package).map_err(|error| Stop::io(&stamp, &error))?;
    Ok(module)
}

/// The names in the packages of one kernel.
#[derive(Debug, Eq, PartialEq)]
struct Names<'a> {
    /// The kernel's own name: `6.12.117+deb12-amd64`.
    release: &'a str,
    /// The name without the architecture: `6.12.117+deb12`.
    common: &'a str,
    /// The name of the source: `6.12`.
    series: &'a str,
    /// The version of the packages: `6.12.117-1~deb12u1`.
    version: &'a str,
}

impl<'a> Names<'a> {
    /// Derives the names from the file name of the kernel's package.
    fn of(package: &'a str) -> Option<Self> {
        let (release, rest) = package.strip_prefix("linux-image-")?.split_once('_')?;
        let (version, _) = rest.split_once('_')?;
        let (common, _) = release.rsplit_once('-')?;
        let dot = common.match_indices('.').nth(1)?.0;
        Some(Self { release, common, series: &common[..dot], version })
    }

    fn packages(&self) -> Vec<String> {
        let Self { release, common, series, version } = self;
        vec![
            format!("linux-headers-{release}={version}"),
            format!("linux-headers-{common}-common={version}"),
            format!("linux-kbuild-{common}={version}"),
            format!("linux-source-{series}={version}"),
        ]
    }
}

/// Unpacks headers and build scripts into `root`, and the driver's source beside it.
fn unpack(shell: &Shell, from: &Path, root: &Path, names: &Names<'_>) -> Result<PathBuf, Stop> {
    fs::create_dir_all(root).map_err(|error| Stop::io(root, &error))?;
    let script = "cd \"$1\" && for package in linux-headers-*.deb linux-kbuild-*.deb; do \
                  dpkg-deb --extract \"$package\" root || exit; done; \
                  dpkg-deb --fsys-tarfile linux-source-*.deb \
                  | tar --extract --to-stdout --wildcards '*/linux-source-*.tar.xz' \
                  | tar --extract --xz --wildcards \"linux-source-*/$2\"";
    shell.step("sh", "-c").arg(script).arg("sh").arg(from).arg(DRIVER).output()?;
    Ok(from.join(format!("linux-source-{}", names.series)).join(DRIVER))
}

fn make(shell: &Shell, sources: &Path, driver: &Path, names: &Names<'_>) -> Result<(), Stop> {
    let headers = sources.join(format!("linux-headers-{}", names.release));
    let common = sources.join(format!("linux-headers-{}-common", names.common));
    // The packaged makefile contains the path at which it would be installed.
    let makefile = headers.join("Makefile");
    fs::write(&makefile, format!("include {}/Makefile\n", common.display()))
        .map_err(|error| Stop::io(&makefile, &error))?;
    // Leaves out BTF debug types, which need a tool of their own.
    let arguments = "CONFIG_RDMA_SIW=m CONFIG_DEBUG_INFO_BTF_MODULES= KCFLAGS=-g0 CC=gcc modules";
    let step = shell.step("make", "--silent -C").arg(headers);
    let step = step.arg(format!("M={}", driver.display()));
    arguments.split(' ').fold(step, Step::arg).output().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_names_its_source() {
        let names =
            Names::of("linux-image-6.12.117+deb12-amd64_6.12.117-1~deb12u1_amd64.deb").unwrap();
        assert_eq!(
            names.packages(),
            [
                "linux-headers-6.12.117+deb12-amd64=6.12.117-1~deb12u1",
                "linux-headers-6.12.117+deb12-common=6.12.117-1~deb12u1",
                "linux-kbuild-6.12.117+deb12=6.12.117-1~deb12u1",
                "linux-source-6.12=6.12.117-1~deb12u1",
            ]
        );
        assert_eq!(Names::of("linux-image_6.deb"), None);
    }
}
