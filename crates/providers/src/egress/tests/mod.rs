mod fetching;
mod pages;
mod vetting;
