//! Link options of the program.
#![expect(
    clippy::disallowed_methods,
    reason = "Cargo passes the properties of the build as variables"
)]

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The default linker of this target, rust-lld, can fold identical functions, and pack the
    // addresses that the start of the program adjusts. That makes the release program 0.8 and 2.3
    // MB smaller. Other linkers may not have the options.
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let has_default_linker =
        is("TARGET", "x86_64-unknown-linux-gnu") && var("RUSTC_LINKER").is_err() && !flags.contains("link");
    if has_default_linker && is("PROFILE", "release") && is("DEBUG", "false") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
        if has_packed_addresses() {
            println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
    }
}

/// Whether the C library of this machine starts programs with packed addresses: glibc 2.36 or
/// later.
fn has_packed_addresses() -> bool {
    let version = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let numbers = version
        .as_ref()
        .ok()
        .and_then(|text| text.trim().strip_prefix("glibc "));
    let Some((major, minor)) = numbers.and_then(|numbers| numbers.split_once('.')) else {
        return false;
    };
    let number = |text: &str| text.split('.').next().and_then(|digits| digits.parse().ok());
    (number(major), number(minor)) >= (Some(2_u32), Some(36_u32))
}
