//! Yearly reports of the built-in corpus.

use std::collections::BTreeMap;

use tollgate_types::Date;

use super::prose::{Draft, comparison, movement, number};
use super::world::{Series, World};
use crate::document::Document;

/// Year of the first figures. The first reports are about the year after.
const FIRST_YEAR: u16 = 2014;

/// A kind of report: name of its series, author, and month and day of publication.
const KINDS: &[(&str, &str, u8, u8)] = &[
    ("fisheries", "Statistics Orsel", 3, 11),
    ("ferries", "Orsel Lines", 2, 14),
    ("weather", "Weather Service of the Orsel Islands", 1, 17),
    ("energy", "Orsel Power", 4, 5),
    ("population", "Statistics Orsel", 3, 26),
];

/// Columns of figures by name; those that are computed included.
type Columns = BTreeMap<String, Vec<f64>>;

/// Writes all reports.
pub(super) fn reports(world: &World) -> Vec<Document> {
    let population = world
        .series
        .get("population")
        .and_then(|series| series.columns.get("total"));
    let population = population.map_or(&[][..], Vec::as_slice);
    let mut documents = Vec::new();
    for (kind, author, month, day) in KINDS {
        let Some(series) = world.series.get(*kind) else {
            continue;
        };
        let columns = with_computed(kind, &series.columns, population);
        for (note, year) in (FIRST_YEAR + 1..).take(series.notes.len()).enumerate() {
            // Published a few days earlier or later each year.
            let day = day + u8::try_from(year * 7 % 5).unwrap_or(0);
            let text = report(world, kind, series, &columns, note, year);
            documents.push(Document {
                path: format!("{kind}-{year}"),
                title: text.0,
                author: Some((*author).to_owned()),
                date: Date::new(year + 1, *month, day),
                text: text.1,
                ..Document::default()
            });
        }
    }
    documents
}

/// Returns the title and the text of a report.
fn report(
    world: &World,
    kind: &str,
    series: &Series,
    columns: &Columns,
    note: usize,
    year: u16,
) -> (String, String) {
    let mut draft = Draft::new(&world.phrases, kind, note);
    draft.set("year", year.to_string());
    for (name, values) in columns {
        let until_now = values.get(..=note + 1).unwrap_or_default();
        if let [.., before, now] = until_now {
            set_figures(&mut draft, name, *before, *now, u32::from(year - 1));
        }
        set_extremes(&mut draft, name, until_now);
    }
    for (name, extremes) in [("warmest", &series.warmest), ("coldest", &series.coldest)] {
        draft.set(name, extremes.get(note).cloned().unwrap_or_default());
    }
    let title = draft.phrase("title");
    let note = series.notes.get(note).cloned().unwrap_or_default();
    draft
        .phrases("lead")
        .phrases("body")
        .paragraph(&[&note])
        .phrases("history")
        .phrases("end");
    (title, draft.finish())
}

fn set_figures(draft: &mut Draft<'_>, name: &str, before: f64, now: f64, last_year: u32) {
    let decimals = decimals(name);
    let change = match name {
        "mean" => degrees(before, now),
        "vessels" => match number((now - before).abs(), 0).as_str() {
            "0" => "as many as a year before".to_owned(),
            difference if now < before => format!("{difference} fewer than a year before"),
            difference => format!("{difference} more than a year before"),
        },
        "passengers" | "cars" | "guests" => comparison(before, now, last_year).replace("less", "fewer"),
        _ => comparison(before, now, last_year),
    };
    let warmth = match now.total_cmp(&before) {
        std::cmp::Ordering::Less => "cooler than the year before",
        std::cmp::Ordering::Equal => "as warm as the year before",
        std::cmp::Ordering::Greater => "warmer than the year before",
    };
    let sign = if now < before { "fewer" } else { "more" };
    draft
        .set(name, number(now, decimals))
        .set(&format!("{name}_before"), number(before, decimals))
        .set(&format!("{name}_change"), change)
        .set(&format!("{name}_change_short"), warmth)
        .set(&format!("{name}_verb"), movement(before, now))
        .set(
            &format!("{name}_difference"),
            format!("{} {sign}", number((now - before).abs(), 0)),
        );
}

/// Sets the greatest and the smallest figure since the first year, each with its year.
fn set_extremes(draft: &mut Draft<'_>, name: &str, values: &[f64]) {
    let by_value = |a: &(u16, &f64), b: &(u16, &f64)| a.1.total_cmp(b.1);
    let years = || (FIRST_YEAR..).zip(values);
    for (extreme, found) in [
        ("max", years().max_by(by_value)),
        ("min", years().min_by(by_value)),
    ] {
        if let Some((year, value)) = found {
            draft
                .set(&format!("{name}_{extreme}"), number(*value, decimals(name)))
                .set(&format!("{name}_{extreme}_year"), year.to_string());
        }
    }
}

fn degrees(before: f64, now: f64) -> String {
    let difference = number((now - before).abs(), 1);
    match () {
        () if difference == "0.0" => "the same as in the year before".to_owned(),
        () if now > before => format!("{difference} degrees above that of the year before"),
        () => format!("{difference} degrees below that of the year before"),
    }
}

fn decimals(column: &str) -> usize {
    match column {
        "price" => 2,
        "mean" | "punctual" | "rain_per_day" | "sun_per_day" | "guests_per_head" => 1,
        _ => 0,
    }
}

/// Adds the columns that are computed from others.
fn with_computed(kind: &str, given: &Columns, population: &[f64]) -> Columns {
    let mut columns = given.clone();
    let column = |name: &str| given.get(name).cloned().unwrap_or_default();
    let each = |a: &[f64], b: &[f64], function: fn(f64, f64) -> f64| -> Vec<f64> {
        a.iter().zip(b).map(|(a, b)| function(*a, *b)).collect()
    };
    let days = vec![365.0; population.len()];
    let mut add = |name: &str, values: Vec<f64>| columns.insert(name.to_owned(), values);
    match kind {
        "fisheries" => {
            let fish = each(&column("cod"), &column("herring"), |a, b| a + b);
            let shellfish = each(&column("crab"), &column("mussels"), |a, b| a + b);
            let weight = each(&fish, &shellfish, |a, b| a + b);
            add(
                "unit_value",
                each(&column("value"), &weight, |value, tonnes| value * 1e6 / tonnes),
            );
            add(
                "per_vessel",
                each(&column("value"), &column("vessels"), |value, vessels| {
                    value * 1e3 / vessels
                }),
            );
        }
        "ferries" => {
            add("per_head", each(&column("passengers"), population, |a, b| a / b));
            add("per_day", each(&column("passengers"), &days, |a, b| a / b));
        }
        "weather" => {
            add("rain_per_day", each(&column("rain"), &days, |a, b| a / b));
            add("sun_per_day", each(&column("sun"), &days, |a, b| a / b));
        }
        "energy" => {
            let clean = each(&column("wind"), &column("tide"), |a, b| a + b);
            let total = each(&clean, &column("diesel"), |a, b| a + b);
            add("renewable", each(&clean, &total, |a, b| a / b * 100.0));
            add(
                "per_head",
                each(&total, population, |hours, people| hours * 1e6 / people),
            );
            add("total", total);
        }
        _ => {
            add(
                "balance",
                each(&column("births"), &column("deaths"), |a, b| a - b),
            );
            add(
                "guests_per_head",
                each(&column("guests"), population, |a, b| a / b),
            );
        }
    }
    columns
}
