//! Skipping of values. Skipped values are checked like any other.

use super::reader::{Kind, Reader};
use crate::error::BoxedError;

impl Reader<'_> {
    /// Skips the value under the cursor. Uses a loop instead of recursion, because the caller
    /// controls the depth of the input.
    pub(crate) fn skip(&mut self) -> Result<(), BoxedError> {
        let base_depth = self.depth;
        // One bit for each open container, the innermost lowest; set for an object. 64 bits are
        // enough for `MAX_DEPTH` containers.
        let mut objects = 0_u64;
        loop {
            match self.kind()? {
                Kind::Object => {
                    self.begin_object()?;
                    objects = objects << 1 | 1;
                }
                Kind::Array => {
                    self.begin_array()?;
                    objects <<= 1;
                }
                Kind::String => {
                    self.string()?;
                }
                Kind::Number => {
                    self.number()?;
                }
                Kind::Bool => {
                    self.boolean()?;
                }
                Kind::Null => self.null()?,
            }
            loop {
                if self.depth == base_depth {
                    return Ok(());
                }
                let more = if objects & 1 == 1 {
                    self.skip_key()?
                } else {
                    self.item()?
                };
                if more {
                    break;
                }
                objects >>= 1;
            }
        }
    }
}
