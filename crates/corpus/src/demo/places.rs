//! Articles on islands, towns and ferry routes of the built-in corpus.

use super::Articles;
use super::prose::{Draft, count, first_sentence, join, number, ordinal, with_article};
use super::world::{Island, Route, Town, World};

/// Adds the articles.
pub(super) fn add(world: &World, articles: &mut Articles) {
    for (rank, island) in world.places.island.iter().enumerate() {
        articles.add(&island.name, island_text(world, island, rank));
    }
    for town in &world.places.town {
        articles.add_revised(&town.name, town.revised, town_text(world, town, articles.place()));
    }
    for route in &world.sea.route {
        let title = format!("Ferry {}–{}", route.from, route.to);
        articles.add(&title, route_text(world, route, articles.place()));
    }
}

/// Islands are sorted by population; `rank` is the place, from 0.
fn island_text(world: &World, island: &Island, rank: usize) -> String {
    let towns: Vec<&Town> = world
        .places
        .town
        .iter()
        .filter(|town| town.island == island.name)
        .collect();
    let names: Vec<&str> = towns.iter().map(|town| town.name.as_str()).collect();
    let residents: u32 = towns.iter().map(|town| town.population).sum();
    let islands = &world.places.island;
    let all = islands.iter().fold((0, 0), |sum, island| {
        (sum.0 + island.population, sum.1 + island.area)
    });
    let density = |people: u32, area: u32| number(f64::from(people) / f64::from(area), 0);
    let mut ports: Vec<&str> = names.iter().flat_map(|town| world.ports_from(town)).collect();
    ports.retain(|port| !names.contains(port));
    let light = world
        .sea
        .lighthouse
        .iter()
        .find(|light| light.island == island.name);
    let light = light.map(|light| format!(" Its lighthouse, {}, dates from {}.", light.name, light.built));
    let mut draft = Draft::new(&world.phrases, "island", rank);
    draft
        .set("name", &island.name)
        .set("area", count(island.area))
        .set("population", count(island.population))
        .set("summit", &island.summit)
        .set("height", count(island.height))
        .set(
            "rank",
            match rank {
                0 => "the largest".to_owned(),
                _ if rank + 1 == islands.len() => "the smallest".to_owned(),
                _ => format!("the {} largest", ordinal(rank)),
            },
        )
        .set("density", density(island.population, island.area))
        .set("mean_density", density(all.0, all.1))
        .set("towns", join(&names))
        .set(
            "share",
            number(f64::from(residents) / f64::from(island.population) * 100.0, 0),
        )
        .set("ports", join(&ports))
        .set("light", light.unwrap_or_default());
    let facts: Vec<String> = towns
        .iter()
        .map(|town| {
            format!(
                "{} is the {} ({} inhabitants).",
                town.name,
                town.known,
                count(town.population)
            )
        })
        .collect();
    let (land, settled) = (draft.phrase("land"), draft.phrase("towns"));
    draft
        .phrases("lead")
        .paragraph(&[&island.text])
        .paragraph(&[&land, &settled])
        .paragraph(&facts.iter().map(String::as_str).collect::<Vec<_>>())
        .phrases("end");
    draft.finish()
}

fn town_text(world: &World, town: &Town, place: usize) -> String {
    let mut draft = Draft::new(&world.phrases, "town", place);
    draft
        .set("name", &town.name)
        .set("island", &town.island)
        .set("population", count(town.population))
        .set("known", &town.known)
        .set("a_known", with_article(&town.known))
        .set("light", world.light_near(&town.island));
    let around = around(world, town, &mut draft);
    let (way, work) = (way(world, town, &mut draft), work(world, town, &mut draft));
    let (feast, people) = (feast(world, town, &mut draft), people(world, town, &mut draft));
    draft
        .phrases("lead")
        .paragraph(&[&town.text])
        .paragraph(&[&around, &way, &work])
        .paragraph(&[&feast, &people])
        .phrases("end");
    draft.finish()
}

