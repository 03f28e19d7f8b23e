//! Grafana's own description of a dashboard: the types that it publishes, and a compiler that holds
//! ours against them. A member that is not known there, or of another type, is a mistake.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use serde_json::Value;
use tempfile::TempDir;

/// A value of JSON has texts and numbers where the types have the names of an enumeration.
const JSON_OF: &str = "
type Json<T> =
  T extends string ? `${T}`
  : T extends number ? (number extends T ? T : `${T}` extends `${infer N extends number}` ? N : T)
  : T extends boolean | null | undefined ? T
  : T extends readonly (infer U)[] ? Json<U>[]
  : T extends object ? { [K in keyof T]: Json<T[K]> }
  : T;
";

/// What the compiler says is wrong with these dashboards, line by line; nothing when they are
/// right. `None` where the types have not been fetched and may be missing.
///
/// # Panics
/// When the compiler does not run, or it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn mistakes(dashboards: &[Value]) -> Option<String> {
    let part = crate::parts::folder("grafana-schema")?;
    let run = || -> anyhow::Result<String> {
        let folder = TempDir::with_prefix("toolbus-grafana-")?;
        let types = part.join("node_modules/@grafana/schema/dist/types/raw");
        let source = folder.path().join("dashboards.ts");
        fs::write(&source, type_check_program(&types.to_string_lossy(), dashboards))?;
        let output = Command::new(part.join("node"))
            .arg(part.join("node_modules/typescript/bin/tsc"))
            .args(["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022"])
            .args(["--module", "esnext", "--moduleResolution", "bundler"])
            .arg("--allowImportingTsExtensions")
            .arg(&source)
            .stdin(Stdio::null())
            .output()
            .context("running the compiler")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = !output.status.success() && said.is_empty();
        Ok(if failed { String::from_utf8_lossy(&output.stderr).into_owned() } else { said })
    };

    Some(run().unwrap_or_else(|error| panic!("{error:?}")))
}

/// The dashboards as constants of the published types, and again what those types leave open: the
/// options of each panel of a kind that we use.
fn type_check_program(types: &str, dashboards: &[Value]) -> String {
    let mut program = format!(
        "import type {{ Dashboard }} from \"{types}/dashboard/x/types.gen.d.ts\";\n\
         import type * as timeseries from \"{types}/composable/timeseries/panelcfg/x/types.gen.d.ts\";\n\
         import type * as stat from \"{types}/composable/stat/panelcfg/x/types.gen.d.ts\";\n\
         {JSON_OF}"
    );

    for dashboard in dashboards {
        let id = dashboard["uid"].as_str().unwrap_or_default().replace('-', "_");
        // Writing to a text does not fail.
        let _ = writeln!(program, "export const {id}: Json<Dashboard> = {dashboard};");
        for (index, panel) in dashboard["panels"].as_array().into_iter().flatten().enumerate() {
            let kind = match panel["type"].as_str() {
                Some("row") => continue,
                Some(kind @ ("timeseries" | "stat")) => kind,
                // A kind without its types here is a mistake of its own.
                other => other.unwrap_or("panel_without_type"),
            };
            let options = &panel["options"];
            let _ =
                writeln!(program, "export const {id}_{index}: Json<{kind}.Options> = {options};");
            let custom = &panel["fieldConfig"]["defaults"]["custom"];
            if !custom.is_null() {
                let _ = writeln!(
                    program,
                    "export const {id}_{index}_custom: Json<{kind}.FieldConfig> = {custom};"
                );
            }
        }
    }

    program
}
