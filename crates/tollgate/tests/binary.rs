//! The built binary starts. The tests of the API and of the command line are in `crates/api-tests`,
//! which starts the binary that Cargo builds for this test.

use std::process::Command;

#[test]
fn version_is_that_of_the_package() {
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .arg("--version")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let expected = concat!("tollgate ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
