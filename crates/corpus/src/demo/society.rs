//! Articles on companies, festivals, institutions and people of the built-in corpus.

use super::Articles;
use super::prose::{
    Draft, comparison, count, first_sentence, join, long_date, number, ordinal, with_article,
};
use super::world::{Company, Festival, Institution, Person, World};

/// Maximum number of related articles at the end of a biography.
const MAX_RELATED: usize = 5;

/// Adds the articles.
pub(super) fn add(world: &World, articles: &mut Articles) {
    for company in &world.organisations.company {
        articles.add(&company.name, company_text(world, company, articles.place()));
    }
    for festival in &world.organisations.festival {
        articles.add(&festival.name, festival_text(world, festival, articles.place()));
    }
    for institution in &world.organisations.institution {
        articles.add(
            &institution.name,
            institution_text(world, institution, articles.place()),
        );
    }
    for person in &world.people {
        articles.add(&person.name, person_text(world, person, articles.place()));
    }
}

fn set_town(world: &World, name: &str, draft: &mut Draft<'_>) {
    draft.set("town", name);
    if let Some(town) = world.town(name) {
        draft
            .set("known", &town.known)
            .set("population", count(town.population))
            .set("island", &town.island)
            .set("sentence", first_sentence(&town.text));
    }
}

fn company_text(world: &World, company: &Company, place: usize) -> String {
    let mut draft = Draft::new(&world.phrases, "company", place);
    set_town(world, &company.town, &mut draft);
    let larger = world
        .organisations
        .company
        .iter()
        .filter(|other| other.staff[2] > company.staff[2])
        .count();
    let residents = world.town(&company.town).map_or(0, |town| town.population);
    let [before, between, now] = company.staff;
    draft
        .set("name", &company.name)
        .set("trade", &company.trade)
        .set("founded", company.founded.to_string())
        .set("leader", &company.leader)
        .set("staff_2015", count(before))
        .set("staff_2020", count(between))
        .set("staff_2025", count(now))
        .set("rank", ordinal(larger))
        .set("ratio", number(f64::from(residents) / f64::from(now.max(1)), 0));
    draft
        .phrases("lead")
        .paragraph(&[&company.text])
        .phrases(if before == 0 { "young" } else { "staff" })
        .phrases("end");
    draft.finish()
}

fn festival_text(world: &World, festival: &Festival, place: usize) -> String {
    let mut draft = Draft::new(&world.phrases, "festival", place);
    set_town(world, &festival.town, &mut draft);
    let [before, now] = festival.visitors;
    draft
        .set("name", &festival.name)
        .set("when", &festival.when)
        .set("founded", festival.founded.to_string())
        .set("visitors_2019", count(before))
        .set("visitors_2025", count(now))
        .set("change", comparison(f64::from(before), f64::from(now), 2_019));
    draft
        .phrases("lead")
        .paragraph(&[&festival.text])
        .phrases("visitors")
        .phrases("end");
    draft.finish()
}

fn institution_text(world: &World, institution: &Institution, place: usize) -> String {
    let mut draft = Draft::new(&world.phrases, "institution", place);
    set_town(world, &institution.town, &mut draft);
    let ports: Vec<&str> = world.ports_from(&institution.town).collect();
    let way = match ports.as_slice() {
        [] => "bus".to_owned(),
        ports => format!("ferry from {}", join(ports)),
    };
    draft
        .set("name", &institution.name)
        .set("founded", institution.founded.to_string())
        .set("leader", &institution.leader)
        .set(
            "neighbours",
            join(&near(world, &institution.town, &institution.name)),
        )
        .set("way", way);
    draft
        .phrases("lead")
        .paragraph(&[&institution.text])
        .phrases("neighbours")
        .phrases("end");
    draft.finish()
}

fn person_text(world: &World, person: &Person, place: usize) -> String {
    let mut draft = Draft::new(&world.phrases, "person", place);
    set_town(world, &person.town, &mut draft);
    draft
        .set("name", &person.name)
        .set("last", person.name.rsplit(' ').next().unwrap_or_default())
        .set("role", &person.role)
        .set("a_role", with_article(&person.role))
        .set("born", long_date(person.born))
        .set("died", person.died.map(long_date).unwrap_or_default())
        .set("related", join(&related(world, person)));
    draft
        .phrases(if person.died.is_some() {
            "lead_dead"
        } else {
            "lead"
        })
        .paragraph(&[&person.text])
        .phrases("place");
    let (related, end) = (draft.phrase("related"), draft.phrase("end"));
    draft.paragraph(&[&related, &end]);
    draft.finish()
}

/// Returns the names of all articles on organisations and people, with their towns.
fn all(world: &World) -> impl Iterator<Item = (&str, &str)> {
    let organisations = &world.organisations;
    organisations
        .company
        .iter()
        .map(|company| (company.name.as_str(), company.town.as_str()))
        .chain(
            organisations
                .festival
                .iter()
                .map(|festival| (festival.name.as_str(), festival.town.as_str())),
        )
        .chain(
            organisations
                .institution
                .iter()
                .map(|found| (found.name.as_str(), found.town.as_str())),
        )
        .chain(
            world
                .people
                .iter()
                .map(|person| (person.name.as_str(), person.town.as_str())),
        )
}

/// Returns the names of other articles on the same town.
fn near<'a>(world: &'a World, town: &str, except: &str) -> Vec<&'a str> {
    let near = all(world).filter(|(name, at)| *at == town && *name != except);
    near.map(|(name, _)| name).take(MAX_RELATED).collect()
}

/// Returns the town, the articles that the text mentions, and others on the same town.
fn related<'a>(world: &'a World, person: &'a Person) -> Vec<&'a str> {
    let others = all(world).filter(|(name, _)| *name != person.name);
    let (mentioned, others): (Vec<_>, Vec<_>) = others.partition(|(name, _)| person.text.contains(name));
    let near = others.into_iter().filter(|(_, town)| *town == person.town);
    let names = mentioned.into_iter().chain(near).map(|(name, _)| name);
    std::iter::once(person.town.as_str())
        .chain(names)
        .take(MAX_RELATED)
        .collect()
}