fn around(world: &World, town: &Town, draft: &mut Draft<'_>) -> String {
    let Some(island) = world.island(&town.island) else {
        return String::new();
    };
    draft
        .set("summit", &island.summit)
        .set("island_population", count(island.population))
        .set("area", count(island.area));
    let others = world
        .places
        .town
        .iter()
        .filter(|other| other.island == town.island && other.name != town.name);
    let others: Vec<&str> = others.map(|other| other.name.as_str()).collect();
    draft.set("others", join(&others));
    if others.is_empty() {
        String::new()
    } else {
        draft.phrase("island")
    }
}

fn way(world: &World, town: &Town, draft: &mut Draft<'_>) -> String {
    let ports: Vec<&str> = world.ports_from(&town.name).collect();
    let calls = |route: &&Route| route.from == town.name || route.to == town.name;
    if let Some(route) = world.sea.route.iter().find(calls) {
        set_route(draft, route);
        draft.set("ports", join(&ports));
        return draft.phrase("ferry");
    }
    let mut others = world
        .places
        .town
        .iter()
        .filter(|other| other.island == town.island);
    let port = others.find(|other| world.ports_from(&other.name).next().is_some());
    draft.set("port", port.map_or("", |port| &port.name));
    draft.phrase("bus")
}

fn work(world: &World, town: &Town, draft: &mut Draft<'_>) -> String {
    let here = world
        .organisations
        .company
        .iter()
        .filter(|company| company.town == town.name);
    let companies: Vec<&str> = here.map(|company| company.name.as_str()).collect();
    draft.set("companies", join(&companies));
    match companies.len() {
        0 => String::new(),
        1 => draft.phrase("one_firm"),
        _ => draft.phrase("work"),
    }
}

fn feast(world: &World, town: &Town, draft: &mut Draft<'_>) -> String {
    let Some(festival) = world
        .organisations
        .festival
        .iter()
        .find(|festival| festival.town == town.name)
    else {
        return String::new();
    };
    draft
        .set("festival", &festival.name)
        .set("when", &festival.when)
        .set("visitors", count(festival.visitors[1]));
    draft.phrase("feast")
}

fn people(world: &World, town: &Town, draft: &mut Draft<'_>) -> String {
    let here = world.people.iter().filter(|person| person.town == town.name);
    let people: Vec<String> = here
        .map(|person| format!("{} ({})", person.name, person.role))
        .collect();
    if people.is_empty() {
        return String::new();
    }
    draft.set(
        "people",
        join(&people.iter().map(String::as_str).collect::<Vec<_>>()),
    );
    draft.phrase("people")
}

fn route_text(world: &World, route: &Route, place: usize) -> String {
    let mut draft = Draft::new(&world.phrases, "route", place);
    set_route(&mut draft, route);
    let known = |town: &str| world.town(town).map_or("", |town| &town.known);
    draft
        .set("from_known", known(&route.from))
        .set("to_known", known(&route.to));
    let ship = world.sea.ship.iter().find(|ship| ship.name == route.ship);
    if let Some(ship) = ship {
        draft
            .set("built", ship.built.to_string())
            .set("yard", &ship.yard)
            .set("length", count(ship.length))
            .set("capacity", count(ship.capacity))
            .set(
                "cars",
                if ship.cars == 0 {
                    "no".to_owned()
                } else {
                    count(ship.cars)
                },
            );
    }
    let lead = draft.phrase("lead");
    let ends = draft.phrase(if known(&route.to).is_empty() {
        "mainland"
    } else {
        "ends"
    });
    let character = ship.map_or("", |ship| first_sentence(&ship.text));
    for name in ["passengers", "punctual", "cancelled"] {
        draft.set(name, world.last_figure("ferries", name));
    }
    let (about, traffic) = (draft.phrase("ship"), draft.phrase("traffic"));
    draft
        .paragraph(&[&lead, &route.note])
        .paragraph(&[&about, character])
        .paragraph(&[&ends, &traffic])
        .phrases("advice");
    draft.finish()
}

/// Sets the ends and the duration of a route.
pub(super) fn set_route(draft: &mut Draft<'_>, route: &Route) {
    draft
        .set("from", &route.from)
        .set("to", &route.to)
        .set("ship", &route.ship)
        .set("note", &route.note)
        .set(
            "duration",
            match route.minutes {
                minutes if minutes >= 120 => format!("{} hours", minutes / 60),
                minutes => format!("{minutes} minutes"),
            },
        );
}
