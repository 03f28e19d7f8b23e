use super::*;

#[test]
fn a_build_without_parquet_refuses_it_and_names_the_feature() {
    assert!(matches!(guess(b"PAR1\0\0", None), Ok(RowSource::Parquet)));
    let Refusal::Invalid(message) = refuse_parquet() else { panic!("not a refusal") };
    let expected = "this build has no Parquet support; build with --features parquet";
    assert_eq!(message, expected);
}
