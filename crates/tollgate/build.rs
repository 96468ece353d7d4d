//! Link options of the program.
#![expect(
    clippy::disallowed_methods,
    reason = "Cargo passes the properties of the build as variables"
)]

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The default linker of this target, rust-lld, can fold identical functions. That makes the
    // release program 0.8 MB smaller. Other linkers may not have the option.
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let has_default_linker =
        is("TARGET", "x86_64-unknown-linux-gnu") && var("RUSTC_LINKER").is_err() && !flags.contains("link");
    if has_default_linker && is("PROFILE", "release") && is("DEBUG", "false") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
