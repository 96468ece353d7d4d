mod fetching;
mod vetting;
