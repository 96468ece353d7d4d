//! Passing over values whose content does not matter. They are checked like any other.

use super::reader::{Kind, Reader};
use crate::error::Flaw;

impl Reader<'_> {
    /// Passes over the value under the cursor, whatever it is. A loop and not a recursion: the depth is the caller's.
    pub(crate) fn skip(&mut self) -> Result<(), Flaw> {
        let floor = self.depth;
        // One bit for each open container, the innermost lowest: set for an object. `MAX_DEPTH` of them fit.
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
                if self.depth == floor {
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
