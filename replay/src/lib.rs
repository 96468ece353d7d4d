//! A replacement of libFuzzer: a fuzz target becomes a function of one input.

/// Defines the function `run` of a target.
#[macro_export]
macro_rules! fuzz_target {
    (|$input:ident: &[u8]| $body:block) => {
        pub(crate) fn run($input: &[u8]) $body
    };
}
