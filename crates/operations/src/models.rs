//! Commands on the models of the catalog.

use serde::{Deserialize, Serialize};
use tollgate_types::Error;

use crate::operation::{Completed, Declaration, Operation};
use crate::view::ModelView;
use crate::{Actor, Operations};

/// Lists the models of the catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListModels;

impl Operation for ListModels {
    const NAME: &'static str = "list_models";
    type Reply = Vec<ModelView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        Ok(ModelView::all(&operations.catalog.current()).into())
    }
}
