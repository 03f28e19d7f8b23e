use super::*;

#[test]
fn codes_have_names() {
    let text = || "x".to_owned();
    assert_eq!(of_sqlite(13, text()), Error::Full);
    assert_eq!(of_sqlite(4_874, text()), Error::Full);
    assert_eq!(of_sqlite(266, text()), Error::Unavailable(text()));
    assert_eq!(of_sqlite(8, text()), Error::ReadOnly);
    assert_eq!(of_sqlite(5, text()), Error::Locked);
    assert_eq!(of_sqlite(26, text()), Error::Damaged(text()));
}

#[cfg(feature = "postgres")]
#[test]
fn codes_of_postgresql_have_names() {
    let text = || "x".to_owned();
    assert_eq!(of_postgres("53100", text()), Error::Full);
    assert_eq!(of_postgres("25006", text()), Error::ReadOnly);
    assert_eq!(of_postgres("23505", text()), Error::Conflict(text()));
    assert_eq!(of_postgres("57P01", text()), Error::Unavailable(text()));
    assert_eq!(of_postgres("42601", text()), Error::Refused(text()));
}
