//! Ranking of what is kept, beside the runtime's threads.

/// The places of the documents that a query finds, best first.
pub(crate) async fn rank(documents: Vec<String>, query: &str) -> Vec<usize> {
    let query = query.to_owned();
    // All of it is read, which may take a while.
    let ranking = tokio::task::spawn_blocking(move || {
        let ranked = toolbus_search::rank(&documents, &query);
        ranked.into_iter().map(|ranked| ranked.document).collect()
    });
    // It does not panic; a process that ends has no use for an answer.
    ranking.await.unwrap_or_default()
}
