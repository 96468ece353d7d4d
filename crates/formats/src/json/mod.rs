//! A JSON reader that reads a body in one pass without building a tree. It reports the position of
//! every value and, in errors about a value, the path of the value.
//!
//! `serde` reports neither the position of a value in the body nor the path of an invalid one, and
//! a gateway that forwards bytes needs both. The grammar is RFC 8259. Like `serde_json`, the reader
//! refuses unpaired surrogates and numbers outside the range of a double; property tests compare
//! the two. `Reader` is the cursor, `Path` the path of the value under the cursor, and `Text` a
//! string in its escaped form. `Node` is a tree, for the formats that need one.

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

/// Maximum nesting depth of arrays and objects.
pub const MAX_DEPTH: u32 = 64;

/// Maximum number of values in a request.
pub const MAX_NODES: u32 = 1_000_000;

/// Maximum size of a text in bytes, so that positions fit into 32 bits.
pub const MAX_BYTES: usize = 1 << 30;

#[cfg(test)]
mod tests;
