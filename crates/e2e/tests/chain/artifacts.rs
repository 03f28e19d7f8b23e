//! Large values in chains: RV-C7 to RV-C9, and the rules of 1c about them.

use serde_json::json;
use toolbus_artifacts::NewArtifact;

use crate::support::Chains;

#[tokio::test]
async fn rv_c7_a_result_is_passed_on_whole() {
    let chains = Chains::open().await;
    let code = "
large = tools.large(length=10000)
print(len(large.text) < 1000, large.ref is not None)
small = tools.echo(text='small')
print(len(tools.echo(text=large).structured), small.ref)
tools.write(whole=large, part={'list': [small, (large,)]}, name=large.ref)
";
    assert_eq!(chains.output(code).await, "True True\n5 None");
    // 1c.26: inside lists and dicts, too.
    let written = chains.written.lock();
    let large = "x".repeat(10_000);
    assert_eq!(written[0]["whole"], large);
    assert_eq!(written[0]["part"], json!({"list": ["small", [large]]}));
    assert_eq!(written[0]["name"], large);
}

#[tokio::test]
async fn rv_c8_a_result_is_written_to_a_file_once() {
    let chains = Chains::open().await;
    let code = "
import os
large = tools.large(length=3_000_000)
path = await large.materialize()
print(os.path.getsize(path), path == large.materialize())
print(open(tools.echo(text='small').materialize()).read())
";
    let code = code.replace("print(open(", "small = await tools.echo(text='small')\nprint(open(");
    let code = code.replace("large = tools.large", "large = await tools.large");
    assert_eq!(chains.output(&code).await, "3000000 True\nsmall");
}

#[tokio::test]
async fn rv_c9_a_file_becomes_an_artifact() {
    let chains = Chains::open().await;
    let code = "
with open('table.csv', 'w') as file:
    file.write('a,b\\n' * 300_000)
reference = artifacts.put('table.csv')
print(reference.startswith('art_'), tools.echo(text='x', table={'$artifact': reference}).status)
tools.write(table=reference)
";
    assert_eq!(chains.output(code).await, "True ok");
    assert_eq!(chains.written.lock()[0]["table"].as_str().unwrap().len(), 1_200_000);
}

/// 1c.10: pictures are where the result says, in the sandbox.
#[tokio::test]
async fn rule_1c_10_files_are_there() {
    let chains = Chains::open().await;
    let code = "
paths = []
for _ in range(2):
    for file in tools.picture().files:
        paths.append(file['path'])
        assert open(file['path'], 'rb').read() == bytes([0, 1, 2, 3])
print(paths)
";
    assert_eq!(chains.output(code).await, "['media/picture_0.png', 'media/picture_1.png']");
}

/// 1c.9: a chain reads what it was given and what it has made, and nothing else.
#[tokio::test]
async fn rule_1c_9_other_artifacts_are_not_there() {
    let chains = Chains::open().await;
    let scope = chains.scope("session/a");
    let new = NewArtifact::of(&scope, "text/plain", "tool", "call");
    let given = chains.artifacts.store(new, "given").await.unwrap().reference;
    let name = given.as_str();
    assert_eq!(
        chains.output(&format!("print(tools.echo(text={{'$artifact': '{name}'}}))")).await,
        "given"
    );

    // Put together, it is in no request.
    let (head, tail) = name.split_at(8);
    let code = format!("print(tools.echo(any={{'$artifact': '{head}' + '{tail}'}}).structured)");
    assert_eq!(chains.output(&code).await, format!("{{'any': {{'$artifact': '{name}'}}}}"));

    let new = NewArtifact::of(&chains.scope("session/b"), "text/plain", "tool", "call");
    let foreign = chains.artifacts.store(new, "foreign").await.unwrap().reference;
    let code = format!("print(tools.echo(any={{'$artifact': '{foreign}'}}).structured)");
    assert_eq!(chains.output(&code).await, format!("{{'any': {{'$artifact': '{foreign}'}}}}"));
}
