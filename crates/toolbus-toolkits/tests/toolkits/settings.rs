//! The settings of the modules, as an operator writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{Environment, Mistakes, Settings, SettingsFile, Sources, load, reference};
use toolbus_toolkits::LinkedInSettings;
use toolbus_toolkits::anthropic_usage::AnthropicUsageSettings;
use toolbus_toolkits::files::{Access, FilesSettings};
use toolbus_toolkits::rest::{AuthType, RestMethod, RestSettings};
use toolbus_toolkits::shell::{BashSettings, Isolation};
use toolbus_toolkits::web::{SearchFormat, SearchService, WebSettings};

/// A program that has all of them.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct All {
    /// Files.
    files: FilesSettings,
    /// Commands.
    bash: BashSettings,
    /// The web.
    web: WebSettings,
    /// Endpoints.
    rest: RestSettings,
    /// LinkedIn.
    linkedin: LinkedInSettings,
    /// Reports.
    anthropic_usage: AnthropicUsageSettings,
}

impl Settings for All {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        self.files.check(mistakes);
        self.bash.check(mistakes);
        self.web.check(mistakes);
        self.rest.check(mistakes);
        self.linkedin.check(mistakes);
        self.anthropic_usage.check(mistakes);
    }
}

fn read(file: &str) -> Result<All, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toolbus.toml");
    std::fs::write(&path, file).expect("written");
    let environment: Environment = std::iter::empty::<(String, String)>().collect();
    let sources = Sources {
        file: SettingsFile::IfPresent(path),
        aliases: &[],
        derived: Vec::new(),
        environment: &environment,
        arguments: Vec::new(),
    };
    load(sources).map(|loaded| loaded.settings).map_err(|errors| errors.to_string())
}

#[test]
fn defaults_are_those_of_the_contract() {
    let All { files, bash, .. } = read("").expect("they are right");
    assert_eq!((files.working_directory, files.access), (None, Access::ReadWrite));
    assert_eq!((bash.isolation, bash.access), (Isolation::Sandbox, Access::ReadWrite));
    assert_eq!((bash.network, bash.timeout.duration().as_secs()), (false, 30));
}

#[test]
fn settings_are_read_as_they_are_documented() {
    let written = "[files]\nworking_directory = \"/srv/work\"\naccess = \"read-only\"\n\
                   readable_paths = [\"/srv/books\"]\nfile_max = \"1 MiB\"\n\
                   [bash]\nisolation = \"none\"\nnetwork = true\ntimeout = \"2m\"\nmemory = \"2 GiB\"";
    let All { files, bash, .. } = read(written).expect("they are right");
    assert_eq!((files.access, files.file_max.bytes()), (Access::ReadOnly, 1 << 20));
    assert_eq!((bash.isolation, bash.network), (Isolation::None, true));
    assert_eq!((bash.timeout.duration().as_secs(), bash.memory.bytes()), (120, 2 << 30));
}

