use super::*;

#[test]
fn a_location_is_a_file_or_a_url() {
    let file = Location::Sqlite("/var/lib/toolbus/state.db".into());
    for text in ["sqlite:/var/lib/toolbus/state.db", "sqlite:///var/lib/toolbus/state.db"] {
        assert_eq!(text.parse::<Location>().unwrap(), file);
    }
    assert_eq!(file.to_string(), "sqlite:/var/lib/toolbus/state.db");
    for wrong in ["", "state.db", "sqlite:", "mysql://host/db", "postgres://", "postgres://[/x"] {
        assert!(wrong.parse::<Location>().is_err(), "{wrong}");
    }
}

#[cfg(not(feature = "postgres"))]
#[test]
fn a_build_without_postgresql_refuses_its_urls_and_names_the_feature() {
    for url in ["postgres://ada:secret@db.example/toolbus", "postgresql://ada:secret@db.example/x"]
    {
        let error = url.parse::<Location>().unwrap_err();
        assert!(matches!(error, LocationError::LeftOut(_)), "{error:?}");
        let expected = "this build has no PostgreSQL support; build with --features postgres";
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_password_is_never_shown() {
    let location = Location::Postgres("postgres://ada:secret@db.example:6543/toolbus".to_owned());
    for shown in [location.to_string(), format!("{location:?}")] {
        assert_eq!(shown, "postgres://db.example:6543/toolbus");
    }
    let error = "mysql://ada:secret@host/db".parse::<Location>().unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"));
}

#[test]
fn a_path_of_any_characters_is_that_path() {
    let options = Location::Sqlite("/tmp/a ?b#c%20d".into()).connect_options().unwrap();
    assert_eq!(options.database_url.query(), Some("mode=rwc"));
    assert_eq!(options.database_url.path(), "/tmp/a%20%3Fb%23c%2520d");
}
