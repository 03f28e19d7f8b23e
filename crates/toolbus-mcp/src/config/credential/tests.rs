//! What is taken for a credential and what is not.

use super::*;

fn of(name: &str, value: &str) -> Vec<String> {
    find_credentials(name, value).iter().map(|secret| secret.expose().to_owned()).collect()
}

#[test]
fn values_that_are_credentials() {
    let check = |name: &str, value: &str, expected: &[&str]| {
        assert_eq!(of(name, value), expected, "{name}={value}");
    };
    check("GITHUB_PERSONAL_ACCESS_TOKEN", "abcdef", &["abcdef"]);
    check("OPENAI_APIKEY", "hello", &["hello"]);
    check("PGPASSWORD", "correct horse", &["correct horse", "horse"]);
    check("Authorization", "Bearer abc", &["Bearer abc", "abc"]);
    check("X-Api-Key", "k", &["k"]);
    check("AWS_SECRET_ACCESS_KEY", "/bc+d/e=", &["/bc+d/e="]);
    check(
        "ANYTHING",
        "ghp_Ab1Cd2Ef3Gh4Ij5Kl6",
        &["ghp_Ab1Cd2Ef3Gh4Ij5Kl6", "ghp_Ab1Cd2Ef3Gh4Ij5Kl6"],
    );
    check("DATABASE_URL", "postgres://me:hunter2@db/x", &["hunter2"]);
    let cookie = of("Cookie", "theme=dark; sid=a1b2c3d4e5f6a7b8c9");
    assert!(cookie.contains(&"a1b2c3d4e5f6a7b8c9".to_owned()) && cookie.len() == 3, "{cookie:?}");
}

#[test]
fn values_that_are_none() {
    let check = |name: &str, value: &str| assert_eq!(of(name, value), [""; 0], "{name}={value}");
    check("LOG_LEVEL", "information");
    check("AUTHOR_NAME", "Somebody");
    check("MEMORY_FILE_PATH", "/home/somebody/a1b2c3d4e5f6a7b8c9d0/memory.jsonl");
    check("PATH", "/usr/local/bin:/usr/bin");
    check("GOOGLE_APPLICATION_CREDENTIALS", "/etc/google/key.json");
    check("SSH_AUTH_SOCK", "/tmp/ssh-Ab1Cd2/agent.77");
    check("MODEL", "claude-sonnet-4-20250514");
    check("INSTANCE", "123e4567-e89b-12d3-a456-426614174000");
    check("BASE_URL", "https://api.example.org/v1/a1b2c3d4e5f6a7b8");
    check("PHONE", "0123456789012345");
    check("NAME", "Donaudampfschifffahrtsgesellschaft");
}

#[test]
fn arguments_that_hold_credentials() {
    let arguments = ["serve", "--token", "abcdef", "--port", "8080", "--api-key=ghijkl", "-v", "x"];
    let arguments = arguments.map(str::to_owned);
    let found: Vec<String> =
        find_in_arguments(&arguments).iter().map(|secret| secret.expose().to_owned()).collect();
    assert_eq!(found, ["abcdef", "ghijkl"]);
}

#[test]
fn arguments_are_shown_without_credentials() {
    let check = |arguments: &[&str], expected: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(mask_arguments(&arguments), expected);
    };
    check(&["-y", "server", "--port", "80", "/data"], &["-y", "server", "--port", "80", "/data"]);
    check(&["--token", "s", "--api-key=s", "--x"], &["--token", "***", "--api-key=***", "--x"]);
    check(&["--token", "${T}", "--key=${vault:K}"], &["--token", "${T}", "--key=${vault:K}"]);
    check(&["--token", "${T:-s}", "a1b2c3d4e5f6a7b8c9"], &["--token", "***", "***"]);
    check(&["-e", "API_KEY=s", "-e", "LEVEL=x"], &["-e", "API_KEY=***", "-e", "LEVEL=x"]);
    check(&["--header", "Authorization: Bearer s"], &["--header", "Authorization:***"]);
    check(&["https://u:s@h/sse?key=s"], &["https://***@h/sse?key=***"]);
    check(&["-e", "DB=postgres://u:s@h/x"], &["-e", "DB=postgres://***@h/x"]);
    check(&["--key-file", "/run/secrets/key"], &["--key-file", "/run/secrets/key"]);
    check(&["--key", "https://h/s"], &["--key", "***"]);
}
