//! Sets `TOLLGATE_BINARY` to the path of the binary that a workspace build puts beside the tests.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // OUT_DIR is `<target>/<profile>/build/<package>-<hash>/out`.
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let profile = out.ancestors().nth(3).unwrap_or(&out);
    let binary = profile.join(format!("tollgate{}", env::consts::EXE_SUFFIX));
    println!("cargo::rustc-env=TOLLGATE_BINARY={}", binary.display());
}
