//! A gzip member (RFC 1952) of stored blocks: valid gzip without real compression, which is enough
//! to test a reader.

const LONGEST_BLOCK: usize = 65_535;

/// Wraps the bytes in a gzip member.
pub(super) fn wrap(bytes: &[u8]) -> Vec<u8> {
    let mut member = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = bytes.chunks(LONGEST_BLOCK).peekable();
    if blocks.peek().is_none() {
        member.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        member.push(u8::from(blocks.peek().is_none()));
        member.extend(length.to_le_bytes());
        member.extend((!length).to_le_bytes());
        member.extend(block);
    }
    member.extend(crc32fast::hash(bytes).to_le_bytes());
    member.extend((bytes.len() as u32).to_le_bytes());
    member
}
