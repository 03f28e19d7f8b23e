//! What a list of packages must not be able to do.

use toolbus_wire::message::script::{EXIT_CODE_UNKNOWN, ScriptInvokeRequest, ScriptReason};

use super::stage::{Stage, script};

/// Before any process is started for it.
pub(super) async fn what_is_no_requirement_is_refused(stage: Stage) {
    let folder = tempfile::tempdir().expect("a folder");
    let written = folder.path().join("written").display().to_string();

    for package in [
        format!("x; touch {written}"),
        format!("x && touch {written}"),
        format!("$(touch {written})"),
        format!("`touch {written}`"),
        "--index-url=http://127.0.0.1:1/".to_owned(),
        "-r/etc/passwd".to_owned(),
        "-e .".to_owned(),
        "git+https://127.0.0.1/x".to_owned(),
        "x @ file:///etc".to_owned(),
        "x @ http://127.0.0.1:1/x.whl".to_owned(),
        "../x".to_owned(),
        "/etc/x".to_owned(),
        "x\ny".to_owned(),
        "x\0y".to_owned(),
        String::new(),
        "x".repeat(10_000),
    ] {
        let source = "print(1)";
        let request =
            ScriptInvokeRequest { pip_packages: Some(vec![package.clone()]), ..script(source) };
        let response = stage.ask(request).await;
        assert_eq!(response.exit_code, EXIT_CODE_UNKNOWN, "{package}: {response:?}");
        let refused = [ScriptReason::Invalid, ScriptReason::Packages];
        assert!(response.reason.is_some_and(|reason| refused.contains(&reason)), "{package}");
        assert!(response.output.is_none(), "{package} was run with");
    }

    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
}
