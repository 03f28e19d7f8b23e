//! `login` and `logout`: a person's login at a service, whose tokens are kept in the vault.

#[cfg(feature = "google")]
mod google;

#[cfg(feature = "google")]
pub(super) use google::{log_in, log_out};

#[cfg(not(feature = "google"))]
pub(super) use left_out::{log_in, log_out};

/// The same commands in a build without the Google toolkit.
#[cfg(not(feature = "google"))]
mod left_out {
    use toolbus_config::build_features::{BuildFeature, LeftOut};
    use toolbus_runtime::service::{BoxError, Context, Exit};

    use crate::arguments::{LoginOptions, LogoutOptions};
    use crate::command::misuse;
    use crate::settings::Settings;

    pub(crate) async fn log_in(
        _: LoginOptions,
        _: &Settings,
        _: &Context,
    ) -> Result<Exit, BoxError> {
        Ok(misuse(LeftOut(BuildFeature::Google)))
    }

    pub(crate) async fn log_out(
        _: LogoutOptions,
        _: &Settings,
        _: &Context,
    ) -> Result<Exit, BoxError> {
        Ok(misuse(LeftOut(BuildFeature::Google)))
    }
}
