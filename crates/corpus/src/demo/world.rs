//! The tables of the built-in corpus.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tollgate_types::Date;

use super::prose::number;
use crate::error::CorpusError;

/// All tables of `data/` except the facts.
pub(super) struct World {
    pub places: Places,
    pub sea: Sea,
    pub organisations: Organisations,
    pub people: Vec<Person>,
    pub events: Events,
    pub series: BTreeMap<String, Series>,
    pub phrases: Phrases,
}

/// Lists of variants, by kind of article and place in it.
pub(super) type Phrases = BTreeMap<String, BTreeMap<String, Vec<String>>>;

impl World {
    /// Parses the tables.
    pub fn load() -> Result<Self, CorpusError> {
        let people: People = parse(include_str!("data/people.toml"))?;
        Ok(Self {
            places: parse(include_str!("data/places.toml"))?,
            sea: parse(include_str!("data/sea.toml"))?,
            organisations: parse(include_str!("data/organisations.toml"))?,
            people: people.person,
            events: parse(include_str!("data/events.toml"))?,
            series: parse(include_str!("data/series.toml"))?,
            phrases: parse(include_str!("data/phrases.toml"))?,
        })
    }

    pub fn island(&self, name: &str) -> Option<&Island> {
        self.places.island.iter().find(|island| island.name == name)
    }

    pub fn town(&self, name: &str) -> Option<&Town> {
        self.places.town.iter().find(|town| town.name == name)
    }

    /// Returns the other ends of the ferry routes that call at a town.
    pub fn ports_from<'a>(&'a self, town: &'a str) -> impl Iterator<Item = &'a str> {
        self.sea.route.iter().filter_map(move |route| match () {
            () if route.from == town => Some(route.to.as_str()),
            () if route.to == town => Some(route.from.as_str()),
            () => None,
        })
    }

    /// Returns the last figure of a series, formatted.
    pub fn last_figure(&self, series: &str, name: &str) -> String {
        let columns = self.series.get(series).map(|series| &series.columns);
        let last = columns
            .and_then(|columns| columns.get(name)?.last())
            .copied()
            .unwrap_or(0.0);
        number(last, usize::from(last.fract() != 0.0))
    }

    /// Returns the lighthouse of an island, or that of Skarn Point if the island has none.
    pub fn light_near(&self, island: &str) -> &str {
        let lights = &self.sea.lighthouse;
        let own = lights.iter().find(|light| light.island == island);
        own.or(lights.first()).map_or("", |light| light.name.as_str())
    }
}

/// Parses a table of this crate.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, CorpusError> {
    toml::from_str(text).map_err(|error| CorpusError::Index(format!("built-in corpus: {error}")))
}

#[derive(Deserialize)]
pub(super) struct Places {
    pub island: Vec<Island>,
    pub town: Vec<Town>,
}

#[derive(Deserialize)]
pub(super) struct Island {
    pub name: String,
    pub population: u32,
    /// Land area, in square kilometres.
    pub area: u32,
    pub summit: String,
    /// Height of the summit, in metres above the sea.
    pub height: u32,
    pub text: String,
}

#[derive(Deserialize)]
pub(super) struct Town {
    pub name: String,
    pub island: String,
    pub population: u32,
    pub known: String,
    pub text: String,
    pub revised: Option<Date>,
}

#[derive(Deserialize)]
pub(super) struct Sea {
    pub route: Vec<Route>,
    pub ship: Vec<Ship>,
    pub lighthouse: Vec<Lighthouse>,
    pub storm: Vec<Storm>,
}

#[derive(Deserialize)]
pub(super) struct Route {
    pub from: String,
    pub to: String,
    pub minutes: u32,
    pub ship: String,
    pub note: String,
}

#[derive(Deserialize)]
pub(super) struct Ship {
    pub name: String,
    pub built: u32,
    pub yard: String,
    /// Length of the hull, in metres.
    pub length: u32,
    pub capacity: u32,
    pub cars: u32,
    pub text: String,
}

#[derive(Deserialize)]
pub(super) struct Lighthouse {
    pub name: String,
    pub island: String,
    pub built: u32,
    /// Height of the tower, in metres.
    pub height: u32,
    /// Range of the light, in nautical miles.
    pub range: u32,
    pub text: String,
}

#[derive(Deserialize)]
pub(super) struct Storm {
    pub name: String,
    pub date: Date,
    /// Strongest gust, in kilometres an hour.
    pub gust: u32,
    /// Lowest air pressure, in hectopascals.
    pub pressure: u32,
    pub text: String,
}

#[derive(Deserialize)]
pub(super) struct Organisations {
    pub company: Vec<Company>,
    pub festival: Vec<Festival>,
    pub institution: Vec<Institution>,
}

#[derive(Deserialize)]
pub(super) struct Company {
    pub name: String,
    pub founded: u32,
    pub town: String,
    pub leader: String,
    /// Employees in 2015, 2020 and 2025; 0 before the foundation.
    pub staff: [u32; 3],
    pub trade: String,
    pub text: String,
}

#[derive(Deserialize)]
pub(super) struct Festival {
    pub name: String,
    pub town: String,
    pub founded: u32,
    pub when: String,
    /// Visitors in 2019 and 2025.
    pub visitors: [u32; 2],
    pub text: String,
}

#[derive(Deserialize)]
pub(super) struct Institution {
    pub name: String,
    pub town: String,
    pub founded: u32,
    pub leader: String,
    pub text: String,
}

#[derive(Deserialize)]
struct People {
    person: Vec<Person>,
}

#[derive(Deserialize)]
pub(super) struct Person {
    pub name: String,
    pub born: Date,
    pub died: Option<Date>,
    pub town: String,
    pub role: String,
    pub text: String,
}

#[derive(Deserialize)]
pub(super) struct Events {
    pub nature: Vec<Nature>,
    pub project: Vec<Project>,
    pub election: Vec<Election>,
    pub press: Vec<Article>,
    pub poison: Vec<Article>,
}

#[derive(Deserialize)]
pub(super) struct Nature {
    pub name: String,
    pub date: Option<Date>,
    pub text: String,
}

#[derive(Deserialize)]
pub(super) struct Project {
    pub name: String,
    pub town: String,
    pub opened: u32,
    /// Megawatts; 0 if the project delivers no power.
    pub power: u32,
    /// Millions of crowns.
    pub cost: u32,
    pub text: String,
}

#[derive(Deserialize)]
pub(super) struct Election {
    pub date: Date,
    /// Share of voters who voted, in per cent.
    pub turnout: f64,
    /// Seats of the Harbour Party, the Social Alliance, the Green League and the Union of Outer
    /// Islands.
    pub seats: [u32; 4],
    pub text: String,
}

/// An article that is complete in its table.
#[derive(Deserialize)]
pub(super) struct Article {
    pub slug: String,
    pub title: String,
    pub date: Option<Date>,
    pub author: Option<String>,
    pub text: String,
}

/// Figures of one kind of yearly report.
#[derive(Deserialize)]
pub(super) struct Series {
    /// One note for each report.
    pub notes: Vec<String>,
    /// Highest temperature with place and day, for each report on the weather.
    #[serde(default)]
    pub warmest: Vec<String>,
    /// Lowest temperature with place and day, for each report on the weather.
    #[serde(default)]
    pub coldest: Vec<String>,
    /// The figures, from the year before the first report.
    #[serde(flatten)]
    pub columns: BTreeMap<String, Vec<f64>>,
}
