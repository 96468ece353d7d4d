//! Checks of the document collections: their folders exist and are indexed.

use tollgate_operations::research::CorpusView;

use super::Finding;
use crate::config::Config;
use crate::corpora;

/// Checks every configured corpus.
pub fn check(config: &Config) -> Vec<Finding> {
    let states = match corpora::list(config) {
        Ok(states) => states,
        Err(error) => {
            let remedy = "correct the section, or remove the index folder below the data directory";
            return vec![Finding::fault("corpora", error.to_string(), remedy)];
        }
    };
    states.iter().map(|state| of_corpus(config, state)).collect()
}

fn of_corpus(config: &Config, state: &CorpusView) -> Finding {
    let what = format!("corpus {}", state.name);
    let path = config.file.corpora.get(&state.name).map(|section| &section.path);
    if let Some(path) = path.filter(|path| !path.is_dir()) {
        let detail = format!("{} is not a folder that this user can read", path.display());
        return Finding::fault(what, detail, "create the folder, or correct `path`");
    }
    let Some(built_at) = &state.built_at else {
        let remedy = "`tollgate serve` indexes it, or run `tollgate corpus rebuild NAME`";
        return Finding::note(what, "has no index yet", remedy);
    };
    let detail = format!("{} documents, indexed at {built_at}", state.documents);
    match (state.documents, state.skipped) {
        (0, _) => {
            let remedy = "add Markdown, text or JSON files";
            Finding::note(what, format!("{detail}: research finds nothing"), remedy)
        }
        (_, 0) => Finding::fine(what, detail),
        (_, skipped) => {
            let remedy = "documents are Markdown, text or JSON files of at most 20 MiB in UTF-8";
            Finding::note(
                what,
                format!("{detail}; skipped {skipped} files or documents"),
                remedy,
            )
        }
    }
}
