//! Links libstrait.so under its name, with its symbols' version.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libstrait.so.1");
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,--version-script={}/../linker/strait.map",
        env!("CARGO_MANIFEST_DIR")
    );
}
