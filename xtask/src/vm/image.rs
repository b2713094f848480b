//! The guest's file system: unpacked packages and kernel modules in the order of their loading,
//! packed in the format of the kernel.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::packages::Packages;
use crate::shell::{Shell, Step};
use crate::stop::Stop;

/// The parts of the kernel's package that the guest needs.
const KERNEL_PARTS: [&str; 11] = [
    "./boot/vmlinuz-*",
    "*/kernel/drivers/infiniband/core/*",
    "*/kernel/drivers/infiniband/sw/rxe/*",
    "*/kernel/drivers/net/veth.ko*",
    "*/kernel/net/ipv4/udp_tunnel.ko*",
    "*/kernel/net/ipv6/ip6_udp_tunnel.ko*",
    "*/kernel/net/sched/sch_netem.ko*",
    "*/kernel/lib/*",
    "*/kernel/crypto/*",
    "*/kernel/arch/x86/crypto/*",
    "*/kernel/fs/configfs/*",
];
/// The modules that the guest loads, with their dependencies. A module that is built into the
/// kernel has no file.
const MODULES: [&str; 8] = [
    "veth",
    "sch_netem",
    "crc32_generic",
    "crc32c_generic",
    "ib_uverbs",
    "rdma_ucm",
    "rdma_rxe",
    "siw",
];

/// A kernel and its initial file system.
pub(super) struct Image {
    pub(super) kernel: PathBuf,
    pub(super) base: PathBuf,
}

/// Makes the image in `folder`, with the driver of soft iWARP if there is one. Returns the existing
/// image if it was made of the same packages.
pub(super) fn build(
    shell: &Shell,
    folder: &Path,
    packages: &Packages,
    siw: Option<&Path>,
) -> Result<Image, Stop> {
    let image = Image { kernel: folder.join("vmlinuz"), base: folder.join("base.cpio") };
    let stamp = folder.join("image-of");
    let contents = format!("{packages:?}\n{MODULES:?}\n{siw:?}\n");
    if fs::read_to_string(&stamp).is_ok_and(|made_of| made_of == contents) {
        return Ok(image);
    }
    let root = folder.join("root");
    let kernel = folder.join("kernel");
    for old in [&root, &kernel] {
        let _ = fs::remove_dir_all(old);
    }
    unpack_guest(shell, &root, &packages.guest)?;
    unpack_kernel(shell, &kernel, &packages.kernel)?;
    if let Some(module) = siw {
        copy(module, &kernel.join("siw.ko"))?;
    }
    load_order(shell, &kernel, &root.join("modules"))?;
    let vmlinuz = files(&kernel.join("boot"))?.into_iter().next();
    let vmlinuz =
        vmlinuz.ok_or_else(|| Stop::Failed("the kernel's package has no kernel".into()))?;
    copy(&vmlinuz, &image.kernel)?;
    pack(shell, &root, &root, &image.base)?;
    fs::write(&stamp, contents).map_err(|error| Stop::io(&stamp, &error))?;
    Ok(image)
}

/// Packs the tree below `from` into `archive`, with the `busybox` of the guest at `root`.
pub(super) fn pack(shell: &Shell, root: &Path, from: &Path, archive: &Path) -> Result<(), Stop> {
    let script = "cd \"$1\" && find . -print0 | \"$2\" cpio -o -0 -H newc > \"$3\"";
    let busybox = root.join("bin/busybox");
    let step = shell.step("sh", "-c").arg(script).arg("sh").arg(from).arg(busybox).arg(archive);
    step.output().map(drop)
}

/// Returns the root of the guest in `folder`.
pub(super) fn root(folder: &Path) -> PathBuf {
    folder.join("root")
}

