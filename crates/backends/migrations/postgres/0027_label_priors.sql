-- What models of providers prefer whatever typed decisions ask of them, as it was learned.

CREATE TABLE label_prior (
    provider TEXT NOT NULL,
    model    TEXT NOT NULL,
    prior    TEXT NOT NULL,
    PRIMARY KEY (provider, model)
);
