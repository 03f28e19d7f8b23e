//! The list of targets.
//!
//! Each crate has its own in its module `fuzzing`, where they are described.

/// A parser, and the name of its file of inputs.
#[derive(Debug)]
pub struct Target {
    /// The crate and the function, such as `toolbus_wire.bodies`.
    pub name: &'static str,
    /// Parses bytes, and panics where something is wrong.
    pub run: fn(&[u8]),
}

macro_rules! targets {
    ($($package:ident: $($target:ident)*;)*) => {
        &[$($(Target {
            name: concat!(stringify!($package), ".", stringify!($target)),
            run: $package::fuzzing::$target,
        },)*)*]
    };
}

/// All targets.
pub const TARGETS: &[Target] = targets! {
    toolbus_json: values;
    toolbus_wire: bodies raw_json envelope names;
    toolbus_config: settings_file settings_edit text_value;
    toolbus_fetch: packed_body text_body allowed_host;
    toolbus_query: json_value jq_filter grep_pattern searched_value searched_files parquet_file;
    toolbus_bus: topic_patterns;
    toolbus_rabbitmq: payloads stream;
    toolbus_tools: schemas arguments secrets artifacts grants grant_keys;
    toolbus_a2a: answers cards requests;
    toolbus_embeddings: tokenizer_file weights_file embedded_text;
    toolbus_mcp_agent: names;
    toolbus_mcp: streams messages listings hidden_text environment_files configurations logins;
    toolbus_memory: long_text;
    toolbus_models: answers events json refusals schemas text_calls;
    toolbus_pods: container_output;
    toolbus_policy: glob_pattern principal_text;
    toolbus_schedule: cron_expression;
    toolbus_scripts: supervisor_reports late_supervisor_reports package_requirements script_file;
    toolbus_toolkits:
        html_page linkedin_page docx_document mail mail_text sent_mail event_times
        openapi_document url_template file_text file_glob file_edit;
    toolbus_wisps: step_template wisp_definitions;
    agent_host: terminal_text search_gateway_message;
};
