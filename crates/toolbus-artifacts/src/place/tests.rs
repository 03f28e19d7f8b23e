use super::*;

#[test]
fn a_build_without_s3_refuses_a_bucket_and_names_the_feature() {
    let error = Place::open("s3://bucket/prefix", Vec::new()).expect_err("refused");
    assert!(matches!(error, PlaceError::LeftOut(_)), "{error:?}");
    assert_eq!(error.to_string(), "this build has no S3 support; build with --features s3");
    assert!(Place::open("/var/lib/toolbus", Vec::new()).is_ok());
}
