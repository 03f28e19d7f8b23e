//! What is kept, how it is found, and what nobody finds.

use std::os::unix::fs::PermissionsExt as _;

use toolbus_store::{Store, sqlx};
use toolbus_testkit::eventually;
use toolbus_tools::CredentialSource;
use toolbus_vault::{
    CredentialPlace, KeySource, LazyVault, StoredCredential, VALUE_BYTES_MAX, Vault, VaultError,
};

use crate::support::*;

/// A statement of the store's databases.
type Statement = sqlx::query::Query<'static, sqlx::Any, sqlx::any::AnyArguments>;

fn token() -> CredentialPlace {
    CredentialPlace::new("mcp:github", "TOKEN")
}

async fn value_for(vault: &Vault, tool: &str, user: &str) -> Option<String> {
    let credentials = vault.credentials("mcp:github", tool, user).await.expect("credentials");
    credentials.get("TOKEN").map(str::to_owned)
}

/// Writes past the vault.
async fn execute(store: &Store, statement: Statement) {
    let write = store.write(|transaction| {
        Box::pin(async move {
            statement.execute(transaction.connection()).await?;
            Ok(())
        })
    });
    write.await.expect("written");
}

#[tokio::test]
async fn the_most_particular_credential_is_given_and_no_other() {
    for place in Place::all().await {
        let vault = vault(&place).await;
        assert_eq!(value_for(&vault, "search", "local:local").await, None);
        let user = "token:i/ann";
        let rows = [
            (token(), "all"),
            (token().for_tool("search"), "search"),
            (token().for_user(user), "ann"),
            (token().for_tool("search").for_user(user), "ann's search"),
            (CredentialPlace::new("mcp:other", "TOKEN"), "other"),
        ];
        for (place, value) in rows {
            vault.put(place.clone(), "old").await.unwrap();
            vault.put(place, value).await.unwrap();
        }
        for (tool, user, expected) in [
            ("list", "local:local", "all"),
            ("search", "local:local", "search"),
            ("list", user, "ann"),
            ("search", user, "ann's search"),
        ] {
            assert_eq!(value_for(&vault, tool, user).await.as_deref(), Some(expected));
        }

        assert!(vault.remove(token().for_user(user)).await.unwrap());
        assert!(!vault.remove(token().for_user(user)).await.unwrap());
        assert_eq!(value_for(&vault, "list", user).await.as_deref(), Some("all"));
        assert_eq!(vault.remove_provider("mcp:github").await.unwrap(), 3);
        assert_eq!(value_for(&vault, "search", user).await, None);
        let left = vault.list().await.unwrap();
        let [StoredCredential { place, .. }] = &left[..] else { panic!("{left:?}") };
        assert_eq!(place.to_string(), "'TOKEN' of mcp:other");
    }
}

#[tokio::test]
async fn another_process_hears_of_a_change() {
    for place in Place::all().await {
        let (here, there) = (vault(&place).await, vault(&place).await);
        assert_eq!(value_for(&there, "list", "x").await, None);
        here.put(token(), CANARY).await.unwrap();
        eventually(std::time::Duration::from_secs(20), async || {
            value_for(&there, "list", "x").await.filter(|value| value == CANARY).ok_or("not yet")
        })
        .await;
    }
}

#[tokio::test]
async fn nothing_is_read_or_written_with_another_key() {
    for place in Place::all().await {
        let vault = vault(&place).await;
        vault.put(token(), CANARY).await.unwrap();
        let wrong = || VaultError::WrongKey {
            stored: key('1').name().to_owned(),
            given: key('2').name().to_owned(),
        };
        let refused = Vault::open(place.open().await, key('2')).await.err();
        assert_eq!(refused, Some(wrong()));

        // The key is changed: whoever has the old one is told, and nothing is lost.
        let changed = vault.change_key(key('2')).await.unwrap();
        assert_eq!(value_for(&changed, "list", "x").await.as_deref(), Some(CANARY));
        let error = vault.put(token(), "other").await.unwrap_err();
        assert!(matches!(error, VaultError::WrongKey { .. }), "{error}");
        let error = vault.credentials("mcp:github", "list", "x").await.unwrap_err();
        assert!(matches!(error, VaultError::WrongKey { .. }), "{error}");
        assert!(Vault::open(place.open().await, key('1')).await.is_err());
        let again = Vault::open(place.open().await, key('2')).await.unwrap();
        assert_eq!(value_for(&again, "list", "x").await.as_deref(), Some(CANARY));
    }
}

/// An empty vault is nobody's: the first write takes it, and not a look with some key.
#[tokio::test]
async fn the_first_that_writes_has_the_vault() {
    for place in Place::all().await {
        let (first, second) = (vault(&place).await, place.lazy_vault(key('2')));
        assert_eq!(second.open().await.unwrap().list().await.unwrap(), []);
        assert!(!second.open().await.unwrap().remove(token()).await.unwrap());
        first.put(token(), CANARY).await.unwrap();
        let error = second.open().await.unwrap().put(token(), "other").await.unwrap_err();
        assert!(matches!(error, VaultError::WrongKey { .. }), "{error}");
        assert_eq!(value_for(&first, "list", "x").await.as_deref(), Some(CANARY));
        // What does not fit takes no vault.
        let empty = Place::sqlite();
        let vault = vault(&empty).await;
        assert_eq!(
            vault.put(token(), &"x".repeat(VALUE_BYTES_MAX + 1)).await,
            Err(VaultError::TooLong)
        );
        assert!(Vault::open(empty.open().await, key('2')).await.is_ok());
    }
}

