//! Outputs that become artifacts: RV-I14 to RV-I17 and the rules of 1c about them.

use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_artifacts::ArtifactOwner;
use toolbus_tools::call::Output;
use toolbus_tools::{Door, Invoker, Principal, Scope};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::tool::{ContentBlock, ContentKind};
use toolbus_wire::name::AgentName;

use crate::support::{Bench, call, config, scope};

async fn give(bench: &Bench, output: Output) -> Output {
    let (invoker, _) = bench.invoker(output);
    call(&invoker, &scope("session/a"), "give", json!({})).await.unwrap()
}

async fn content(bench: &Bench, output: &Output) -> Vec<u8> {
    let reference = &output.artifact.as_ref().expect("an artifact").reference;
    let owner = ArtifactOwner::of(&scope("session/a"));
    let found = bench.artifacts.find(&owner, reference).await.unwrap();
    found.read_all(u64::MAX).await.unwrap().into()
}

#[tokio::test]
async fn rv_i14_a_text_at_the_limit_is_given_as_it_is() {
    let bench = Bench::sqlite(config());
    for text in ["x".repeat(100), "é".repeat(50)] {
        let output = Output::text(&text);
        assert_eq!(give(&bench, output.clone()).await, output);
    }
    assert!(give(&bench, Output::text("é".repeat(50) + "x")).await.artifact.is_some());
}

#[tokio::test]
async fn rv_i15_a_larger_text_is_a_preview_and_a_reference() {
    let bench = Bench::sqlite(config());
    let text = "line\n".repeat(1000);
    let output = give(&bench, Output::text(&text)).await;
    let artifact = output.artifact.clone().unwrap();
    assert_eq!((artifact.bytes, &*artifact.media_type), (5000, "text/plain; charset=utf-8"));
    assert_eq!(content(&bench, &output).await, text.as_bytes());

    let shown = output.content.unwrap();
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert!(lines[0].starts_with("line line") && lines[0].ends_with('…'), "{shown}");
    assert!(lines[1].contains(&artifact.reference.to_value().to_string()), "{shown}");
}

/// RV-I16: nothing is stored for a door that is not set, and without a store.
#[tokio::test]
async fn rv_i16_other_doors_get_outputs_as_they_are() {
    let bench = Bench::sqlite(config());
    let output = Output::text("x".repeat(1000));
    let (invoker, _) = bench.invoker(output.clone());
    let scope = Scope::new(Door::CommandLine, Principal::local(), AgentName::standard());
    assert_eq!(call(&invoker, &Arc::new(scope), "give", json!({})).await.unwrap(), output);
    assert_eq!(bench.files().len(), 0);

    let registry = invoker.registry();
    let without = Invoker::new(Arc::clone(registry));
    let given = call(&without, &super::support::scope("session/a"), "give", json!({})).await;
    assert_eq!(given.unwrap(), output);
}

fn media(kind: ContentKind, data: &str, mime_type: Option<&str>) -> ContentBlock {
    ContentBlock {
        kind,
        text: None,
        data: Some(data.to_owned()),
        mime_type: mime_type.map(str::to_owned),
        uri: None,
    }
}

/// A file of text becomes one where its caller reads it nowhere else.
#[tokio::test]
async fn texts_that_are_not_shown_become_files() {
    let bench = Bench::sqlite(config());
    let file = |text: &str| ContentBlock {
        text: Some(text.to_owned()),
        data: None,
        ..media(ContentKind::Resource, "", Some("text/csv"))
    };
    let note = ContentBlock { kind: ContentKind::Text, mime_type: None, ..file("Files: t.csv") };
    let blocks = vec![note.clone(), file("a,b\n1,2\n"), file("shown")];
    let output = Output { blocks, ..Output::text("It is shown here.") };
    let given = give(&bench, output.clone()).await;

    assert_eq!(given.blocks, [note, file("shown")]);
    let [stored] = &given.files[..] else { panic!("{given:?}") };
    let reference = stored.artifact.reference.to_value();
    assert_eq!(
        given.content.unwrap(),
        format!("It is shown here.\n[media/give_0.csv: 8 bytes of text/csv: {reference}]")
    );
    let owner = ArtifactOwner::of(&scope("session/a"));
    let found = bench.artifacts.find(&owner, &stored.artifact.reference).await.unwrap();
    assert_eq!(found.read_all(100).await.unwrap(), "a,b\n1,2\n");

    // Without a text of its own a result is read by its parts.
    let parts = Output { content: None, ..output };
    assert_eq!(give(&bench, parts.clone()).await, parts);
}

