//! Skills, by what their tools say.

use serde_json::json;
use toolbus_memory::{MemoryOwner, Skills};

use crate::support::{Bench, scope};

#[tokio::test]
async fn skills_are_saved_read_listed_and_deleted() {
    for bench in Bench::all().await {
        assert_text!(bench.say("list_skills", json!({})).await, @"No skills saved yet.");
        assert_text!(bench.say("get_skill", json!({"name": "x"})).await,
            @"Skill 'x' not found. Call list_skills to see available skills.");

        let page = "# Weekly report\n\nCollect open issues,\ngroup them.";
        let skill = json!({"name": "Weekly-Report", "content": page});
        assert_text!(bench.say("save_skill", skill).await, @r"
        Skill 'Weekly-Report' saved. Summary is being generated.

        Available skills (1):
        - Weekly-Report: Collect open issues,
        ");
        assert_eq!(bench.say("GetSkill", json!({"name": "weekly-report"})).await, page);
        bench.say("SaveSkill", json!({"name": "a", "content": "# Only a heading"})).await;
        bench.say("save_skill", json!({"name": "weekly-report", "content": "anew"})).await;
        assert_text!(bench.say("list_skills", json!({})).await, @r"
        Available skills (2):
        - a: Only a heading
        - weekly-report: anew
        ");

        assert_text!(bench.say("delete_skill", json!({"name": "A"})).await, @r"
        Skill 'a' deleted.

        Available skills (1):
        - weekly-report: anew
        ");
        assert_text!(bench.say("delete_skill", json!({"name": "a"})).await,
            @"Skill 'a' not found. Call list_skills to see available skills.");
        assert_text!(bench.say("delete_skill", json!({"name": "weekly-report"})).await, @r"
        Skill 'weekly-report' deleted.

        No skills saved yet.
        ");
    }
}

#[tokio::test]
async fn skills_are_recalled_by_words() {
    for bench in Bench::all().await {
        bench
            .say("save_skill", json!({"name": "weekly_report", "content": "Collect issues."}))
            .await;
        bench.say("save_skill", json!({"name": "deploy", "content": "Push the image."})).await;
        assert_text!(bench.say("list_skills", json!({"query": "weekly report"})).await, @r"
        Skills that fit 'weekly report' (1):
        - weekly_report: Collect issues.
        ");
        assert_text!(bench.say("list_skills", json!({"query": "unheard"})).await,
            @"No skills fit 'unheard'. Call list_skills without a query to see all of them.");

        let owner = MemoryOwner::of(&scope("session/s1"));
        let skills = Skills::new(bench.store.clone());
        assert!(skills.set_summary(&owner, "Deploy", "Ship a\nnew image").await.unwrap());
        assert!(!skills.set_summary(&owner, "none", "x").await.unwrap());
        let recalled = skills.recall(&owner, "ship", 5).await.unwrap();
        assert_eq!(recalled[0].summary, "Ship a new image");
    }
}

#[tokio::test]
async fn skills_are_bounded_together() {
    for bench in Bench::all().await {
        let page = "x".repeat(64 << 10);
        for at in 0..128 {
            bench.say("save_skill", json!({"name": at.to_string(), "content": page})).await;
        }
        let refused = bench.refusal("save_skill", json!({"name": "more", "content": "x"})).await;
        assert_text!(refused, @"nothing was saved: all skills together may have 8388608 bytes. Delete those that are of no use any more (delete_skill)");
        bench.say("save_skill", json!({"name": "7", "content": "shorter"})).await;
        bench.say("save_skill", json!({"name": "more", "content": "x"})).await;
    }
}
