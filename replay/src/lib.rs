//! In place of libFuzzer: what a target does with one input becomes a function.

/// Makes a function `run` of a target.
#[macro_export]
macro_rules! fuzz_target {
    (|$input:ident: &[u8]| $body:block) => {
        pub(crate) fn run($input: &[u8]) $body
    };
}