#[test]
fn every_mistake_is_told() {
    let written = "[files]\nworking_directory = \"/\"\nreadable_paths = [\"/proc/self\"]\n\
                   writable_paths = [\"work\"]\nfile_max = \"10 B\"\n\
                   [bash]\nisolation = \"none\"\naccess = \"read-only\"\ntimeout = \"1h\"\n\
                   memory = \"1 MiB\"\nreadable_paths = [\"x\"]";
    let mistakes = read(written).expect_err("they are wrong");
    for key in [
        "files.working_directory",
        "files.readable_paths",
        "files.writable_paths",
        "files.file_max",
        "bash.access",
        "bash.timeout",
        "bash.memory",
        "bash.readable_paths",
    ] {
        assert!(mistakes.contains(key), "{key}: {mistakes}");
    }

    for wrong in
        ["[bash]\nmax_concurrent = 0", "[bash]\nisolation = \"bare\"", "[files]\nroot = \"/\""]
    {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn principals_are_globs_as_rules_have_them() {
    let All { linkedin, anthropic_usage, files, .. } = read("").expect("they are right");
    assert_eq!((linkedin.principals, anthropic_usage.principals), (local(), local()));
    assert!(files.principals.is_empty(), "it depends on the folders");
    let sections = ["linkedin", "anthropic_usage", "files"];
    for section in sections {
        let named = format!("[{section}]\nprincipals = [\"local:*\", \"token:http/ana\"]");
        read(&named).expect("they are right");
        for wrong in ["\"ana\"", "\"claimed:**\"", "\"\""] {
            let written = format!("[{section}]\nprincipals = [{wrong}]");
            let mistakes = read(&written).expect_err("it is no glob");
            assert!(mistakes.contains(&format!("{section}.principals")), "{mistakes}");
        }
    }
    for section in &sections[..2] {
        let nobody = read(&format!("[{section}]\nprincipals = []")).expect_err("for nobody");
        assert!(nobody.contains("for nobody"), "{nobody}");
    }
}

fn local() -> Vec<String> {
    vec!["local:*".to_owned()]
}

#[test]
fn every_setting_is_in_the_reference() {
    let page = reference::<All>("Settings", &[]);
    for name in [
        "files.working_directory",
        "files.file_max",
        "bash.isolation",
        "bash.network",
        "web.search_provider",
        "web.allowed_hosts",
        "rest.endpoints",
        "linkedin.timeout",
        "anthropic_usage.api_key",
    ] {
        assert!(page.contains(name), "{name}: {page}");
    }
}

#[test]
fn defaults_of_the_web_are_those_of_the_contract() {
    let All { web, rest, .. } = read("").expect("they are right");
    assert_eq!(
        (web.search_provider, web.search_format),
        (SearchService::Brave, SearchFormat::Markdown)
    );
    assert_eq!((web.max_search_results.get(), web.chunking_threshold), (5, 8_000));
    assert_eq!((web.chunk_max_length, web.chunk_ttl.duration().as_secs()), (4_000, 1_800));
    assert!(web.allowed_hosts.is_empty() && rest.endpoints.is_empty());
}

#[test]
fn settings_of_the_web_are_read_as_they_are_documented() {
    let written = "[web]\nsearch_provider = \"searxng\"\nsearch_url = \"http://searx.lan:8080/\"\n\
                   search_format = \"lines\"\nallowed_hosts = [\"10.0.0.0/8\", \"*.corp.example\"]\n\
                   [[rest.endpoints]]\nname = \"get_user\"\nmethod = \"GET\"\n\
                   url_template = \"https://api.example/users/{id}{?fields}\"\n\
                   auth_type = \"bearer\"\nauth_credential = \"${vault:token}\"\n\
                   [[rest.endpoints]]\nname = \"add_user\"\nmethod = \"POST\"\nrisk = \"medium\"\n\
                   url_template = \"https://api.example/users\"\nsend_body_as_json = true";
    let All { web, rest, .. } = read(written).expect("they are right");
    assert_eq!(
        (web.search_provider, web.search_format),
        (SearchService::SearXng, SearchFormat::Lines)
    );
    assert_eq!(web.allowed_hosts.len(), 2);
    assert_eq!(
        (rest.endpoints[0].auth_type, rest.endpoints[1].method),
        (AuthType::Bearer, RestMethod::Post)
    );
}

#[test]
fn mistakes_of_the_web_are_told_without_secrets() {
    let written = "[web]\nsearch_provider = \"searxng\"\napi_key = \"${canary\"\n\
                   max_search_results = 21\npage_max = \"1 GiB\"\ntimeout = \"1h\"\n\
                   chunk_max_length = 1\nchunking_threshold = 1\nchunk_ttl = \"2d\"\n\
                   [anthropic_usage]\napi_key = \"${}\"\n[linkedin]\ntimeout = \"0s\"\n\
                   [rest]\nresponse_max = \"1 GiB\"\ntimeout = \"0s\"";
    let mistakes = read(written).expect_err("they are wrong");
    for key in [
        "web.search_url",
        "web.api_key",
        "web.max_search_results",
        "web.page_max",
        "web.timeout",
        "web.chunk_max_length",
        "web.chunking_threshold",
        "web.chunk_ttl",
        "anthropic_usage.api_key",
        "linkedin.timeout",
        "rest.response_max",
        "rest.timeout",
    ] {
        assert!(mistakes.contains(key), "{key}: {mistakes}");
    }
    assert!(!mistakes.contains("canary"), "{mistakes}");
}

#[test]
fn endpoints_that_cannot_be_called_are_mistakes() {
    let good = "name = \"x\"\nurl_template = \"https://api.example/\"\n";
    let check = |endpoint: &str, part: &str| {
        let mistakes = read(&format!("[[rest.endpoints]]\n{endpoint}")).expect_err(endpoint);
        assert!(mistakes.contains(part), "{mistakes}");
    };
    check("name = \"x y\"\nurl_template = \"https://api.example/\"", "name");
    check("name = \"x\"\nurl_template = \"https://{host}/\"", "url_template");
    check("name = \"x\"\nurl_template = \"ftp://api.example/\"", "url_template");
    check(&format!("{good}parameters_schema = \"{{\""), "parameters_schema");
    check(&format!("{good}parameters_schema = \"{{}}\""), "parameters_schema");
    check(
        &format!("{good}parameters_schema = '{{\"type\": \"object\", \"required\": 1}}'"),
        "parameters_schema",
    );
    check(&format!("{good}api_key_header = \"X-Key\\r\\nX-Evil: 1\""), "api_key_header");
    check(&format!("{good}api_key_header = \"Host\""), "api_key_header");
    check(&format!("{good}auth_type = \"bearer\""), "auth_type");
    check(&format!("{good}timeout = \"1h\""), "timeout");
    check(&format!("{good}[[rest.endpoints]]\n{good}"), "two endpoints");
}

#[test]
fn a_document_that_is_fetched_does_not_say_where_a_credential_goes() {
    let read = |document: &str, more: &str| {
        read(&format!("[[rest.openapi]]\nname = \"pets\"\ndocument = \"{document}\"\n{more}"))
    };
    let (url, auth) =
        ("https://docs.example/api.json", "auth_type = \"bearer\"\nauth_env_var = \"TOKEN\"\n");
    for more in [auth, "internal = true\n"] {
        let mistakes = read(url, more).expect_err("it needs a server");
        assert!(mistakes.contains("rest.openapi[0]: server: it is needed"), "{mistakes}");
        let named = format!("{more}server = \"https://api.example\"");
        let server = read(url, &named).expect("it is right").rest.openapi.remove(0).server;
        assert_eq!(server.expect("it is there").expose(), "https://api.example/");
        assert!(read("api.json", more).is_ok());
    }
    assert!(read(url, "").is_ok());

    for (more, problem) in [
        ("name_prefix = \"a b\"", "name_prefix"),
        ("auth_type = \"bearer\"", "auth_type"),
        ("api_key_header = \"Host\"", "api_key_header"),
        ("[[rest.openapi]]\nname = \"pets\"\ndocument = \"x\"", "two documents"),
        ("[[rest.openapi]]\nname = \"a b\"\ndocument = \"x\"", "name"),
        ("[[rest.openapi]]\nname = \"a\"", "document"),
    ] {
        let mistakes = read("api.json", more).expect_err(more);
        assert!(mistakes.contains(problem), "{more}: {mistakes}");
    }
}
