//! Addresses to listen on.

use std::fmt;

use super::{TextValue, text_value};

/// Where a server listens: host and port, such as `127.0.0.1:8080`, `[::1]:8080` or `:8080` for
/// every address of the machine. Port 0 lets the system choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    host: String,
    port: u16,
}

impl ListenAddress {
    /// The host, without the brackets of an IPv6 address; empty for every address of the machine.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; 0 when the system is to choose one.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl TextValue for ListenAddress {
    const FORMAT: &'static str = "listen-address";
    const WHAT: &'static str = "an address to listen on";
    const EXAMPLES: &'static [&'static str] = &["127.0.0.1:8080", ":8080"];
    const SENSITIVE: bool = false;

    fn read(text: &str) -> Result<Self, String> {
        if text.parse::<u16>().is_ok() {
            return Err(format!(
                "it is a port alone: write 127.0.0.1:{text} for this machine, or :{text} for every \
                 address of it"
            ));
        }
        let (host, port) = text.rsplit_once(':').ok_or("it has no port")?;
        let port = port.parse().map_err(|_| "its port is not a number from 0 to 65535")?;

        let host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => inner,
            None if host.contains(':') => return Err("an IPv6 address needs brackets".to_owned()),
            None => host,
        };

        if host.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '[' | ']')) {
            return Err("its host is not a name or an IP address".to_owned());
        }

        Ok(Self { host: host.to_owned(), port })
    }
}

text_value!(ListenAddress);
