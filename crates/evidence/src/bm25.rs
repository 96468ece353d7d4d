//! Ranking of texts by BM25, after Robertson and Zaragoza, "The Probabilistic Relevance Framework"
//! (2009).

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::words::{each_term, terms};

/// Saturation of repeated terms.
const K1: f32 = 1.2;

/// Share of the normalisation by length.
const B: f32 = 0.75;

/// An index of texts for ranking.
#[derive(Debug, Default)]
pub struct Bm25 {
    /// For each term, the texts that contain it and how often.
    postings: HashMap<String, Vec<(u32, u32)>>,
    /// Lengths of the texts in terms.
    lengths: Vec<u32>,
    mean_length: f32,
}

impl Bm25 {
    /// Indexes texts. Their places in the order are their numbers in rankings.
    pub fn new(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self::for_terms(texts, |_| true)
    }

    /// Indexes the terms of texts that a function selects. Rankings are the same as with all terms,
    /// if the queries have only selected ones.
    pub(crate) fn for_terms(
        texts: impl IntoIterator<Item = impl AsRef<str>>,
        is_selected: impl Fn(&str) -> bool,
    ) -> Self {
        let mut index = Self::default();
        for (number, text) in (0..).zip(texts) {
            let mut length: u32 = 0;
            each_term(text.as_ref(), |term| {
                length = length.saturating_add(1);
                if is_selected(term) {
                    index.count(term, number);
                }
            });
            index.lengths.push(length);
        }
        let total: f32 = index.lengths.iter().map(|&length| length as f32).sum();
        index.mean_length = total / index.lengths.len().max(1) as f32;
        index
    }

    /// Counts an occurrence of a term in the last text.
    fn count(&mut self, term: &str, number: u32) {
        let Some(postings) = self.postings.get_mut(term) else {
            self.postings.insert(term.to_owned(), vec![(number, 1)]);
            return;
        };
        match postings.last_mut() {
            Some((last, count)) if *last == number => *count += 1,
            _ => postings.push((number, 1)),
        }
    }

    /// Returns the texts that contain a term of the query with their scores, best first, at most
    /// `limit`. Texts with equal scores are in their original order.
    pub fn rank(&self, query: &str, limit: usize) -> Vec<(usize, f32)> {
        let mut scores = vec![0.0; self.lengths.len()];
        let mut query = terms(query);
        query.sort_unstable();
        query.dedup();
        for postings in query.iter().filter_map(|term| self.postings.get(term)) {
            let rarity = self.rarity(postings.len());
            for &(number, count) in postings {
                scores[number as usize] += rarity * self.saturation(number, count);
            }
        }
        let ranked = scores.into_iter().enumerate();
        let mut ranked: Vec<(usize, f32)> = ranked.filter(|(_, score)| *score > 0.0).collect();
        ranked.sort_by(|one, two| two.1.total_cmp(&one.1).then(one.0.cmp(&two.0)));
        ranked.truncate(limit);
        ranked
    }

    /// Returns the inverse document frequency of a term; always positive.
    fn rarity(&self, texts: usize) -> f32 {
        let (all, texts) = (self.lengths.len() as f32, texts as f32);
        (1.0 + (all - texts + 0.5) / (texts + 0.5)).ln()
    }

    fn saturation(&self, number: u32, count: u32) -> f32 {
        let length = self.lengths[number as usize] as f32 / self.mean_length;
        let count = count as f32;
        count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length))
    }
}
