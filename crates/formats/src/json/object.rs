//! Objects of few keys.

use super::path::Path;
use super::reader::{Kind, Reader};
use crate::error::{DecodeError, Flaw};

/// Refuses the second appearance of a key of a small object. `seen` has one bit for each key.
pub(crate) fn once(seen: &mut u32, bit: u32, path: &Path<'_>, key: &str) -> Result<(), Flaw> {
    if *seen & (1 << bit) != 0 {
        return Err(path.duplicate(key));
    }
    *seen |= 1 << bit;
    Ok(())
}

/// Enters an object of few keys and reads each by `read`, which gets the key as it stands in `keys`; others are
/// unknown. A key whose value is null counts as not sent.
pub(crate) fn small_object<'a>(
    reader: &mut Reader<'a>,
    keys: &[&'static str],
    path: &Path<'_>,
    mut read: impl FnMut(&mut Reader<'a>, &'static str, &Path<'_>) -> Result<(), Flaw>,
) -> Result<(), Flaw> {
    reader.object_at(path)?;
    let mut seen = 0;
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        let Some(bit) = keys.iter().position(|name| **name == *key.name) else {
            return Err(Box::new(DecodeError::unknown(here.to_string())));
        };
        once(&mut seen, bit as u32, path, keys[bit])?;
        if !reader.take_null()? {
            read(reader, keys[bit], &here)?;
        }
    }
    Ok(())
}

/// As [`small_object`], and lets keys that are not listed through as they are.
pub(crate) fn open_keys<'a>(
    reader: &mut Reader<'a>,
    keys: &[&'static str],
    path: &Path<'_>,
    mut read: impl FnMut(&mut Reader<'a>, &'static str, &Path<'_>) -> Result<(), Flaw>,
) -> Result<(), Flaw> {
    reader.object_at(path)?;
    let mut seen = 0;
    while let Some(key) = reader.key()? {
        let Some(bit) = keys.iter().position(|name| **name == *key.name) else {
            reader.skip()?;
            continue;
        };
        once(&mut seen, bit as u32, path, keys[bit])?;
        if !reader.take_null()? {
            read(reader, keys[bit], &path.key(keys[bit]))?;
        }
    }
    Ok(())
}

/// An object of any content.
pub(crate) fn open_object(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), Flaw> {
    if reader.kind()? != Kind::Object {
        return reader.object_at(path);
    }
    reader.skip()
}
