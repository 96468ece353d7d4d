//! Evidence of research reports, as pure functions.
//!
//! Suggested reading order: [`text`], [`sentences`], [`passages`], [`words`], [`bm25`], [`fusion`],
//! [`simhash`]; [`address`], [`query`], [`dates`], [`front_matter`]; [`quote`], [`figures`];
//! [`injection`], [`report`]; [`extractive`].
//!
//! Offsets are code points unless a name says bytes. The time of every function is about
//! proportional to the length of its texts, or bounded by a constant, if not documented otherwise.

pub mod address;
pub mod bm25;
mod calendar;
pub mod dates;
pub mod extractive;
pub mod figures;
mod fold;
pub mod front_matter;
pub mod fusion;
pub mod injection;
mod lexer;
mod months;
pub mod passages;
pub mod query;
pub mod quote;
pub mod report;
mod script;
pub mod sentences;
pub mod simhash;
pub mod text;
pub mod words;
