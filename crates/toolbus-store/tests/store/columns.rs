//! Columns that several crates write alike.

use toolbus_store::{Error, JSON_COLUMN_BYTES_MAX, JsonColumn, OwnerId, Store, sqlx};

use crate::support::{Place, note};

async fn write_text(store: &Store, value: JsonColumn<Vec<String>>) -> Result<(), Error> {
    let written = store.write(move |transaction| {
        Box::pin(async move {
            sqlx::query("UPDATE notes SET text = $1 WHERE id = 1")
                .bind(value)
                .execute(transaction.connection())
                .await?;
            Ok(())
        })
    });
    written.await
}

#[tokio::test]
async fn json_and_owners_are_read_as_they_were_written() {
    for place in Place::all().await {
        let store = place.open().await;
        note(&store, 1, "x").await.unwrap();
        let value = vec!["a \"b\"".to_owned(), "\u{1f980}".to_owned()];
        write_text(&store, JsonColumn(value.clone())).await.unwrap();
        let row = sqlx::query("SELECT text FROM notes").fetch_one(store.readers()).await.unwrap();
        assert_eq!(JsonColumn::read(&row, "text", "1").unwrap(), Some(value.clone()));
        assert_eq!(JsonColumn::read_optional(&row, "text", "1").unwrap(), Some(value));

        let empty = sqlx::query("SELECT CAST(NULL AS TEXT) AS text");
        let row = empty.fetch_one(store.readers()).await.unwrap();
        let read: Option<Vec<String>> = JsonColumn::read_optional(&row, "text", "1").unwrap();
        assert_eq!(read, None);
        assert!(JsonColumn::<Vec<String>>::read_optional(&row, "nothing", "1").is_err());
    }
}

/// Too long values are not written; damaged ones are logged and are no values.
#[tokio::test]
async fn what_is_too_long_or_damaged_is_refused() {
    for place in Place::all().await {
        let store = place.open().await;
        note(&store, 1, "{\"a\":").await.unwrap();
        let row = sqlx::query("SELECT text FROM notes").fetch_one(store.readers()).await.unwrap();
        let read: Option<Vec<String>> = JsonColumn::read(&row, "text", "1").unwrap();
        assert_eq!(read, None);
        assert!(JsonColumn::<Vec<String>>::read(&row, "nothing", "1").is_err());

        let long = JsonColumn(vec!["x".repeat(JSON_COLUMN_BYTES_MAX)]);
        let error = write_text(&store, long).await.unwrap_err().to_string();
        assert!(error.contains("over the limit of 262144 for a column"), "{error}");
        let kept: String =
            sqlx::query_scalar("SELECT text FROM notes").fetch_one(store.readers()).await.unwrap();
        assert_eq!(kept, "{\"a\":");
    }
}

#[tokio::test]
async fn an_owner_is_found_by_its_id() {
    for place in Place::all().await {
        let store = place.open().await;
        note(&store, 1, "claimed:alice").await.unwrap();
        let found: OwnerId = sqlx::query_scalar("SELECT text FROM notes WHERE text = $1")
            .bind(OwnerId::new("claimed:alice"))
            .fetch_one(store.readers())
            .await
            .unwrap();
        assert_eq!(found.as_str(), "claimed:alice");
    }
}
