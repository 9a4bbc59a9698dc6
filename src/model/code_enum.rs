//! Enums whose values have a code: the value's name in the database, the configuration, logs and JSON.

/// Defines an enum with the codes of its values, and `ALL`, `as_str`, `from_code`, `FromStr` and `Display`.
macro_rules! code_enum {
    ($(#[$attribute:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $code:expr),+ $(,)?
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name { $($(#[$doc])* $variant),+ }

        #[allow(dead_code, reason = "the program does not use each function of each enum")]
        impl $name {
            /// All values, in the order of their definition.
            $vis const ALL: &'static [$name] = &[$($name::$variant),+];

            $vis fn as_str(self) -> &'static str {
                match self { $($name::$variant => $code),+ }
            }

            /// Returns the value of a code.
            pub(crate) fn from_code(code: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == code)
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(code: &str) -> Result<Self, String> {
                Self::from_code(code).ok_or_else(|| {
                    let codes: Vec<&str> = Self::ALL.iter().map(|value| value.as_str()).collect();
                    let (shown, hint) = ($crate::model::shorten_text(code), $crate::model::name_hint(code, &codes));
                    format!("`{shown}` is unknown; {hint}")
                })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use code_enum;
