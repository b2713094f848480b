//! `cargo xtask install`: installs the C library, the provider that another MPI loads, and the
//! launcher below a prefix.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::library::{self, SONAME};
use crate::mpi::{self, PROVIDER};
use crate::release;
use crate::setup;
use crate::shell::{self, Shell};
use crate::stop::Stop;

/// The version of all installed files. The interface of the library has its own: the number in the
/// soname.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Files that are installed unchanged: source in the repository, and destination.
const FILES: [(&str, &str); 3] = [
    ("ffi/c/include/strait.h", "include/strait.h"),
    ("LICENSE-MIT", "share/doc/strait/LICENSE-MIT"),
    ("LICENSE-APACHE", "share/doc/strait/LICENSE-APACHE"),
];

/// The binary interfaces of MPI that there is a front for.
const FRONTS: [&str; 3] = ["mpich", "standard", "openmpi"];

/// The file for pkg-config. It derives the prefix from its own path, so the whole tree can be
/// moved. The private libraries are those that the Rust standard library needs in a static link.
const PKG_CONFIG: &str = "prefix=${pcfiledir}/../..
libdir=${prefix}/lib
includedir=${prefix}/include

Name: strait
Description: A transport kernel for MPI
Version: @VERSION@
Libs: -L${libdir} -lstrait
Libs.private: -lpthread -ldl -lm -lrt
Cflags: -I${includedir}
";

/// The file for CMake: `find_package(strait)`, then link with `strait::strait` or `strait::static`.
const CMAKE: &str =
    "get_filename_component(_prefix \"${CMAKE_CURRENT_LIST_DIR}/../../..\" ABSOLUTE)
if(NOT TARGET strait::strait)
  find_package(Threads REQUIRED)
  add_library(strait::strait SHARED IMPORTED)
  set_target_properties(strait::strait PROPERTIES
    IMPORTED_LOCATION \"${_prefix}/lib/libstrait.so\"
    IMPORTED_SONAME \"libstrait.so.1\"
    INTERFACE_INCLUDE_DIRECTORIES \"${_prefix}/include\")
  add_library(strait::static STATIC IMPORTED)
  set_target_properties(strait::static PROPERTIES
    IMPORTED_LOCATION \"${_prefix}/lib/libstrait.a\"
    INTERFACE_INCLUDE_DIRECTORIES \"${_prefix}/include\"
    INTERFACE_LINK_LIBRARIES \"Threads::Threads;dl;m;rt\")
endif()
";

const CMAKE_VERSION: &str = "set(PACKAGE_VERSION \"@VERSION@\")
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
";

/// Runs `cargo xtask install`.
pub(crate) fn run(shell: &Shell, prefix: &Path, verbs: bool) -> Result<(), Stop> {
    without_fronts(shell, prefix, verbs)?;
    fronts(shell, prefix, &FRONTS, verbs)
}

/// Installs all but the fronts, which take as long to build as everything else.
pub(crate) fn without_fronts(shell: &Shell, prefix: &Path, verbs: bool) -> Result<(), Stop> {
    let features = setup::features(shell, verbs)?;
    let Built { shared, archive, launcher, provider } = build(shell, features)?;
    let shared_name = format!("libstrait.so.{VERSION}");
    copy(&shared, &prefix.join("lib").join(&shared_name), 0o755)?;
    link(&shared_name, &prefix.join("lib").join(SONAME))?;
    link(SONAME, &prefix.join("lib/libstrait.so"))?;
    copy(&archive, &prefix.join("lib/libstrait.a"), 0o644)?;
    // `strait mpi-env` looks for the provider here.
    copy(&provider, &prefix.join("lib").join(PROVIDER), 0o755)?;
    copy(&launcher, &prefix.join("bin/strait"), 0o755)?;
    for (from, to) in FILES {
        copy(&shell.root().join(from), &prefix.join(to), 0o644)?;
    }
    let texts = [
        ("lib/pkgconfig/strait.pc", PKG_CONFIG),
        ("lib/cmake/strait/strait-config.cmake", CMAKE),
        ("lib/cmake/strait/strait-config-version.cmake", CMAKE_VERSION),
    ];
    for (to, text) in texts {
        let to = prefix.join(to);
        make_room(&to)?;
        fs::write(&to, text.replace("@VERSION@", VERSION))
            .map_err(|error| Stop::io(&to, &error))?;
    }
    Ok(())
}

/// The libraries that the release profile builds.
struct Built {
    shared: PathBuf,
    archive: PathBuf,
    launcher: PathBuf,
    provider: PathBuf,
}

fn build(shell: &Shell, features: &str) -> Result<Built, Stop> {
    let archive = library::archive(shell, features)?;
    let shared = library::shared_library(shell, &archive, library::Order::HotTogether)?;
    let messages =
        release::build(shell, "--bin strait --message-format json", features).stdout()?;
    let mut made = shell::artifacts(&messages).into_iter();
    let launcher = made.find(|(name, path)| name == "strait" && path.extension().is_none());
    let launcher = launcher.ok_or_else(|| Stop::Failed("cargo made no program strait".into()))?.1;
    Ok(Built { shared, archive, launcher, provider: mpi::built(shell, features)? })
}

/// Builds and installs the fronts of these binary interfaces of MPI.
pub(crate) fn fronts(
    shell: &Shell,
    prefix: &Path,
    names: &[&str],
    verbs: bool,
) -> Result<(), Stop> {
    let packages: String = names.iter().map(|name| format!(" -p strait-mpi-{name}")).collect();
    let features = if verbs { "--features verbs" } else { "" };
    shell.cargo(&format!("build --quiet --release{packages} {features}")).run()?;
    names.iter().try_for_each(|name| {
        let file = format!("libstrait_mpi_{name}.so");
        // `strait mpi` looks for the fronts here.
        copy(&shell.target().join("release").join(&file), &prefix.join("lib").join(file), 0o755)
    })
}

fn make_room(file: &Path) -> Result<(), Stop> {
    let directory = file.parent().unwrap_or(file);
    fs::create_dir_all(directory).map_err(|error| Stop::io(directory, &error))
}

/// Copies a file to a new inode, so that a program that runs the old file keeps it.
fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), Stop> {
    use std::os::unix::fs::PermissionsExt;

    make_room(to)?;
    let _ = fs::remove_file(to);
    fs::copy(from, to).map_err(|error| Stop::io(from, &error))?;
    let permissions = fs::Permissions::from_mode(mode);
    fs::set_permissions(to, permissions).map_err(|error| Stop::io(to, &error))
}

fn link(target: &str, place: &Path) -> Result<(), Stop> {
    let _ = fs::remove_file(place);
    symlink(target, place).map_err(|error| Stop::io(place, &error))
}
