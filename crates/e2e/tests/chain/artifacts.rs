//! Large values in chains: RV-C7 to RV-C9, and the rules of 1c about them.

use std::time::Duration;

use serde_json::json;
use toolbus_artifacts::{ArtifactOwner, NewArtifact};
use toolbus_chain::ChainPolicy;
use toolbus_store::sqlx;
use toolbus_testkit::eventually;
use toolbus_tools::artifact::ArtifactRef;
use toolbus_tools::call::Call;

use super::support::{ChainSetting, Chains};

#[tokio::test]
async fn rv_c7_a_result_is_passed_on_whole() {
    let Some(chains) = Chains::open().await else { return };
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

/// RV-C8 and 1c.19.
#[tokio::test]
async fn rv_c8_a_result_is_written_to_a_file_once() {
    let Some(chains) = Chains::open().await else { return };
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

/// RV-C9 and 1c.19.
#[tokio::test]
async fn rv_c9_a_file_becomes_an_artifact() {
    let Some(chains) = Chains::open().await else { return };
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
    let Some(chains) = Chains::open().await else { return };
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
    let Some(chains) = Chains::open().await else { return };
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

/// RV-S2 and RV-S4: what a chain has made is kept while it runs, and after that for as long as any
/// artifact, however the chain ended.
#[tokio::test]
async fn rv_s2_the_end_of_a_chain_unpins_what_it_has_made() {
    let policy = ChainPolicy { call_timeout: Duration::from_secs(60), ..ChainPolicy::default() };
    let Some(chains) = Chains::with(policy, |builder| builder).await else { return };
    let scope = chains.scope("session/a");
    let code = json!({"code": "print(tools.large().ref, flush=True)\ntools.wait()"});
    let call = Call::by_name(&scope, "tool_chain", code).unwrap();
    let cancelled = call.cancelled.clone();
    let looking = async {
        eventually(Duration::from_secs(60), async || {
            let waiting = *chains.waiting.lock();
            if waiting == 1 { Ok(()) } else { Err(waiting) }
        })
        .await;
        assert_eq!(chains.pins().await, 1);
        cancelled.cancel();
    };
    let (outcome, ()) = tokio::join!(chains.toolbus.invoke(call), looking);
    assert!(outcome.is_err());
    eventually(Duration::from_secs(10), async || match chains.pins().await {
        0 => Ok(()),
        pins => Err(pins),
    })
    .await;

    let ran = chains.run("tools.large()\nraise ValueError('later')").await;
    assert!(ran.is_error);
    assert_eq!(chains.pins().await, 0);

    let name = chains.output("return tools.large().ref").await;
    assert_eq!(chains.pins().await, 0);
    let reference = ArtifactRef::parse(&name).unwrap();
    let found = chains.artifacts.find(&ArtifactOwner::of(&scope), &reference).await.unwrap();
    assert_eq!(found.info.bytes, 10_000);
}

/// RV-S3: that a pin stays, until its time is over, is no failure of the chain.
#[tokio::test]
async fn rv_s3_a_chain_whose_pins_stay_has_its_result() {
    let policy = ChainPolicy { call_timeout: Duration::from_secs(3), ..ChainPolicy::default() };
    let Some(chains) = Chains::with(policy, |builder| builder).await else { return };
    let code = "
tools.large()
try:
    tools.wait()
except ToolError:
    return 'done'
";
    let breaking = async {
        eventually(Duration::from_secs(60), async || {
            let waiting = *chains.waiting.lock();
            if waiting == 1 { Ok(()) } else { Err(waiting) }
        })
        .await;
        let store = chains.store.open().await.unwrap();
        let dropping = store.write(|transaction| {
            Box::pin(async {
                let drop = sqlx::query("DROP TABLE artifacts_pins");
                drop.execute(transaction.connection()).await?;
                Ok(())
            })
        });
        dropping.await.unwrap();
    };
    let (ran, ()) = tokio::join!(chains.run(code), breaking);
    assert_eq!((ran.is_error, ran.result["output_text"].as_str()), (false, Some("done\n")));
}

/// 1c.12: where nothing keeps artifacts, a result is in the answer, and a picture in words.
#[tokio::test]
async fn rule_1c_12_without_artifacts_there_are_no_files() {
    let setting = ChainSetting { keeps_artifacts: false, ..ChainSetting::default() };
    let Some(chains) = Chains::open_as(setting, |builder| builder).await else { return };
    let code = "
picture = tools.picture()
print(picture.files, picture.text)
large = tools.large(length=100_000)
print(len(large.text), large.ref, open(large.materialize()).read() == large.text)
try:
    artifacts.put('anything.txt')
except FileNotFoundError:
    open('anything.txt', 'w').close()
try:
    artifacts.put('anything.txt')
except ToolError as error:
    print(error)
";
    let expected = "[] [Image: image/png]\n100000 None True\nthis agent keeps no artifacts";
    assert_eq!(chains.output(code).await, expected);
}

/// References that are among what another one stands for stay what they are: data.
#[tokio::test]
async fn a_reference_in_an_artifact_is_data() {
    let Some(chains) = Chains::open().await else { return };
    let code = "
import json
inner = tools.large().ref
with open('outer.json', 'w') as file:
    json.dump({'part': {'$artifact': inner}}, file)
outer = artifacts.put('outer.json')
return tools.echo(any=outer).structured['any']['part'] == {'$artifact': str(inner)}
";
    assert_eq!(chains.output(code).await, "true");
}