/// More than are in memory at a time, and all of them or none.
#[tokio::test]
async fn a_key_is_changed_for_many() {
    for place in Place::all().await {
        let store = place.open().await;
        let vault = Vault::open(store.clone(), key('1')).await.unwrap();
        let places: Vec<_> = (0..250)
            .map(|number| CredentialPlace::new(format!("p{}", number % 7), format!("n{number}")))
            .collect();
        for place in &places {
            vault.put(place.clone(), &place.name).await.unwrap();
        }

        // The last one does not open.
        let damage = "UPDATE vault_credentials SET sealed = (SELECT sealed FROM vault_credentials
             WHERE name = 'n0') WHERE provider = 'p6' AND name = 'n97'";
        let sealed: Vec<u8> =
            sqlx::query_scalar("SELECT sealed FROM vault_credentials WHERE name = 'n97'")
                .fetch_one(store.readers())
                .await
                .unwrap();
        execute(&store, sqlx::query(damage)).await;
        let error = vault.change_key(key('2')).await.err();
        assert_eq!(error, Some(VaultError::Damaged { place: "'n97' of p6".to_owned() }));
        for place in places.iter().filter(|place| place.name != "n97") {
            let found = vault.find(place).await.unwrap();
            assert_eq!(found.as_deref(), Some(&place.name));
        }

        let mend = sqlx::query("UPDATE vault_credentials SET sealed = $1 WHERE name = 'n97'");
        execute(&store, mend.bind(sealed)).await;
        let changed = vault.change_key(key('2')).await.unwrap();
        for place in &places {
            let found = changed.find(place).await.unwrap();
            assert_eq!(found.as_deref(), Some(&place.name));
        }
    }
}

/// A process that has the old key fetches the new one when it needs one.
#[tokio::test]
async fn a_changed_key_is_fetched_again() {
    for place in Place::all().await {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let write = |digit: char| {
            std::fs::write(&file, digit.to_string().repeat(64)).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        write('1');
        let running = LazyVault::new(place.lazy(), KeySource::File(file.clone()));
        let vault = running.open().await.unwrap();
        vault.put(token(), CANARY).await.unwrap();
        assert_eq!(running.find(&token()).await.unwrap().as_deref(), Some(&CANARY.to_owned()));

        vault.change_key(key('2')).await.unwrap();
        let error = running.find(&token()).await.unwrap_err();
        assert!(matches!(error, VaultError::WrongKey { .. }), "{error}");
        write('2');
        eventually(std::time::Duration::from_secs(20), async || running.find(&token()).await).await;
        // Only what is of all tools and callers, for a server is connected for all of them.
        let found = CredentialSource::find(&running, "mcp:github", "TOKEN").await.unwrap();
        assert_eq!(found.as_deref(), Some(&CANARY.to_owned()));
        let vault = running.open().await.unwrap();
        vault.put(CredentialPlace::new("mcp:x", "TOKEN").for_tool("t"), CANARY).await.unwrap();
        assert_eq!(CredentialSource::find(&running, "mcp:x", "TOKEN").await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_row_that_was_changed_or_moved_gives_nothing() {
    for place in Place::all().await {
        let store = place.open().await;
        let vault = Vault::open(store.clone(), key('1')).await.unwrap();
        vault.put(token(), CANARY).await.unwrap();
        vault.put(CredentialPlace::new("mcp:evil", "TOKEN"), "mine-is-this").await.unwrap();
        // The row of one provider under the name of another.
        let moved = "UPDATE vault_credentials SET sealed =
                 (SELECT sealed FROM vault_credentials WHERE provider = 'mcp:github')
             WHERE provider = 'mcp:evil'";
        execute(&store, sqlx::query(moved)).await;
        let error = vault.credentials("mcp:evil", "t", "x").await.unwrap_err();
        assert_eq!(error, VaultError::Damaged { place: "'TOKEN' of mcp:evil".to_owned() });
        assert_eq!(value_for(&vault, "list", "x").await.as_deref(), Some(CANARY));
        // A key that cannot open all of them changes none.
        assert!(vault.change_key(key('2')).await.is_err());
        assert_eq!(value_for(&vault, "list", "x").await.as_deref(), Some(CANARY));
    }
}

#[tokio::test]
async fn what_is_on_the_disk_holds_no_value() {
    let place = Place::sqlite();
    let vault = vault(&place).await;
    vault.put(token(), CANARY).await.unwrap();
    vault.change_key(key('2')).await.unwrap();
    let bytes = place.bytes();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("mcp:github") && !holds(CANARY));
    assert!(!holds(&"1".repeat(64)) && !holds(&"2".repeat(64)));
}

#[tokio::test]
async fn places_and_values_have_limits() {
    let vault = vault(&Place::sqlite()).await;
    let long = "x".repeat(VALUE_BYTES_MAX + 1);
    assert_eq!(vault.put(token(), &long).await, Err(VaultError::TooLong));
    vault.put(token(), &long[1..]).await.unwrap();
    for wrong in ["", "a\nb", &"x".repeat(513)] {
        for place in [CredentialPlace::new(wrong, "A"), token().for_tool(wrong)] {
            assert!(matches!(vault.put(place, "v").await, Err(VaultError::Place(_))), "{wrong}");
        }
    }
}
