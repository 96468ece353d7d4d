//! Reading of objects with few keys.

use super::path::Path;
use super::reader::{Kind, Reader};
use crate::error::{BoxedError, DecodeError};

/// Refuses a duplicate key of a small object. Each key has one bit in `seen`, so an object can have
/// at most 32 checked keys.
pub(crate) fn once(seen: &mut u32, bit: u32, path: &Path<'_>, key: &str) -> Result<(), BoxedError> {
    if *seen & (1 << bit) != 0 {
        return Err(path.duplicate(key));
    }
    *seen |= 1 << bit;
    Ok(())
}

/// Reads an object with at most 32 keys. Calls `read` for each key, with the key as in `keys`.
/// Refuses other keys as unknown, and duplicate keys. A key whose value is null is treated as
/// omitted.
pub(crate) fn small_object<'a>(
    reader: &mut Reader<'a>,
    keys: &[&'static str],
    path: &Path<'_>,
    mut read: impl FnMut(&mut Reader<'a>, &'static str, &Path<'_>) -> Result<(), BoxedError>,
) -> Result<(), BoxedError> {
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

/// Like [`small_object`], but skips keys outside `keys`.
pub(crate) fn open_keys<'a>(
    reader: &mut Reader<'a>,
    keys: &[&'static str],
    path: &Path<'_>,
    mut read: impl FnMut(&mut Reader<'a>, &'static str, &Path<'_>) -> Result<(), BoxedError>,
) -> Result<(), BoxedError> {
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

/// Skips an object with any content; refuses other types.
pub(crate) fn open_object(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    if reader.kind()? != Kind::Object {
        return reader.object_at(path);
    }
    reader.skip()
}
