//! Enumerations that are texts on the wire.
//!
//! A text that this version does not know is kept as it came, so that a newer peer's word can be
//! passed on; reading one never fails.

/// Declares an enumeration with one text a variant and `Other` for every other text.
macro_rules! text_enum {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[$doc:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)+
            /// A text that this version does not know, from a newer peer.
            Other(Box<str>),
        }

        impl $name {
            /// Every one that we know.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The text on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(text) => text,
                }
            }

            /// The text where the number of texts must be bounded, such as in metrics: `other` for
            /// each that this version does not know.
            #[must_use]
            pub fn label(&self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(_) => "other",
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Other(other.into()),
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                struct Visitor;

                impl ::serde::de::Visitor<'_> for Visitor {
                    type Value = $name;

                    fn expecting(
                        &self,
                        f: &mut ::std::fmt::Formatter<'_>,
                    ) -> ::std::fmt::Result {
                        f.write_str("a string")
                    }

                    fn visit_str<E: ::serde::de::Error>(
                        self,
                        text: &str,
                    ) -> Result<Self::Value, E> {
                        Ok(text.into())
                    }
                }

                deserializer.deserialize_str(Visitor)
            }
        }
    };
}
