//! The one TLS stack of the process: rustls with ring.

/// Makes ring the provider of every rustls client and server of this process. To be called before
/// the first of them is made; calling it again changes nothing.
pub fn install() {
    // The only error is that a provider is installed already, which is what is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
