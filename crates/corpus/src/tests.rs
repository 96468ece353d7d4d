mod builds;
mod demo;
mod filters;
mod fixture;
mod hits;
mod reads;