fn unpack_guest(shell: &Shell, root: &Path, packages: &[PathBuf]) -> Result<(), Stop> {
    let io = |error| Stop::io(root, &error);
    for name in ["bin", "sbin", "lib", "lib64"] {
        fs::create_dir_all(root.join("usr").join(name)).map_err(io)?;
        symlink(format!("usr/{name}"), root.join(name)).map_err(io)?;
    }
    for package in packages {
        // Extraction follows the links above: packages disagree on whether a library is in /lib or
        // in /usr/lib.
        let script = "dpkg-deb --fsys-tarfile \"$1\" | tar -x --keep-directory-symlink -C \"$2\"";
        shell.step("sh", "-c").arg(script).arg("sh").arg(package).arg(root).output()?;
    }
    for useless in ["usr/share", "var"] {
        let _ = fs::remove_dir_all(root.join(useless));
    }
    for name in ["dev", "proc", "sys", "tmp", "run", "modules", "user", "root"] {
        fs::create_dir_all(root.join(name)).map_err(io)?;
    }
    // The tools of the packages take precedence over busybox.
    let applets = shell.step(root.join("bin/busybox"), "--list").output()?;
    for applet in String::from_utf8_lossy(&applets.stdout).lines() {
        let known = ["bin", "sbin"].iter().any(|folder| root.join(folder).join(applet).exists());
        if !known {
            symlink("busybox", root.join("bin").join(applet)).map_err(io)?;
        }
    }
    Ok(())
}

fn unpack_kernel(shell: &Shell, to: &Path, package: &Path) -> Result<(), Stop> {
    fs::create_dir_all(to).map_err(|error| Stop::io(to, &error))?;
    // tar complains of a part that is built into this kernel and has no file. Missing parts are
    // detected later.
    let script = "package=$1; to=$2; shift 2; \
                  dpkg-deb --fsys-tarfile \"$package\" | \
                  tar -x -C \"$to\" --wildcards \"$@\" || true";
    let step = shell.step("sh", "-c").arg(script).arg("sh").arg(package).arg(to);
    KERNEL_PARTS.iter().fold(step, Step::arg).output().map(drop)
}

/// Writes the uncompressed modules to `to`, with the order of their loading.
fn load_order(shell: &Shell, kernel: &Path, to: &Path) -> Result<(), Stop> {
    let mut found = BTreeMap::new();
    collect(kernel, &mut found)?;
    let mut order = Vec::new();
    for module in MODULES {
        load(shell, module, &found, to, &mut order)?;
    }
    let text = order.iter().map(|module| format!("{module}\n")).collect::<String>();
    let path = to.join("order");
    fs::write(&path, text).map_err(|error| Stop::io(&path, &error))
}

/// Appends `module` to `order`, after its dependencies.
fn load(
    shell: &Shell,
    module: &str,
    found: &BTreeMap<String, PathBuf>,
    to: &Path,
    order: &mut Vec<String>,
) -> Result<(), Stop> {
    let Some(path) = found.get(module).filter(|_| !order.iter().any(|known| known == module))
    else {
        return Ok(());
    };
    let bytes = if path.extension().is_some_and(|extension| extension == "xz") {
        shell.step("xz", "--decompress --stdout").arg(path).output()?.stdout
    } else {
        fs::read(path).map_err(|error| Stop::io(path, &error))?
    };
    for dependency in dependencies(&bytes) {
        load(shell, &dependency, found, to, order)?;
    }
    let file = to.join(format!("{module}.ko"));
    fs::write(&file, bytes).map_err(|error| Stop::io(&file, &error))?;
    order.push(module.to_owned());
    Ok(())
}

/// Returns the dependencies that a module declares, in a zero-terminated string.
fn dependencies(module: &[u8]) -> Vec<String> {
    let strings = module.split(|byte| *byte == 0);
    let list = strings.filter_map(|string| string.strip_prefix(b"depends=")).next();
    let list = String::from_utf8_lossy(list.unwrap_or_default()).replace('-', "_");
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Collects every module below `folder` by name.
fn collect(folder: &Path, found: &mut BTreeMap<String, PathBuf>) -> Result<(), Stop> {
    for path in files(folder)? {
        if path.is_dir() {
            collect(&path, found)?;
        } else if let Some(name) = path.file_name().and_then(|name| name.to_str())
            && let Some((module, _)) = name.split_once(".ko")
        {
            found.insert(module.replace('-', "_"), path);
        }
    }
    Ok(())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Stop> {
    let entries = fs::read_dir(folder).map_err(|error| Stop::io(folder, &error))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

/// Copies a file with its permissions.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), Stop> {
    fs::copy(from, to).map(drop).map_err(|error| Stop::io(from, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_tells_what_it_depends_on() {
        let module = b"\x7fELF\0license=GPL\0depends=ib-core,udp_tunnel\0name=rdma_rxe\0";
        assert_eq!(dependencies(module), ["ib_core", "udp_tunnel"]);
        assert_eq!(dependencies(b"\0depends=\0"), [""; 0]);
    }
}
