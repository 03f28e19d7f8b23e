//! Handshakes with a server of TLS on loopback.
//!
//! Its certificate is made by `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1
//! -nodes -days 36500 -subj /CN=localhost -addext subjectAltName=DNS:localhost -addext
//! basicConstraints=critical,CA:FALSE`.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _};
use rustls_connector::RustlsConnectorConfig;
use rustls_connector::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto};
use rustls_connector::rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::*;

const CERTIFICATE: &[u8] = include_bytes!("certificate/localhost.der");
const KEY: &[u8] = include_bytes!("certificate/localhost.key.der");

/// Answers one client with what it has sent.
fn echo_once() -> (SocketAddr, JoinHandle<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CERTIFICATE.into()], PrivatePkcs8KeyDer::from(KEY).into())
        .unwrap();

    let serving = std::thread::spawn(move || {
        let (socket, _) = listener.accept()?;
        let connection = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, socket);
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes)?;
        stream.write_all(&bytes)?;
        stream.flush()
    });
    (address, serving)
}

async fn connect(address: SocketAddr, connector: &RustlsConnector) -> io::Result<Transport> {
    let runtime = async_rs::Runtime::tokio_current();
    let stream = runtime.tcp_connect(address).await?;
    Transport::encrypt(stream, connector, "localhost").await
}

#[tokio::test]
async fn a_server_that_is_trusted_is_talked_with() {
    let (address, serving) = echo_once();
    let trusted = vec![CertificateDer::from(CERTIFICATE)];
    let config = RustlsConnectorConfig::default().with_parsable_certificates(trusted);
    let connector = config.connector_with_no_client_auth().unwrap();
    let mut transport = connect(address, &connector).await.unwrap();
    transport.write_all(b"hello").await.unwrap();
    transport.flush().await.unwrap();
    let mut bytes = [0; 5];
    transport.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"hello");
    serving.join().unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_trusted_is_refused() {
    let (address, serving) = echo_once();
    let error = connect(address, &system_connector().unwrap()).await.err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    assert!(serving.join().unwrap().is_err());
}
