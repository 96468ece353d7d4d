//! Collects the best passage of each document that the filters of a search permit.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};
use std::io;

use tantivy::collector::{Collector, SegmentCollector};
use tantivy::columnar::{Column, StrColumn};
use tantivy::{DocAddress, DocId, Score, SegmentOrdinal, SegmentReader, TantivyError};

use crate::schema::{DATE, DOCUMENT, URL};
use crate::sites::Sites;

/// Collects documents, best first. Each has the address of its best passage.
#[derive(Debug)]
pub(crate) struct Documents {
    pub max_hits: usize,
    /// First and last permitted date, as numbers. Documents without a date are left out.
    pub dates: Option<(u64, u64)>,
    pub sites: Option<Sites>,
}

/// The best passage of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Best {
    score: Score,
    document: u64,
    pub address: DocAddress,
}

/// Higher scores are greater; of equal ones, the earlier passage is greater.
impl Ord for Best {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_place = other
            .document
            .cmp(&self.document)
            .then(other.address.cmp(&self.address));
        self.score.total_cmp(&other.score).then(by_place)
    }
}

impl PartialOrd for Best {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Best {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Best {}

impl Collector for Documents {
    type Fruit = Vec<Best>;
    type Child = SegmentDocuments;

    fn for_segment(
        &self,
        segment: SegmentOrdinal,
        reader: &SegmentReader,
    ) -> tantivy::Result<SegmentDocuments> {
        let columns = reader.fast_fields();
        Ok(SegmentDocuments {
            segment,
            max_hits: self.max_hits,
            document: columns.u64(DOCUMENT)?,
            dates: match self.dates {
                Some((first, last)) => Some((columns.column_opt::<u64>(DATE)?, first, last)),
                None => None,
            },
            sites: match &self.sites {
                Some(sites) => Some(PermittedUrls::find(sites, columns.str(URL)?)?),
                None => None,
            },
            current: None,
            best: BinaryHeap::new(),
        })
    }

    fn requires_scoring(&self) -> bool {
        true
    }

    fn merge_fruits(&self, parts: Vec<Vec<Best>>) -> tantivy::Result<Vec<Best>> {
        let mut all: Vec<Best> = parts.into_iter().flatten().collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        // A document may have passages in two segments.
        let mut documents = HashSet::new();
        all.retain(|best| documents.insert(best.document));
        all.truncate(self.max_hits);
        Ok(all)
    }
}

/// Collector of one segment. The passages of a document are neighbours there.
pub(crate) struct SegmentDocuments {
    segment: SegmentOrdinal,
    max_hits: usize,
    document: Column<u64>,
    /// Column, first and last date. A segment without dates has no column.
    dates: Option<(Option<Column<u64>>, u64, u64)>,
    sites: Option<PermittedUrls>,
    /// The best passage of the document that is being read.
    current: Option<Best>,
    /// The best documents, the worst on top.
    best: BinaryHeap<std::cmp::Reverse<Best>>,
}

impl SegmentDocuments {
    fn is_permitted(&self, passage: DocId) -> bool {
        let has_date = match &self.dates {
            Some((Some(column), first, last)) => column
                .first(passage)
                .is_some_and(|date| (*first..=*last).contains(&date)),
            Some((None, ..)) => false,
            None => true,
        };
        has_date && self.sites.as_ref().is_none_or(|sites| sites.contains(passage))
    }

    fn finish_document(&mut self) {
        let Some(best) = self.current.take() else {
            return;
        };
        if self.best.len() < self.max_hits {
            self.best.push(std::cmp::Reverse(best));
        } else if let Some(mut worst) = self.best.peek_mut()
            && best > worst.0
        {
            worst.0 = best;
        }
    }
}

impl SegmentCollector for SegmentDocuments {
    type Fruit = Vec<Best>;

    fn collect(&mut self, passage: DocId, score: Score) {
        if !self.is_permitted(passage) {
            return;
        }
        let best = Best {
            score,
            document: self.document.first(passage).unwrap_or(u64::MAX),
            address: DocAddress::new(self.segment, passage),
        };
        match &mut self.current {
            Some(current) if current.document == best.document => *current = best.max(*current),
            _ => {
                self.finish_document();
                self.current = Some(best);
            }
        }
    }

    fn harvest(mut self) -> Vec<Best> {
        self.finish_document();
        self.best.into_iter().map(|best| best.0).collect()
    }
}

/// URLs of a segment that the site filters permit. Each different URL is checked once.
struct PermittedUrls {
    column: Option<StrColumn>,
    /// By the place of the URL in the dictionary of the column.
    is_permitted: Vec<bool>,
}

impl PermittedUrls {
    fn find(sites: &Sites, column: Option<StrColumn>) -> tantivy::Result<Self> {
        let mut is_permitted = Vec::new();
        if let Some(column) = &column {
            let mut urls = column.dictionary().stream().map_err(io_error)?;
            while urls.advance() {
                let url = std::str::from_utf8(urls.key());
                is_permitted.push(url.is_ok_and(|url| sites.permit(url)));
            }
        }
        Ok(Self { column, is_permitted })
    }

    fn contains(&self, passage: DocId) -> bool {
        let place = self
            .column
            .as_ref()
            .and_then(|column| column.ords().first(passage));
        let place = place.and_then(|place| usize::try_from(place).ok());
        place.is_some_and(|place| self.is_permitted.get(place) == Some(&true))
    }
}

fn io_error(error: io::Error) -> TantivyError {
    TantivyError::from(error)
}
