//! Reading JSON in one borrowed pass: no tree, every value's place known, every error with its path.
//!
//! `serde` knows neither where a value stands in the body nor the path of the one it refuses, and a gateway that
//! forwards bytes needs both. The grammar is RFC 8259 to the letter, checked against `serde_json` by property tests.
//! `Reader` is the cursor, `Path` the way to the value under it, `Text` a string still in its escaped form.
//! `Node` is a tree after all, for the format that needs one.

mod number;
mod object;
mod path;
mod reader;
mod skip;
mod string;
mod tree;
mod typed;
mod write;

pub(crate) use object::{once, open_keys, open_object, small_object};
pub(crate) use path::Path;
pub(crate) use reader::{Key, Kind, Reader};
pub(crate) use tree::Node;
pub(crate) use write::write_string;

/// The deepest nesting of arrays and objects that is read.
pub const MAX_DEPTH: u32 = 64;

/// The most values that a request may have.
pub const MAX_NODES: u32 = 1_000_000;

/// The most bytes that one text may have: places in it are 32-bit numbers.
pub const MAX_BYTES: usize = 1 << 30;

#[cfg(test)]
mod tests;
