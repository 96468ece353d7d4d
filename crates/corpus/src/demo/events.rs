//! Articles on nature, projects and elections, and press articles of the built-in corpus.

use super::Articles;
use super::prose::{Draft, count, long_date, number};
use super::world::{Article, Election, Project, World};
use crate::document::Document;

const PARTIES: [&str; 4] = ["harbour", "social", "green", "outer"];
const PARTY_NAMES: [&str; 4] = [
    "Harbour Party",
    "Social Alliance",
    "Green League",
    "Union of Outer Islands",
];
/// The last year with figures in the articles.
const LAST_YEAR: u32 = 2_025;

/// Adds the articles.
pub(super) fn add(world: &World, articles: &mut Articles) {
    for nature in &world.events.nature {
        let mut draft = Draft::new(&world.phrases, "nature", articles.place());
        draft.paragraph(&[&nature.text]).phrases("record").phrases("end");
        articles.add_dated(&nature.name, nature.date, draft.finish());
    }
    for project in &world.events.project {
        articles.add(&project.name, project_text(world, project, articles.place()));
    }
    for (place, election) in world.events.election.iter().enumerate() {
        let before = place
            .checked_sub(1)
            .and_then(|before| world.events.election.get(before));
        let title = format!("Election of {}", election.date.year());
        let text = election_text(world, election, before, articles.place());
        articles.add_dated(&title, Some(election.date), text);
    }
    for article in world.events.press.iter().chain(&world.events.poison) {
        articles.push(document(world, article, articles.place()));
    }
}

fn document(world: &World, article: &Article, place: usize) -> Document {
    let mut draft = Draft::new(&world.phrases, "article", place);
    draft.paragraph(&[&article.text]).phrases("end");
    Document {
        path: article.slug.clone(),
        title: article.title.clone(),
        author: article.author.clone(),
        date: article.date,
        text: draft.finish(),
        ..Document::default()
    }
}

fn project_text(world: &World, project: &Project, place: usize) -> String {
    let mut draft = Draft::new(&world.phrases, "project", place);
    draft
        .set("name", &project.name)
        .set("town", &project.town)
        .set("opened", project.opened.to_string())
        .set("cost", count(project.cost))
        .set("power", count(project.power))
        .set(
            "and_power",
            match project.power {
                0 => String::new(),
                power => format!(" and has a capacity of {power} megawatts"),
            },
        );
    if let Some(town) = world.town(&project.town) {
        draft
            .set("known", &town.known)
            .set("population", count(town.population));
    }
    let mut total = 0.0;
    let columns = world.series.get("energy").map(|series| &series.columns);
    for name in ["wind", "tide", "diesel", "peak"] {
        let last = columns
            .and_then(|columns| columns.get(name)?.last())
            .copied()
            .unwrap_or(0.0);
        total += if name == "peak" { 0.0 } else { last };
        draft.set(name, number(last, 0));
    }
    draft.set("total", number(total, 0));
    draft
        .phrases(if project.opened > LAST_YEAR {
            "planned"
        } else {
            "lead"
        })
        .paragraph(&[&project.text])
        .phrases("supply")
        .phrases("end");
    draft.finish()
}

fn election_text(world: &World, election: &Election, before: Option<&Election>, place: usize) -> String {
    let mut draft = Draft::new(&world.phrases, "election", place);
    draft
        .set("date", long_date(election.date))
        .set("turnout", number(election.turnout, 1));
    let mut first = (0, "");
    for ((party, name), seats) in PARTIES.iter().zip(PARTY_NAMES).zip(election.seats) {
        draft.set(party, count(seats));
        if seats > first.0 {
            first = (seats, name);
        }
    }
    draft.set("first", first.1);
    let change = before.map(|before| {
        for ((party, old), new) in PARTIES.iter().zip(before.seats).zip(election.seats) {
            draft.set(&format!("{party}_change"), seats_change(old, new));
        }
        draft.phrase("change")
    });
    let result = draft.phrase("result");
    draft
        .phrases("lead")
        .paragraph(&[&result, change.as_deref().unwrap_or_default()])
        .paragraph(&[&election.text])
        .phrases("end");
    draft.finish()
}

fn seats_change(old: u32, new: u32) -> String {
    let seats = |count: u32| match count {
        1 => "a seat".to_owned(),
        _ => format!("{count} seats"),
    };
    match new.cmp(&old) {
        std::cmp::Ordering::Less => format!("lost {}", seats(old - new)),
        std::cmp::Ordering::Equal => "held its seats".to_owned(),
        std::cmp::Ordering::Greater => format!("gained {}", seats(new - old)),
    }
}
