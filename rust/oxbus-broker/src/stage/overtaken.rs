// SPDX-License-Identifier: Apache-2.0
//! Stages that attempts of a committed batch left behind: of failed and of speculative tasks, and of a driver that died.

use super::registry::StageRegistry;

/// How a query begins the ids of its stages for a sink.
fn prefix_of(sink: &str, query: &str) -> String {
    let escaped = |name: &str| name.replace('%', "%25").replace('/', "%2F");
    format!("{}/{}/", escaped(sink), escaped(query))
}

/// The batch in the id of a stage, if it belongs to the sink and the query.
fn batch_of(id: &str, prefix: &str) -> Option<u64> {
    id.strip_prefix(prefix)?.split_once('/')?.0.parse().ok()
}

impl StageRegistry {
    /// Removes the stages of a query for a sink, up to a batch, that no commit has named.
    pub(super) fn discard_overtaken(&self, sink: &str, query: &str, batch: u64) {
        let prefix = prefix_of(sink, query);
        let ids: Vec<String> = {
            let table = self.table();
            let of_query = table.stages.range(prefix.clone()..).map(|(id, _)| id);
            let of_query = of_query.take_while(|id| id.starts_with(&prefix));
            let overtaken = of_query.filter(|id| batch_of(id, &prefix).is_some_and(|of| of <= batch));
            overtaken.cloned().collect()
        };
        self.discard_all(&ids);
    }

    /// True if the sink of this stage has committed its batch, or a later one, without it.
    pub(super) fn is_overtaken(&self, id: &str) -> bool {
        self.intents().iter().any(|(sink, intent)| {
            let batch = batch_of(id, &prefix_of(sink, &intent.query));
            batch.is_some_and(|batch| batch <= intent.batch) && !intent.stages.iter().any(|stage| stage == id)
        })
    }
}
