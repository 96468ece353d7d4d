//! Articles on ships, lighthouses and storms of the built-in corpus.

use super::Articles;
use super::places::set_route;
use super::prose::{Draft, count, join, long_date, number, ordinal};
use super::world::{Lighthouse, Ship, Storm, World};

/// Adds the articles. Those on lighthouses have no date.
pub(super) fn add(world: &World, articles: &mut Articles) {
    for ship in &world.sea.ship {
        let route = world.sea.route.iter().any(|route| route.ship == ship.name);
        let title = format!("{} ({})", ship.name, if route { "ferry" } else { "wreck" });
        articles.add(&title, ship_text(world, ship, articles.place()));
    }
    for light in &world.sea.lighthouse {
        let title = format!("{} lighthouse", light.name);
        articles.add_dated(&title, None, light_text(world, light, articles.place()));
    }
    for storm in &world.sea.storm {
        articles.add(
            &capitalised(&storm.name),
            storm_text(world, storm, articles.place()),
        );
    }
}

fn ship_text(world: &World, ship: &Ship, place: usize) -> String {
    let mut draft = Draft::new(&world.phrases, "ship", place);
    let ferries: Vec<&Ship> = world.sea.ship.iter().filter(|ship| ship.built > 1_900).collect();
    let ages: u32 = ferries.iter().map(|ship| 2_025 - ship.built).sum();
    let ferry_count = u32::try_from(ferries.len()).unwrap_or(1).max(1);
    draft
        .set("name", &ship.name)
        .set("built", ship.built.to_string())
        .set("yard", &ship.yard)
        .set("length", count(ship.length))
        .set("capacity", count(ship.capacity))
        .set("mean_age", number(f64::from(ages) / f64::from(ferry_count), 0))
        .set(
            "and_cars",
            match ship.cars {
                0 => String::new(),
                cars => format!(" and {cars} cars"),
            },
        );
    match world.sea.route.iter().find(|route| route.ship == ship.name) {
        Some(route) => {
            set_route(&mut draft, route);
            let (way, fleet) = (draft.phrase("route"), draft.phrase("fleet"));
            draft
                .phrases("lead")
                .paragraph(&[&ship.text])
                .paragraph(&[&way])
                .paragraph(&[&fleet])
                .phrases("end");
        }
        None => {
            draft
                .phrases("lead_wreck")
                .paragraph(&[&ship.text])
                .phrases("wreck");
        }
    }
    draft.finish()
}

fn light_text(world: &World, light: &Lighthouse, place: usize) -> String {
    let mut draft = Draft::new(&world.phrases, "lighthouse", place);
    let higher = world
        .sea
        .lighthouse
        .iter()
        .filter(|other| other.height > light.height)
        .count();
    draft
        .set("name", &light.name)
        .set("island", &light.island)
        .set("built", light.built.to_string())
        .set("height", count(light.height))
        .set("range", count(light.range))
        .set("rank", ordinal(higher));
    let islands = &world.places.island;
    if let Some((rank, island)) = islands
        .iter()
        .enumerate()
        .find(|(_, island)| island.name == light.island)
    {
        draft
            .set("rank_island", ordinal(rank))
            .set("population", count(island.population))
            .set("summit", &island.summit)
            .set("summit_height", count(island.height));
    }
    draft
        .phrases("lead")
        .paragraph(&[&light.text])
        .phrases("rank")
        .phrases("end");
    draft.finish()
}

fn storm_text(world: &World, storm: &Storm, place: usize) -> String {
    let mut draft = Draft::new(&world.phrases, "storm", place);
    let storms = &world.sea.storm;
    let stronger = storms.iter().filter(|other| other.gust > storm.gust).count();
    let deeper = storms
        .iter()
        .filter(|other| other.pressure < storm.pressure)
        .count();
    let others: Vec<String> = storms
        .iter()
        .filter(|other| other.name != storm.name)
        .map(|other| format!("{} ({} km/h)", the(&other.name), other.gust))
        .collect();
    draft
        .set("the_name", the(&storm.name))
        .set("The_name", capitalised(&the(&storm.name)))
        .set("date", long_date(storm.date))
        .set("gust", count(storm.gust))
        .set("pressure", storm.pressure.to_string())
        .set("rank", ordinal(stronger))
        .set("rank_pressure", ordinal(deeper))
        .set(
            "others",
            join(&others.iter().map(String::as_str).collect::<Vec<_>>()),
        );
    draft
        .phrases("lead")
        .paragraph(&[&storm.text])
        .phrases("rank")
        .phrases("end");
    draft.finish()
}

/// Puts "the" before descriptions, but not before names.
fn the(name: &str) -> String {
    match name.starts_with("Storm ") {
        true => name.to_owned(),
        false => format!("the {name}"),
    }
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}
