//! Compresses the token tables for the binary. The tables of `bpe-openai` have 47 MB, because they
//! contain searchers that counting does not use; those are replaced by empty ones.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::{env, io};

use bpe_openai::byte_pair_encoding::BytePairEncoding;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// The fields of [`BytePairEncoding`] in the order in which bpe 0.2 serialises them.
#[derive(Serialize, Deserialize)]
struct Table {
    all_tokens: Vec<u8>,
    token_starts: Vec<u32>,
    bytes_hash_to_token: BTreeMap<u32, u32>,
    split_table: Vec<(u32, u32)>,
    pair_lookup: BTreeMap<(u32, u32), u32>,
    longest_searcher: ByteBuf,
    overlapping_searcher: ByteBuf,
    overlapping_searcher_rev: ByteBuf,
    next_prefix_match: Vec<u32>,
    hash_factor: u64,
}

impl Table {
    fn of(bpe: &BytePairEncoding) -> Result<Self, Box<dyn Error>> {
        Ok(rmp_serde::from_slice(&rmp_serde::to_vec(bpe)?)?)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
    let smallest = Table::of(&BytePairEncoding::from_dictionary(bytes, None))?;
    for (name, tokenizer) in [
        ("o200k_base", bpe_openai::o200k_base()),
        ("cl100k_base", bpe_openai::cl100k_base()),
    ] {
        let table = Table {
            bytes_hash_to_token: BTreeMap::new(),
            overlapping_searcher: smallest.overlapping_searcher.clone(),
            overlapping_searcher_rev: smallest.overlapping_searcher_rev.clone(),
            ..Table::of(&tokenizer.bpe)?
        };
        let file = File::create(Path::new(&folder).join(format!("{name}.gz")))?;
        let mut encoder = GzEncoder::new(file, Compression::best());
        io::Write::write_all(&mut encoder, &rmp_serde::to_vec(&table)?)?;
        encoder.finish()?;
    }
    Ok(())
}
