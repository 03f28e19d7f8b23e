//! What of Google is used: Gmail and Calendar.

/// A product of Google that a person logs in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Product {
    /// Mail.
    Gmail,
    /// The calendar.
    Calendar,
}

impl Product {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Gmail, Self::Calendar];

    /// What people call it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Gmail => "Gmail",
            Self::Calendar => "Calendar",
        }
    }

    /// The name of its refresh token in the vault.
    #[must_use]
    pub fn token_name(self) -> &'static str {
        match self {
            Self::Gmail => "GMAIL_TOKEN",
            Self::Calendar => "CALENDAR_TOKEN",
        }
    }

    /// The scopes that its tools need, and no more.
    #[must_use]
    pub fn scopes(self) -> &'static [&'static str] {
        match self {
            Self::Gmail => &[
                "https://www.googleapis.com/auth/gmail.readonly",
                "https://www.googleapis.com/auth/gmail.send",
            ],
            Self::Calendar => &["https://www.googleapis.com/auth/calendar.events"],
        }
    }

    /// The names of its tools.
    #[must_use]
    pub fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Gmail => &["gmail_search", "gmail_read", "gmail_send"],
            Self::Calendar => {
                &["calendar_list_events", "calendar_create_event", "calendar_get_event"]
            }
        }
    }
}
