//! What is taken of addresses, tokens and who needs none.

use std::path::PathBuf;

use toolbus_config::{Environment, SettingsFile, Sources, load};

use crate::settings::Settings;

/// Something that can be served, and a place for the rest.
const BEGINNING: &str = "[discovery]\nenabled = true\n[http.tool_api]\nenabled = true\n";

/// What is told of settings; empty where they are right.
fn told_of(text: &str) -> String {
    let environment: Environment = std::iter::empty::<(String, String)>().collect();
    let file = PathBuf::from("/nowhere/toolbus.toml");
    let sources = Sources {
        file: SettingsFile::Changed { path: file, text: format!("{BEGINNING}{text}") },
        aliases: &[],
        derived: Vec::new(),
        environment: &environment,
        arguments: Vec::new(),
    };
    load::<Settings>(sources).map_or_else(|errors| errors.to_string(), |_| String::new())
}

/// The sections `http` and `mcp_face` with these addresses, each with a line beside.
fn sections(http: (&str, &str), face: (&str, &str)) -> String {
    let section = |name: &str, (address, more): (&str, &str)| match address {
        "" => String::new(),
        address => format!(
            "[{name}]\naddress = \"{address}\"\nallowed_hosts = [\"agent.example.com\"]\n{more}\n"
        ),
    };
    [section("mcp_face", face), section("http", http)].concat()
}

const TOKEN: &str = "tokens.alice = \"a-token-of-the-tests\"";
const ANYBODY: &str = "anonymous = true";

#[test]
fn an_address_that_others_reach_needs_tokens_or_says_that_it_needs_none() {
    let http_open = "http.address: other machines can reach it, and clients need no credentials: \
                     give clients tokens (http.tokens, http.token_files), or set http.anonymous \
                     (variable TOOLBUS_HTTP__ANONYMOUS) to let in whoever reaches it";
    for address in ["0.0.0.0:8810", ":8810", "[::]:8810", "192.0.2.7:8810", "agent:8810"] {
        let told = told_of(&sections((address, ""), ("", "")));
        assert!(told.contains(http_open), "{address}: {told}");
        for more in [TOKEN, ANYBODY, "token_files.alice = \"/run/secrets/alice\""] {
            assert_eq!(told_of(&sections((address, more), ("", ""))), "", "{address} {more}");
        }

        let told = told_of(&sections(("", ""), (address, "")));
        assert!(told.contains("set mcp_face.anonymous (variable TOOLBUS_MCP_FACE__"), "{told}");
        assert_eq!(told_of(&sections(("", ""), (address, ANYBODY))), "", "{address}");
    }
    for address in ["127.0.0.1:8810", "localhost:8810", "[::1]:8810", "127.9.9.9:8810"] {
        assert_eq!(told_of(&sections((address, ""), ("", ""))), "", "{address}");
        assert_eq!(told_of(&sections(("", ""), (address, ""))), "", "{address}");
    }
}

#[test]
fn tokens_hold_for_mcp_clients_too() {
    // At an address of their own they may be let in without.
    assert_eq!(told_of(&sections((":8810", TOKEN), (":8800", ""))), "");
    assert_eq!(told_of(&sections((":8810", TOKEN), (":8800", ANYBODY))), "");
    let told = told_of(&sections((":8810", TOKEN), (":8810", ANYBODY)));
    assert!(told.contains("mcp_face.anonymous: the address is http.address"), "{told}");
    // One section does not speak for the other.
    let told = told_of(&sections((":8810", ANYBODY), (":8810", "")));
    assert!(told.contains("mcp_face.address: other machines") && !told.contains("http.address:"));
    assert_eq!(told_of(&sections((":8810", ANYBODY), (":8810", ANYBODY))), "");
    // Without a section of its own, the face takes the tokens that there are.
    let tokens = format!("[http]\n{TOKEN}\n");
    assert_eq!(told_of(&(sections(("", ""), (":8800", "")) + &tokens)), "");

    let both = format!("{TOKEN}\n{ANYBODY}");
    let told = told_of(&sections(("127.0.0.1:8810", &both), ("", "")));
    assert!(told.contains("http.anonymous: clients have tokens"), "{told}");
}

#[test]
fn what_is_no_token_is_told_without_a_word_of_it() {
    let told_of = |tokens: &str| told_of(&format!("[http]\n{tokens}\n"));
    for right in ["${ALICE}", "${vault:alice}", "exactly-16-bytes"] {
        assert_eq!(told_of(&format!("tokens.alice = \"{right}\"")), "", "{right}");
    }
    for (wrong, expected) in [
        ("hunter2", "http.tokens.alice: a token has at least 16 characters"),
        (" hunter2          ", "http.tokens.alice: a token has at least 16 characters"),
        ("", "http.tokens.alice: it is empty"),
        ("${hunter2-hunter2}", "http.tokens.alice: the name in the reference is none"),
        ("${hunter2hunter2hunter2", "http.tokens.alice: a reference is ${NAME}"),
    ] {
        let told = told_of(&format!("tokens.alice = \"{wrong}\""));
        assert!(told.contains(expected) && !told.contains("hunter2"), "{wrong}: {told}");
    }
    let told = told_of(&format!("{TOKEN}\ntoken_files.alice = \"/run/secrets/alice\""));
    assert!(told.contains("http.token_files.alice: http.tokens.alice is set too"), "{told}");
}
