//! A JSON reader that makes one borrowed pass: no tree, the position of every value, and a path in
//! every error.
//!
//! `serde` reports neither the position of a value in the body nor the path of an invalid one, and
//! a gateway that forwards bytes needs both. The grammar is exactly RFC 8259; property tests
//! compare it with `serde_json`. `Reader` is the cursor, `Path` the path of the value under it,
//! `Text` a string still in its escaped form. `Node` is a tree, for the format that needs one.

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
pub(crate) use string::Text;
pub(crate) use tree::Node;
pub(crate) use write::write_string;

/// Maximum nesting of arrays and objects.
pub const MAX_DEPTH: u32 = 64;

/// Maximum number of values in a request.
pub const MAX_NODES: u32 = 1_000_000;

/// Maximum size of a text in bytes: positions are 32-bit numbers.
pub const MAX_BYTES: usize = 1 << 30;

#[cfg(test)]
mod tests;
