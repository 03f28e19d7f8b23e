//! Messages of containers.

use super::*;

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_connection() {
    let (here, there) = tokio::io::duplex(64 << 10);
    let client = WebSocketStream::from_raw_socket(here, Role::Client, Some(socket_config())).await;
    let mut output = ContainerOutput(Box::pin(client));
    let mut server = WebSocketStream::from_raw_socket(there, Role::Server, None).await;
    let sending = async {
        for bytes in [MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX + 1] {
            let message = Message::Binary(vec![STDOUT; bytes].into());
            // The other end does not read all of the second one.
            let _ = server.send(message).await;
        }
        std::future::pending::<()>().await;
    };

    let reading = async {
        match output.next().await {
            ContainerFrame::Stdout(bytes) => assert_eq!(bytes.len(), MESSAGE_BYTES_MAX - 1),
            other => panic!("{other:?}"),
        }
        match output.next().await {
            ContainerFrame::Closed(reason) => assert!(reason.contains("too long"), "{reason}"),
            other => panic!("{other:?}"),
        }
    };

    tokio::select! {
        () = sending => {}
        () = reading => {}
    }
}