/// 1c.10: numbers that no other file has, endings as the types say, and the bytes are there.
#[tokio::test]
async fn rv_i17_media_become_files() {
    let bench = Bench::sqlite(config());
    let output = Output {
        blocks: vec![
            media(ContentKind::Image, "AAEC", Some("image/png")),
            media(ContentKind::Image, "AAECAw", Some("image/jpeg")),
            media(ContentKind::Audio, "AAECAwQ=", Some("audio/mpeg")),
            media(ContentKind::Resource, "BQ==", Some("../lie")),
        ],
        ..Output::text("Here they are.")
    };
    let (invoker, _) = bench.invoker(output);
    let scope = scope("session/a");
    let first = call(&invoker, &scope, "give", json!({})).await.unwrap();
    let second = call(&invoker, &scope, "give", json!({})).await.unwrap();

    let paths = |output: &Output| -> Vec<String> {
        output.files.iter().map(|file| file.path.clone()).collect()
    };
    let expected = ["give_0.png", "give_1.jpg", "give_2.mp3", "give_3.bin"];
    assert_eq!(paths(&first), expected.map(|name| format!("media/{name}")));
    assert_eq!(paths(&second)[0], "media/give_4.png");
    assert_eq!(first.blocks, []);
    for file in &first.files {
        assert!(first.content.as_ref().unwrap().contains(&file.path));
    }

    let owner = ArtifactOwner::of(&scope);
    let last = &first.files[2].artifact;
    let found = bench.artifacts.find(&owner, &last.reference).await.unwrap();
    assert_eq!(found.read_all(10).await.unwrap(), [0, 1, 2, 3, 4].as_slice());
}

/// 1c.11: a picture that is elsewhere is shown by its text form.
#[tokio::test]
async fn rule_1c_11_a_link_is_not_stored() {
    let bench = Bench::sqlite(config());
    let link = ContentBlock {
        data: None,
        uri: Some("https://example.com/a.png".to_owned()),
        ..media(ContentKind::Image, "", Some("image/png"))
    };
    let output = give(&bench, Output { blocks: vec![link], ..Output::default() }).await;
    assert_eq!(output.content.unwrap(), "[Image: https://example.com/a.png]");
    assert_eq!((output.files.len(), bench.files().len()), (0, 0));
}

/// Media that lie about what they are: what is no base64 stays as it is.
#[tokio::test]
async fn data_that_is_no_base64_stays_as_it_is() {
    let bench = Bench::sqlite(config());
    let output =
        Output { blocks: vec![media(ContentKind::Image, "!!!", None)], ..Output::default() };
    assert_eq!(give(&bench, output.clone()).await, output);
    assert_eq!(bench.files().len(), 0);
}

#[tokio::test]
async fn rule_1c_7_a_large_value_is_summed_up() {
    let bench = Bench::sqlite(config());
    let value = json!((0..1000).collect::<Vec<u32>>());
    let output = Output { structured: Some(RawJson::of(&value)), ..Output::text("1000 numbers") };
    let output = give(&bench, output).await;

    let artifact = output.artifact.clone().unwrap();
    let summary: Value = serde_json::from_str(output.structured.as_ref().unwrap().text()).unwrap();
    assert_eq!(summary["$artifact"], artifact.reference.as_str());
    assert_eq!((&summary["type"], &summary["length"]), (&json!("array"), &json!(1000)));
    assert_eq!(content(&bench, &output).await, value.to_string().as_bytes());
    assert_eq!(artifact.media_type, "application/json");
}
