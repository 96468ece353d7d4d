//! Compresses the token tables for the binary. The tables of `bpe-openai` have 47 MB. They contain
//! searchers that counting does not use, which this script replaces by empty ones, and fields that
//! can be computed from other fields.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use bpe_openai::byte_pair_encoding::BytePairEncoding;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::table::{STATE_BYTES, Table, pairs};

#[path = "src/table.rs"]
mod table;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/table.rs");
    let folder = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
    let smallest = read(&BytePairEncoding::from_dictionary(bytes, None))?;
    for (name, tokenizer) in [
        ("o200k_base", bpe_openai::o200k_base()),
        ("cl100k_base", bpe_openai::cl100k_base()),
    ] {
        let table = Table {
            bytes_hash_to_token: BTreeMap::new(),
            overlapping_searcher: smallest.overlapping_searcher.clone(),
            overlapping_searcher_rev: smallest.overlapping_searcher_rev.clone(),
            ..read(&tokenizer.bpe)?
        };
        let file = File::create(Path::new(&folder).join(format!("{name}.gz")))?;
        let mut encoder = GzEncoder::new(file, Compression::best());
        encoder.write_all(&packed(&table)?)?;
        encoder.finish()?;
    }
    Ok(())
}

fn read(bpe: &BytePairEncoding) -> Result<Table, Box<dyn Error>> {
    Ok(rmp_serde::from_slice(&rmp_serde::to_vec(bpe)?)?)
}

/// Returns the content that `unpacked` in `src/lib.rs` reads: numbers, then the fields of the
/// table.
fn packed(table: &Table) -> Result<Vec<u8>, Box<dyn Error>> {
    if table.pair_lookup != pairs(&table.split_table) {
        return Err("the pairs of tokens do not follow from the split table".into());
    }
    let lengths = table.token_starts.windows(2).map(|place| place[1] - place[0]);
    let lengths: Vec<u8> = lengths.map(u8::try_from).collect::<Result<_, _>>()?;
    let halves = |half: fn(&(u32, u32)) -> u32| numbers(table.split_table.iter().map(half));
    let mut out = Vec::new();
    for part_bytes in [
        table.split_table.len(),
        table.longest_searcher.len(),
        table.overlapping_searcher.len(),
        table.overlapping_searcher_rev.len(),
    ] {
        out.extend(u32::try_from(part_bytes)?.to_le_bytes());
    }
    out.extend(table.hash_factor.to_le_bytes());
    out.extend(lengths);
    out.extend(halves(|pair| pair.0));
    out.extend(halves(|pair| pair.1));
    out.extend(numbers(table.next_prefix_match.iter().copied()));
    out.extend(transposed(&table.longest_searcher, STATE_BYTES));
    out.extend(&*table.overlapping_searcher);
    out.extend(&*table.overlapping_searcher_rev);
    out.extend(&table.all_tokens);
    Ok(out)
}

fn numbers(numbers: impl Iterator<Item = u32>) -> Vec<u8> {
    let bytes: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
    transposed(&bytes, size_of::<u32>())
}

/// Transposes items of `size` bytes: returns the first bytes of all items, then all second bytes,
/// and so on. Bytes after the last complete item remain at the end.
fn transposed(bytes: &[u8], size: usize) -> Vec<u8> {
    let items = bytes.chunks_exact(size);
    let rest = items.remainder();
    let place = |at: usize| items.clone().map(move |item| item[at]);
    let places = (0..size).flat_map(place);
    places.chain(rest.iter().copied()).collect()
}
